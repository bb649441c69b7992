"""Helpers of these tests: a part's short name in, its solution, its cases and verdicts out."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labcode.exercises import catalogue, codec, grade
from labcode.exercises.cases import Case, Task, judge
from labcode.exercises.records import Exercise, Part

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_GPU = [f"{e.short}{p.letter}" for e in catalogue.EXERCISES for p in e.parts if not p.needs]
WITH_GPU = [f"{e.short}{p.letter}" for e in catalogue.EXERCISES for p in e.parts if p.needs]


def part(short: str) -> tuple[Exercise, Part]:
    exercise, found = catalogue.find(short)
    assert found is not None
    return exercise, found


def task(short: str) -> Task:
    """The task of a part, without its captures."""
    found = grade.resolve(part(short)[1].grader)
    assert isinstance(found, Task)
    return replace(found, exam=None, notes=None)


def solution(short: str) -> str:
    exercise, found = part(short)
    return (ROOT / "solutions" / exercise.path(found)).read_text(encoding="utf-8")


@functools.cache
def cases(short: str, seed: int = 0) -> tuple[Case, ...]:
    return tuple(task(short).generated(np.random.default_rng(seed)))


def names_of(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "exercise"}
    exec(compile(source, "exercise", "exec"), namespace)
    return namespace


def complaints(short: str, source: str, seed: int = 0) -> list[tuple[str, ...]]:
    """What is said about the answers of a file, run in this process: one entry a case that is not right."""
    names = names_of(source)
    found = []
    for case in cases(short, seed):
        arguments = [codec.decode(codec.encode(argument)) for argument in case.arguments]
        try:
            answer = codec.decode(codec.encode(names[case.function](*arguments)))
        except Exception as error:
            found.append((case.name, f"{type(error).__name__}: {error}"))
            continue
        if lines := judge(case, answer):
            found.append((case.name, *lines))
    return found
