"""Hidden cases of part a (kernels that run at once): a generator or captures in, cases out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.grading.inputs import Row, table
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, RUN = "kernel_overlap", "exam_streams"
FUNCTIONS = ("time_at_least", "average_concurrency", "overlapping_streams")
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
        "a long kernel beside two short ones": [run(0, 95), run(5, a, stream=13), run(b, c, stream=20)],
        "one after the other begins within those that run": [
            run(0, 95),
            run(5, b, stream=13),
            run(a - 5, a, stream=20),
            run(b + 1, c + 5, stream=25),
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
        "two kernels overlap for a single ns": [
            run(a, b),
            {**run(b, c, stream=13), "start_ns": base + b * unit - 1},
        ],
        "kernels of one stream overlap each other": [run(a - 9, b), run(a, c), run(c + 1, c + 5, stream=13)],
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


def _summary(kernels: pd.DataFrame) -> str:
    streams = len(kernels.groupby(["pid", "device", "stream"]))
    return (
        f"{len(kernels)} kernels on {streams} stream(s) of {kernels['device'].nunique()} device(s), "
        f"{kernels['pid'].nunique()} process(es)"
    )


def _case(function: str, name: str, kernels: pd.DataFrame) -> Case:
    return Case(name, _summary(kernels), function, (kernels,), table=kernels[_SHOWN])


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, on the same scenes."""
    scenes = [*_scenes(rng), ("no kernels at all", table([], "kernels"))]
    return [_case(function, *scene) for function in FUNCTIONS for scene in scenes]


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to a capture."""
    kernels = open_run(captures, EXPERIMENT, RUN).kernels()
    return [_case(function, f"a capture you have not seen ({EXPERIMENT})", kernels) for function in FUNCTIONS]


def _time_at_least(kernels: pd.DataFrame) -> dict[int, list[int]]:
    answer = {}
    for device, mine in kernels.groupby("device"):
        starts, ends, level = intervals.concurrency(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        lasts = ends - starts
        most = int(level[lasts > 0].max(initial=0))
        answer[int(device)] = [int(lasts[level >= k].sum()) for k in range(1, most + 1)]
    return answer


def _overlapping_streams(kernels: pd.DataFrame) -> dict[int, int]:
    answer = {}
    for device, mine in kernels.groupby("device"):
        starts, ends = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
        stream = mine.groupby(["pid", "stream"]).ngroup().to_numpy()
        answer[int(device)] = sum(
            intervals.total(*intervals.intersect(starts[own], ends[own], starts[~own], ends[~own])) > 0
            for own in (stream == number for number in np.unique(stream))
        )
    return answer


AGREES_WITH = {"time_at_least": _time_at_least, "overlapping_streams": _overlapping_streams}
