"""The worked example of each starter, as its text gives it, run on the solution."""

from __future__ import annotations

import pytest

from labcode.exercises.inputs import ops_table, table
from tests.exercises.support import names_of, solution


def test_ex01a() -> None:
    s = names_of(solution("ex01a"))
    ops = ops_table(
        [
            {"kind": "kernel", "start_ns": 10, "end_ns": 40, "pid": 71, "stream": 7},
            {"kind": "memcpy", "start_ns": 30, "end_ns": 50, "pid": 71, "stream": 13},
            {"kind": "kernel", "start_ns": 90, "end_ns": 120, "pid": 71, "stream": 7},
        ]
    )
    assert s["busy_intervals"](ops, (0, 100)) == [(10, 50), (90, 100)]
    assert s["gpu_idle_share"](ops, (0, 100)) == {0: 0.5}
    assert s["longest_gaps"](ops, (0, 100), 2) == [(0, 50, 90), (0, 0, 10)]


def test_ex01b() -> None:
    s = names_of(solution("ex01b"))
    ops = ops_table(
        [
            {"start_ns": 10, "end_ns": 40, "pid": 71, "correlation": 3},
            {"start_ns": 90, "end_ns": 120, "pid": 71, "correlation": 5},
        ]
    )
    api = table(
        [
            {
                "start_ns": 30,
                "end_ns": 45,
                "pid": 71,
                "tid": 71,
                "correlation": 4,
                "name": "cudaDeviceSynchronize",
            },
            {
                "start_ns": 80,
                "end_ns": 88,
                "pid": 71,
                "tid": 71,
                "correlation": 5,
                "name": "cudaLaunchKernel",
            },
        ],
        "api",
    )
    nvtx = table(
        [
            {"start_ns": 0, "end_ns": 200, "pid": 71, "tid": 71, "name": "step 0"},
            {"start_ns": 42, "end_ns": 78, "pid": 71, "tid": 71, "name": "load batch"},
        ],
        "nvtx",
    )
    assert s["launching_thread"](ops, api, 0, 90) == (71, 71)
    assert s["range_at"](nvtx, 71, 71, 65) == "load batch"
    assert s["idle_by_range"](ops, api, nvtx, (10, 120)) == {"load batch": 50}
    assert s["what_it_did"](api, 71, 71, 40, 90) == {"waiting": 5, "calling": 8, "computing": 37}
    assert s["diagnose"](ops, api, nvtx, (10, 120)) == ("load batch", "computing")


def test_ex02a() -> None:
    s = names_of(solution("ex02a"))
    rows = [(10, 40, 7), (20, 60, 13), (60, 70, 7)]
    kernels = table([{"start_ns": a, "end_ns": b, "stream": c} for a, b, c in rows], "kernels")
    assert s["time_at_least"](kernels) == {0: [60, 20]}
    assert s["average_concurrency"](kernels) == {0: pytest.approx(4 / 3)}
    assert s["overlapping_streams"](kernels) == {0: 2}


def test_ex02b() -> None:
    s = names_of(solution("ex02b"))
    ran, called = [(20, 50), (52, 90), (120, 140)], [(10, 15), (16, 22), (105, 112)]
    kernels = table(
        [{"start_ns": a, "end_ns": b, "correlation": n} for n, (a, b) in enumerate(ran, 1)], "kernels"
    )
    api = table([{"start_ns": a, "end_ns": b, "correlation": n} for n, (a, b) in enumerate(called, 1)], "api")
    assert s["launch_bound_share"](kernels, api) == {0: 0.5}
    assert s["waited_for"](kernels, api, 10) == {"launch": 2, "stream": 1, "room": 0}
    assert s["diagnose"](kernels, api) == "launch"


def test_ex03a() -> None:
    s = names_of(solution("ex03a"))
    memcpys = table(
        [
            {"start_ns": 0, "end_ns": 100_000, "bytes": 1_000_000, "src_kind": "pageable"},
            {"start_ns": 100_000, "end_ns": 300_000, "bytes": 9_000_000},
            {
                "start_ns": 400_000,
                "end_ns": 600_000,
                "bytes": 8_000_000,
                "copy_kind": "D2H",
                "src_kind": "device",
                "dst_kind": "pinned",
            },
        ],
        "memcpys",
    )
    assert s["achieved_gb_per_s"](memcpys) == {
        ("H2D", "pageable"): 10.0,
        ("H2D", "pinned"): 45.0,
        ("D2H", "pinned"): 40.0,
    }
    copies = [{"kind": "memcpy", "start_ns": r.start_ns, "end_ns": r.end_ns} for r in memcpys.itertuples()]
    ops = ops_table([*copies, {"kind": "kernel", "start_ns": 250_000, "end_ns": 450_000}])
    assert s["hidden_copy_share"](ops) == {0: 0.2}


def test_ex03b() -> None:
    s = names_of(solution("ex03b"))
    assert s["finish_times"]([[10, 20, 5], [10, 20, 5]]) == [[10, 30, 35], [20, 50, 55]]
    assert s["pipelined_ns"]([20, 40, 10], 2, 0) == 55.0
    assert s["pipelined_ns"]([20, 40, 10], 2, 3) == 67.0
    assert s["best_chunks"]([20, 40, 10], 3, 8) == 3


def test_ex04a() -> None:
    s = names_of(solution("ex04a"))
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
    rows = [(0, 100, 0, "gemm"), (60, 180, 0, nccl), (0, 140, 1, "gemm"), (140, 180, 1, nccl)]
    kernels = table([{"start_ns": a, "end_ns": b, "device": d, "name": n} for a, b, d, n in rows], "kernels")
    assert s["communication"](kernels) == {0: (120, 80), 1: (40, 40)}
    assert s["lateness_ns"](kernels) == {0: 0, 1: 80}
    assert s["straggler"](kernels) == 1


def test_ex04b() -> None:
    s = names_of(solution("ex04b"))
    layers = [(100, 400), (100, 400), (100, 200)]
    assert s["buckets"](layers, 500) == [(200, 800), (300, 200)]
    assert s["exposed_ns"](layers, 500, 30, 10.0) == 60.0
    assert s["exposed_ns"](layers, 10_000, 30, 10.0) == 130.0
    assert s["best_bucket_bytes"](layers, [500, 10_000], 30, 10.0) == 500
