"""Cases that know the right answer and what typical mistakes give: parts that have no folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Verdict, brief, compared, duration, generic, matches, plain, shape
from labcode.store import CaptureSet

__all__ = ["Case", "Mistake", "Task", "Verdict", "brief", "duration", "judge", "matches", "plain"]


@dataclass(frozen=True)
class Mistake:
    """A typical mistake: what to say about it, and the value it gives on this input."""

    says: str
    gives: Any


@dataclass(frozen=True)
class Case:
    """One call of a learner's function with inputs the learner has not seen.

    ``name`` says what is special about the input, ``summary`` describes it, ``table`` is printed with a
    failure when it is small. ``relative`` is the tolerance on numbers. ``show`` turns an answer into text.
    ``exam`` marks inputs that come from a capture. ``share`` says that the numbers are shares between 0 and
    1, which has mistakes of its own. ``limit_s`` is the time a learner's function may take. Dictionaries
    compare without order.
    """

    name: str
    summary: str
    function: str
    arguments: tuple[Any, ...]
    expected: Any
    mistakes: tuple[Mistake, ...] = ()
    relative: float = 1e-6
    table: pd.DataFrame | None = None
    show: Callable[[Any], str] | None = None
    exam: bool = False
    share: bool = False
    limit_s: float = 10.0

    @property
    def time_s(self) -> float:
        """The seconds that a learner's function may take."""
        return self.limit_s


@dataclass(frozen=True)
class Task:
    """How a part that needs no GPU is graded.

    ``generated`` makes the cases with inputs drawn from a random generator, easy ones first. ``exam`` makes
    the cases with inputs from captures of a set that no page shows; it raises `labcode.errors.LabError` when
    the set has none. ``notes`` says, once the part has passed, what the answer reveals about those captures.
    ``forbidden`` are modules that would do the work for the learner.
    """

    generated: Callable[[np.random.Generator], list[Case]]
    exam: Callable[[CaptureSet], list[Case]] | None = None
    notes: Callable[[CaptureSet], list[str]] | None = None
    forbidden: tuple[str, ...] = ("labcode.analysis", "labcode.exercises")

    def expect(self, case: Case) -> None:
        """The right answer is known already."""

    def judge(self, case: Case, got: Any) -> tuple[str, ...]:
        """Lines that say what is wrong with an answer; none when it is right."""
        return judge(case, got)


def judge(case: Case, got: Any) -> tuple[str, ...]:
    """Lines that say what is wrong with an answer; none when it is right."""
    expected = plain(case.expected)
    if matches(expected, got, case.relative):
        return ()
    lines = compared(case.show, expected, got)
    reason = _reason(case, expected, got)
    return (*lines, *([f"likely:   {reason}"] if reason else []))


def _reason(case: Case, expected: Any, got: Any) -> str:
    if words := shape(expected, got):
        for mistake in case.mistakes:
            if matches(plain(mistake.gives), got, case.relative):
                return mistake.says
        return words
    for mistake in case.mistakes:
        wrong = plain(mistake.gives)
        if not matches(expected, wrong, case.relative) and matches(wrong, got, case.relative):
            return mistake.says
    return generic(case.share, expected, got)
