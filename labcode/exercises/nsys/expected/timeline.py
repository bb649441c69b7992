"""ex01: operations, calls and ranges in; idle time, its gaps and what the CPU did in them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.utilization import device_busy, idle_gaps
from labcode.exercises.nsys.expected.tables import Times, Window, spans

Thread = tuple[int, int]
UNATTRIBUTED, NO_RANGE = "(unattributed)", "(no range)"


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
