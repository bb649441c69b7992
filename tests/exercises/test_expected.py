"""The right answers against slow ones that look at every nanosecond, on small random inputs."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from labcode.grading import inputs
from tests.exercises.support import names_of, solution

SEEDS = range(12)


def ops_of(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(int(rng.integers(0, 14))):
        start = int(rng.integers(0, 60))
        rows.append(
            {
                "kind": str(rng.choice(["kernel", "memcpy", "memset"])),
                "name": str(rng.choice(["ncclDevKernel_AllReduce", "gemm", "NCCL_old"])),
                "start_ns": start,
                "end_ns": start + int(rng.integers(1, 20)),
                "pid": int(rng.choice([1, 2])),
                "device": int(rng.choice([0, 3])),
                "stream": int(rng.choice([7, 8])),
                "correlation": index,
            }
        )
    return inputs.ops_table(rows)


def moments(ops: pd.DataFrame) -> set[int]:
    return {t for row in ops.itertuples() for t in range(row.start_ns, row.end_ns)}


def devices(ops: pd.DataFrame) -> list[int]:
    return sorted(int(d) for d in set(ops["device"]))


@pytest.mark.parametrize("seed", SEEDS)
def test_idle_and_gaps(seed: int) -> None:
    idle_names = names_of(solution("nsys-ex01a"))
    ops, window = ops_of(seed), (5, 65)
    gaps = idle_names["longest_gaps"](ops, window, 10**6)
    inside = set(range(*window))
    for device in devices(ops):
        mine = ops[ops["device"] == device]
        busy = moments(mine) & inside
        assert idle_names["gpu_idle_share"](ops, window)[device] == pytest.approx(1 - len(busy) / 60)
        covered = {t for start, end in idle_names["busy_intervals"](mine, window) for t in range(start, end)}
        assert covered == busy
        idle = {t for d, start, end in gaps if d == device for t in range(start, end)}
        assert idle == inside - busy
    lengths = [end - start for _, start, end in gaps]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_concurrency(seed: int) -> None:
    s = names_of(solution("nsys-ex02a"))
    ops = ops_of(seed)
    for device in devices(ops):
        mine = ops[ops["device"] == device]
        running = Counter(t for row in mine.itertuples() for t in range(row.start_ns, row.end_ns))
        most = max(running.values())
        slow = [sum(1 for count in running.values() if count >= k) for k in range(1, most + 1)]
        assert s["time_at_least"](ops)[device] == slow
        average = sum(running.values()) / len(running)
        assert s["average_concurrency"](ops)[device] == pytest.approx(average)
        streams = {key: moments(rows) for key, rows in mine.groupby(["pid", "stream"])}
        overlapping = [a for a in streams if any(streams[a] & streams[b] for b in streams if b != a)]
        assert s["overlapping_streams"](ops)[device] == len(overlapping)


@pytest.mark.parametrize("seed", SEEDS)
def test_hidden_copies_and_exposed_communication(seed: int) -> None:
    ops = ops_of(seed)
    shares = names_of(solution("nsys-ex03a"))["hidden_copy_share"](ops)
    communication = names_of(solution("nsys-ex04a"))["communication"]
    for device in devices(ops):
        mine = ops[ops["device"] == device]
        copies, kernels = moments(mine[mine["kind"] == "memcpy"]), moments(mine[mine["kind"] == "kernel"])
        if copies:
            assert shares[device] == pytest.approx(len(copies & kernels) / len(copies))
        else:
            assert device not in shares
        collective = mine["name"].str.lower().str.contains("nccl")
        talk, compute = moments(mine[collective]), moments(mine[~collective])
        assert communication(ops)[device] == (len(talk), len(talk - compute))


@pytest.mark.parametrize("seed", SEEDS)
def test_pipeline(seed: int) -> None:
    s = names_of(solution("nsys-ex03b"))
    rng = np.random.default_rng(seed)
    stages = rng.integers(1, 9, (int(rng.integers(1, 6)), int(rng.integers(1, 4)))).astype(float).tolist()
    done: dict[tuple[int, int], float] = {}
    position = [0] * len(stages)  # the stage each chunk is in
    free = [0.0] * len(stages[0])
    for chunk, times in enumerate(stages):  # one event after another: chunk by chunk, stage by stage
        now = 0.0
        for stage, ns in enumerate(times):
            begin = max(now, free[stage])
            now = free[stage] = begin + ns
            done[chunk, stage] = now
            position[chunk] += 1
    slow = [[done[c, stage] for stage in range(len(stages[0]))] for c in range(len(stages))]
    assert s["finish_times"](stages) == slow
    whole, chunks, overhead = (
        [float(x) for x in rng.integers(5, 50, 3)],
        int(rng.integers(1, 9)),
        float(rng.integers(0, 5)),
    )
    each = [[ns / chunks + overhead for ns in whole]] * chunks
    rule = sum(each[0]) + (chunks - 1) * max(each[0])
    assert s["pipelined_ns"](whole, chunks, overhead) == pytest.approx(rule)
    times = {n: s["pipelined_ns"](whole, n, overhead) for n in range(1, 30)}
    assert times[s["best_chunks"](whole, overhead, 29)] == min(times.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_buckets(seed: int) -> None:
    s = names_of(solution("nsys-ex04b"))
    rng = np.random.default_rng(seed)
    layers = [(float(rng.integers(1, 9)), int(rng.integers(1, 9))) for _ in range(int(rng.integers(1, 8)))]
    limit = int(rng.integers(1, 20))
    got = s["buckets"](layers, limit)
    assert sum(size for _, size in got) == sum(size for _, size in layers)
    assert all(size >= limit for _, size in got[:-1])
    assert got[-1][0] == sum(backward for backward, _ in layers)
    one_bucket = 2.0 + sum(size for _, size in layers)
    assert s["exposed_ns"](layers, 10**9, 2.0, 1.0) == pytest.approx(one_bucket)


def test_lateness_takes_the_collectives_every_device_has() -> None:
    s = names_of(solution("nsys-ex04a"))
    rows = [
        {"name": "ncclDevKernel", "device": device, "start_ns": start, "end_ns": 100}
        for device, starts in ((0, (10, 50, 90)), (1, (14, 43)))
        for start in starts
    ]
    assert s["lateness_ns"](inputs.table(rows, "kernels")) == {0: 7, 1: 4}
    assert s["straggler"](inputs.table(rows, "kernels")) == 0
    assert s["lateness_ns"](inputs.table([], "kernels")) == {}
