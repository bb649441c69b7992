"""Idle time, overlap, queues, launches, arrivals: small traces, every number by hand."""

from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.stats import kineto_gpu
from labcode.reports.kineto.report import KinetoReport, open_trace
from tests.support.traces import ADD, GEMM, NCCL, Trace


def opened(trace: Trace, folder: Path) -> KinetoReport:
    return open_trace(trace.write(folder / "a.trace.json"))


def test_idle_categories(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch(GEMM, (0, 5_000), (10_000, 20_000))
    trace.launch(GEMM, (6_000, 8_000), (21_000, 30_000))  # launched long before: 1 µs between kernels
    trace.launch(GEMM, (30_001, 32_000), (40_000, 50_000))  # launched 1 ns late
    trace.launch(GEMM, (33_000, 34_000), (80_000, 90_000))  # launched early, 30 µs: something else
    trace.launch(ADD, (35_000, 36_000), (85_000, 95_000))  # runs beside the one before
    trace.kernel(GEMM, 195_000, 200_000, 0)  # nobody knows who launched it
    trace.launch(GEMM, (0, 5_000), (10_000, 20_000), stream=20)
    table = kineto_gpu.idle_breakdown(opened(trace, tmp_path))
    found = {
        (row["stream"], row["category"]): (row["gaps"], row["idle_ns"]) for row in table.to_dict("records")
    }
    assert found[7, "kernel_wait"] == (1, 1_000)
    assert found[7, "host_wait"] == (1, 10_000)
    assert found[7, "other"] == (2, 30_000 + 100_000)
    assert found[20, "other"] == found[20, "host_wait"] == (0, 0)
    shares = table[table["stream"] == 7]["share"]
    assert shares.sum() == pytest.approx(1) and table[table["stream"] == 20]["share"].isna().all()


def test_idle_of_nothing(tmp_path: Path) -> None:
    report = opened(Trace(), tmp_path)
    assert len(kineto_gpu.idle_breakdown(report)) == len(kineto_gpu.idle_gaps(report)) == 0
    assert len(kineto_gpu.queue_length(report)) == len(kineto_gpu.launch_stats(report)) == 0
    assert len(kineto_gpu.comm_overlap(report)) == len(kineto_gpu.arrivals(report)) == 0


def test_comm_overlap(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch(GEMM, (0, 1), (100, 1_100))
    trace.launch(NCCL, (2, 3), (600, 1_600), stream=20)
    number = trace.call("cudaMemcpyAsync", 4, 5)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 1_100, 1_600, number, 8, stream=30)  # no computing
    (row,) = kineto_gpu.comm_overlap(opened(trace, tmp_path)).to_dict("records")
    assert (row["comm_ns"], row["hidden_ns"], row["exposed_ns"], row["hidden_share"]) == (
        1_000,
        500,
        500,
        0.5,
    )


def test_queue(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch(GEMM, (0, 10), (100, 200))
    trace.launch(GEMM, (20, 30), (200, 300))
    trace.launch(GEMM, (40, 50), (300, 400))
    trace.call("cudaStreamSynchronize", 60, 400)
    number = trace.call("cudaGraphLaunch", 500, 510)
    trace.kernel(ADD, 520, 530, number)  # graphs are left out, as by HTA
    report = opened(trace, tmp_path)
    assert kineto_gpu.queue_series(report)[["start_ns", "queued"]].to_numpy().tolist() == [
        *([0, 1], [20, 2], [40, 3], [100, 2], [200, 1], [300, 0])
    ]
    (row,) = kineto_gpu.queue_length(report).to_dict("records")
    assert (row["changes"], row["mean"], row["min"], row["max"], row["median"]) == (6, 1.5, 0, 3, 1.5)
    assert row["mean_over_time"] == pytest.approx((20 * 1 + 20 * 2 + 60 * 3 + 100 * 2 + 100 * 1) / 300)


def test_launch_stats(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch(GEMM, (0, 10_000), (15_000, 20_000))
    trace.launch(GEMM, (20_000, 80_000), (300_000, 500_000))
    trace.launch(ADD, (90_000, 91_000), (500_000, 500_500), via="cudaLaunchKernelExC")
    table = kineto_gpu.launch_stats(opened(trace, tmp_path)).set_index("call")
    plain = table.loc["cudaLaunchKernel"]
    assert (plain["ops"], plain["call_ns"], plain["median_call_ns"]) == (2, 70_000, 35_000)
    assert plain["median_delay_ns"] == (5_000 + 220_000) / 2
    assert (plain["shorter_than_call"], plain["long_calls"], plain["long_delays"]) == (1, 1, 1)
    assert table.loc["cudaLaunchKernelExC", "shorter_than_call"] == 1


def test_a_graph_is_launched_once(tmp_path: Path) -> None:
    trace = Trace()
    trace.call("cudaGraphLaunch", 0, 60_000, correlation=8)
    for start in (70_000, 80_000, 90_000):
        trace.kernel(GEMM, start, start + 5_000, 8)
    (row,) = kineto_gpu.launch_stats(opened(trace, tmp_path)).to_dict("records")
    assert (row["calls"], row["ops"], row["call_ns"], row["long_calls"]) == (1, 3, 60_000, 1)
    assert (row["median_op_ns"], row["median_delay_ns"], row["shorter_than_call"]) == (5_000, 10_000, 1)


def test_a_call_shared_by_several(tmp_path: Path) -> None:
    trace = Trace()
    trace.call("cudaLaunchKernel", 100, 200, correlation=8)
    trace.call("cudaLaunchKernel", 300, 400, correlation=8)
    trace.kernel(GEMM, 500, 600, 8)
    (row,) = kineto_gpu.launches(opened(trace, tmp_path)).to_dict("records")
    assert (row["call_start_ns"], row["queue_ns"]) == (0, 300)


def test_steps(tmp_path: Path) -> None:
    trace = Trace()
    trace.annotation("ProfilerStep#4", 0, 1_000)
    trace.annotation("ProfilerStep#5", 1_000, 3_000)
    trace.launch(GEMM, (10, 20), (500, 1_500))
    table = kineto_gpu.steps(opened(trace, tmp_path))
    assert table[["step", "duration_ns", "busy_ns", "idle_ns"]].to_numpy().tolist() == [
        [4, 1_000, 500, 500],
        [5, 2_000, 500, 1_500],
    ]
    assert table["idle_share"].tolist() == [0.5, 0.75]


def test_arrivals(tmp_path: Path) -> None:
    for rank, late in ((0, 0), (1, 400)):
        trace = Trace(rank=rank, world=2, pid=10 + rank)
        for at in (1_000, 5_000):
            trace.launch(NCCL, (at, at + 10), (at + 100 + late, at + 2_000), stream=20)
        trace.write(tmp_path / f"x.rank{rank}.trace.json")
    table = kineto_gpu.arrivals(open_trace(tmp_path))
    assert table.groupby("rank")["late_ns"].max().to_dict() == {0: 0, 1: 400}
    assert table["collective"].tolist() == [0, 0, 1, 1] and np.all(table["duration_ns"] > 0)
