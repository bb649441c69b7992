"""Helpers of these tests: a part's short name in, its solution, its cases and verdicts out."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labcode.grading import catalogue, execution
from labcode.grading.records import Exercise, Part
from labcode.grading.task import Task, namespace, read

ROOT = Path(__file__).resolve().parents[2]
PARTS = {f"{e.short}{p.letter}": p for e in catalogue.EXERCISES for p in e.parts}
WITHOUT_GPU = [short for short, p in PARTS.items() if not p.needs]
WITH_GPU = [short for short, p in PARTS.items() if p.needs]
SHEETS = [short for short, p in PARTS.items() if p.is_sheet]
CODE = [short for short in WITHOUT_GPU if short not in SHEETS]  # what is graded by hidden cases


def part(short: str) -> tuple[Exercise, Part]:
    exercise, found = catalogue.find(short)
    assert found is not None
    return exercise, found


@functools.cache
def task(short: str) -> Task:
    """The task of a part, without its captures."""
    found = read(*part(short))
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


class Ran(NamedTuple):
    """What became of a file: why it could not be loaded, what became of the calls begun, what it printed."""

    load_error: tuple[str, ...]
    outcomes: tuple[execution.Outcome, ...]
    printed: str


def run_calls(file: Path, calls: Sequence[execution.Call], *, load_limit_s: float = 60.0) -> Ran:
    with execution.Execution(file, load_limit_s=load_limit_s) as ran:
        outcomes = tuple(ran.outcomes(calls))
        return Ran(ran.load_error, outcomes, ran.printed())
