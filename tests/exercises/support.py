"""Helpers of these tests: a part's short name in, its solution, its cases and verdicts out."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode.exercises.cases import Case, Task, judge
from labcode.grading import catalogue, codec, grade, sql
from labcode.grading.records import Exercise, Part

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


def names_of(source: str, short: str = "") -> dict[str, Any]:
    """The names a file defines, which may import those beside it; of a query, a function that runs it."""
    exercise, found = part(short) if short else (None, None)
    if exercise is not None and found is not None and found.file.endswith(".sql"):
        return {"answer": lambda export, columns: _answer(source, export, columns)}
    namespace: dict[str, Any] = {"__name__": "exercise"}
    beside = str(ROOT / "solutions" / exercise.folder) if exercise is not None else ""
    with _importable(beside):
        exec(compile(source, "exercise", "exec"), namespace)
    return namespace


def _answer(source: str, export: Path, columns: list[str]) -> list[list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "query.sql"
        file.write_text(source, encoding="utf-8")
        return sql.answer(file, export, columns)


@contextlib.contextmanager
def _importable(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


@contextlib.contextmanager
def temporary_files() -> Iterator[None]:
    """Folders and databases that are arguments are written to a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        yield


@functools.cache
def _encoded(short: str, seed: int) -> tuple[list[Any], ...]:
    """The arguments of each case as they go through the pipe."""
    return tuple([codec.encode(argument) for argument in case.arguments] for case in cases(short, seed))


def complaints(short: str, source: str, seed: int = 0) -> Iterator[tuple[str, ...]]:
    """What is said about the answers of a file, run in this process: one entry a case that is not right.

    A case is run when its turn comes: who has read enough runs no more of them.
    """
    exercise, _ = part(short)
    names = names_of(source, short)
    with temporary_files(), _importable(str(ROOT / "solutions" / exercise.folder)):
        for case, encoded in zip(cases(short, seed), _encoded(short, seed), strict=True):
            arguments = [codec.decode(argument) for argument in encoded]
            try:
                answer = codec.decode(codec.encode(names[case.function](*arguments)))
            except Exception as error:
                lines: tuple[str, ...] = (f"{type(error).__name__}: {error}",)
            else:
                lines = judge(case, answer)
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
