"""Hidden cases of pytorch-ex04, part b (a bound for each problem): a generator or a capture in, cases out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.analysis.rules.tables import spans
from labcode.analysis.timeline import intervals
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.exercises.pytorch.ex04_find import problems
from labcode.exercises.pytorch.ex04_scenes import EXPERIMENT, RUN, Loop, describe, exam, scenes
from labcode.store import CaptureSet

FORBIDDEN = ("labcode.analysis.timeline.bound", "labcode.analysis.timeline.utilization", "labcode.exercises")
_CPU = {"cpu_start_ns": "start_ns", "cpu_end_ns": "end_ns"}


def prove(given: Loop, *, waiting: bool = True, cpu: bool = True, gpu: bool = True, merged: bool = True,
          rest: bool = True, cut: bool = True, both: bool = False, rising: bool = False,
          inverted: bool = False) -> list[list[object]]:  # fmt: skip
    """The answer; the flags are the typical mistakes."""
    ops, window = given.ops, given.window
    width = window[1] - window[0]

    def within(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return intervals.clip(*spans(table), window) if cut else spans(table)

    def length(table: pd.DataFrame) -> int:
        at = within(table)
        return intervals.total(*at) if merged else int((at[1] - at[0]).sum())

    waits = spans(given.waits) if waiting else spans(given.waits.iloc[:0])
    own = intervals.subtract(np.array(window[:1]), np.array(window[1:]), *waits)
    found: list[tuple[str, float]] = []
    for name in sorted(set(ops["problem"]) - {""}):
        mine = ops["problem"] == name
        theirs = ops.loc[mine, list(_CPU)].rename(columns=_CPU)
        host_left = intervals.total(*intervals.subtract(*own, *spans(theirs)))
        gpu_left = length(ops[~mine]) if rest else length(ops) - length(ops[mine])
        left = max(host_left if cpu else 0, gpu_left if gpu else 0, 1)
        left = host_left + gpu_left if both else left
        found.append((name, left / width if inverted else width / left))
    found.sort(key=lambda pair: (pair[1] if rising else -pair[1], pair[0]))
    return [[name, gain] for name, gain in found]


def _case(name: str, given: Loop, *, exam: bool = False) -> Case:
    wrong = [
        ("waits are nobody's work: subtract them from the window first", prove(given, waiting=False)),
        ("the CPU's remaining work is missing: the loop takes at least that long", prove(given, cpu=False)),
        ("the GPU's remaining work is missing: the loop takes at least that long", prove(given, gpu=False)),
        ("operations that run side by side count twice: use the union", prove(given, merged=False)),
        (
            "the union of the others is asked for, not that of all minus that of the problem",
            prove(given, rest=False),
        ),
        ("operations reach over the window's ends: cut them first", prove(given, cut=False)),
        ("CPU and GPU work at the same time: the larger of the two, not the sum", prove(given, both=True)),
        ("the largest gain comes first", prove(given, rising=True)),
        ("this is what remains; the gain is the window divided by that", prove(given, inverted=True)),
    ]  # fmt: skip
    return Case(
        name=name,
        summary=describe(given),
        function="prove",
        arguments=(given.ops[["start_ns", "end_ns", *_CPU, "problem"]], given.waits, given.window),
        expected=prove(given),
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        exam=exam,
        show=lambda answer: brief(answer, 400),
    )


def _cases(rng: np.random.Generator) -> list[Case]:
    return [_case(name, given) for name, given in scenes(rng)]


def _unseen(captures: CaptureSet) -> Loop:
    given = exam(captures)
    return Loop(given.ops.assign(problem=problems(given.ops)), given.waits, given.window, given.steps)


def _exam(captures: CaptureSet) -> list[Case]:
    return [_case(f"a recording you have not seen ({EXPERIMENT}, {RUN})", _unseen(captures), exam=True)]


def _notes(captures: CaptureSet) -> list[str]:
    ranked = prove(_unseen(captures))
    words = ", ".join(f"{name} {gain:.2f} x" for name, gain in ranked)
    return [
        f"{RUN}: at most {words}, as recorded; the recording slows the CPU down, so measure what you mend"
    ]


PROVE = Task(_cases, _exam, _notes, forbidden=FORBIDDEN)
