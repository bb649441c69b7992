"""Which rows a timeline has: threads, levels, streams, copies, devices, and idle time over all processes."""

from pathlib import Path
from typing import Any

import pytest

from labcode.figures.timeline.rows import (
    NO_GPU_WORK,
    Choice,
    Report,
    Row,
    api_role,
    api_row,
    device_ops,
    in_window,
    kernel_label,
    nvtx_row,
    projection_row,
    report_groups,
    stream_rows,
)
from labcode.reports.nsys.report import open_report
from labcode.show import byte_text
from tests.figures.tables import Tables, data_parallel
from tests.support.exports import call, kernel, make_export, push_pop

WINDOW = (0, 1000)


def test_nested_ranges_are_stacked_and_deeper_levels_left_out() -> None:
    t = Tables()
    t.add("nvtx", 0, 900, name="step")
    t.add("nvtx", 100, 500, name="forward")
    t.add("nvtx", 200, 300, name="layer")
    t.add("nvtx", 220, 240, name="gemm")
    t.add("nvtx", 0, 1000, name="lab:measured")
    t.add("nvtx", 50, 50, name="here", event_type="mark")
    row = nvtx_row(t.nvtx(), WINDOW, levels=3)
    assert row.bars[["text", "lane", "role"]].values.tolist() == [
        ["step", 0, "nvtx1"],
        ["forward", 1, "nvtx2"],
        ["layer", 2, "nvtx3"],
    ]
    assert row.lanes == 3


def test_a_range_that_is_still_open_ends_with_the_window() -> None:
    t = Tables()
    t.add("nvtx", 100, 200, name="step")
    open_ended = t.nvtx()
    open_ended.loc[0, "end_ns"] = None
    row = nvtx_row(open_ended, WINDOW)
    assert row.bars["end_ns"].tolist() == [1000]


def test_events_are_cut_to_the_window() -> None:
    t = Tables()
    for start, end in ((-50, -10), (-10, 20), (990, 1200), (1000, 1100), (500, 500)):
        t.add("kernels", start, end)
    assert in_window(t.kernels(), WINDOW)[["start_ns", "end_ns"]].values.tolist() == [
        [0, 20],
        [990, 1000],
        [500, 500],
    ]


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("cudaLaunchKernel", "launch"),
        ("cuLaunchKernelEx", "launch"),
        ("cudaGraphLaunch", "launch"),
        ("cudaMemcpyAsync", "copy_call"),
        ("cudaMemsetAsync", "copy_call"),
        ("cudaStreamSynchronize", "sync"),
        ("cuEventSynchronize", "sync"),
        ("cudaMalloc", "call"),
    ],
)
def test_roles_of_api_calls(name: str, role: str) -> None:
    assert api_role(name) == role


def test_calls_inside_of_calls_are_left_out() -> None:
    t = Tables()
    t.add("api", 0, 100, name="cudaLaunchKernel")
    t.add("api", 20, 80, name="cuLaunchKernel")
    t.add("api", 100, 120, name="cudaStreamSynchronize")
    assert api_row(t.api(), WINDOW).bars["text"].tolist() == ["cudaLaunchKernel", "cudaStreamSynchronize"]
    assert not len(api_row(Tables().api(), WINDOW).bars)


def test_the_threads_that_call_most_are_shown_the_main_one_first() -> None:
    t = Tables()
    for tid, length in ((100, 50), (7, 300), (8, 1), (9, 0)):
        t.add("api", 0, length, name="cudaLaunchKernel", tid=tid)
    t.add("nvtx", 0, 100, name="forward", tid=100)
    t.add("nvtx", 0, 100, name="backward", tid=7)
    labels = [row.label for row in report_groups(t, WINDOW)[0].rows]
    assert labels == ["NVTX", "CUDA API", "NVTX, thread 2", "CUDA API, thread 2"]
    t.named += [(100, 100, "python"), (100, 7, "pt_autograd_0")]
    labels = [row.label for row in report_groups(t, WINDOW)[0].rows]
    assert labels[2:] == ["NVTX, pt_autograd_0", "CUDA API, pt_autograd_0"]
    one = report_groups(t, WINDOW, Choice(max_threads=1))
    assert [row.label for row in one[0].rows] == ["NVTX", "CUDA API"]


def test_threads_that_only_ask_are_left_out() -> None:
    t = Tables()
    t.add("api", 0, 50, name="cudaLaunchKernel")
    t.add("api", 0, 900, name="cudaEventQuery", tid=7)
    assert [row.label for row in report_groups(t, WINDOW)[0].rows] == ["CUDA API"]


def test_ranges_projected_to_the_gpu_lie_where_their_work_ran() -> None:
    t = Tables()
    t.add("nvtx", 0, 100, name="step")
    t.add("nvtx", 10, 50, name="forward")
    t.add("api", 20, 25, name="cudaLaunchKernel", correlation=1)
    t.add("api", 60, 65, name="cudaLaunchKernel", correlation=2)
    t.add("kernels", 200, 300, correlation=1)
    t.add("kernels", 400, 500, correlation=2)
    row = projection_row(t.nvtx(), t.api(), t.gpu_ops(), WINDOW)
    assert row.bars[["text", "start_ns", "end_ns", "lane"]].values.tolist() == [
        ["step", 200, 500, 0],
        ["forward", 200, 300, 1],
    ]
    (group,) = report_groups(t, WINDOW, Choice(kinds=("projection", "streams")))
    assert [row.label for row in group.rows] == ["NVTX on the GPU", "stream 7"]


def rows_of(t: Tables, **choice: Any) -> list[Row]:
    ops = device_ops(t.kernels(), t.memcpys(), t.memsets(), t.graph_launches(), WINDOW)
    return stream_rows(ops, **choice)


