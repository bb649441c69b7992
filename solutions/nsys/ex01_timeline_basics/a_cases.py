"""Hidden cases of part a (idle share and gaps): a generator or captures in, cases out."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.utilization import device_busy, idle_gaps
from labcode.grading.cases import Case, duration
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
        (
            "gaps of the same length on two devices",
            [
                op(10, 30, device=max(one, two)),
                op(50, 100, device=max(one, two)),
                op(10, 40, device=min(one, two)),
                op(60, 100, device=min(one, two)),
            ],
        ),
        (
            "operations without any length, alone and inside of others",
            [op(a, a), op(a + 5, a + 5), op(b, b + 9)],
        ),
        ("a device that is busy for the whole window", [op(0, 55), op(55, 100), op(a, b, device=one)]),
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


def _interval_case(name: str, ops: pd.DataFrame, window: Window) -> Case:
    summary = _summary(ops, window)
    return Case(name, summary, "busy_intervals", (ops, list(window)), table=ops[_SHOWN])


def _share_case(name: str, ops: pd.DataFrame, window: Window) -> Case:
    arguments = ops, list(window)
    return Case(name, _summary(ops, window), "gpu_idle_share", arguments, table=ops[_SHOWN], share=True)


def _gap_case(name: str, ops: pd.DataFrame, window: Window, count: int) -> Case:
    summary = f"{_summary(ops, window)}; count = {count}"
    return Case(name, summary, "longest_gaps", (ops, list(window), count), table=ops[_SHOWN])


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, on the same scenes."""
    scenes = _scenes(rng)
    merging = [
        _interval_case(name, ops, window)
        for name, ops, window in scenes
        if ops["device"].nunique() == 1 and ops["pid"].nunique() == 1
    ]
    nothing = ("no operations at all", ops_table([]), scenes[0][2])
    gaps = [
        _gap_case(*scene, count)
        for scene, count in zip(scenes, [5, 2, 3, 2, 2, 3, 2, 3, 4, 3, 2, 9, 12], strict=True)
    ]
    shares = [_share_case(*scene) for scene in scenes]
    return [*merging, _interval_case(*nothing), *shares, _share_case(*nothing), *gaps, _gap_case(*nothing, 3)]


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to a capture."""
    report = open_run(captures, EXPERIMENT, RUN)
    ops, window = report.gpu_ops(), report.window()
    name = f"a capture you have not seen ({EXPERIMENT})"
    return [_share_case(name, ops, window), _gap_case(name, ops, window, 20)]


def _busy_intervals(ops: pd.DataFrame, window: Window) -> list[Window]:
    spans = ops["start_ns"].to_numpy(np.int64), ops["end_ns"].to_numpy(np.int64)
    starts, ends = intervals.union(*intervals.clip(*spans, window))
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _idle_share(ops: pd.DataFrame, window: Window) -> dict[int, float]:
    busy = device_busy(ops, window)
    return dict(zip(busy["device"].tolist(), busy["idle_share"].tolist(), strict=True))


def _longest_gaps(ops: pd.DataFrame, window: Window, count: int) -> list[tuple[int, int, int]]:
    found = idle_gaps(ops, window)
    rows = zip(*(found[name].tolist() for name in ("device", "start_ns", "end_ns")), strict=True)
    return sorted(rows, key=lambda gap: (gap[1] - gap[2], gap[1], gap[0]))[:count]


AGREES_WITH = {
    "busy_intervals": _busy_intervals,
    "gpu_idle_share": _idle_share,
    "longest_gaps": _longest_gaps,
}
