"""Hidden cases of part b (a bound for each problem): a generator or a capture in, cases out."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case, brief
from labcode.store import CaptureSet
from solutions.pytorch.ex04_bottleneck_hunt.a_cases import (
    EXPERIMENT,
    PROBLEMS,
    RUN,
    TEXTS,
    TIMES,
    Loop,
    describe,
    recorded,
    scenes,
)
from solutions.pytorch.ex04_bottleneck_hunt.a_find import find


def _edges(rng: np.random.Generator) -> list[tuple[str, Loop]]:
    """All problems gain as much, for the network's own work fills the window; ten, so that no order of a set
    is that of their names by chance."""
    at, unit = int(rng.integers(10**6, 10**9)), int(rng.integers(100, 900))
    rows = [(at - unit, at + 101 * unit, at - 3 * unit, at - 2 * unit, "")]
    for number, problem in enumerate((*PROBLEMS, "clocks", "loader", "padding")):
        start = at + 10 * number * unit
        rows.append((start, start + 5 * unit, start - 6 * unit, start - unit, problem))
    ops = pd.DataFrame(rows, columns=[*TIMES, "problem"])
    waits = pd.DataFrame({"start_ns": [at + 90 * unit], "end_ns": [at + 95 * unit]})
    return [("no problem gains more than another", Loop(ops, waits, (at, at + 100 * unit), 1))]


def _case(name: str, given: Loop) -> Case:
    arguments = given.ops[[*TIMES, "problem"]], given.waits, given.window
    return Case(name, describe(given), "prove", arguments, show=partial(brief, limit=400))


def cases(rng: np.random.Generator) -> list[Case]:
    """The one function, on recorded loops."""
    return [_case(name, given) for name, given in [*scenes(rng), *_edges(rng)]]


def exam(captures: CaptureSet) -> list[Case]:
    """The recorded steps of a capture, each operation with the problem that part a finds in it."""
    given = recorded(captures)
    problem = given.ops["kind"].copy()
    for _, alike in given.ops.groupby(list(TEXTS[:-1])):
        problem[alike.index] = next(iter(find(alike[:1], 0)), "")  # of no steps: the optimizer's limit is 0
    given = replace(given, ops=given.ops.assign(problem=problem))
    return [_case(f"a recording you have not seen ({EXPERIMENT}, {RUN})", given)]


def notes(_: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """The bounds."""
    words = ", ".join(f"{name} {gain:.2f} x" for name, gain in answered[0][1])
    return [
        f"{RUN}: at most {words}, as recorded; the recording slows the CPU down, so measure what you mend"
    ]
