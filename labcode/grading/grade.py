"""Grade one part of an exercise: the learner's file in, a verdict with its reasons out."""

from __future__ import annotations

import ast
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labcode import store
from labcode.errors import LabError
from labcode.grading import execution, needs, sealed
from labcode.grading.records import ALWAYS_FORBIDDEN, Exercise, Part, Verdict

if TYPE_CHECKING:  # these load pandas, which is not waited for before the learner's process has started
    from labcode.grading.cases import Case
    from labcode.grading.task import Task

SEED_VARIABLE = "LABCODE_EXERCISE_SEED"
_PRINTED_LINES = 8
_LATER_S = 2.0  # for answers behind a wrong one, or as long as it took up to there, where a machine is busy


def grade(exercise: Exercise, part: Part, file: Path, *, compiling: bool = True, own: bool = True) -> Verdict:
    """Grade ``file`` as the answer to a part.

    Never raises for what a learner wrote, nor passes what it could not run. A part that needs something is
    graded by ``grade(file)`` of the module ``a_gpu`` beside its solution, which gives a `Verdict` or raises
    `labcode.grading.gpu.StoppedError`; where only nvcc is at hand, ``beforehand(file)``, if it is there,
    gives a verdict on a file that is wrong in any case, and None on others; ``compiling=False`` leaves
    that out, as it takes seconds. A recording has to be the learner's ``own``: the book's are refused.
    """
    if not file.is_file():
        words = command("--reset", f"{exercise.short}{part.letter}")
        return Verdict("failed", f"{file.name} is not there", (f"put the starter back with `{words}`",))
    if linked := _linked(file):
        return Verdict("failed", linked)
    if part.is_sheet:
        from labcode.grading import sheet

        return sheet.judge(sealed.root(store.repository_root()), exercise, part, file, own=own)
    if not part.needs:
        seed, forbidden = seed_from_environment(), (*part.forbidden, *ALWAYS_FORBIDDEN)
        if hiding := _forbidden_import(forbidden, file):
            return Verdict("failed", hiding)
        try:
            ran = execution.Execution(file, forbidden=forbidden)
        except ValueError as refused:
            return Verdict("failed", f"not taken: {refused}")
        with ran:
            from labcode.grading import task

            return grade_cases(task.read(exercise, part), ran, seed)
    missing = needs.missing(part.needs)
    if not missing:
        verdict = on_gpu(exercise, part, "grade", file)
        assert verdict is not None
        return verdict
    if compiling and "nvcc" in part.needs and "nvcc" not in missing:
        found = on_gpu(exercise, part, "beforehand", file)
        if found is not None:
            return found
    doctor = "" if _under_nox() else " (`labcode doctor` says what is missing)"
    return not_run(f"needs {needs.in_words(missing)}{doctor}")


def on_gpu(exercise: Exercise, part: Part, name: str, file: Path) -> Verdict | None:
    """What ``grade`` or ``beforehand`` of a part for a GPU says of a file; None where it says nothing."""
    from labcode.grading.gpu import StoppedError
    from labcode.grading.task import beside

    judge = getattr(beside(exercise, part, "gpu"), name, None)
    try:
        found: Verdict | None = judge(file) if judge else None
        return found
    except StoppedError as stopped:
        return stopped.verdict


def command(*words: str) -> str:
    """What to type for ``labcode exercises`` with these words: a call of nox, if that is how it runs."""
    return " ".join(["nox -s exercises --" if _under_nox() else "labcode exercises", *words])


def _under_nox() -> bool:
    return "NOX_CURRENT_SESSION" in os.environ


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


