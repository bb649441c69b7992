"""Bounds: what a problem takes of CPU and GPU, what is left; lines of a backward pass on the same thread."""

from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.timeline import bound as kineto_bound
from labcode.analysis.timeline import links as kineto_links
from labcode.reports.kineto.report import KinetoReport, open_trace
from tests.support.traces import ADD, GEMM, MAIN, PID, Trace


def _step(tmp_path: Path) -> KinetoReport:
    """100 µs: a product (CPU 0–10, GPU 12–40), two problem kernels of one function (CPU 20–50), a wait."""
    trace = Trace()
    trace.annotation("ProfilerStep#3", 0, 100_000)
    external = trace.op("aten::mm", 0, 10_000)
    trace.launch(GEMM, (5_000, 8_000), (12_000, 40_000), external=external)
    trace.python("model.py(3): slow", 20_000, 50_000)
    for start, run in ((22_000, (41_000, 45_000)), (32_000, (46_000, 56_000))):
        external = trace.op("aten::add", start, start + 8_000)
        trace.launch(ADD, (start + 1_000, start + 4_000), run, external=external)
    trace.call("cudaStreamSynchronize", 60_000, 90_000)
    return open_trace(trace.write(tmp_path / "a.json"))


def test_a_problem_is_taken_from_cpu_and_gpu(tmp_path: Path) -> None:
    report = _step(tmp_path)
    mine = report.gpu_ops()["name"].str.contains("elementwise").to_numpy()
    found = kineto_bound.bound(report, mine)
    assert (found.window_ns, found.operations) == (100_000, 2)
    assert (found.host_ns, found.wait_ns, found.gpu_ns) == (30_000, 0, 14_000)
    assert (found.host_left_ns, found.gpu_left_ns) == (40_000, 28_000)  # 100 - 30 of waiting - 30
    assert found.gain == pytest.approx(2.5)


def test_what_launches_nothing_can_be_added_and_a_wait_is_nobody_s_work(tmp_path: Path) -> None:
    report = _step(tmp_path)
    also = report.api().query("name == 'cudaStreamSynchronize'")
    found = kineto_bound.bound(report, np.zeros(3, np.bool_), also)
    assert (found.host_ns, found.wait_ns, found.host_left_ns) == (0, 30_000, 70_000)
    assert found.gain == pytest.approx(100 / 70)


def test_an_event_belongs_to_a_problem_only_with_all_that_it_launches(tmp_path: Path) -> None:
    report = _step(tmp_path)
    first = np.zeros(3, np.bool_)
    first[1] = True
    assert list(kineto_bound.own_events(report, first)["name"]) == ["aten::add"]
    first[2] = True
    assert list(kineto_bound.own_events(report, first)["name"]) == ["model.py(3): slow"]


def test_copies_of_pageable_memory_are_waits(tmp_path: Path) -> None:
    trace = Trace()
    trace.annotation("ProfilerStep#3", 0, 100_000)
    for number, words in enumerate(("Memcpy DtoH (Device -> Pageable)", "Memcpy HtoD (Pinned -> Device)")):
        start = 10_000 + 40_000 * number
        call = trace.call("cudaMemcpyAsync", start, start + 20_000)
        trace.copy(words, start + 1_000, start + 19_000, call, 4)
    report = open_trace(trace.write(tmp_path / "b.json"))
    assert list(kineto_bound.waits(report, (0, 100_000))["start_ns"]) == [10_000]


def test_without_steps_the_whole_trace_counts(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch(ADD, (0, 4_000), (6_000, 9_000))
    report = open_trace(trace.write(tmp_path / "c.json"))
    assert kineto_bound.steps_window(report) == (0, 9_000)


def test_a_backward_pass_on_the_calling_thread_has_the_lines_of_its_forward_operators(tmp_path: Path) -> None:
    trace = Trace()
    outer = trace.python("train.py(1): one_step", 0, 90_000)
    trace.python("model.py(3): forward", 1_000, 20_000, outer)
    forward = trace.op("aten::gelu", 2_000, 10_000, sequence=5)
    trace.launch(ADD, (3_000, 5_000), (11_000, 12_000), external=forward)
    trace.op("autograd::engine::evaluate_function: GeluBackward0", 30_000, 45_000, sequence=5, fwd=1)
    back = trace.op("GeluBackward0", 31_000, 44_000, sequence=5, fwd=1)
    trace.launch(ADD, (33_000, 35_000), (46_000, 47_000), external=back)
    trace.flow("s", 9, 2_000, PID, MAIN, "fwdbwd")
    trace.flow("f", 9, 31_000, PID, MAIN, "fwdbwd")
    table = kineto_links.op_kernel_trace(open_trace(trace.write(tmp_path / "d.json")))
    assert list(table["python"]) == ["model.py(3): forward"] * 2
    assert list(table["pass"]) == ["forward", "backward"]
