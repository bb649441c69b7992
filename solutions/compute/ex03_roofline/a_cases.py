"""Hidden cases of part a (points under the roofline): a generator in, counters out."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.grading.cases import Case

Rng = np.random.Generator
Row = tuple[str, int, int, int, int, int, int]
Scene = tuple[list[Row], float, float]  # kernels, memory in bytes/s, compute in FLOP/s
COLUMNS = ["kernel", "duration_ns", "ffma", "fadd", "fmul", "dram_read_bytes", "dram_write_bytes"]


def _kernel(rng: Rng, name: str, intensity: float, share: float, memory: float, compute: float) -> Row:
    """A kernel of about this intensity that reaches about this share of its roof."""
    moved = int(rng.integers(10**8, 4 * 10**9))
    flop = intensity * moved
    duration = max(1, int(flop / (share * min(intensity * memory, compute)) * 1e9))
    fused = int(0.4 * flop)
    added = int((flop - 2 * fused) * rng.uniform(0.2, 0.8))
    read = int(moved * rng.uniform(0.4, 0.8))
    return name, duration, fused, added, int(flop) - 2 * fused - added, read, moved - read


def _longer(row: Row, factor: float) -> Row:
    """A kernel that does more or less of the same, in as much more or less time."""
    name, duration, *counts = row
    return name, max(1, int(duration * factor)), *(int(n * factor) for n in counts)  # type: ignore[return-value]


def _exact(name: str, flop: int, moved: int) -> Row:
    """A kernel of one second, whose numbers are as they are given."""
    return name, 10**9, flop // 3, flop // 3, flop - 3 * (flop // 3), moved // 4, moved - moved // 4


def _edges(rng: Rng) -> Scene:
    """Kernels at the ridge, and at 0.6 of either roof; whole numbers, so that rounding decides nothing."""
    unit = 1600 * int(rng.integers(10**7, 10**8))
    memory, compute = 20 * unit, 100 * unit  # the ridge is at 5
    places = {
        "at_the_ridge": (80 * unit, 16 * unit),
        "just_left": (80 * unit, 16 * unit + unit // 100),
        "slope_at_0.6": (3 * unit, 12 * unit),
        "slope_below_0.6": (3 * unit - unit // 50, 12 * unit - 4 * unit // 50),
        "slope_above_0.6": (3 * unit + unit // 50, 12 * unit + 4 * unit // 50),
        "peak_at_0.6": (60 * unit, unit),
        "peak_below_0.6": (59 * unit, unit),
    }
    rows = [_exact(name, *numbers) for name, numbers in places.items()]
    return [rows[i] for i in rng.permutation(len(rows)).tolist()], float(memory), float(compute)


def _scenes(rng: Rng) -> dict[str, Scene]:
    memory, compute = float(rng.uniform(1e12, 5e12)), float(rng.uniform(15e12, 70e12))

    def some(name: str, where: float, share: float) -> Row:
        return _kernel(rng, name, compute / memory * where, share, memory, compute)

    high, low = float(rng.uniform(0.7, 0.95)), float(rng.uniform(0.1, 0.5))
    cached = ("cached", int(rng.integers(10**5, 10**6)), 10**9, 0, 0, 0, 0)
    long, short = some("long", 0.3, 0.9), some("short", 0.4, 0.3)
    scenes = {
        "left of the ridge": [some("left", float(rng.uniform(0.01, 0.5)), high)],
        "right of the ridge": [some("right", float(rng.uniform(2, 20)), high)],
        "far below its roof": [some("far", float(rng.uniform(0.05, 0.5)), low)],
        "several kernels": [
            some("one", 0.1, high),
            some("two", 3.0, 0.8),
            some("three", 0.4, low),
            some("four", 5.0, low),
        ],
        "the worst kernel takes little time": [
            _longer(some("slow_but_small", 0.2, 0.05), 1 / 4000),
            some("long", 0.3, 0.65),
        ],
        "the longest kernel is near its roof": [long, _longer(short, 0.4 * long[1] / short[1])],
        "a kernel that moves nothing": [cached, some("other", 0.2, high)],
    }
    slow = 3e11, 3e13
    there = [_kernel(rng, name, where, high, *slow) for name, where in (("here", 20.0), ("there", 300.0))]
    return {
        **{name: (rows, memory, compute) for name, rows in scenes.items()},
        "a GPU with slow memory": (there, *slow),
    }


def _case(function: str, name: str, rows: Sequence[Row], *roofs: float) -> Case:
    table = pd.DataFrame(rows, columns=COLUMNS)
    summary = f"{len(table)} kernels"
    if roofs:
        summary += ", memory {:.4g} bytes/s, compute {:.4g} FLOP/s".format(*roofs)
    return Case(name, summary, function, (table, *roofs), table=table)


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, on the same scenes."""
    scenes = _scenes(rng)
    made = [_case("points", name, rows) for name, (rows, _, _) in scenes.items()]
    memory, compute = float(rng.uniform(1e12, 5e12)), float(rng.uniform(15e12, 70e12))
    ridge = compute / memory
    for name, at in (
        ("left of the ridge", 0.1 * ridge),
        ("right of it", 7 * ridge),
        ("no byte moved", math.inf),
    ):
        summary = f"{at:.4g} FLOP/byte, memory {memory:.4g} bytes/s, compute {compute:.4g} FLOP/s"
        made.append(Case(name, summary, "roof", (at, memory, compute)))
    made += [_case("verdicts", name, *scene) for name, scene in scenes.items()]
    made.append(_case("verdicts", "at the ridge, and at 0.6 of a roof", *_edges(rng)))
    made += [_case("first", name, *scene) for name, scene in scenes.items() if len(scene[0]) > 1]
    for count in (5, 8, 12):
        rows = [
            _kernel(rng, f"k{i}", float(rng.uniform(0.5, 60)), float(rng.uniform(0.1, 0.95)), 3e12, 4e13)
            for i in range(count)
        ]
        made.append(_case("first", f"{count} kernels", rows, 3e12, 4e13))
    return made