def grade_cases(task: Task, ran: execution.Execution, seed: int) -> Verdict:
    """Grade a file, by the process that runs it and the cases of a task, some of them drawn with ``seed``.

    The learner's process computes while this one runs the solution; behind a wrong answer for two seconds
    more, or longer on a busy machine, since a reason has to fit what comes then.
    """
    import numpy as np

    begin = time.monotonic()
    cases = task.generated(np.random.default_rng(seed))
    generated, no_exam = len(cases), ""
    if task.exam is not None:
        try:
            cases += task.exam(store.load_set())
        except LabError as error:
            no_exam = str(error)
    outcomes = ran.outcomes([execution.Call(c.function, c.arguments, c.time_s) for c in cases])
    for number, case in enumerate(cases):
        if not ran.load_error:
            task.expect(case)
        outcome = next(outcomes, None)
        if ran.load_error:
            lines = (*ran.load_error, *_printed(ran.printed()))
            return Verdict("failed", "the file cannot be loaded", lines)
        if outcome is None:
            return Verdict("failed", f"only {number} of {len(cases)} cases gave an answer")
        if outcome.kind == "error" and outcome.lines[-1].startswith("not written yet"):
            return Verdict("to do", f"{case.function}: {outcome.lines[-1]}")
        later = _later(ran, cases[number + 1 : generated], outcomes, begin)
        what, complaint = _complaint(task, case, outcome, cases[:number], later)
        if complaint:
            headline = f"{case.function}: {what} on case {number + 1} of {len(cases)}, “{case.name}”"
            details = (*_input(case), *complaint, *_printed(outcome.printed), _again(seed, case))
            return Verdict("failed", headline, tuple(line for line in details if line))
    if no_exam:
        lines = (f"all {generated} generated cases pass; the unseen capture is still to come",)
        return not_run(no_exam, lines)
    exams = len(cases) - generated
    seen = f", {exams} of them on captures you have not seen" if exams else ""
    notes = tuple(task.notes(store.load_set())) if task.notes else ()
    notes += _printed(ran.printed())
    return Verdict("passed", f"passed: {len(cases)} hidden cases{seen}", notes)


def _linked(file: Path) -> str:
    """What is wrong with a file that is another name of a solution; empty where it is not."""
    root = sealed.root(store.repository_root()).absolute()
    if file.absolute().is_relative_to(root):
        return ""
    solution = next((one for one in root.glob(f"*/*/{file.name}") if one.samefile(file)), None)
    return "" if solution is None else f"{file.name} is a link to the solution: write a file of your own"


def _later(
    ran: execution.Execution, cases: Sequence[Case], outcomes: Iterator[execution.Outcome], begin: float
) -> Iterator[tuple[Case, Any]]:
    """What was answered to the cases behind a wrong one, as far as it comes soon; all began at ``begin``."""
    now = time.monotonic()
    until = ran.until = now + max(_LATER_S, now - begin)
    for case, outcome in zip(cases, outcomes, strict=False):
        if outcome.kind == "value":
            yield case, outcome.value
        if time.monotonic() > until:
            return


def _complaint(
    task: Task,
    case: Case,
    outcome: execution.Outcome,
    before: Sequence[Case],
    later: Iterator[tuple[Case, Any]],
) -> tuple[str, tuple[str, ...]]:
    """What kind of failure an outcome is, and the lines that explain it; no lines for a right answer."""
    if outcome.kind == "value":
        return "a wrong answer", task.judge(case, outcome.value, before, later)
    if outcome.kind == "timeout":
        advice = "smaller inputs passed: compare neighbors after one sort, not every pair"
        return "too slow", (*outcome.lines, *([advice] if case.exam and before else []))
    return {"error": "an error", "died": "it ended"}[outcome.kind], outcome.lines


def _forbidden_import(forbidden: Sequence[str], file: Path) -> str:
    if file.suffix != ".py":
        return ""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # the latter two: nested too deep
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
            if id(node) not in resting and any(name == f or name.startswith(f + ".") for f in forbidden):
                return f"line {node.lineno} imports {name}: write it yourself, this is the exercise"
    return ""


def _input(case: Case) -> tuple[str, ...]:
    from labcode.grading.cases import table_lines

    lines = table_lines(case.table)
    return (f"input:    {case.summary}", *("    " + line for line in lines))


def _printed(text: str) -> tuple[str, ...]:
    lines = text.strip().splitlines()
    if not lines:
        return ()
    return ("your file printed (the end of it):", *("    " + line for line in lines[-_PRINTED_LINES:]))


def _again(seed: int, case: Case) -> str:
    return "" if case.exam else f"inputs are drawn anew each time; {SEED_VARIABLE}={seed} repeats these"
