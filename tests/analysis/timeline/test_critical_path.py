"""The critical path: small traces, every piece by hand; long ones, whose pieces must follow each other."""

from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.timeline.critical_path import KINDS, by_kind, critical_path
from labcode.reports.kineto.report import KinetoReport, open_trace
from tests.support import traces
from tests.support.traces import ADD, BACKWARD, GEMM, MAIN, NCCL, Trace


def opened(trace: Trace, folder: Path) -> KinetoReport:
    return open_trace(trace.write(folder / "a.trace.json"))


def pieces(report: KinetoReport) -> list[tuple[str, str, int, int]]:
    """kind, name (the first letters), start and end of each piece, in µs."""
    path = critical_path(report)
    return [
        (
            row["kind"],
            row["name"][:12],
            row["start_ns"] // 1000,
            (row["start_ns"] + row["duration_ns"]) // 1000,
        )
        for row in path.to_dict("records")
    ]


US = 1_000


def launch(trace: Trace, name: str, call: int, run: tuple[int, int], **more: object) -> int:
    """A call of 10 µs and its kernel; times in µs."""
    return trace.launch(name, (call * US, (call + 10) * US), (run[0] * US, run[1] * US), **more)  # type: ignore[arg-type]


def test_a_launch_a_kernel_and_the_wait_for_it(tmp_path: Path) -> None:
    trace = Trace()
    trace.op("aten::mm", 0, 40 * US)
    launch(trace, GEMM, 20, (35, 100))
    trace.call("cudaDeviceSynchronize", 50 * US, 110 * US)
    assert pieces(opened(trace, tmp_path)) == [
        ("operator", "aten::mm", 0, 20),
        ("CUDA call", "cudaLaunchKe", 20, 30),
        ("launch latency", GEMM[:12], 30, 35),
        ("kernel", GEMM[:12], 35, 100),
        ("wait ends", "cudaDeviceSy", 100, 110),
    ]


def test_kernels_that_wait_for_their_stream(tmp_path: Path) -> None:
    trace = Trace()
    launch(trace, GEMM, 0, (12, 50))
    launch(trace, ADD, 20, (52, 60))  # launched long before, 2 µs after the other
    launch(trace, ADD, 70, (85, 90))  # launched late
    trace.call("cudaStreamSynchronize", 40 * US, 65 * US)
    assert pieces(opened(trace, tmp_path)) == [
        ("CUDA call", "cudaLaunchKe", 0, 10),
        ("launch latency", GEMM[:12], 10, 12),
        ("kernel", GEMM[:12], 12, 50),
        ("gap on the GPU", "vectorized_e", 50, 52),
        ("kernel", "vectorized_e", 52, 60),
        ("wait ends", "cudaStreamSy", 60, 65),
        ("host", "", 65, 70),
        ("CUDA call", "cudaLaunchKe", 70, 80),
        ("launch latency", "vectorized_e", 80, 85),
        ("kernel", "vectorized_e", 85, 90),
    ]


def test_a_launch_that_takes_long_waits_for_the_gpu(tmp_path: Path) -> None:
    trace = Trace()
    launch(trace, GEMM, 0, (12, 500))
    trace.launch(ADD, (20 * US, 520 * US), (510 * US, 515 * US))
    assert pieces(opened(trace, tmp_path)) == [
        ("CUDA call", "cudaLaunchKe", 0, 10),
        ("launch latency", GEMM[:12], 10, 12),
        ("kernel", GEMM[:12], 12, 500),
        ("wait ends", "cudaLaunchKe", 500, 510),
        ("kernel", "vectorized_e", 510, 515),
        ("wait ends", "cudaLaunchKe", 515, 520),
    ]


def test_a_wait_for_another_stream_needs_an_event(tmp_path: Path) -> None:
    """Only with cudaStreamWaitEvent does the second stream's kernel follow from the first's."""
    for asked in (True, False):
        trace = Trace()
        launch(trace, NCCL, 0, (12, 80), stream=20)
        launch(trace, ADD, 10, (20, 25))
        if asked:
            trace.call("cudaStreamWaitEvent", 22 * US, 23 * US)
        launch(trace, GEMM, 25, (82, 120))
        found = pieces(opened(trace, tmp_path))
        assert (("communication", NCCL[:12], 12, 80) in found) == asked
        assert (("gap on the GPU", GEMM[:12], 80, 82) in found) == asked
        assert found[-1] == ("kernel", GEMM[:12], 82, 120)


def test_what_ran_before_the_recording_ends_the_path(tmp_path: Path) -> None:
    """A kernel without a launch follows from what was done just before it, on whatever stream."""
    trace = Trace()
    trace.kernel(NCCL, 0, 50 * US, 0, stream=20)
    trace.kernel(GEMM, 0, 20 * US, 0)
    trace.kernel(GEMM, 52 * US, 60 * US, 0)
    assert pieces(opened(trace, tmp_path)) == [
        ("communication", NCCL[:12], 0, 50),
        ("gap on the GPU", GEMM[:12], 50, 52),
        ("kernel", GEMM[:12], 52, 60),
    ]


