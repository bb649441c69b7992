"""Hidden cases of nsys-ex02, part a (kernels that run at once): a generator or captures in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.nsys import expected
from labcode.grading.exam import open_run
from labcode.grading.inputs import Row, table
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, RUN = "kernel_overlap", "exam_streams"
_SHOWN = ["start_ns", "end_ns", "pid", "device", "stream"]


def _scenes(rng: Rng) -> list[tuple[str, pd.DataFrame]]:
    def run(start: int, end: int, **more: Any) -> Row:
        return {"start_ns": base + start * unit, "end_ns": base + end * unit, **more}

    base, unit = int(rng.integers(10**6, 10**9)), int(rng.integers(50, 900))
    a, b, c = sorted(int(x) for x in rng.choice(np.arange(15, 85), 3, replace=False))
    one, two = (int(d) for d in rng.choice(np.arange(1, 8), 2, replace=False))
    scenes = {
        "one kernel after the other, with gaps": [run(0, a), run(a + 2, b + 3), run(b + 9, c + 12)],
        "two streams overlap": [run(a - 14, b + 1), run(a, c + 2, stream=13)],
        "kernels touch but do not overlap": [run(a - 10, a), run(a, b, stream=13), run(b, c, stream=20)],
        "three streams, one kernel inside of the others": [
            run(0, 95),
            run(a - 5, c + 5, stream=13),
            run(a, b, stream=20),
            run(97, 99, stream=13),
        ],
        "a stream that overlaps nothing": [
            run(0, a),
            run(a - 4, b, stream=13),
            run(c + 8, c + 14, stream=20),
        ],
        "two processes use the same stream number": [
            run(a - 9, b, pid=501),
            run(a - 2, c, pid=77),
            run(c + 3, c + 7, pid=77),
        ],
        "two devices, neither of them device 0": [
            run(0, b, device=one),
            run(a - 3, c, device=one, stream=13),
            run(5, c + 4, device=two),
            run(c + 6, c + 9, device=two, stream=13),
        ],
    }
    made = [(name, _kernels(rng, rows)) for name, rows in scenes.items()]
    count = int(rng.integers(150, 300))
    starts = rng.choice(np.arange(base, base + 40 * count * unit), count, replace=False)
    many = [
        {
            "start_ns": int(start),
            "end_ns": int(start + rng.integers(1, 120 * unit)),
            "pid": int(rng.choice([501, 77])),
            "device": int(rng.choice([0, two])),
            "stream": int(rng.choice([7, 13, 20, 25])),
        }
        for start in starts
    ]
    return [*made, ("many kernels of two processes on two devices", _kernels(rng, many))]


def _kernels(rng: Rng, rows: list[Row]) -> pd.DataFrame:
    frame = table(
        [{"name": "advance(float2 *, int)", "short_name": "advance", **row} for row in rows], "kernels"
    )
    return frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)


def _time_case(name: str, kernels: pd.DataFrame, *, exam: bool = False) -> Case:
    right = expected.time_at_least(kernels)
    exactly = {d: [a - b for a, b in zip(times, [*times[1:], 0], strict=True)] for d, times in right.items()}
    pooled = expected.time_at_least(kernels.assign(device=0)).get(0, [])
    per_process: dict[int, list[int]] = {}
    for _, rows in kernels.groupby("pid"):
        per_process |= expected.time_at_least(rows)
    return Case(
        name=name,
        summary=_summary(kernels),
        function="time_at_least",
        arguments=(kernels,),
        expected=right,
        mistakes=(
            Mistake("this is the time with exactly 1, 2, … kernels; asked for is at least 1, 2, …", exactly),
            Mistake(
                "kernels that touch do not overlap: at equal times, ends come before starts",
                {d: [*t, 0] for d, t in right.items()},
            ),
            Mistake(
                "all devices are taken together: each device counts its own kernels",
                {int(kernels["device"].min()): pooled},
            ),
            Mistake(
                "all devices are taken together: each device counts its own kernels",
                dict.fromkeys(right, pooled),
            ),
            Mistake(
                "each process is counted by itself: kernels of two processes on one device overlap too",
                per_process,
            ),
            Mistake(
                "the entry for 0 kernels is not asked for: begin with at least 1",
                {d: [_span(kernels, d), *t] for d, t in right.items()},
            ),
        ),
        table=kernels[_SHOWN],
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _average_case(name: str, kernels: pd.DataFrame, *, exam: bool = False) -> Case:
    right = expected.average_concurrency(kernels)
    lasts = (kernels["end_ns"] - kernels["start_ns"]).groupby(kernels["device"]).sum()
    pooled = expected.average_concurrency(kernels.assign(device=0)).get(0, 0.0)
    return Case(
        name=name,
        summary=_summary(kernels),
        function="average_concurrency",
        arguments=(kernels,),
        expected=right,
        mistakes=(
            Mistake(
                "divide by the time with any kernel running, not by the time from the first to the last",
                {d: float(lasts[d]) / _span(kernels, d) for d in right},
            ),
            Mistake(
                "this is the most kernels at once, not the average",
                {d: float(len(t)) for d, t in expected.time_at_least(kernels).items()},
            ),
            Mistake(
                "this is the number of streams; it says what could overlap, not what did",
                {d: float(rows["stream"].nunique()) for d, rows in expected.per_device(kernels)},
            ),
            Mistake(
                "all devices are taken together: each device has its own average",
                dict.fromkeys(right, pooled),
            ),
        ),
        table=kernels[_SHOWN],
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _streams_case(name: str, kernels: pd.DataFrame, *, exam: bool = False) -> Case:
    right = expected.overlapping_streams(kernels)
    touching = kernels.assign(end_ns=kernels["end_ns"] + 1)
    return Case(
        name=name,
        summary=_summary(kernels),
        function="overlapping_streams",
        arguments=(kernels,),
        expected=right,
        mistakes=(
            Mistake(
                "a stream is a process and a number: stream 7 of two processes is two streams",
                expected.overlapping_streams(kernels.assign(pid=0)),
            ),
            Mistake("kernels that touch do not overlap", expected.overlapping_streams(touching)),
            Mistake(
                "these are all streams; asked for are those that overlap another one",
                {d: len(rows.groupby(["pid", "stream"])) for d, rows in expected.per_device(kernels)},
            ),
            Mistake(
                "this is the most kernels at once; asked for are streams",
                {d: len(t) for d, t in expected.time_at_least(kernels).items()},
            ),
        ),
        table=kernels[_SHOWN],
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _span(kernels: pd.DataFrame, device: int) -> int:
    mine = kernels[kernels["device"] == device]
    return int(mine["end_ns"].max() - mine["start_ns"].min())


def _summary(kernels: pd.DataFrame) -> str:
    streams = len(kernels.groupby(["pid", "device", "stream"]))
    return (
        f"{len(kernels)} kernels on {streams} stream(s) of {kernels['device'].nunique()} device(s), "
        f"{kernels['pid'].nunique()} process(es)"
    )


def _cases(rng: Rng) -> list[Case]:
    scenes = _scenes(rng)
    nothing = table([], "kernels")
    functions = (
        (_time_case, "time_at_least"),
        (_average_case, "average_concurrency"),
        (_streams_case, "overlapping_streams"),
    )
    return [
        case
        for make, function in functions
        for case in (
            *(make(*scene) for scene in scenes),
            Case("no kernels at all", "an empty table", function, (nothing,), {}),
        )
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    kernels = open_run(captures, EXPERIMENT, RUN).kernels()
    name = f"a capture you have not seen ({EXPERIMENT})"
    return [make(name, kernels, exam=True) for make in (_time_case, _average_case, _streams_case)]


CONCURRENCY = Task(_cases, _exam)
