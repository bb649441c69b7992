"""The critical path: small traces, every piece by hand; long ones, whose pieces must follow each other."""

from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.timeline.critical_path import KINDS, by_kind, contradictions, critical_path, pollers
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


@pytest.mark.parametrize(("begins", "handed"), [(125, True), (126, False), (190, False)])
def test_who_worked_for_less_than_half_of_a_pause_did_not_end_it(
    begins: int, handed: bool, tmp_path: Path
) -> None:
    trace = Trace()
    trace.op("aten::linear", 0, 40 * US)
    launch(trace, ADD, 10, (30, 32))
    trace.op("MmBackward0", begins * US, 210 * US, tid=BACKWARD)
    launch(trace, GEMM, 195, (206, 207), tid=BACKWARD)
    trace.op("aten::add_", 210 * US, 230 * US)
    assert ("MmBackward0" in [name for _, name, _, _ in pieces(opened(trace, tmp_path))]) == handed


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


WATCHDOG = 9_000


def computing(polling: tuple[int, ...], *, until: int = 2_000) -> Trace:
    """A kernel of 900 µs and a wait for it; threads that ask every 100 µs, and end last."""
    trace = Trace()
    launch(trace, GEMM, 0, (15, 915))
    trace.call("cudaDeviceSynchronize", 20 * US, 920 * US)
    for tid in polling:
        for at in range(100, until, 100):
            trace.call("cudaEventQuery", at * US, (at + 2) * US, tid=tid)
    return trace


@pytest.mark.parametrize("threads", [(WATCHDOG,), (WATCHDOG, WATCHDOG + 1)])
def test_a_thread_that_only_asks_is_no_part_of_the_path(threads: tuple[int, ...], tmp_path: Path) -> None:
    report = opened(computing(threads), tmp_path)
    assert report.window()[1] > 1_900 * US  # the polling ends it
    assert pieces(report) == [
        ("CUDA call", "cudaLaunchKe", 0, 10),
        ("launch latency", GEMM[:12], 10, 15),
        ("kernel", GEMM[:12], 15, 915),
        ("wait ends", "cudaDeviceSy", 915, 920),
    ]
    assert pollers(report.api(), report.ops(), report.annotations()) == set(threads)


def test_polling_before_the_first_event_is_no_part_either(tmp_path: Path) -> None:
    trace = Trace()
    for at in range(0, 3_000, 500):
        trace.call("cudaStreamQuery", at * US, (at + 1) * US, tid=WATCHDOG)
    launch(trace, GEMM, 1_000, (1_015, 1_100))
    assert [piece[2:] for piece in pieces(opened(trace, tmp_path))] == [
        *((1_000, 1_010), (1_010, 1_015), (1_015, 1_100))
    ]


@pytest.mark.parametrize("what", ["launch", "operator", "annotation", "record", "mostly other calls"])
def test_a_poller_that_does_something_else_is_kept(what: str, tmp_path: Path) -> None:
    trace = computing((WATCHDOG,))
    if what == "launch":
        launch(trace, ADD, 1_500, (1_515, 1_520), tid=WATCHDOG, stream=9)
    elif what == "operator":
        trace.op("aten::add", 1_500 * US, 1_501 * US, tid=WATCHDOG)
    elif what == "annotation":
        trace.annotation("flush", 1_500 * US, 1_501 * US, tid=WATCHDOG)
    elif what == "record":
        trace.call("cudaEventRecord", 1_500 * US, 1_501 * US, tid=WATCHDOG)
    else:
        for at in range(1_000, 1_060, 2):
            trace.call("cudaHostAlloc", at * US, (at + 1) * US, tid=WATCHDOG)
    report = opened(trace, tmp_path)
    assert not pollers(report.api(), report.ops(), report.annotations())
    path = critical_path(report)
    assert WATCHDOG in set(path["tid"]) and int((path["start_ns"] + path["duration_ns"]).max()) == 1_902 * US


def test_a_wait_by_polling_is_a_wait(tmp_path: Path) -> None:
    """The launching thread asks again and again; what it does then came after the kernel."""
    trace = Trace()
    launch(trace, GEMM, 0, (15, 500))
    for at in range(20, 520, 20):
        trace.call("cudaEventQuery", at * US, (at + 2) * US)
    trace.op("aten::mul", 530 * US, 600 * US)
    assert pieces(opened(trace, tmp_path)) == [
        ("CUDA call", "cudaLaunchKe", 0, 10),
        ("launch latency", GEMM[:12], 10, 15),
        ("kernel", GEMM[:12], 15, 500),
        ("wait ends", "cudaEventQue", 500, 502),
        ("host", "", 502, 530),
        ("operator", "aten::mul", 530, 600),
    ]


def test_asking_in_passing_is_no_wait(tmp_path: Path) -> None:
    """The allocator asks for events between operators; the thread goes on whatever the answer."""
    trace = Trace()
    launch(trace, GEMM, 0, (15, 200))
    for at in range(20, 300, 20):
        trace.op("aten::empty", at * US, (at + 10) * US)
        trace.call("cudaEventQuery", (at + 2) * US, (at + 3) * US)
    assert {kind for kind, *_ in pieces(opened(trace, tmp_path))} <= {"CUDA call", "operator", "host"}


def test_a_path_that_contradicts_the_gpus_time_is_told(tmp_path: Path) -> None:
    """Kernels that run while operators decide: nothing of the path computes, and a line says so."""
    trace = Trace()
    for at in range(0, 1_000, 100):
        trace.op("aten::mul", at * US, (at + 98) * US)
        launch(trace, GEMM, at + 5, (at + 20, at + 60))
    report = opened(trace, tmp_path)
    (line,) = contradictions(critical_path(report), report.gpu_ops())
    assert line.startswith(
        "critical path of rank 0: 0% computing, while GPU 0 computes for 40% of that time "
    )
    assert "idle for 60%; most of the path is operator" in line
    report = opened(computing((WATCHDOG,)), tmp_path)
    assert not contradictions(critical_path(report), report.gpu_ops())


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