def test_a_copy_that_its_call_waits_for(tmp_path: Path) -> None:
    """Inside of a blocking cudaMemcpyAsync the copy waits for the kernel, and the call for the copy."""
    trace = Trace()
    launch(trace, GEMM, 0, (12, 50))
    number = trace.call("cudaMemcpyAsync", 20 * US, 70 * US)
    trace.copy("Memcpy DtoH (Device -> Pageable)", 55 * US, 60 * US, number, 4)
    trace.op("aten::item", 15 * US, 80 * US)
    assert pieces(opened(trace, tmp_path)) == [
        ("CUDA call", "cudaLaunchKe", 0, 10),
        ("launch latency", GEMM[:12], 10, 12),
        ("kernel", GEMM[:12], 12, 50),
        ("wait ends", "cudaMemcpyAs", 50, 55),
        ("copy", "memcpy D2H", 55, 60),
        ("wait ends", "cudaMemcpyAs", 60, 70),
        ("operator", "aten::item", 70, 80),
    ]


def test_a_thread_that_another_one_set_going(tmp_path: Path) -> None:
    trace = Trace()
    trace.annotation("backward", 40 * US, 210 * US)
    trace.op("aten::linear", 0, 40 * US)
    launch(trace, ADD, 10, (30, 32))
    trace.op("MmBackward0", 50 * US, 200 * US, tid=BACKWARD)
    launch(trace, GEMM, 100, (115, 117), tid=BACKWARD)
    trace.op("aten::add_", 210 * US, 230 * US)
    found = pieces(opened(trace, tmp_path))
    assert [(kind, name) for kind, name, _, _ in found] == [
        ("operator", "aten::linear"),
        ("CUDA call", "cudaLaunchKe"),
        ("operator", "aten::linear"),
        ("host", ""),  # of the thread that was set going
        ("operator", "MmBackward0"),
        ("CUDA call", "cudaLaunchKe"),
        ("operator", "MmBackward0"),
        ("host", "backward"),
        ("operator", "aten::add_"),
    ]
    path = critical_path(opened(trace, tmp_path))
    assert set(path.loc[path["name"] == "MmBackward0", "tid"]) == {BACKWARD}


def test_launches_of_rocm_are_launches(tmp_path: Path) -> None:
    trace = Trace()
    launch(trace, "rocblas_gemm", 0, (15, 50), via="hipLaunchKernel")
    launch(trace, "rocblas_gemm", 10, (51, 80), via="hipExtModuleLaunchKernel")
    trace.call("hipStreamSynchronize", 30 * US, 85 * US)
    assert [kind for kind, *_ in pieces(opened(trace, tmp_path))] == [
        *("CUDA call", "launch latency", "kernel", "gap on the GPU", "kernel", "wait ends")
    ]


def test_what_shortening_gains_at_most(tmp_path: Path) -> None:
    trace = Trace()
    trace.op("aten::mm", 0, 25 * US, tid=MAIN)
    launch(trace, GEMM, 10, (25, 100))
    table = by_kind(critical_path(opened(trace, tmp_path))).set_index("kind")
    assert table["share"].sum() == pytest.approx(1)
    assert table.loc["kernel", ["pieces", "total_ns"]].tolist() == [1, 75 * US]
    assert table.loc["kernel", "at_most"] == pytest.approx(4)
    named = by_kind(critical_path(opened(trace, tmp_path)), names=True)
    assert named["name"].iloc[0] == GEMM and len(named) == len(table)
    alone = Trace()
    alone.kernel(GEMM, 0, 10, 0)
    assert by_kind(critical_path(opened(alone, tmp_path)))["at_most"].isna().all()  # all of the path


def test_nothing_has_no_path(tmp_path: Path) -> None:
    assert len(critical_path(opened(Trace(), tmp_path))) == 0


def test_a_long_path_has_no_gaps(tmp_path: Path) -> None:
    traces.training(tmp_path, ranks=2, steps=3, layers=5)
    report = open_trace(tmp_path)
    path = critical_path(report)
    assert set(path["rank"]) == {0, 1} and set(path["kind"]) <= set(KINDS)
    for _, mine in path.groupby("rank"):
        start, spent = mine["start_ns"].to_numpy(), mine["duration_ns"].to_numpy()
        assert (spent > 0).all() and np.array_equal(start[1:], (start + spent)[:-1])
        assert (start + spent)[-1] <= report.window()[1]
    low, high = report.window()
    part = critical_path(report, (low, (low + high) // 2))
    assert int((part["start_ns"] + part["duration_ns"]).max()) <= (low + high) // 2
    assert int(part["start_ns"].min()) >= low
