"""The worked example of each starter, as its text gives it, run on the solution."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labcode.grading.inputs import ops_table, table
from labcode.verbs.diagnose.verdicts import run
from tests.exercises.support import ROOT, names_of, part, solution
from tests.support import exports as e


def test_ex01a() -> None:
    s = names_of(solution("nsys-ex01a"))
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
    s = names_of(solution("nsys-ex01b"))
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
    s = names_of(solution("nsys-ex02a"))
    rows = [(10, 40, 7), (20, 60, 13), (60, 70, 7)]
    kernels = table([{"start_ns": a, "end_ns": b, "stream": c} for a, b, c in rows], "kernels")
    assert s["time_at_least"](kernels) == {0: [60, 20]}
    assert s["average_concurrency"](kernels) == {0: pytest.approx(4 / 3)}
    assert s["overlapping_streams"](kernels) == {0: 2}


def test_ex02b() -> None:
    s = names_of(solution("nsys-ex02b"))
    ran, called = [(20, 50), (52, 90), (120, 140)], [(10, 15), (16, 22), (105, 112)]
    kernels = table(
        [{"start_ns": a, "end_ns": b, "correlation": n} for n, (a, b) in enumerate(ran, 1)], "kernels"
    )
    api = table([{"start_ns": a, "end_ns": b, "correlation": n} for n, (a, b) in enumerate(called, 1)], "api")
    assert s["launch_bound_share"](kernels, api) == {0: 0.5}
    assert s["waited_for"](kernels, api, 10) == {"launch": 2, "stream": 1, "room": 0}
    assert s["diagnose"](kernels, api) == "launch"


def test_ex03a() -> None:
    s = names_of(solution("nsys-ex03a"))
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
    s = names_of(solution("nsys-ex03b"))
    assert s["finish_times"]([[10, 20, 5], [10, 20, 5]]) == [[10, 30, 35], [20, 50, 55]]
    assert s["pipelined_ns"]([20, 40, 10], 2, 0) == 55.0
    assert s["pipelined_ns"]([20, 40, 10], 2, 3) == 67.0
    assert s["best_chunks"]([20, 40, 10], 3, 8) == 3


def test_ex04a() -> None:
    s = names_of(solution("nsys-ex04a"))
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
    rows = [(0, 100, 0, "gemm"), (60, 180, 0, nccl), (0, 140, 1, "gemm"), (140, 180, 1, nccl)]
    kernels = table([{"start_ns": a, "end_ns": b, "device": d, "name": n} for a, b, d, n in rows], "kernels")
    assert s["communication"](kernels) == {0: (120, 80), 1: (40, 40)}
    assert s["lateness_ns"](kernels) == {0: 0, 1: 80}
    assert s["straggler"](kernels) == 1


def test_ex04b() -> None:
    s = names_of(solution("nsys-ex04b"))
    layers = [(100, 400), (100, 400), (100, 200)]
    assert s["buckets"](layers, 500) == [(200, 800), (300, 200)]
    assert s["exposed_ns"](layers, 500, 30, 10.0) == 60.0
    assert s["exposed_ns"](layers, 10_000, 30, 10.0) == 130.0
    assert s["best_bucket_bytes"](layers, [500, 10_000], 30, 10.0) == 500


def test_advanced_ex03a(tmp_path: Path) -> None:
    s = names_of(solution("advanced-ex03a"), "advanced-ex03a")
    kernels = tmp_path / "loop_cuda_gpu_kern_sum.csv"
    kernels.write_text('Time (%),Total Time (us),Name\n75.0,1.5,"gemm<float, 4>(int)"\n25.0,0.5,scale(int)\n')
    calls = "Total Time (ns),Num Calls,Name\n700,2,cudaStreamSynchronize\n300,9,cudaLaunchKernel\n"
    (tmp_path / "loop_cuda_api_sum.csv").write_text(calls)
    assert s["split_name"]("loop_cuda_gpu_kern_sum.csv") == ("loop", "cuda_gpu_kern_sum")
    assert s["split_name"]("README.md") is None
    assert s["times_ns"](kernels) == {"gemm<float, 4>(int)": 1500.0, "scale(int)": 500.0}
    assert s["where_time_goes"](tmp_path) == {"loop": {"kernels": 2000.0, "copies": None, "waits": 700.0}}
    assert s["top_kernels"](tmp_path, 1) == [("gemm<float, 4>(int)", 1500.0, 1)]


def asked(short: str, export: Path, *columns: str) -> list[list[object]]:
    return names_of(solution(short), short)["answer"](export, list(columns))  # type: ignore[no-any-return]


def test_advanced_ex04a(tmp_path: Path) -> None:
    kernels = [
        e.kernel(100, 140, pid=310, correlation=1),
        e.kernel(100, 140, pid=77, correlation=1),
        e.kernel(150, 160, pid=310, correlation=2),
    ]
    export = e.make_export(tmp_path / "a.sqlite", kernels=kernels)
    columns = "pid", "device", "context", "stream", "kernels", "total_ns"
    assert asked("advanced-ex04a", export, *columns) == [[77, 0, 1, 7, 1, 40], [310, 0, 1, 7, 2, 50]]


def test_advanced_ex04b(tmp_path: Path) -> None:
    ranges = [
        e.push_pop(0, 100, "step"),
        e.push_pop(120, 150, "step"),
        e.start_end(0, None, "epoch", registered=True),
        e.mark(5, "start"),
    ]
    export = e.make_export(tmp_path / "a.sqlite", nvtx=ranges)
    found = asked("advanced-ex04b", export, "range", "instances", "open", "total_ns")
    assert found == [["step", 2, 0, 130], ["epoch", 1, 1, 0]]


def test_advanced_ex04c(tmp_path: Path) -> None:
    export = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[
            e.kernel(50, 60, "scale(int)", correlation=1),
            e.kernel(90, 95, "scale(int)", correlation=8),
        ],
        api=[e.call(20, 30, correlation=1), e.call(0, 5, correlation=1, pid=7)],
    )
    found = asked("advanced-ex04c", export, "kernel", "kernels", "launched", "mean_wait_ns")
    assert found == [["scale", 2, 1, 30.0]]


def test_advanced_ex04d(tmp_path: Path) -> None:
    export = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(90, 120)],
        memcpys=[e.memcpy(110, 130)],
        graphs=[e.graph_launch(160, 170)],
        memsets=[e.memset(165, 180, pid=7)],
        nvtx=[e.push_pop(100, 190, "lab:measured"), e.push_pop(105, 200, "lab:measured", pid=7)],
    )
    assert asked("advanced-ex04d", export, "device", "busy_ns", "idle_ns") == [[0, 50, 50]]


def test_advanced_ex05a() -> None:
    s = names_of(solution("advanced-ex05a"))
    main, work = ("main", "a.py"), ("work", "a.py")
    stacks = {1: [main, work], 2: [main, work, work], 3: [main]}
    samples = pd.DataFrame({"sample": [1, 2, 3], "thread_state": ["running", "running", "blocking wait"]})
    frames = pd.DataFrame(
        [
            (number, depth, *frame)
            for number, stack in stacks.items()
            for depth, frame in enumerate(stack[::-1])
        ],
        columns=["sample", "depth", "function", "file"],
    )
    assert s["folded"](samples, frames) == {
        "main (a.py);work (a.py)": 1,
        "main (a.py);work (a.py);work (a.py)": 1,
    }
    assert s["times"](samples, frames) == {"main (a.py)": (0, 2), "work (a.py)": (2, 2)}
    assert s["interval"](2, 8) == pytest.approx((0.0715, 0.5907), abs=1e-4)


def test_advanced_ex05b(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "solutions/advanced/ex05_cpu_sampling"))  # it imports part a
    s = names_of(solution("advanced-ex05b"), "advanced-ex05b")
    running = pd.DataFrame(
        [(7, 7, -20, 90), (7, 8, 10, 30), (9, 8, 95, 300)], columns=["pid", "tid", "start_ns", "end_ns"]
    )
    samples = pd.DataFrame(
        [(1, 20, 7, 7, "running"), (2, 40, 7, 7, "running")],
        columns=["sample", "start_ns", "pid", "tid", "thread_state"],
    )
    frames = pd.DataFrame(
        [(1, 0, "loads", "json.py"), (1, 1, "decode", "app/d.py"), (1, 2, "main", "app/m.py")]
        + [(2, 0, "main", "app/m.py")],
        columns=["sample", "depth", "function", "file"],
    )
    assert s["busy_threads"](running, (0, 100)) == [(7, 7)]
    assert s["cause"](samples, frames, running, (0, 100), "app/") == {
        "function": "decode (app/d.py)",
        "share": 0.5,
        "low": pytest.approx(0.0945, abs=1e-4),
        "high": pytest.approx(0.9055, abs=1e-4),
        "speedup": 2.0,
    }


def test_advanced_ex06a() -> None:
    s = names_of(solution("advanced-ex06a"), "advanced-ex06a")
    calls = os_calls(
        [
            (0, 300, 7, 7, "fread", "read"),
            (50, 250, 7, 7, "read", "read"),
            (500, 900, 7, 7, "flock", "lock"),
            (-900, 1200, 7, 8, "sem_wait", "lock"),
        ]
    )
    assert s["waits"](calls, one_gap(100, 600), (0, 1000)) == [(7, 7, "lock", 100), (7, 7, "read", 200)]


def test_advanced_ex06b() -> None:
    s = names_of(solution("advanced-ex06b"), "advanced-ex06b")
    calls = os_calls(
        [
            (90, 510, 1, 1, "sem_wait", "lock"),
            (100, 110, 7, 7, "open64", "file"),
            (110, 410, 7, 7, "flock", "lock"),
            (410, 480, 7, 7, "fsync", "sync"),
            (100, 120, 8, 8, "open64", "file"),
            (120, 400, 8, 8, "fsync", "sync"),
            (420, 500, 8, 8, "flock", "lock"),
        ]
    )
    found = s["cause"](calls, one_gap(100, 500), (0, 1000))
    assert found == {"call": "flock", "share": pytest.approx(0.475), "behind": "fsync"}


def os_calls(rows: list[tuple[int, int, int, int, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["start_ns", "end_ns", "pid", "tid", "name", "call_class"])


def one_gap(start: int, end: int) -> pd.DataFrame:
    return pd.DataFrame({"start_ns": [start], "end_ns": [end], "device": [0]})


def test_advanced_ex07a() -> None:
    s = names_of(solution("advanced-ex07a"), "advanced-ex07a")
    quiet = [10.1, 9.9, 10.0, 10.2, 9.8, 10.0, 10.1]
    again = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.1]
    longer = [12.1, 11.9, 12.0, 12.2, 11.8, 12.0, 12.1]
    assert s["verdict"](quiet, longer, 0.05) == "slower"
    assert s["verdict"](longer, quiet, 0.05) == "faster"
    assert s["verdict"](quiet, again, 0.05) == "no change"
    assert s["verdict"](quiet, longer[:3], 0.05) == "too few"


def test_advanced_ex07b() -> None:
    s = names_of(solution("advanced-ex07b"), "advanced-ex07b")
    rows = [
        (100, 71, "step 0"),
        (110, 71, "forward"),
        (300, 71, "step 1"),
        (150, 72, "step 0"),
        (390, 72, "step 1"),
        (640, 72, "step 2"),
    ]
    ranges = table([{"start_ns": a, "pid": p, "tid": p, "name": n} for a, p, n in rows], "nvtx")
    assert s["periods"](ranges) == [200.0, 240.0, 250.0]


def test_advanced_ex08a(tmp_path: Path) -> None:
    s = names_of(solution("advanced-ex08a"), "advanced-ex08a")
    export = e.make_export(
        tmp_path / "a.sqlite",
        memcpys=[e.memcpy(0, 200, kind=1), e.memcpy(880, 1000, kind=2)],
        kernels=[e.kernel(150, 900)],
        nvtx=[e.push_pop(0, 1000, "lab:measured")],
    )
    assert s["say"](export) == {"status": "found", "share": 0.25, "gain": 0.25, "evidence": [200, 120]}


def test_scaling_ex01a() -> None:
    s = names_of(solution("scaling-ex01a"))
    assert s["first_steady"]([90.0, 50.0, 31.0, 30.0, 30.0, 29.0], 0.1) == 2
    one = {"gpus": 1, "batch": 32, "precision": "bf16"}
    assert s["unfair"](one, one | {"gpus": 2, "batch": 16}, "strong") == []
    assert s["unfair"](one, one | {"gpus": 2, "precision": "fp32"}, "strong") == ["batch", "precision"]


def test_scaling_ex02a() -> None:
    s = names_of(solution("scaling-ex02a"))
    times = {1: 80.0, 2: 50.0, 4: 40.0}
    assert s["scaling"](times, "strong") == {1: (1.0, 1.0), 2: (1.6, 0.8), 4: (2.0, 0.5)}
    assert s["drops_at"](times, "strong", 0.75) == 4
    assert s["serial_share"](times) == pytest.approx(0.3077, abs=1e-4)


def test_scaling_ex03a() -> None:
    s = names_of(solution("scaling-ex03a"))
    assert s["best_bucket"]([100.0, 50.0], 100.0, 10.0, 100.0, 100.0) == pytest.approx((50.0, 0.6))


def test_the_rule_can_be_used_by_the_command(tmp_path: Path) -> None:
    exercise, found = part("advanced-ex08a")
    export = e.make_export(tmp_path / "a.sqlite", memcpys=[e.memcpy(0, 200)], kernels=[e.kernel(150, 900)])
    output = io.StringIO()
    file = ROOT / "solutions" / exercise.path(found)
    run(export, fmt="json", only=["exposed-copies"], rule_files=[file], window="0ms..", output=output)
    assert json.loads(output.getvalue())["verdicts"][0]["status"] == "found"


def test_compute_ex08a() -> None:
    s = names_of(solution("compute-ex08a"))
    assert s["copied"](1, 4, 3, 2) == [(0, 1), (2, 1)]
    assert s["square"](3, 4, 2, 2) == (2, 2)
    assert s["loads"](2, 2, 2, 2, 1) == [("A", 2, 0), ("A", 3, 0), ("B", 0, 2), ("B", 0, 3)]
    assert s["words"](2, 2, 1) == 1.0
    assert s["best"]([(8, 8), (2, 2)], 60, 20, 1) == (2, 2)
    tile = [[1.0, 2.0], [3.0, 4.0]]
    assert s["multiply"]([[10.0]], tile, tile, 1, 0) == [[10.0 + 3 * 1 + 4 * 3]]


def test_compute_ex09a() -> None:
    s = names_of(solution("compute-ex09a"))
    assert s["turn"](5, 4) == (1, 1, 0)
    assert s["schedule"](3, 1, 10, 50, 20) == [(0, 50, 70), (70, 120, 140), (140, 190, 210)]
    assert s["schedule"](3, 2, 10, 50, 20) == [(0, 50, 70), (10, 60, 90), (70, 120, 140)]
    assert s["enough"](3, 10, 50, 20) == 3
    column = [(row, 2) for row in range(8)]
    assert (s["turns"](column, False), s["turns"](column, True)) == (8, 1)
    assert sorted(s["address"](1, chunk) for chunk in range(8)) == list(range(128, 256, 16))


def test_compute_ex10a() -> None:
    s = names_of(solution("compute-ex10a"))
    first = s["add"]((-float("inf"), 0.0, [0.0]), [0.0, 1.0], [[1.0], [2.0]])
    assert first[0] == 1.0 and first[1] == pytest.approx(1.3679, abs=1e-4)
    assert first[2] == pytest.approx([2.3679], abs=1e-4)
    second = s["add"](first, [2.0], [[3.0]])
    assert (second[0], second[1], second[2][0]) == pytest.approx((2.0, 1.5032, 3.8711), abs=1e-4)
    lazy = s["add_lazily"](first, [2.0], [[3.0]], 2.0)
    assert (lazy[0], lazy[1], lazy[2][0]) == pytest.approx((1.0, 4.0862, 10.5227), abs=1e-4)
    assert s["finish"](second) == pytest.approx([2.5752], abs=1e-4)
    assert s["finish"](lazy) == pytest.approx([2.5752], abs=1e-4)


def test_compute_ex10b() -> None:
    s = names_of(solution("compute-ex10b"))
    assert s["softmax"]([1000.0, 1000.0]) == [0.5, 0.5]
    assert s["log_sum_exp"]([1000.0, 1000.0]) == pytest.approx(1000.6931, abs=1e-4)
    assert s["cross_entropy"]([0.0, 1000.0], 0) == 1000.0
    assert s["in_half"]([60000.0, 60000.0]) == [0.5, 0.5]


def test_compute_ex12a() -> None:
    s = names_of(solution("compute-ex12a"))
    row = np.array([[448.0, -896.0, 0.0]])
    assert s["scales"](row, 2).tolist() == [[2.0, 1.0]]
    assert s["narrowed"](row, np.array([[2.0, 1.0]]), 2).tolist() == [[224.0, -448.0, 0.0]]
    numbers = [[1.0, 2.0, 3.0]], [[1.0, 1.0, 1.0]], [[2.0, 10.0]], [[1.0, 0.5]]
    assert s["product"](*map(np.array, numbers), 2).tolist() == [[21.0]]


def test_serving_ex35a() -> None:
    s = names_of(solution("serving-ex35a"))
    keys, values = [[[2.0], [9.0]], [[0.0], [1.0]]], [[[30.0], [99.0]], [[10.0], [20.0]]]
    pool = (np.array([1.0]), np.array(keys), np.array(values), np.array([1, 0]))
    parts = [s["part"](*pool, 0, 2), s["part"](*pool, 2, 3)]
    assert parts[0][:2] == pytest.approx((1.0, 1.3679), abs=1e-4)
    assert parts[0][2] == pytest.approx([23.6788], abs=1e-4)
    assert parts[1] == (2.0, 1.0, [30.0])
    assert s["join"](parts) == pytest.approx([25.7521], abs=1e-4)


def test_compute_ex11a() -> None:
    s = names_of(solution("compute-ex11a"))
    columns = ["kernel", "duration_ns", "blocks", "sms", "matrix_loads"]
    columns += ["shared_turns", "local_requests", "tensor_pct"]
    rows = [
        ("K1", 1000, 264, 132, 100, 800, 0, 20.0),
        ("K2", 4000, 33, 132, 100, 400, 0, 50.0),
        ("K3", 2000, 264, 132, 100, 400, 10, 45.0),
    ]
    table = pd.DataFrame(rows, columns=columns)
    wanted = {"idle multiprocessors": 0.0, "bank conflicts": 0.5, "spills": 0.0}
    assert s["evidence"](table.to_dict("records")[0]) == wanted
    found = s["diagnosis"](table)
    causes = ["bank conflicts", "idle multiprocessors", "no overlap"]
    assert [cause for cause, _ in found.values()] == causes
    assert [share for _, share in found.values()] == pytest.approx([0.5, 0.75, 0.55])
    assert s["first"](table) == "K2"


def test_compute_ex08b() -> None:
    s = names_of(solution("compute-ex08b"))
    columns = ["kernel", "duration_ns", "multiply_adds", "shared_loads", "shared_turns"]
    columns += ["wait_memory", "wait_barrier"]
    rows = [
        ("K1", 9000, 1600, 1600, 2000, 3.0, 1.0),
        ("K2", 2000, 1600, 100, 350, 0.1, 0.2),
        ("K3", 4000, 1600, 100, 600, 1.5, 0.5),
        ("K4", 8000, 1600, 3200, 4000, 2.0, 0.5),
    ]
    table = pd.DataFrame(rows, columns=columns)
    launches = table.to_dict("records")
    assert s["uses"](launches[0]) == (1.0, 1.25)
    assert s["next_step"](launches[2]) == "fewer turns"
    assert s["climb"](table) == ["K1", "K4", "K3", "K2"]
