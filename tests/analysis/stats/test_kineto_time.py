"""Breakdown of time, bandwidth, full queues, sequences of kernels: small traces, every number by hand."""

from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.stats import kineto, kineto_time
from labcode.analysis.stats.shelf import LackingError
from labcode.reports.kineto.report import KinetoReport, open_trace
from tests.support.traces import ADD, GEMM, NCCL, Trace

SHORT = {GEMM: GEMM, ADD: "vectorized_elementwise_kernel"}


def opened(trace: Trace, folder: Path) -> KinetoReport:
    return open_trace(trace.write(folder / "a.trace.json"))


def test_each_nanosecond_of_a_gpu_counts_once(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch(GEMM, (0, 10), (100, 200))
    trace.launch(NCCL, (20, 30), (150, 260), stream=20)  # 60 ns alone
    number = trace.call("cudaMemcpyAsync", 31, 33)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 250, 280, number, 8, stream=30)  # 20 ns alone
    trace.launch(ADD, (400, 410), (500, 600))  # launched 120 ns after the GPU ran out of work
    trace.launch(ADD, (420, 430), (605, 700))  # 5 ns between kernels
    (row,) = kineto_time.temporal_breakdown(opened(trace, tmp_path)).to_dict("records")
    assert {name: value for name, value in row.items() if name.endswith("_ns")} == {
        "total_ns": 600,
        "compute_ns": 295,
        "non_compute_ns": 80,
        "communication_ns": 60,
        "copies_ns": 20,
        "idle_ns": 225,
        "host_wait_ns": 220,
        "kernel_wait_ns": 5,
        "other_ns": 0,
    }
    assert row["compute_share"] + row["non_compute_share"] + row["idle_share"] == pytest.approx(1)


def test_bandwidth_of_copies_that_overlap(tmp_path: Path) -> None:
    trace = Trace()
    trace.copy("Memcpy HtoD (Pageable -> Device)", 0, 100, 1, 1_000)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 50, 150, 2, 2_000, stream=8)
    trace.copy("Memset (Device)", 0, 0, 3, 64)
    report = opened(trace, tmp_path)
    series = kineto_time.bandwidth_series(report)
    copies = series[series["what"] == "Memcpy HtoD"]
    assert copies[["start_ns", "gb_per_s"]].to_numpy().tolist() == [[0, 10], [50, 30], [100, 20], [150, 0]]
    table = kineto_time.memory_bandwidth(report).set_index("what")
    row = table.loc["Memcpy HtoD"]
    assert (row["count"], row["bytes"], row["total_ns"], row["gb_per_s"]) == (2, 3_000, 200, 15)
    assert (row["changes"], row["mean"], row["max"], row["median"]) == (3, 20, 30, 20)
    assert table.loc["Memset", "gb_per_s"] != table.loc["Memset", "gb_per_s"]  # no time: no bandwidth


def test_copies_of_unknown_size_have_no_bandwidth(tmp_path: Path) -> None:
    """As on AMD's GPUs: traces of ROCm 6.2 do not say how many bytes a copy moves."""
    trace = Trace()
    trace.copy("Memcpy HtoD (Host -> Device)", 0, 100, 1, 0)
    (row,) = kineto_time.memory_bandwidth(opened(trace, tmp_path)).to_dict("records")
    assert (row["count"], row["total_ns"], row["changes"]) == (1, 100, 0)


