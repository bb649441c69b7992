"""Hidden cases of nsys-ex01, part a (idle share and gaps): a generator or captures in, cases out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task, duration
from labcode.exercises.nsys import expected
from labcode.grading.exam import open_run
from labcode.grading.inputs import Row, ops_table
from labcode.store import CaptureSet

Window = tuple[int, int]
Rng = np.random.Generator
EXPERIMENT, RUN = "timeline_basics", "exam_baseline"
_SHOWN = ["kind", "start_ns", "end_ns", "pid", "device", "stream"]


def _random_ops(
    rng: Rng, count: int, window: Window, devices: Iterable[int], pids: Iterable[int]
) -> list[Row]:
    length = window[1] - window[0]
    starts = rng.integers(window[0] - length // 20, window[1], count)
    lasts = rng.integers(1, 2 + 3 * length // count, count)
    return [
        {
            "kind": str(rng.choice(["kernel", "kernel", "memcpy", "memset"])),
            "start_ns": int(start),
            "end_ns": int(start + last),
            "pid": int(rng.choice(list(pids))),
            "device": int(rng.choice(list(devices))),
            "stream": int(rng.choice([7, 13, 20])),
        }
        for start, last in zip(starts, lasts, strict=True)
    ]


def _shuffled(rng: Rng, rows: list[Row]) -> pd.DataFrame:
    table = ops_table(rows)
    return table.iloc[rng.permutation(len(table))].reset_index(drop=True)


def _scenes(rng: Rng) -> list[tuple[str, pd.DataFrame, Window]]:
    """What is special about a table, the table, the window.

    Each scene has one trap that those before it lack.
    """

    def op(start: int, end: int, **more: Any) -> Row:
        return {"start_ns": base + start * unit, "end_ns": base + end * unit, **more}

    base, unit = int(rng.integers(10**6, 10**9)), int(rng.integers(900, 5000))
    window = (base, base + 100 * unit)
    a, b = sorted(int(x) for x in rng.choice(np.arange(20, 80), 2, replace=False))
    one, two = (int(d) for d in rng.choice(np.arange(1, 8), 2, replace=False))
    scenes = [
        ("two kernels, one after the other", [op(a - 15, a - 4), op(b, b + 9)]),
        ("kernels overlap on two streams", [op(a - 18, a + 6), op(a, b + 8, stream=13)]),
        (
            "a long kernel with short ones inside of it",
            [op(5, 60 + a // 4), op(10, 12 + a // 8, stream=13), op(40, 44, stream=13), op(88, 91)],
        ),
        (
            "one operation begins where another ends",
            [op(a - 10, a), op(a, b + 5), op(b + 2, b + 9, stream=13), op(b + 9, 95)],
        ),
        (
            "operations cross the edges of the window or lie outside of it",
            [op(-20, 9), op(a, b), op(94, 130), op(120, 140)],
        ),
        (
            "copies and memsets run while no kernel does",
            [op(4, 20, kind="memcpy"), op(30, 36), op(a + 16, b + 16, kind="memset"), op(b + 17, b + 19)],
        ),
        (
            "two processes share a device",
            [op(3, a, pid=501), op(b, 95, pid=501), op(a - 10, b - 1, pid=77), op(b + 2, b + 5, pid=77)],
        ),
        (
            "two devices, neither of them device 0",
            [
                op(10, a, device=one),
                op(b, 90, device=one),
                op(a - 15, a - 3, device=two),
                op(b + 4, b + 6, device=two),
            ],
        ),
        (
            "a device that works only outside of the window",
            [op(7, a), op(a + 3, b), op(-30, -10, device=one), op(130, 150, device=one)],
        ),
    ]
    made = [(name, _shuffled(rng, rows), window) for name, rows in scenes]
    many = _random_ops(rng, int(rng.integers(200, 400)), window, (0, one), (501, 77))
    return [*made, ("many operations of two processes on two devices", _shuffled(rng, many), window)]


def _summary(ops: pd.DataFrame, window: Window) -> str:
    count, devices, pids = len(ops), ops["device"].nunique(), ops["pid"].nunique()
    return (
        f"{count} operations, {devices} device(s), {pids} process(es); window = {window}, "
        f"{duration(window[1] - window[0])} long"
    )


def _rows(ops: pd.DataFrame, keep: Callable[[pd.DataFrame], pd.Series[bool]]) -> pd.DataFrame:
    return ops[keep(ops)]


def _chained(ops: pd.DataFrame, window: Window, *, touch: bool = True, longest: bool = True) -> list[Window]:
    """Merging with a typical slip: not joining what touches, or taking the last end for the largest."""
    merged: list[Window] = []
    for start, end in sorted(zip(ops["start_ns"].tolist(), ops["end_ns"].tolist(), strict=True)):
        start, end = max(start, window[0]), min(end, window[1])
        if start >= end:
            continue
        if merged and (start <= merged[-1][1] if touch else start < merged[-1][1]):
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]) if longest else end)
        else:
            merged.append((start, end))
    return merged


def _interval_case(name: str, ops: pd.DataFrame, window: Window) -> Case:
    wide = (-(2**60), 2**60)
    separate = sorted(
        _chained(ops.iloc[[i]], window)[0] for i in range(len(ops)) if _chained(ops.iloc[[i]], window)
    )
    return Case(
        name=name,
        summary=_summary(ops, window),
        function="busy_intervals",
        arguments=(ops, list(window)),
        expected=expected.busy_intervals(ops, window),
        mistakes=(
            Mistake(
                "these are the operations, not their union: intervals that overlap are one interval", separate
            ),
            Mistake(
                "intervals that touch (one ends where the next begins) are one interval",
                _chained(ops, window, touch=False),
            ),
            Mistake(
                "a long operation is cut short by one inside of it: keep the largest end seen so "
                "far, not the last one",
                _chained(ops, window, longest=False),
            ),
            Mistake("operations are not cut to the window", _chained(ops, wide)),
        ),
        table=ops[_SHOWN],
    )


def _share_by(ops: pd.DataFrame, window: Window, busy: Callable[[pd.DataFrame], float]) -> dict[int, float]:
    length = window[1] - window[0]
    return {device: 1 - busy(mine) / length for device, mine in expected.per_device(ops)}


def _share_case(name: str, ops: pd.DataFrame, window: Window, *, exam: bool = False) -> Case:
    def union(rows: pd.DataFrame) -> float:
        return float(sum(end - start for start, end in _chained(rows, window)))

    def summed(rows: pd.DataFrame) -> float:
        clipped = rows["end_ns"].clip(*window) - rows["start_ns"].clip(*window)
        return float(clipped.sum())

    def span(rows: pd.DataFrame) -> Window:
        return int(rows["start_ns"].min()), int(rows["end_ns"].max())

    right = expected.idle_share(ops, window)
    added = {d: min(1.0, max(0.0, share)) for d, share in _share_by(ops, window, summed).items()}
    per_process = [_share_by(mine, window, union) for _, mine in ops.groupby("pid")]
    lowest, spanned = min(right, default=0), {}
    for device, mine in expected.per_device(ops):
        begin, end = span(mine)
        spanned[device] = 1 - sum(e - s for s, e in _chained(mine, (begin, end))) / max(1, end - begin)
    too_long = (
        "durations are added up, so time with two operations counts twice: take the union of the intervals"
    )
    by_process = "each process is counted by itself: a device is idle only when no process uses it"
    mistakes = [
        Mistake(too_long, _share_by(ops, window, summed)),
        Mistake(too_long, added),
        *(Mistake(by_process, shares) for shares in _merged_shares(per_process)),
        Mistake(
            "only kernels are counted: copies and memsets keep a device busy too",
            _kernels_only(ops, window, union),
        ),
        Mistake(
            "operations are not cut to the window: one that crosses its edge counts with the part"
            " inside only",
            _share_by(
                ops, window, lambda rows: float(sum(e - s for s, e in _chained(rows, (-(2**60), 2**60))))
            ),
        ),
        Mistake("the window is the one given, not the time from the first operation to the last", spanned),
        Mistake(
            "all devices are taken together: each device has its own idle time",
            dict.fromkeys(right, 1 - union(ops) / (window[1] - window[0])),
        ),
        Mistake(
            "devices without work in the window are left out: they are idle for all of it",
            {d: s for d, s in right.items() if s < 1},
        ),
        Mistake(
            "only one device is counted: answer for every device among the operations",
            {lowest: right.get(lowest, 0.0)},
        ),
        Mistake(
            "a long operation is cut short by one inside of it: keep the largest end seen so far,"
            " not the last one",
            _share_by(
                ops, window, lambda rows: float(sum(e - s for s, e in _chained(rows, window, longest=False)))
            ),
        ),
        Mistake("devices are numbered as in the table, not counted from 0", dict(enumerate(right.values()))),
        Mistake(
            "this is idle time in ns; divide it by the length of the window",
            {d: s * (window[1] - window[0]) for d, s in right.items()},
        ),
    ]
    return Case(
        name=name,
        summary=_summary(ops, window),
        function="gpu_idle_share",
        arguments=(ops, list(window)),
        expected=right,
        mistakes=tuple(mistakes),
        table=ops[_SHOWN],
        exam=exam,
        share=True,
        limit_s=60.0 if exam else 10.0,
    )


def _merged_shares(per_process: list[dict[int, float]]) -> list[dict[int, float]]:
    """What one gets from shares per process and device: the last process wins, the first wins, their mean."""
    devices = sorted({device for shares in per_process for device in shares})
    of = {device: [shares[device] for shares in per_process if device in shares] for device in devices}
    return [
        {d: pick(values) for d, values in of.items()}
        for pick in (lambda v: v[-1], lambda v: v[0], lambda v: sum(v) / len(v), max)
    ]


def _kernels_only(
    ops: pd.DataFrame, window: Window, busy: Callable[[pd.DataFrame], float]
) -> dict[int, float]:
    kernels = _share_by(_rows(ops, lambda t: t["kind"] == "kernel"), window, busy)
    return {device: kernels.get(int(device), 1.0) for device in sorted(ops["device"].unique())}


def _gap_case(name: str, ops: pd.DataFrame, window: Window, count: int, *, exam: bool = False) -> Case:
    every = expected.gaps(ops, window)
    right = every[:count]
    inner = [gap for gap in every if gap[1] != window[0] and gap[2] != window[1]]
    by_time = sorted(every, key=lambda gap: (gap[1], gap[0]))
    per_device = [
        gap
        for device in sorted({g[0] for g in every})
        for gap in [g for g in every if g[0] == device][:count]
    ]
    return Case(
        name=name,
        summary=f"{_summary(ops, window)}; count = {count}",
        function="longest_gaps",
        arguments=(ops, list(window), count),
        expected=right,
        mistakes=(
            Mistake("the gaps before the first operation and after the last one count too", inner[:count]),
            Mistake("these are the first gaps, not the longest ones: sort by length", by_time[:count]),
            Mistake("shortest first: turn the order round", every[::-1][:count]),
            Mistake(
                "these are the longest gaps of each device: `count` is for all devices together", per_device
            ),
            Mistake("all gaps are returned: `count` of them were asked for", every),
            Mistake(
                "each gap should be (device, start_ns, end_ns), not a length",
                [[d, s, e - s] for d, s, e in right],
            ),
            Mistake(
                "the device is missing: each gap is (device, start_ns, end_ns)", [[s, e] for _, s, e in right]
            ),
        ),
        table=ops[_SHOWN],
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _idle_cases(rng: Rng) -> list[Case]:
    scenes = _scenes(rng)
    merging = [
        _interval_case(name, ops, window)
        for name, ops, window in scenes
        if ops["device"].nunique() == 1 and ops["pid"].nunique() == 1
    ]
    nothing = ops_table([])
    window = scenes[0][2]
    empty = [
        Case("no operations at all", "an empty table", "busy_intervals", (nothing, list(window)), []),
        Case(
            "no operations at all",
            "an empty table",
            "gpu_idle_share",
            (nothing, list(window)),
            {},
            share=True,
        ),
    ]
    shares = [_share_case(*scene) for scene in scenes]
    gaps = [
        _gap_case(name, ops, win, count)
        for (name, ops, win), count in zip(scenes, [5, 2, 3, 2, 2, 3, 2, 3, 4, 12], strict=True)
    ]
    return [*merging, empty[0], *shares, empty[1], *gaps]


def _idle_exam(captures: CaptureSet) -> list[Case]:
    report = open_run(captures, EXPERIMENT, RUN)
    ops, window = report.gpu_ops(), report.window()
    name = f"a capture you have not seen ({EXPERIMENT})"
    return [_share_case(name, ops, window, exam=True), _gap_case(name, ops, window, 20, exam=True)]


IDLE = Task(_idle_cases, _idle_exam)
