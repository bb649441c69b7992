"""The bench: ratios and marks from timings, tables and plots from a record; on a GPU, every step is right."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from labcode import store
from labcode.bench import kernels as bench_kernels
from labcode.errors import LabError
from labcode.experiments.shared import kernel_times
from labcode.experiments.shared.kernel_times import Row, held, take_turns, with_ratios
from labcode.kernels import checking
from labcode.kernels.catalogue import Array, Kernel, Problem, Step
from labcode.kernels.topics import kernels
from labcode.kernels.topics.sum import SUM


def row(name: str, kind: str, time_us: float) -> Row:
    return Row("sum", "n", name, kind, 4_000_000, time_us, time_us, time_us, 3, 4_000_000 / time_us / 1e3)


@pytest.fixture
def rows() -> list[Row]:
    return with_ratios(
        [
            row("copy: a", "ceiling", 1000),
            row("copy: b", "ceiling", 800),
            row("torch.sum", "library", 1000),
            row("CUB DeviceReduce", "library", 500),
            row("tree", "step", 1600),
            replace(row("vectorized", "step", 625), registers=40, spilled_bytes=0, predicted=1.02),
        ]
    )


@pytest.fixture
def record(rows: list[Row]) -> dict[str, Any]:
    marks = held(SUM, rows)
    return {
        "parameters": {"flush_bytes": 240 << 20},
        "results": {
            "rows": [asdict(one) for one in rows],
            "marks": [{**asdict(mark), "held": mark.held} for mark in marks],
        },
        "checks": {
            "sum, tree": {"passed": True, "detail": ""},
            "sum, shuffle": {"passed": False, "detail": "off"},
        },
        "gpu": {"name": "NVIDIA H200", "sm_count": 132, "l2_bytes": 60 << 20},
    }


def test_ratios_are_to_the_faster_copy_and_to_each_library(rows: list[Row]) -> None:
    tree, vectorized = rows[-2:]
    assert tree.ratio_to_copy == pytest.approx(0.5)
    assert vectorized.ratio_to_copy == pytest.approx(800 / 625)
    assert vectorized.ratio_to_library == pytest.approx({"torch.sum": 1.6, "CUB DeviceReduce": 0.8})


def test_marks_are_judged_by_the_fastest_step(rows: list[Row]) -> None:
    found = {mark.against: mark for mark in held(SUM, rows)}
    assert found["torch.sum"].held
    assert not found["CUB DeviceReduce"].held
    assert {mark.step for mark in found.values()} == {"vectorized"}
    assert held(SUM, [one for one in rows if one.kind != "step"]) == []


def test_table_says_what_was_measured(record: dict[str, Any]) -> None:
    out = StringIO()
    bench_kernels.render(record, Console(file=out, width=200))
    text = out.getvalue()
    assert "L2 cache 60 MiB" in text
    assert "sum, n: 3.81 MiB moved, 0.0636 × the L2 cache" in text
    assert "holds: sum n, vectorized: 1.600 × torch.sum (mark 1.00)" in text
    assert "falls short: sum n, vectorized: 0.800 × CUB DeviceReduce" in text
    assert "WRONG: sum, shuffle: off" in text
    assert "checks: 1 of 2 passed" in text


@pytest.mark.parametrize("topic", ["memory_bandwidth", "transpose", "sum", "softmax", "rmsnorm"])
def test_shipped_record_is_right_and_its_marks_are_todays(topic: str) -> None:
    record = store.load_set(store.SHIPPED_SET).record("kernel_bench", topic)
    assert [name for name, check in record["checks"].items() if not check["passed"]] == []
    known = [field.name for field in fields(Row)]
    rows = [Row(**{name: one[name] for name in known}) for one in record["results"]["rows"]]
    again = [
        mark
        for kernel in kernels([topic])
        for mark in held(kernel, [one for one in rows if one.kernel == kernel.name])
    ]
    assert [{**asdict(mark), "held": mark.held} for mark in again] == record["results"]["marks"]
    out = StringIO()
    bench_kernels.render(record, Console(file=out, width=200))
    assert f"checks: {len(record['checks'])} of {len(record['checks'])} passed" in out.getvalue()


def test_plot_is_drawn(record: dict[str, Any], tmp_path: Path) -> None:
    bench_kernels.write_plot(record, tmp_path / "x.svg")
    assert "vectorized" in (tmp_path / "x.svg").read_text(encoding="utf-8")
    with pytest.raises(LabError, match=r"x\.gif: plots are written as \.svg, \.png, \.pdf"):
        bench_kernels.main([], 1, None, tmp_path / "x.gif")
    record["results"]["rows"] = []
    with pytest.raises(LabError, match=r"nothing was timed"):
        bench_kernels.plot(record)


def test_bad_numbers_and_names_come_before_the_gpu() -> None:
    with pytest.raises(LabError, match=r"--repetitions 0: give a whole number above 0"):
        kernel_times.bench(repetitions=0)
    with pytest.raises(LabError, match=r"^nothing: no kernel or topic of this name"):
        kernel_times.bench(["nothing"])


def test_list_names_steps_and_marks(capsys: pytest.CaptureFixture[str]) -> None:
    bench_kernels.list_kernels(["sum"])
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith(
        "sum (sum): Add up an array; ≥ 1.00 × torch.sum, ≥ 1.00 × CUB DeviceReduce atomics: "
    )


class FakeEvent:
    """A clock that every call advances by its own time."""

    now = 0.0

    def __init__(self, enable_timing: bool) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = FakeEvent.now

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: FakeEvent) -> float:
        return other.at - self.at


def test_candidates_take_turns_and_slow_ones_stop_early() -> None:
    order: list[str] = []

    def call(name: str, milliseconds: float) -> Any:
        def run() -> None:
            order.append(name)
            FakeEvent.now += milliseconds

        return run

    class Fake:
        class cuda:  # noqa: N801
            Event = FakeEvent

    times = take_turns(Fake, [call("a", 1), call("slow", 30)], call("flush", 7), 5)
    assert times[0] == pytest.approx([1000] * 5)
    assert times[1] == pytest.approx([30_000] * 3)
    assert order[:8] == ["flush", "a", "flush", "slow"] * 2
    assert order.count("slow") == 4


def test_cases_cover_unaligned_starts_and_values() -> None:
    found = list(checking.cases(SUM))
    assert {case.values for case in found} == {"normal", "large"}
    assert {(case.offset_in, case.offset_out) for case in found} == {(0, 0), (1, 1), (1, 0), (0, 3)}
    assert "starts 1, 0" in str(next(case for case in found if (case.offset_in, case.offset_out) == (1, 0)))


def test_judge_on_the_host() -> None:
    torch = pytest.importorskip("torch")
    reference = torch.tensor([1.0, 2.0, float("inf")], dtype=torch.float64)
    good = reference.float()
    assert checking.judge(torch, 0.0, good, reference, 1.0).passed
    assert checking.judge(torch, 1e-6, good, reference, 1.0).passed
    assert not checking.judge(torch, 1e-6, torch.tensor([1.0, 2.1, float("inf")]), reference, 1.0).passed
    assert not checking.judge(torch, 1e-6, torch.tensor([1.0, 2.0, 5.0]), reference, 1.0).passed
    unwritten = checking.judge(torch, 1e9, torch.tensor([1.0, float("nan"), 3.0]), reference, 1.0)
    assert (unwritten.passed, unwritten.detail) == (False, "1 of 3 elements are NaN or not written")
    assert checking.judge(torch, 0.0, good + 1, reference, 1.0).detail == "2 of 3 elements differ"


def test_guards_show_what_was_written_whatever_it_was() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        guard = torch.empty(8, dtype=dtype)
        guard.view(torch.uint8).fill_(checking.GUARD_BYTE)
        assert not guard.isnan().any()
        assert checking.changed(torch, guard[3:]) == 0
        guard[1], guard[2], guard[7] = float("nan"), 0.0, 1.0
        assert checking.changed(torch, guard) == 3
        assert checking.changed(torch, guard[3:]) == 1
        assert checking.changed(torch, guard[:0]) == 0


STEPS = [(kernel, step) for kernel in kernels() for step in kernel.steps]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("kernel", "step"),
    STEPS,
    ids=lambda value: value.name.replace(" ", "_") if hasattr(value, "name") else "",
)
def test_every_step_is_right(kernel: Kernel, step: Step) -> None:
    torch = pytest.importorskip("torch")
    from labcode.kernels.launch import this_gpu

    gpu = this_gpu()
    if gpu.compute_capability < step.min_cc:
        pytest.skip("newer GPUs only")
    outcome = checking.check_step(torch, kernel, step, gpu, seed=77)
    assert outcome.passed, outcome.detail


@pytest.mark.gpu
def test_checks_find_what_is_not_written_and_what_is_written_outside() -> None:
    torch = pytest.importorskip("torch")
    (copy,) = kernels(["copy"])
    step = copy.step("coalesced")
    case = checking.Case(Problem((4099,)))  # the last block has threads to spare, to write with
    short = replace(step, launch=lambda problem, gpu: replace(step.launch(problem, gpu), grid=3))
    assert "not written" in checking.run_case(torch, copy, short, case, 1).detail
    longer = replace(
        copy,
        inputs=lambda problem: (Array((problem.elements + 5,)),),
        scalars=lambda problem: (np.uint64(problem.elements + 5),),
        reference=lambda x: x[:-5],
    )
    assert "5 elements outside" in checking.run_case(torch, longer, step, case, 1).detail
    assert checking.run_case(torch, copy, step, case, 1).passed


@pytest.mark.gpu
def test_bench_of_one_kernel(tmp_path: Path) -> None:
    code = bench_kernels.main(["triad"], 3, tmp_path / "r.json", tmp_path / "p.svg")
    record = json.loads((tmp_path / "r.json").read_text())
    assert code == 0
    assert {one["kind"] for one in record["results"]["rows"]} == {"step", "ceiling", "library"}
    assert all(0 < one["throughput_gb_per_s"] < 20_000 for one in record["results"]["rows"])
    assert (tmp_path / "p.svg").stat().st_size > 1000