def gpu(t: Tables) -> list[tuple[str, list[str]]]:
    return [(row.label, row.bars["role"].tolist()) for row in rows_of(t)]


def test_copies_have_rows_of_their_own_by_direction() -> None:
    t = Tables()
    t.add("kernels", 100, 200)
    t.add("memcpys", 0, 90)
    t.add("memcpys", 300, 400, copy_kind="D2H", stream=13)
    t.add("memcpys", 410, 420, copy_kind="D2D")
    t.add("memcpys", 430, 440, copy_kind="P2P")
    t.add("memcpys", 450, 460, copy_kind="managed H2D")
    t.add("memsets", 500, 510)
    t.add("graph_launches", 600, 700)
    assert gpu(t) == [
        ("copies H2D", ["h2d", "h2d"]),
        ("copies D2H", ["d2h"]),
        ("copies P2P", ["p2p"]),
        ("stream 7", ["kernel", "d2d", "memset", "graph"]),
    ]
    together = rows_of(t, copies="in streams")
    assert [row.label for row in together] == ["stream 7", "stream 13"]


def test_a_stream_of_nccl_says_so() -> None:
    t = Tables()
    t.add("kernels", 0, 10, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=24)
    (row,) = rows_of(t)
    assert row.label == "stream 24, NCCL"
    assert row.bars[["role", "text"]].values.tolist() == [["nccl", "AllReduce"]]
    assert kernel_label("gemm_nt") == "gemm_nt"


def test_streams_beyond_the_limit_share_a_row() -> None:
    t = Tables()
    for s in range(10):
        t.add("kernels", 100, 110 + s, stream=s)
    rows = rows_of(t, max_streams=4)
    assert [row.label for row in rows] == ["stream 7", "stream 8", "stream 9", "7 more streams"]
    assert rows[-1].bars[["start_ns", "end_ns"]].values.tolist() == [[100, 116]]


def test_kernels_that_overlap_within_a_stream_get_lanes() -> None:
    t = Tables()
    for start, end in ((0, 100), (10, 90), (20, 80), (30, 70), (40, 60), (50, 55)):
        t.add("kernels", start, end)
    (row,) = rows_of(t)
    assert row.bars["lane"].tolist() == [0, 1, 2, 3, 3, 3]


def test_idle_time_is_that_of_the_device_over_all_processes() -> None:
    t = Tables()
    t.add("kernels", 0, 400, pid=1)
    t.add("kernels", 500, 1000, pid=2)
    (group,) = report_groups(t, WINDOW, Choice(kinds=("streams",), pids=[1]))
    assert group.idle is not None
    assert group.idle[["start_ns", "end_ns"]].values.tolist() == [[400, 500]]
    assert group.idle_share == pytest.approx(0.1)
    both = report_groups(t, WINDOW, Choice(kinds=("streams",)))
    assert [row.label for group in both for row in group.rows] == [
        "stream 7, process 1",
        "stream 7, process 2",
    ]


def test_overlapping_work_never_makes_a_device_more_than_busy() -> None:
    t = Tables()
    for s in range(3):
        t.add("kernels", 0, 1000, stream=s)
    (group,) = report_groups(t, WINDOW, Choice(kinds=("streams",)))
    assert group.idle_share == 0


def test_devices_are_stacked_each_under_its_process() -> None:
    groups = report_groups(data_parallel(2), (0, 5_000_000))
    assert [group.title for group in groups] == ["GPU 0", "", "GPU 1", ""]
    assert [row.label for row in groups[1].rows] == ["stream 7", "stream 24, NCCL"]
    assert [group.idle_share is not None for group in groups] == [False, True, False, True]
    (one,) = report_groups(data_parallel(2), (0, 5_000_000), Choice(devices=[1], kinds=("streams",)))
    assert one.title == ""


def test_one_process_with_several_devices_shows_its_cpu_once() -> None:
    t = Tables()
    t.add("api", 0, 10, name="cudaLaunchKernel")
    t.add("kernels", 10, 20, device=0)
    t.add("kernels", 10, 20, device=1)
    assert [group.title for group in report_groups(t, WINDOW)] == ["CPU", "GPU 0", "GPU 1"]


def test_without_gpu_work_the_cpu_is_shown_and_the_rest_said() -> None:
    t = Tables()
    t.add("api", 0, 10, name="cudaMalloc")
    cpu, gpu = report_groups(t, WINDOW)
    assert cpu.rows[0].label == "CUDA API"
    assert gpu.rows[0].message == NO_GPU_WORK
    assert gpu.idle_share is None


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (4, "4 B"),
        (4096, "4 KiB"),
        (16 << 20, "16 MiB"),
        (3 << 30, "3 GiB"),
        (123_456_789, "118 MiB"),
        (5000, "4.88 KiB"),
        (10_100, "9.86 KiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert byte_text(count, binary=True) == text


def test_a_report_of_nsys_can_be_drawn(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    make_export(
        path,
        kernels=[kernel(100, 200, "scale(float*, int)", correlation=1)],
        api=[call(50, 60, "cudaLaunchKernel_v7000", correlation=1)],
        nvtx=[push_pop(0, 500, "step"), push_pop(0, 1000, "lab:measured")],
    )
    report: Report = open_report(path)
    groups = report_groups(report, report.window(), Choice(kinds=("nvtx", "api", "projection", "streams")))
    shown = [(row.label, row.bars["text"].tolist()) for group in groups for row in group.rows]
    assert shown == [
        ("NVTX", ["step"]),
        ("CUDA API", ["cudaLaunchKernel"]),
        ("NVTX on the GPU", ["step"]),
        ("stream 7", ["scale"]),
    ]
    assert groups[1].idle_share == pytest.approx(0.9)
