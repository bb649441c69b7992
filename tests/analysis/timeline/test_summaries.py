"""Kernels and calls by name, copies by kind, launches."""

import math

import pandas as pd

from labcode.analysis.timeline import launch, summary
from tests.support.tables import api, call, copy, memcpys, op, ops


def test_kernel_summary() -> None:
    table = summary.kernel_summary(ops(op(0, 10, "a(int)"), op(5, 25, "b()"), op(30, 40, "a(int)")))
    assert table["name"].tolist() == ["a(int)", "b()"]  # a tie, so by name
    assert table[["count", "total_ns", "min_ns", "max_ns"]].values.tolist() == [
        [2, 20, 10, 10],
        [1, 20, 20, 20],
    ]
    assert table["share"].tolist() == [0.5, 0.5]
    assert table["std_ns"].tolist() == [0, 0]


def test_kernel_summary_by_short_name() -> None:
    work = ops(op(0, 10, "k<float>(int)", short_name="k"), op(0, 20, "k<int>(int)", short_name="k"))
    assert summary.kernel_summary(work, by="short_name")["count"].tolist() == [2]


def test_api_summary() -> None:
    table = summary.api_summary(api(call(0, 4), call(10, 12), call(20, 120, name="cudaDeviceSynchronize")))
    assert table["name"].tolist() == ["cudaDeviceSynchronize", "cudaLaunchKernel"]
    assert table["median_ns"].tolist() == [100, 3]


def test_summaries_of_nothing_and_of_no_time() -> None:
    assert len(summary.kernel_summary(ops())) == 0
    assert len(summary.api_summary(api())) == 0
    row = summary.kernel_summary(ops(op(5, 5), op(9, 3))).iloc[0]
    assert (row["count"], row["total_ns"]) == (2, 0)
    assert math.isnan(row["share"])


def row(start: int, end: int, size: int, **columns: str) -> dict[str, object]:
    return {"start_ns": start, "end_ns": end, "bytes": size, **columns}


def test_transfers_by_kind_and_host_memory() -> None:
    table = summary.transfer_summary(
        memcpys(
            row(0, 100, 1000),
            row(50, 150, 3000),
            row(0, 100, 500, src_kind="pageable"),
            row(0, 10, 400, copy_kind="D2H", src_kind="device", dst_kind="pageable"),
            row(0, 10, 8000, copy_kind="D2D", src_kind="device"),
        )
    )
    assert table[["copy_kind", "host_memory", "count"]].values.tolist() == [
        ["D2D", "", 1],
        ["H2D", "pinned", 2],
        ["H2D", "pageable", 1],
        ["D2H", "pageable", 1],
    ]
    pinned = table.iloc[1]
    assert (pinned["bytes"], pinned["time_ns"], pinned["busy_ns"]) == (4000, 200, 150)
    assert (pinned["gb_per_s"], pinned["median_bytes"]) == (20, 2000)


def test_transfers_that_took_no_time_and_none_at_all() -> None:
    assert math.isnan(summary.transfer_summary(memcpys(row(5, 5, 100)))["gb_per_s"].iloc[0])
    empty = summary.transfer_summary(memcpys())
    assert len(empty) == 0
    assert empty["gb_per_s"].dtype == "float64"


def test_idle_time_before_the_host_asked_for_what_ends_it() -> None:
    gaps = pd.DataFrame(
        [(0, 10, 30), (0, 50, 60), (0, 90, 100), (1, 5, 9)], columns=["device", "start_ns", "end_ns"]
    )
    launches = pd.DataFrame(
        [(0, 30, 25), (0, 60, 40), (1, 9, 1), (0, 10, 2)], columns=["device", "start_ns", "call_start_ns"]
    )  # asked for late, early, early; nothing follows the last gap of GPU 0
    table = launch.unasked(gaps, launches).set_index("device")
    assert table["idle_ns"].to_dict() == {0: 40, 1: 4} and table["unasked_ns"].to_dict() == {0: 15, 1: 0}


def test_launch_latency() -> None:
    calls = api(call(0, 10, 1), call(20, 30, 2), call(20, 30, 2, pid=200, tid=200))
    work = ops(op(50, 60, correlation=1), op(25, 40, "early", correlation=2), op(0, 9, "lost", correlation=7))
    table = launch.launch_latency(work, calls)
    assert table["name"].tolist() == ["early", "k(int)"]
    assert table[["latency_ns", "queue_ns", "call_ns"]].values.tolist() == [[5, 0, 10], [50, 40, 10]]


def test_the_outermost_call_launches() -> None:
    calls = api(call(12, 18, 1, "cuLaunchKernel"), call(10, 20, 1))
    table = launch.launch_latency(ops(op(30, 40, correlation=1)), calls)
    assert table[["call", "latency_ns"]].values.tolist() == [["cudaLaunchKernel", 20]]


def test_a_graph_launch_serves_many_operations() -> None:
    calls = api(call(0, 10, 1, "cudaGraphLaunch"), call(100, 120, 2))
    work = ops(*(op(20 + i, 21 + i, correlation=1) for i in range(4)), op(130, 140, correlation=2))
    launches = launch.launch_latency(work, calls)
    assert launches["ops_in_call"].tolist() == [4, 4, 4, 4, 1]
    assert launches["call_ns"].tolist() == [10, 10, 10, 10, 20]


def test_no_launches() -> None:
    assert len(launch.launch_latency(ops(op(0, 1), copy(0, 1)), api())) == 0
