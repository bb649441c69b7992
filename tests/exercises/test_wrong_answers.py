"""Wrong answers, written without a look at the stock of mistakes: none passes, what is said of each fits."""

from pathlib import Path

import pytest

from labcode.grading.cases import Case
from labcode.grading.task import answer
from tests.exercises.support import cases, names_of, solution, task

Wrong = tuple[str, str]  # a file's text, and the reason that is told


def read(text: str) -> dict[str, list[Wrong]]:
    """By part, what ``wrong_answers.txt`` has: the function alone, or behind all of the solution (``@+``)."""
    found: dict[str, list[Wrong]] = {}
    head, body, short, rest = "", "", "", ""
    for line in text.splitlines():
        if line.startswith("@"):
            short, _, head = line[1:].removeprefix("+").partition(" ")
            rest = solution(short) if line.startswith("@+") else ""
            found.setdefault(short, [])
        elif line.startswith(">"):
            found[short].append((f"{rest}\n\ndef {head}:\n    {body}\n", line[1:].strip()))
        else:
            body = line
    return found


ALL = read(Path(__file__).with_name("wrong_answers.txt").read_text(encoding="utf-8"))


def told(short: str, source: str) -> str:
    """The reason that a learner is told, "passes", or "error"."""
    names = names_of(source)
    before: list[Case] = []
    for case in cases(short, 7):
        try:
            lines = task(short).judge(case, answer(names, case), before)
        except Exception:
            return "error"
        if lines:
            return next((line.removeprefix("likely:").strip() for line in lines if "likely:" in line), "")
        before.append(case)
    return "passes"


@pytest.mark.parametrize("short", ALL)
def test_wrong_answers_are_told_why(short: str) -> None:
    said = [(source, told(short, source)) for source, _ in ALL[short]]
    assert said == ALL[short]
