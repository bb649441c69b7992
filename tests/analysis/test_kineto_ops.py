"""op_sum against ``prof.key_averages()`` of the same run, number by number, and by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labcode.analysis.kineto_ops import op_summary
from labcode.reports.kineto import open_trace
from tests.support.traces import ADD, BACKWARD, GEMM, MAIN, Trace

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
            assert mine[column] == round(row[theirs] * unit), (row["key"], theirs)


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
    assert json.dumps(averages)
    equal_to_averages(op_summary(open_trace(path)), averages)


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