def test_a_full_queue_blocks_the_next_launch(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(4):
        trace.launch(GEMM, (10 * number, 10 * number + 5), (1_000 + 100 * number, 1_090 + 100 * number))
    trace.launch(GEMM, (40, 1_200), (1_500, 1_600), via="hipModuleLaunchKernel")
    report = opened(trace, tmp_path)
    (row,) = kineto_time.queue_full(report, 4).to_dict("records")
    assert (row["longest"], row["full_ns"]) == (5, 1_100 - 30)  # from the fourth launch to the second start
    assert (row["blocked_calls"], row["blocked_ns"]) == (2, 5 + 1_160)
    assert row["share"] == pytest.approx(1_070 / 1_600)
    (none,) = kineto_time.queue_full(report).to_dict("records")
    assert (none["longest"], none["full_ns"], none["blocked_ns"]) == (5, 0, 0)


def layer(trace: Trace, at: int, kernels: list[str], outer: str = "aten::linear") -> None:
    """An operator around another one that launches kernels of 3 ns, one every 10 ns."""
    end = at + 10 * len(kernels)
    trace.op(outer, at, end)
    inner = trace.op("aten::addmm", at + 1, end - 1)
    for place, name in enumerate(kernels):
        begin = at + 2 + 9 * place
        trace.launch(name, (begin, begin + 1), (begin + 5, begin + 8), external=inner)


def test_sequences_of_operators(tmp_path: Path) -> None:
    trace = Trace()
    layer(trace, 0, [GEMM, ADD, ADD])
    layer(trace, 100, [GEMM, ADD, ADD])
    layer(trace, 200, [ADD, GEMM, ADD])  # the same kernels in another order
    layer(trace, 300, [GEMM, ADD])  # too few
    report = opened(trace, tmp_path)
    table = kineto_time.kernel_sequences(report)
    assert table[["operator", "kernels", "count", "gpu_ns", "cpu_ns", "sequence"]].to_numpy().tolist() == [
        ["aten::linear", 3, 2, 18, 60, f"{GEMM} | {SHORT[ADD]} × 2"],
        ["aten::linear", 3, 1, 9, 30, f"{SHORT[ADD]} | {GEMM} | {SHORT[ADD]}"],
    ]
    named = kineto_time.kernel_sequences(report, "addmm", least=2)
    assert set(named["operator"]) == {"aten::addmm"} and named["count"].sum() == 4
    assert len(kineto_time.kernel_sequences(report, "aten::conv2d")) == 0


def test_sequences_of_a_stream(tmp_path: Path) -> None:
    trace = Trace()
    for at in range(0, 400, 100):  # four times GEMM, ADD, NCCL, a pause
        for place, name in enumerate((GEMM, ADD, NCCL)):
            trace.kernel(name, at + 10 * place, at + 10 * place + 4, 0)
    trace.kernel(ADD, 500, 504, 0)
    trace.kernel(NCCL, 510, 514, 0)
    trace.kernel(GEMM, 0, 4, 0, stream=9)
    table = kineto_time.kernel_runs(opened(trace, tmp_path)).set_index("sequence")
    talk = NCCL.partition("(")[0]
    whole = table.loc[f"{GEMM} | {SHORT[ADD]} | {talk}"]
    assert (whole["count"], whole["gpu_ns"], whole["gaps_ns"], whole["stream"]) == (4, 48, 48, 7)
    assert table.loc[f"{SHORT[ADD]} | {talk}", "count"] == 5
    assert f"{GEMM} | {SHORT[ADD]}" not in table.index  # always part of the longer one
    assert not any(name.count(GEMM) == 2 and name.count("|") == 5 for name in table.index)  # twice the first


def test_sequences_of_one_kernel_alone_are_none(tmp_path: Path) -> None:
    trace = Trace()
    for at in range(0, 100, 10):
        trace.kernel(GEMM, at, at + 5, 0)
    assert len(kineto_time.kernel_runs(opened(trace, tmp_path))) == 0


def test_names_in_a_row_are_told_shortly() -> None:
    names = [f"k{number}" for number in range(40)]
    assert kineto_time._told(["a", "a", "b"]) == "a × 2 | b"
    assert kineto_time._told(names).endswith("| k23 | … 16 more")


def test_sums_of_stretches_are_those_of_their_names() -> None:
    codes = np.random.default_rng(3).integers(0, 3, 400)
    sums = kineto_time._Sums.of(codes)
    place = np.arange(395)
    found = sums(place, place + 5)
    texts = [tuple(codes[at : at + 5]) for at in place]
    assert len(set(found.tolist())) == len(set(texts)) == len(set(zip(found.tolist(), texts, strict=True)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("temporal_breakdown", "the trace holds no GPU operations"),
        ("critical_path", "the trace holds no GPU operations"),
        ("memory_bandwidth", "the trace holds no copies or memsets"),
        ("queue_full", "the trace holds no launches with their operations"),
        ("queue_length_trace", "the trace holds no launches with their operations"),
        ("kernel_sequences", "the trace holds no operators with three or more kernels"),
        ("kernel_runs", "the trace holds no kernels that come again in a row"),
        ("op_diff", "name that: --with TRACE"),
    ],
)
def test_what_a_trace_lacks_is_said(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(LackingError, match=message):
        kineto.REPORTS[name](opened(Trace(), tmp_path))
