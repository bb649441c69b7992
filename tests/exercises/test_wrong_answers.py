"""Wrong answers, written without a look at the stock of mistakes: none passes, what is said of each fits."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from labcode.grading.cases import Case
from labcode.grading.task import answer
from tests.exercises.support import SHEETS, cases, names_of, solution, task
from tests.exercises.test_sheets import read as read_sheet

Wrong = tuple[str, str]  # a file's text (of a sheet, one line), and the reason that is told


def read(text: str) -> dict[str, list[Wrong]]:
    """By part, what ``wrong_answers.txt`` has: the function alone, or behind all of the solution (``@+``);
    of a sheet a key and a value, the others being right."""
    found: dict[str, list[Wrong]] = {}
    head, body, short, rest = "", "", "", ""
    for line in text.splitlines():
        if line.startswith("@"):
            short, _, head = line[1:].removeprefix("+").partition(" ")
            rest = solution(short) if line.startswith("@+") else ""
            found.setdefault(short, [])
        elif line.startswith(">"):
            source = f"{head} = {body}" if short in SHEETS else f"{rest}\n\ndef {head}:\n    {body}\n"
            found[short].append((source, line[1:].strip()))
        else:
            body = line
    return found


ALL = read(Path(__file__).with_name("wrong_answers.txt").read_text(encoding="utf-8"))


def answered(names: dict[str, Any], later: Sequence[Case]) -> Iterator[tuple[Case, Any]]:
    """What is answered to other cases, as far as there is an answer."""
    for case in later:
        with contextlib.suppress(Exception):
            yield case, answer(names, case)


def told(short: str, source: str) -> str:
    """The reason that a learner is told, "passes", or "error"."""
    if short in SHEETS:
        return told_of_a_sheet(short, source)
    names = names_of(source)
    before: list[Case] = []
    for number, case in enumerate(cases(short, 7)):
        later = answered(names, cases(short, 7)[number + 1 :])
        try:
            lines = task(short).judge(case, answer(names, case), before, later)
        except Exception:
            return "error"
        if lines:
            return next((line.removeprefix("likely:").strip() for line in lines if "likely:" in line), "")
        before.append(case)
    return "passes"


def told_of_a_sheet(short: str, line: str) -> str:
    """The same of a sheet in which one line is wrong."""
    sheet, answers = read_sheet(short)
    key = line.partition(" = ")[0]
    right = sheet.filled(short, answers.right).splitlines()
    wrong = [line if one.startswith(f"{key} = ") else one for one in right]
    verdict = sheet.judge("\n".join(wrong))
    if verdict.status == "passed":
        return "passes"
    said = (verdict.headline, *verdict.details)  # what cannot be read stands in the headline
    return next(one for one in said if one.startswith(f"{key}: ")).partition(": ")[2].partition("right: ")[2]


@pytest.mark.parametrize("short", ALL)
def test_wrong_answers_are_told_why(short: str) -> None:
    said = [(source, told(short, source)) for source, _ in ALL[short]]
    assert said == ALL[short]
