"""Iterations found by ranges, by the optimizer's steps and by the period of the launches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode import store
from labcode.analysis.timeline.iterations import Iterations, iterations
from labcode.reports.kineto.report import open_trace
from labcode.reports.nsys.report import open_report
from tests.support import exports as x
from tests.support import traces
from tests.support.command import labcode

SHIPPED = store.sets_root() / store.SHIPPED_SET


def found_in(path: Path, **rows: object) -> Iterations | None:
    with open_report(x.make_export(path / "a.sqlite", **rows)) as report:  # type: ignore[arg-type]
        return iterations(report)


def steps(spans: list[int], *, name: str = "step {}", copies: bool = False) -> dict[str, list[x.Row]]:
    """Steps of these lengths (µs): a launch each at its start, a kernel 5 µs later that runs for 8 µs."""
    rows: dict[str, list[x.Row]] = {"kernels": [], "api": [], "nvtx": [], "memcpys": []}
    at = 0
    for number, span in enumerate(spans):
        width = span * 1000
        rows["nvtx"].append(x.push_pop(at, at + width - 100, name.format(number)))
        rows["api"].append(x.call(at + 50, at + 90, correlation=number + 1))
        rows["kernels"].append(x.kernel(at + 5_000, at + 13_000, correlation=number + 1))
        if copies:  # fetched ahead, on another stream
            rows["api"].append(x.call(at + 200, at + 300, "cudaMemcpyAsync_v3020", correlation=100 + number))
            rows["memcpys"].append(x.memcpy(at + 400, at + 600, stream=99, correlation=100 + number))
        at += width
    return rows


def test_ranges_that_come_again_are_iterations_and_the_last_has_no_end(tmp_path: Path) -> None:
    found = found_in(tmp_path, **steps([90, 20, 20, 22, 20, 20, 20], copies=True))
    assert found is not None and found.how == "ranges named “step …”"
    assert found.table["duration_ns"].to_list() == [90_000, 20_000, 20_000, 22_000, 20_000, 20_000]
    assert found.table["warm_up"].to_list() == [True] + [False] * 5
    assert found.table["busy_ns"].to_list()[1] == 8_000 + 200
    assert found.median_ns == 20_000 and found.spread == pytest.approx(0.06, abs=0.01)


def test_two_steps_are_two_iterations_when_their_name_says_so(tmp_path: Path) -> None:
    found = found_in(tmp_path, **steps([20, 20]))
    assert found is not None and found.table["duration_ns"].to_list() == [20_000, 8_000]
    assert found_in(tmp_path, **steps([20, 20], name="part {}")) is None


def test_ranges_without_recorded_calls_are_none(tmp_path: Path) -> None:
    assert found_in(tmp_path, **{**steps([20] * 6), "api": []}) is None


def test_ranges_that_cover_little_or_overlap_are_none(tmp_path: Path) -> None:
    rows = steps([20] * 6)
    rows["nvtx"] = [x.push_pop(i * 20_000, i * 20_000 + 500, f"tick {i}") for i in range(6)]
    rows["nvtx"].append(x.push_pop(0, 119_000, "all"))
    assert found_in(tmp_path, **rows) is None  # and one kernel alone has no period


def test_the_kernel_that_comes_once_in_each_repetition_tells_the_period(tmp_path: Path) -> None:
    names = [name for _ in range(5) for name in ("first", "layer", "layer", "layer", "last")]
    kernels = [x.kernel(i * 1000, i * 1000 + 600, f"{name}(int)") for i, name in enumerate(names)]
    found = found_in(tmp_path, kernels=kernels)
    assert found is not None and "“first(int)”" in found.how
    assert found.table["duration_ns"].to_list() == [5_000] * 4
    assert found.table["busy_share"].to_list() == pytest.approx([0.6] * 4)
    assert found_in(tmp_path, kernels=kernels[:5]) is None
    assert found_in(tmp_path, kernels=[]) is None


def optimized(
    path: Path, dims: Any = ((8, 16), (16, 4)), types: Any = ("c10::Half",) * 2, looked_up: Any = ()
) -> Path:
    """Three passes without ranges, each with a step of the optimizer, with shapes and a collective."""
    trace = traces.Trace()
    for number in range(3):
        at = 1_000_000 * number
        item = trace.op("aten::mm", at, at + 40_000, dims=dims, types=types)
        call = trace.call("cudaLaunchKernel", at + 1_000, at + 2_000, external=item)
        trace.kernel(traces.GEMM, at + 5_000, at + 405_000, call, external=item)
        for place, shapes in enumerate(looked_up):
            begin = at + 420_000 + 20_000 * place
            item = trace.op("aten::embedding", begin, begin + 10_000, dims=shapes)
            call = trace.call("cudaLaunchKernel", begin + 1_000, begin + 2_000, external=item)
            trace.kernel(traces.ADD, begin + 5_000, begin + 9_000, call, external=item)
        trace.annotation("Optimizer.step#SGD.step", at + 500_000, at + 600_000)
        item = trace.op("aten::add_", at + 510_000, at + 520_000)
        call = trace.call("cudaLaunchKernel", at + 511_000, at + 512_000, external=item)
        trace.kernel(traces.ADD, at + 515_000, at + 615_000, call, external=item)
    return trace.write(path / "run.trace.json")


def test_the_optimizer_ends_an_iteration_and_shapes_say_what_was_done(tmp_path: Path) -> None:
    found = iterations(open_trace(optimized(tmp_path)))
    assert found is not None and found.how == "steps of the optimizer (SGD.step)"
    assert found.table["duration_ns"].to_list()[:2] == [1_000_000, 1_000_000]
    assert found.work is not None and found.work.flops == 2 * 8 * 16 * 4
    assert np.isnan(found.work.tokens)


def test_tokens_are_those_that_the_largest_table_is_asked_for(tmp_path: Path) -> None:
    """Lookups of other shapes in it add up; those of positions, in a smaller table, do not count."""
    looked_up = (((100, 8), (2, 6)), ((100, 8), (3, 2)), ((50, 8), (6,)))
    found = iterations(open_trace(optimized(tmp_path, looked_up=looked_up)))
    assert found is not None and found.work is not None and found.work.tokens == 18


def test_shapes_that_are_none_say_nothing(tmp_path: Path) -> None:
    for dims, types in (("x", "x"), (["ab", "a"], {"a": 1})):
        found = iterations(open_trace(optimized(tmp_path, dims, types)))
        assert found is not None and found.work is None


def test_attention_tokens_and_mfu_of_a_shipped_trace() -> None:
    """By hand: 6 · 92.6 M parameters · 2,048 tokens in products, 12 · 12 · 4 · 512² · 768 in attention."""
    found = iterations(open_trace(SHIPPED / "torch_profiler" / "baseline.trace.json.gz"))
    assert found is not None and found.work is not None
    assert found.work.tokens == 4 * 512
    weights = 12 * 12 * 768**2 + 768 * 10_000
    assert found.work.flops == 6 * weights * 2048 + 12 * 12 * 4 * 512**2 * 768
    assert 0.2 < found.work.mfu < 0.6 and "fp32 of H200" in found.work.peak


def test_payload_of_collectives_of_a_shipped_trace() -> None:
    found = iterations(open_trace(SHIPPED / "torch_distributed" / "baseline.rank0.trace.json.gz"))
    assert found is not None and found.work is not None and found.work.payload_bytes > 2e9


def test_they_are_a_report_and_a_verdict(tmp_path: Path) -> None:
    file = x.make_export(tmp_path / "a.sqlite", **steps([20, 20, 20, 20, 90, 20, 20, 20]))
    done = labcode("stats", "-r", "iterations", "-f", "csv", file)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1 + 7
    done = labcode("diagnose", "--only", "uneven-iterations", file)
    assert "7 iterations (ranges named “step …”) take 20 µs each" in done.stdout
    assert "uneven-iterations: 7 iterations" in done.stdout
    once = x.make_export(tmp_path / "once.sqlite", kernels=[x.kernel(0, 10)])
    assert "nothing repeats often enough" in labcode("diagnose", "--only", "uneven-iterations", once).stdout
    done = labcode("stats", "-r", "iterations", once)
    assert (
        done.returncode == 2
        and "nothing in the capture repeats; put each step in an NVTX range" in done.stderr
    )


@pytest.mark.parametrize("name", ["aten::copy_, op_id = {}", "AddmmBackward0, seq = {}", "aten::mm"])
def test_operators_that_are_marked_are_no_iterations(tmp_path: Path, name: str) -> None:
    assert found_in(tmp_path, **steps([20] * 6, name=name)) is None


@pytest.mark.parametrize("equal", [False, True])
def test_optimizers_of_one_name_that_take_turns_end_one_iteration(tmp_path: Path, equal: bool) -> None:
    """A generator and a discriminator, both with Adam; or one network, whose steps run the same kernels."""
    trace = traces.Trace()
    for number in range(12):
        at = 1_000_000 * number
        for place, kernel in enumerate((traces.GEMM, traces.ADD if number % 2 or equal else traces.GEMM)):
            call = trace.call("cudaLaunchKernel", at + 1_000 + 2_000 * place, at + 2_000 + 2_000 * place)
            trace.kernel(kernel, at + 5_000 + 300_000 * place, at + 300_000 + 300_000 * place, call)
        trace.annotation("Optimizer.step#Adam.step", at + 500_000, at + 600_000)
    found = iterations(open_trace(trace.write(tmp_path / "run.trace.json")))
    assert found is not None and found.how == "steps of the optimizer (Adam.step)"
    assert found.median_ns == (1_000_000 if equal else 2_000_000)


@pytest.mark.parametrize("name", ["## Call CompiledFxGraph fq3a ##", "Torch-Compiled Region: 0/0", "layer"])
def test_compiled_regions_are_parts_of_iterations(tmp_path: Path, name: str) -> None:
    """Four of them in each step, and a kernel after them; a range that somebody gave a name is what it is."""
    trace = traces.Trace()
    for number in range(24):
        at = 1_000_000 * number
        trace.annotation(name, at, at + 900_000)
        for place in range(2 if number % 4 == 3 else 1):
            call = trace.call("cudaLaunchKernel", at + 1_000 + 2_000 * place, at + 2_000 + 2_000 * place)
            kernel = traces.ADD if place else traces.GEMM
            trace.kernel(kernel, at + 5_000 + 300_000 * place, at + 300_000 + 300_000 * place, call)
    found = iterations(open_trace(trace.write(tmp_path / "run.trace.json")))
    assert found is not None and found.median_ns == (1_000_000 if name == "layer" else 4_000_000)
