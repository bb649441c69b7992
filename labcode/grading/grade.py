"""Grade one part of an exercise: the learner's file in, a verdict with its reasons out."""

from __future__ import annotations

import ast
import importlib
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from labcode import store
from labcode.errors import LabError
from labcode.exercises.cases import Case, Task, Verdict, judge, table_lines
from labcode.grading import execution, needs
from labcode.grading.records import Exercise, Part

SEED_VARIABLE = "LABCODE_EXERCISE_SEED"
_PRINTED_LINES = 8


def grade(exercise: Exercise, part: Part, file: Path) -> Verdict:
    """Grade ``file`` as the answer to a part.

    Never raises for what a learner wrote, nor passes what it could not run.
    """
    if not file.is_file():
        return Verdict(
            "failed",
            f"{file.name} is not there",
            (f"put the starter back with `labcode exercises --reset {exercise.short}{part.letter}`",),
        )
    grader = resolve(part.grader)
    if part.needs:
        missing = needs.missing(part.needs)
        if missing:
            if part.beforehand and "nvcc" not in missing:
                found = resolve(part.beforehand)(file)
                if isinstance(found, Verdict):
                    return found
            return not_run(f"needs {needs.in_words(missing)} (`labcode doctor` says what is missing)")
        verdict = grader(file)
        assert isinstance(verdict, Verdict)
        return verdict
    assert isinstance(grader, Task)
    return grade_cases(grader, file, seed_from_environment())


def resolve(reference: str) -> Any:
    """What ``module:name`` refers to."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def not_run(reason: str, details: tuple[str, ...] = ()) -> Verdict:
    """The verdict on what could not be graded here."""
    return Verdict("not run", f"not run: {reason}", details)


def seed_from_environment() -> int:
    """The seed of the hidden inputs: drawn anew each time, unless the environment repeats one."""
    text = os.environ.get(SEED_VARIABLE)
    if not text:
        return secrets.randbits(32)
    if not text.isdecimal():
        raise LabError(f"{SEED_VARIABLE}={text}: the seed is a whole number, as a failed grading prints it")
    return int(text)


def grade_cases(task: Task, file: Path, seed: int) -> Verdict:
    """Grade a file by the cases of a task, the generated ones drawn with ``seed``."""
    if hiding := _forbidden_import(task, file):
        return Verdict("failed", hiding)
    cases = list(task.generated(np.random.default_rng(seed)))
    generated, no_exam = len(cases), ""
    if task.exam is not None:
        try:
            cases += task.exam(store.load_set())
        except LabError as error:
            no_exam = str(error)
    calls = [execution.Call(case.function, case.arguments, case.limit_s) for case in cases]
    ran = execution.run_calls(file, calls)
    if ran.load_error:
        return Verdict("failed", "the file cannot be loaded", (*ran.load_error, *_printed(ran.printed)))
    for number, (case, outcome) in enumerate(zip(cases, ran.outcomes, strict=False)):
        what, complaint = _complaint(case, outcome, number)
        if not complaint:
            continue
        if complaint[-1].startswith("not written yet"):
            return Verdict("failed", f"{case.function}: {complaint[-1]}")
        headline = f"{case.function}: {what} on case {number + 1} of {len(cases)}, «{case.name}»"
        details = (*_input(case), *complaint, *_printed(ran.printed), _again(seed, case))
        return Verdict("failed", headline, tuple(line for line in details if line))
    if len(ran.outcomes) < len(cases):
        return Verdict("failed", f"only {len(ran.outcomes)} of {len(cases)} cases gave an answer")
    if no_exam:
        return not_run(
            no_exam, (f"all {generated} generated cases pass; the unseen capture is still to come",)
        )
    exams = len(cases) - generated
    seen = f", {exams} of them on captures you have not seen" if exams else ""
    notes = tuple(task.notes(store.load_set())) if task.notes else ()
    return Verdict("passed", f"passed: {len(cases)} hidden cases{seen}", notes)


def _complaint(case: Case, outcome: execution.Outcome, number: int) -> tuple[str, tuple[str, ...]]:
    """What kind of failure an outcome is, and the lines that explain it; no lines for a right answer."""
    if outcome.kind == "value":
        return "a wrong answer", judge(case, outcome.value)
    if outcome.kind == "timeout":
        advice = "smaller inputs passed: compare neighbors after one sort, not every pair"
        return "too slow", (*outcome.lines, *([advice] if case.exam and number else []))
    return {"error": "an error", "died": "it ended"}[outcome.kind], outcome.lines


def _forbidden_import(task: Task, file: Path) -> str:
    if file.suffix != ".py":
        return ""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return ""  # loading the file says what is wrong with it
    guard = [node for node in tree.body if isinstance(node, ast.If) and "__main__" in ast.dump(node.test)]
    resting = {id(child) for node in guard for child in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            if id(node) not in resting and any(name == f or name.startswith(f + ".") for f in task.forbidden):
                return f"line {node.lineno} imports {name}: write it yourself, this is the exercise"
    return ""


def _input(case: Case) -> tuple[str, ...]:
    lines = table_lines(case)
    return (f"input:    {case.summary}", *("    " + line for line in lines))


def _printed(text: str) -> tuple[str, ...]:
    lines = text.strip().splitlines()
    if not lines:
        return ()
    return ("your file printed (the end of it):", *("    " + line for line in lines[-_PRINTED_LINES:]))


def _again(seed: int, case: Case) -> str:
    return "" if case.exam else f"inputs are drawn anew each time; {SEED_VARIABLE}={seed} repeats these"
