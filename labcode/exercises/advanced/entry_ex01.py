"""advanced-ex01, Python backtraces: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="advanced-ex01-python-backtraces",
    title="From a kernel to its line",
    summary="Place every kernel of a training step on the line it comes from, also the backward pass and "
    "calls at which no stack was taken, and find the function that has the GPU's time.",
    chapter="advanced/python-backtraces",
    stars=4,
    minutes=75,
    parts=(
        Part(
            letter="a",
            title="what a stack says",
            file="a_stacks.py",
            grader="labcode.exercises.advanced.ex01_grade:STACKS",
            hints=(
                "A library is told by its file: `re.search` with a pattern that begins at a folder, "
                "`(^|/)`, says so in one line.",
                "`(^|/)(site|dist)-packages/|(^|/)lib/python\\d|^<` is the pattern. `reversed(stack)` turns "
                "the order round.",
                "common_path: `for one, other in zip(before, after)` goes through both; while they are "
                "equal, append.",
                "At the first difference: `one[:2] == other[:2]` is the same function, append it with line "
                "0; then `break` in any case.",
            ),
        ),
        Part(
            letter="b",
            title="whose kernel is it?",
            file="b_blame.py",
            grader="labcode.exercises.advanced.ex01_grade:LAUNCHES",
            hints=(
                "Begin with rule 1 and None for all else, grade, and add rule by rule: each failing case "
                "says which rule it is about.",
                "Make dictionaries first: paths by (pid, correlation), calls by (pid, correlation), "
                "operations and stacks by (pid, tid), operations by (pid, number).",
                "Sorted by start, the outermost operations of a thread are those that begin at or after the "
                "end of the last outermost one; `bisect` finds the one around a moment.",
                "Rules 3 and 4 are one function of a thread, a start and an end. Rule 2 calls it for the "
                "Python thread with the operation around the call, for the engine with the one around "
                "the forward operation.",
                "blame: `{(f, file) for f, file, line in path}` counts a function once.",
            ),
        ),
    ),
)
