"""The answers that graders compare with: hidden inputs in, what `labcode.analysis` says of them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from labcode.analysis import intervals
from labcode.analysis.overlap import copy_compute_overlap
from labcode.analysis.transfers import transfer_summary
from labcode.analysis.utilization import device_busy, idle_gaps

Times = npt.NDArray[np.int64]
Window = tuple[int, int]
Thread = tuple[int, int]
UNATTRIBUTED, NO_RANGE = "(unattributed)", "(no range)"


def spans(frame: pd.DataFrame) -> tuple[Times, Times]:
    """The start and end times of a table's rows."""
    return frame["start_ns"].to_numpy(np.int64), frame["end_ns"].to_numpy(np.int64)


def per_device(frame: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each device, devices in ascending order."""
    for device in sorted(frame["device"].unique().tolist()):
        yield int(device), frame[frame["device"] == device]


def busy_intervals(ops: pd.DataFrame, window: Window) -> list[Window]:
    """ex01: the union of the operations inside of the window."""
    starts, ends = intervals.union(*intervals.clip(*spans(ops), window))
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def idle_share(ops: pd.DataFrame, window: Window) -> dict[int, float]:
    """ex01: the idle share of each device."""
    busy = device_busy(ops, window)
    return dict(zip(busy["device"].tolist(), busy["idle_share"].tolist(), strict=True))


def gaps(ops: pd.DataFrame, window: Window) -> list[tuple[int, int, int]]:
    """ex01: all gaps, longest first; then earlier first, then lower device first."""
    found = idle_gaps(ops, window)
    rows = zip(*(found[name].tolist() for name in ("device", "start_ns", "end_ns")), strict=True)
    return sorted(rows, key=lambda gap: (gap[1] - gap[2], gap[1], gap[0]))


@dataclass(frozen=True)
class Scene:
    """ex01: the three tables made ready for many questions.

    ``starts`` and ``calls`` find operations and calls by their keys.
    """

    ops: pd.DataFrame
    starts: Mapping[tuple[int, int], tuple[int, int]]
    calls: Mapping[tuple[int, int], Thread]
    any_process: Mapping[int, Thread]
    ranges: Mapping[Thread, tuple[Times, Times, list[str]]]


def scene(ops: pd.DataFrame, api: pd.DataFrame, nvtx: pd.DataFrame) -> Scene:
    """ex01: index operations by (device, start), calls by (pid, correlation), push/pop ranges by thread."""
    starts: dict[tuple[int, int], tuple[int, int]] = {}
    for device, start, pid, correlation in _rows(ops, "device", "start_ns", "pid", "correlation"):
        starts.setdefault((device, start), (pid, correlation))
    calls: dict[tuple[int, int], Thread] = {}
    any_process: dict[int, Thread] = {}
    for pid, correlation, tid in _rows(api, "pid", "correlation", "tid"):
        calls.setdefault((pid, correlation), (pid, tid))
        any_process.setdefault(correlation, (pid, tid))
    closed = nvtx[(nvtx["event_type"] == "push_pop") & nvtx["end_ns"].notna()].astype({"end_ns": "int64"})
    ranges = {}
    for thread, mine in closed.sort_values(["start_ns", "end_ns"], ascending=[True, False]).groupby(
        ["pid", "tid"]
    ):
        ranges[_thread(thread)] = (*spans(mine), [str(name) for name in mine["name"]])
    return Scene(ops, starts, calls, any_process, ranges)


def launcher(scene: Scene, device: int, time_ns: int, *, process: bool = True) -> Thread | None:
    """ex01: the thread whose call launched the operation that starts there.

    ``process=False`` forgets the process key.
    """
    op = scene.starts.get((device, time_ns))
    if op is None:
        return None
    return scene.calls.get(op) if process else scene.any_process.get(op[1])


def open_ranges(scene: Scene, thread: Thread, time_ns: int) -> list[str]:
    """ex01: the names of the push/pop ranges open on a thread at a moment, outermost first."""
    if thread not in scene.ranges:
        return []
    starts, ends, names = scene.ranges[thread]
    return [names[i] for i in np.flatnonzero((starts <= time_ns) & (time_ns < ends))]


def range_at(scene: Scene, thread: Thread, time_ns: int) -> str:
    """ex01: the innermost of the open ranges."""
    return (open_ranges(scene, thread, time_ns) or [NO_RANGE])[-1]


def idle_by_range(
    scene: Scene,
    window: Window,
    *,
    at: Literal["start", "middle", "end"] = "middle",
    process: bool = True,
    innermost: bool = True,
) -> dict[str, int]:
    """ex01: idle time by range. The flags ask for what typical mistakes give."""
    idle: dict[str, int] = {}
    for device, start, end in gaps(scene.ops, window):
        thread = launcher(scene, device, end, process=process)
        moment = {"start": start, "middle": (start + end) // 2, "end": end - 1}[at]
        opened = open_ranges(scene, thread, moment) if thread else [UNATTRIBUTED]
        name = (opened or [NO_RANGE])[-1 if innermost else 0]
        idle[name] = idle.get(name, 0) + end - start
    return idle


def activity(
    api: pd.DataFrame, pid: int | None, tid: int | None, start_ns: int, end_ns: int, *, cut: bool = True
) -> dict[str, int]:
    """ex01: how a thread (None: every thread) spent a stretch; ``cut=False`` forgets to cut calls to it."""
    mine = api[((api["pid"] == pid) | (pid is None)) & ((api["tid"] == tid) | (tid is None))]
    spent = {}
    waits = mine["name"].str.contains("Synchronize")
    for key, calls in (("waiting", mine[waits]), ("calling", mine[~waits])):
        touching = calls[(calls["start_ns"] < end_ns) & (calls["end_ns"] > start_ns)]
        starts, ends = spans(touching)
        spent[key] = int(
            (ends - starts).sum()
            if not cut
            else (np.minimum(ends, end_ns) - np.maximum(starts, start_ns)).sum()
        )
    spent["computing"] = end_ns - start_ns - spent["waiting"] - spent["calling"]
    return spent


def diagnosis(scene: Scene, api: pd.DataFrame, window: Window) -> tuple[str, str]:
    """ex01: the range with the most idle time, and what its thread did most in those gaps."""
    idle = idle_by_range(scene, window)
    place = max((name for name in idle if name not in (UNATTRIBUTED, NO_RANGE)), key=lambda name: idle[name])
    spent = {"waiting": 0, "calling": 0, "computing": 0}
    for device, start, end in gaps(scene.ops, window):
        thread = launcher(scene, device, end)
        if thread is not None and range_at(scene, thread, (start + end) // 2) == place:
            for key, ns in activity(api, *thread, start, end).items():
                spent[key] += ns
    return place, max(spent, key=lambda key: spent[key])


def _rows(frame: pd.DataFrame, *names: str) -> Iterator[tuple[int, ...]]:
    return zip(*(frame[name].tolist() for name in names), strict=True)


def _thread(key: Any) -> Thread:
    return int(key[0]), int(key[1])


# --- ex02


def time_at_least(kernels: pd.DataFrame) -> dict[int, list[int]]:
    """ex02: per device, the time with at least 1, 2, … kernels running."""
    answer = {}
    for device, mine in per_device(kernels):
        starts, ends, level = intervals.concurrency(*spans(mine))
        lasts = ends - starts
        answer[device] = [int(lasts[level >= k].sum()) for k in range(1, int(level.max(initial=0)) + 1)]
    return answer


def average_concurrency(kernels: pd.DataFrame) -> dict[int, float]:
    """ex02: per device, the mean number of kernels running while any runs."""
    return {device: sum(times) / times[0] for device, times in time_at_least(kernels).items()}


def overlapping_streams(kernels: pd.DataFrame) -> dict[int, int]:
    """ex02: per device, the number of streams with a kernel that overlaps one of another stream."""
    answer = {}
    for device, mine in per_device(kernels):
        starts, ends = spans(mine)
        stream = mine.groupby(["pid", "stream"]).ngroup().to_numpy()
        answer[device] = sum(
            intervals.total(*intervals.intersect(starts[own], ends[own], starts[~own], ends[~own])) > 0
            for own in (stream == number for number in np.unique(stream))
        )
    return answer


def with_launches(
    kernels: pd.DataFrame, api: pd.DataFrame, *, process: bool = True, at: str = "end_ns"
) -> pd.DataFrame:
    """ex02: kernels by start, with when their launch returned (or began, for a typical mistake)."""
    keys = ["pid", "correlation"] if process else ["correlation"]
    calls = (
        api[[*keys, at if at != "kernel" else "end_ns"]]
        .drop_duplicates(keys)
        .astype({at if at != "kernel" else "end_ns": "Int64"})
    )
    calls.columns = pd.Index([*keys, "launched_ns"])
    joined = kernels.merge(calls, on=keys, how="left").sort_values(
        "start_ns", kind="stable", ignore_index=True
    )
    return joined.assign(launched_ns=joined["start_ns"].astype("Int64")) if at == "kernel" else joined


def launch_bound_share(
    kernels: pd.DataFrame,
    api: pd.DataFrame,
    *,
    process: bool = True,
    at: str = "end_ns",
    latest: bool = True,
    first: bool = False,
) -> dict[int, float]:
    """ex02: per device, the share of kernels that found it empty.

    The flags ask for what typical mistakes give.
    """
    shares = {}
    for device, mine in per_device(with_launches(kernels, api, process=process, at=at)):
        ends = mine["end_ns"].to_numpy(np.int64)
        before = np.concatenate([[-1], (np.maximum.accumulate(ends) if latest else ends)[:-1]])
        known = mine["launched_ns"].notna().to_numpy() & ((before >= 0) | first)
        launched = mine["launched_ns"].fillna(0).to_numpy(np.int64)
        shares[device] = float((before[known] <= launched[known]).mean()) if known.any() else 0.0
    return shares


def waited_for(
    kernels: pd.DataFrame,
    api: pd.DataFrame,
    slack_ns: int,
    *,
    process: bool = True,
    keys: tuple[str, ...] = ("pid", "device", "stream"),
    unknown: bool = False,
) -> dict[str, int]:
    """ex02: how many kernels waited for what. The flags ask for what typical mistakes give."""
    joined = with_launches(kernels, api, process=process)
    before = joined.groupby(list(keys))["end_ns"].cummax().groupby([joined[key] for key in keys]).shift(1)
    freed = before.fillna(-1).to_numpy(np.float64)
    known = joined["launched_ns"].notna().to_numpy()
    launched = joined["launched_ns"].fillna(-1).to_numpy(np.float64)
    room = joined["start_ns"].to_numpy() > np.maximum(launched, freed) + slack_ns
    counted = known | unknown
    stream = ~room & (freed > launched)
    return {
        "launch": int((counted & ~room & ~stream).sum()),
        "stream": int((counted & stream).sum()),
        "room": int((counted & room).sum()),
    }


def overlap_diagnosis(kernels: pd.DataFrame, api: pd.DataFrame, slack_ns: int) -> str:
    """ex02: what most kernels waited for."""
    counts = waited_for(kernels, api, slack_ns)
    return max(counts, key=lambda key: counts[key]) if any(counts.values()) else "unknown"


# --- ex03


def achieved_gb_per_s(memcpys: pd.DataFrame) -> dict[tuple[str, str], float]:
    """ex03: the rate of the copies by direction and kind of host memory."""
    summary = transfer_summary(memcpys[memcpys["copy_kind"].isin(["H2D", "D2H"])])
    keys = zip(summary["copy_kind"], summary["host_memory"], strict=True)
    return dict(zip(keys, summary["gb_per_s"].tolist(), strict=True))


def hidden_copy_share(ops: pd.DataFrame) -> dict[int, float]:
    """ex03: per device that copies, the share of its copying time with a kernel beside it."""
    overlap = copy_compute_overlap(ops[ops["kind"] != "graph"])
    copying = overlap[overlap["copy_ns"] > 0]
    return dict(zip(copying["device"].tolist(), copying["hidden_share"].tolist(), strict=True))


def finish_times(stage_ns: list[list[float]]) -> list[list[float]]:
    """ex03: when each chunk leaves each stage."""
    free = [0.0] * max((len(times) for times in stage_ns), default=0)
    for_chunk = []
    for times in stage_ns:
        arrived = 0.0
        for stage, ns in enumerate(times):
            arrived = free[stage] = max(arrived, free[stage]) + ns
        for_chunk.append(list(free[: len(times)]))
    return for_chunk


def pipelined_ns(whole: list[float], chunks: int, overhead_ns: float) -> float:
    """ex03: one chunk through all stages, the others behind it at the pace of the slowest."""
    stages = [ns / chunks + overhead_ns for ns in whole]
    return sum(stages) + (chunks - 1) * max(stages)


def best_chunks(whole: list[float], overhead_ns: float, most: int) -> int:
    """ex03: the number of chunks with the shortest time."""
    times = np.array([pipelined_ns(whole, chunks, overhead_ns) for chunks in range(1, most + 1)])
    return int(np.argmin(times)) + 1


def stage_ns(ops: pd.DataFrame, repetitions: int) -> list[float]:
    """ex03: the time that one repetition spends in each of the three stages."""
    lasts = ops["end_ns"] - ops["start_ns"]
    copies = ops["kind"] == "memcpy"
    stages = (
        copies & (ops["name"] == "memcpy H2D"),
        ops["kind"] == "kernel",
        copies & (ops["name"] == "memcpy D2H"),
    )
    return [float(lasts[stage].sum()) / repetitions for stage in stages]


# --- ex04


def is_collective(kernels: pd.DataFrame) -> pd.Series[bool]:
    """ex04: which kernels are NCCL's."""
    return kernels["name"].str.contains("nccl", case=False)


def communication(kernels: pd.DataFrame) -> dict[int, tuple[int, int]]:
    """ex04: per device, the time with a collective and the part of it without any other kernel."""
    answer = {}
    for device, mine in per_device(kernels):
        collective = is_collective(mine)
        talk, compute = spans(mine[collective]), spans(mine[~collective])
        answer[device] = intervals.total(*talk), intervals.total(*intervals.subtract(*talk, *compute))
    return answer


def lateness_ns(kernels: pd.DataFrame) -> dict[int, int]:
    """ex04: per device with collectives, how much later than the first one it joined them, in all."""
    starts = {
        d: np.sort(rows["start_ns"].to_numpy(np.int64))
        for d, rows in per_device(kernels[is_collective(kernels)])
    }
    if not starts:
        return {}
    count = min(len(times) for times in starts.values())
    first = np.min([times[:count] for times in starts.values()], axis=0)
    return {device: int((times[:count] - first).sum()) for device, times in starts.items()}


def straggler(kernels: pd.DataFrame) -> int:
    """ex04: the device that is latest in all."""
    late = lateness_ns(kernels)
    return max(sorted(late), key=lambda device: late[device])


def buckets(layers: list[tuple[float, int]], bucket_bytes: int) -> list[tuple[float, int]]:
    """ex04: the gradient buckets, each with when it is ready and its bytes."""
    ready = np.cumsum([backward for backward, _ in layers])
    closed, filled = [], 0
    for index, (_, size) in enumerate(layers):
        filled += size
        if filled >= bucket_bytes or (index == len(layers) - 1 and filled):
            closed.append((float(ready[index]), filled))
            filled = 0
    return closed


def exposed_ns(
    layers: list[tuple[float, int]], bucket_bytes: int, latency_ns: float, bytes_per_ns: float
) -> float:
    """ex04: how long the last collective outlasts the backward pass."""
    done = 0.0
    for ready, size in buckets(layers, bucket_bytes):
        done = max(done, ready) + latency_ns + size / bytes_per_ns
    return done - sum(backward for backward, _ in layers)


def best_bucket_bytes(
    layers: list[tuple[float, int]], candidates: list[int], latency_ns: float, bytes_per_ns: float
) -> int:
    """ex04: the candidate with the least exposed time, the largest of equals."""
    return max(candidates, key=lambda size: (-exposed_ns(layers, size, latency_ns, bytes_per_ns), size))
