"""Hidden cases of part b (what stalls the feed): a generator or a capture in, cases out."""

from collections.abc import Sequence
from typing import Any

from labcode.grading.cases import Case
from labcode.store import CaptureSet
from solutions.advanced.ex06_os_runtime.a_cases import UNSEEN, Rng, case_of, scenes, unseen


def cases(rng: Rng) -> list[Case]:
    """The machines of part a."""
    return [case_of(name, seen, "cause") for name, seen in scenes(rng)]


def exam(captures: CaptureSet) -> list[Case]:
    """The capture that no page shows."""
    return [case_of(UNSEEN, unseen(captures), "cause")]


def notes(captures: CaptureSet, answered: Sequence[tuple[Case, Any]]) -> list[str]:
    """What the answer says about the capture."""
    ((_, found),) = answered
    if found is None:
        return []
    behind = f", behind it {found['behind']}" if found["behind"] else ", and nobody holds anything"
    return [f"the readers spend {found['share']:.0%} of the gaps in {found['call']}{behind}"]
