"""op_sum against ``prof.key_averages()`` of the same run, number by number, and by hand."""

import json
import lzma
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labcode import store
from labcode.analysis.stats.kineto_ops import op_diff, op_summary
from labcode.reports.kineto.report import open_trace
from tests.support.traces import ADD, BACKWARD, GEMM, MAIN, Trace

DATA = Path(__file__).parents[1] / "data" / "kineto"
SAME = {
    "count": ("calls", 1),
    "self_cpu_time_total": ("cpu_self_ns", 1000),
    "cpu_time_total": ("cpu_total_ns", 1000),
    "self_device_time_total": ("device_self_ns", 1000),
    "device_time_total": ("device_total_ns", 1000),
    "self_cpu_memory_usage": ("cpu_memory_self_bytes", 1),
    "cpu_memory_usage": ("cpu_memory_bytes", 1),
    "self_device_memory_usage": ("device_memory_self_bytes", 1),
    "device_memory_usage": ("device_memory_bytes", 1),
}


def equal_to_averages(summary: pd.DataFrame, averages: list[Any]) -> None:
    ours = {(row["name"], row["device_type"], row["annotation"]): row for _, row in summary.iterrows()}
    assert len(ours) == len(averages)
    for row in averages:
        mine = ours[row["key"], row["device_type"], bool(row["is_user_annotation"])]
        for theirs, (column, unit) in SAME.items():
            assert theirs not in row or mine[column] == round(row[theirs] * unit), (row["key"], theirs)


@pytest.mark.parametrize("full", [False, True])
def test_equal_to_key_averages(full: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    net = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(net.parameters())
    data = torch.randn(8, 32)
    wanted = dict.fromkeys(("record_shapes", "profile_memory", "with_stack", "with_modules"), full)
    steps = schedule(wait=1, warmup=1, active=2, repeat=1) if full else None
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, **wanted) as profiler:
        for _ in range(4):
            optimizer.zero_grad()
            with record_function("forward"):
                loss = net(data).square().mean()
            loss.backward()
            optimizer.step()
            loss.item()
            if full:
                profiler.step()
    path = tmp_path / "run.trace.json.gz"
    profiler.export_chrome_trace(str(path))
    averages = [
        {
            "key": row.key,
            "device_type": row.device_type.name,
            "is_user_annotation": row.is_user_annotation,
            **{name: getattr(row, name) for name in SAME},
        }
        for row in profiler.key_averages()
    ]
    python = any(".py(" in row["key"] for row in averages)  # newer versions count Python's functions
    equal_to_averages(op_summary(open_trace(path), python=python), averages)


@pytest.mark.parametrize("name", ["streams", "graph", "collectives", "fused"])
def test_equal_to_key_averages_of_gpu_runs(name: str) -> None:
    """Traces of an NVIDIA H200 with PyTorch 2.11: kernels on two streams with the profiler's overhead in
    operators, a CUDA graph, all-reduce, a training step.
    """
    averages = json.loads(lzma.decompress((DATA / f"{name}.averages.json.xz").read_bytes()))
    equal_to_averages(op_summary(open_trace(DATA / f"{name}.trace.json.gz")), averages)


def captured() -> list[tuple[str, str]]:
    """Every trace in the capture sets that has the profiler's own averages beside it."""
    found = []
    for folder in (store.sets_root() / name for name in store.list_sets()):
        for averages in sorted(folder.glob("*/*.averages.json.xz")):
            base = averages.name.removesuffix(".averages.json.xz")
            trace = averages.with_name(base + ".trace.json.gz")
            if trace.is_file():
                found.append((str(trace), str(averages)))
    return found


def test_every_captured_trace_has_the_profilers_averages_beside_it() -> None:
    folders = [store.sets_root() / name for name in store.list_sets()]
    traces = {str(trace) for folder in folders for trace in folder.glob("*/*.trace.json.gz")}
    assert traces == {trace for trace, _ in captured()}


@pytest.mark.parametrize(("trace", "averages"), captured())
def test_equal_to_key_averages_of_captures(trace: str, averages: str) -> None:
    names = {"name": "key", "kind": "device_type", "calls": "count", "user_annotation": "is_user_annotation"}
    names |= {"cpu_total_us": "cpu_time_total", "self_cpu_total_us": "self_cpu_time_total"}
    names |= {"cuda_total_us": "device_time_total", "self_cuda_total_us": "self_device_time_total"}
    told = json.loads(lzma.decompress(Path(averages).read_bytes()))["rows"]
    rows = [{names[key]: value for key, value in row.items() if key in names} for row in told]
    equal_to_averages(op_summary(open_trace(trace)), rows)


def rows(trace: Trace, folder: Path) -> dict[tuple[str, str], Any]:
    table = op_summary(open_trace(trace.write(folder / "a.trace.json")))
    return {(row["name"], row["device_type"]): row for _, row in table.iterrows()}


def test_own_time_and_time_of_what_was_called(tmp_path: Path) -> None:
    trace = Trace()
    trace.annotation("ProfilerStep#3", 0, 1000)
    outer = trace.op("aten::linear", 100, 900)
    inner = trace.op("aten::addmm", 200, 600)
    trace.launch(GEMM, (300, 400), (500, 5500), external=inner)
    trace.launch(ADD, (700, 750), (5600, 5800), external=outer)
    trace.op("aten::linear", 100, 900, tid=BACKWARD)
    found = rows(trace, tmp_path)
    linear, addmm = found["aten::linear", "CPU"], found["aten::addmm", "CPU"]
    assert (linear["calls"], linear["cpu_total_ns"], linear["cpu_self_ns"]) == (2, 1600, 1600 - 400 - 50)
    assert (linear["device_self_ns"], linear["device_total_ns"]) == (200, 5200)
    assert (addmm["cpu_self_ns"], addmm["device_self_ns"], addmm["device_total_ns"]) == (300, 5000, 5000)
    step = found["ProfilerStep*", "CPU"]
    assert (step["cpu_self_ns"], step["device_self_ns"], step["device_total_ns"]) == (200, 0, 5200)
    assert found[GEMM, "CUDA"]["device_total_ns"] == 5000 and found[GEMM, "CUDA"]["cpu_total_ns"] == 0


