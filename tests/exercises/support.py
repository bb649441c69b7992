"""Helpers of these tests: a part's short name in, its solution, its cases and verdicts out."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from labcode.exercises.cases import Task
from labcode.grading import catalogue, execution, grade
from labcode.grading.records import Exercise, Part
from labcode.grading.task import answer, namespace

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_GPU = [f"{e.short}{p.letter}" for e in catalogue.EXERCISES for p in e.parts if not p.needs]
NOT_MOVED = [short for short in WITHOUT_GPU if catalogue.find(short)[1].grader]  # type: ignore[union-attr]
WITH_GPU = [f"{e.short}{p.letter}" for e in catalogue.EXERCISES for p in e.parts if p.needs]


def part(short: str) -> tuple[Exercise, Part]:
    exercise, found = catalogue.find(short)
    assert found is not None
    return exercise, found


@functools.cache
def task(short: str) -> Any:
    """The task of a part, without its captures."""
    found = grade.task_of(*part(short))
    if isinstance(found, Task):
        return replace(found, exam=None, notes=None)
    found.exam = found.notes = None
    return found


def solution(short: str) -> str:
    exercise, found = part(short)
    return (ROOT / "solutions" / exercise.path(found)).read_text(encoding="utf-8")


@functools.cache
def cases(short: str, seed: int = 0) -> tuple[Any, ...]:
    return tuple(task(short).generated(np.random.default_rng(seed)))


def names_of(source: str, short: str = "") -> dict[str, Any]:
    """The names a file defines; of a query, a function that runs it."""
    if not short:
        return namespace(source, ROOT / "solutions" / "a_file.py")
    exercise, found = part(short)
    return namespace(source, ROOT / "solutions" / exercise.path(found))


def complaints(short: str, source: str, seed: int = 0) -> Iterator[tuple[str, ...]]:
    """What is said about the answers of a file, run in this process: one entry a case that is not right.

    A case is run when its turn comes: who has read enough runs no more of them.
    """
    names = names_of(source, short)
    for case in cases(short, seed):
        try:
            got = answer(names, case, 20.0)
        except Exception as error:
            lines: tuple[str, ...] = (f"{type(error).__name__}: {error}",)
        else:
            lines = task(short).judge(case, got)
        if lines:
            yield case.name, *lines


def check_told(short: str, old: str, new: str, reason: str, seeds: Sequence[int]) -> None:
    """A solution with ``old`` replaced by ``new`` is not right, and a reason found by ``reason`` comes up.

    Without a reason it is enough that it is not right.
    """
    source = solution(short)
    assert old in source, "the solution has changed: change this test with it"
    said: list[str] = []
    reasons: list[str] = []
    for seed in seeds:
        for lines in complaints(short, source.replace(old, new), seed):
            likely = [line.removeprefix("likely:   ") for line in lines if line.startswith("likely:   ")]
            if not reason or any(re.search(reason, line) for line in likely):
                return
            said += lines
            reasons += likely
    pytest.fail(f"{reasons[:5] or said[:12]}" if said else "the mistake passes all hidden cases")


class Ran(NamedTuple):
    """What became of a file: why it could not be loaded, what became of the calls begun, what it printed."""

    load_error: tuple[str, ...]
    outcomes: tuple[execution.Outcome, ...]
    printed: str


def run_calls(file: Path, calls: Sequence[execution.Call], *, load_limit_s: float = 60.0) -> Ran:
    with execution.Execution(file, load_limit_s=load_limit_s) as ran:
        outcomes = tuple(ran.outcomes(calls))
        return Ran(ran.load_error, outcomes, ran.printed())