def test_a_lone_child_of_the_same_name_is_one_with_its_parent(tmp_path: Path) -> None:
    trace = Trace()
    trace.op("aten::add", 0, 100)
    inner = trace.op("aten::add", 10, 90)
    trace.launch(ADD, (20, 30), (200, 250), external=inner)
    found = rows(trace, tmp_path)["aten::add", "CPU"]
    assert (found["calls"], found["cpu_self_ns"], found["device_total_ns"]) == (1, 90, 50)


def test_a_call_without_an_operator_counts_for_the_main_thread(tmp_path: Path) -> None:
    trace = Trace()
    trace.annotation("all", 0, 1000)
    trace.op("aten::add", 100, 200, tid=BACKWARD)
    trace.call("cudaDeviceSynchronize", 400, 600, tid=BACKWARD)
    found = rows(trace, tmp_path)
    assert found["all", "CPU"]["cpu_self_ns"] == 800
    assert MAIN != BACKWARD


def test_a_number_that_is_an_operators_and_a_correlation(tmp_path: Path) -> None:
    trace = Trace()
    op = trace.op("aten::mm", 0, 100)
    trace.call("cudaLaunchKernel", 500, 510, correlation=op)
    trace.kernel(GEMM, 600, 700, op)
    assert rows(trace, tmp_path)["aten::mm", "CPU"]["device_total_ns"] == 0
    trace.call("cudaLaunchKernel", 50, 60, correlation=9, external=op)
    trace.kernel(GEMM, 800, 840, 9, external=op)
    assert rows(trace, tmp_path)["aten::mm", "CPU"]["device_total_ns"] == 40


def test_memory_counts_for_what_ran_then(tmp_path: Path) -> None:
    trace = Trace()
    trace.op("outer", 0, 100)
    trace.op("inner", 10, 50)
    for at, size in ((20, 512), (50, -100), (80, 64), (500, 7)):
        trace.memory(at, size, 1000)
    found = rows(trace, tmp_path)
    assert found["inner", "CPU"]["device_memory_bytes"] == 412
    assert (
        found["outer", "CPU"]["device_memory_bytes"],
        found["outer", "CPU"]["device_memory_self_bytes"],
    ) == (
        476,
        64,
    )
    assert found["[memory]", "CPU"]["device_memory_bytes"] == 7


def test_overhead_of_the_profiler_and_asynchronous_annotations(tmp_path: Path) -> None:
    trace = Trace()
    trace.op("c10d::allreduce_", 0, 1000)
    inner = trace.op("aten::mm", 100, 900)
    trace.event("overhead", "Lazy Function Loading", 200, 500, 0, "", pid=-1)
    trace.launch(GEMM, (550, 600), (2000, 2300), external=inner)
    trace.annotation("nccl:all_reduce", 50, 950)
    found = rows(trace, tmp_path)
    assert found["aten::mm", "CPU"]["cpu_self_ns"] == 800 - 300 - 50
    assert found["Lazy Function Loading", "CPU"]["device_self_ns"] == 300
    assert found["c10d::allreduce_", "CPU"]["cpu_self_ns"] == 200
    collective = found["nccl:all_reduce", "CPU"]
    assert (collective["cpu_self_ns"], collective["cpu_total_ns"]) == (0, 900)


def test_the_difference_of_two_traces(tmp_path: Path) -> None:
    def recorded(name: str, faster: bool) -> Any:
        trace = Trace()
        trace.annotation("ProfilerStep#3", 0, 500_000)
        op = trace.op("aten::mm", 0, 100_000)
        trace.launch(GEMM, (10_000, 20_000), (30_000, 40_000 if faster else 90_000), external=op)
        if faster:
            trace.op("aten::fused", 100_000, 110_000)
        else:
            for at in (100_000, 200_000):
                trace.op("aten::add", at, at + 50_000)
        return open_trace(trace.write(tmp_path / name))

    table = op_diff(recorded("a.trace.json", False), recorded("b.trace.json", True)).set_index("name")
    assert table["change"].to_dict() == {
        **dict.fromkeys(("ProfilerStep*", "aten::mm", "cudaLaunchKernel", GEMM), "same"),
        "aten::fused": "new",
        "aten::add": "gone",
    }
    mm = table.loc["aten::mm"]
    assert (mm["type"], mm["gpu_before_ns"], mm["gpu_after_ns"], mm["gpu_diff_ns"]) == (
        *("operator", 60_000, 10_000),
        -50_000,
    )
    assert mm["cpu_diff_ns"] == 0 and table.loc[GEMM, "cpu_before_ns"] == 0
    gone = table.loc["aten::add"]
    assert (gone["calls_before"], gone["calls_after"], gone["calls_diff"]) == (2, 0, -2)
    assert gone["cpu_diff_ns"] == -100_000 and table.loc["aten::fused", "cpu_diff_ns"] == 10_000
    assert table.index[0] == "aten::add"  # the largest difference first
