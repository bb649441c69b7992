"""What a sheet promises: its answers pass, misreadings, wrong words and wrong commands are told."""

import copy
import functools
import re
from typing import Any

import pytest

from labcode.grading import commands, sheet
from labcode.grading.catalogue import EXERCISES
from labcode.grading.sheet import (
    Answers,
    Command,
    Commands,
    Count,
    Interval,
    Names,
    Number,
    Question,
    Recording,
    Share,
    Sheet,
    Word,
)
from tests.exercises.support import ROOT, SHEETS, part

EACH = pytest.mark.parametrize("short", SHEETS, scope="module")


@functools.cache
def read(short: str) -> tuple[Sheet, Answers]:
    found = sheet.read(ROOT / "solutions", *part(short))
    return found, found.answers()


def right_ones(answers: Answers, questions: tuple[Question, ...]) -> dict[str, Any]:
    """The right answers, as a learner may write them."""
    found = {}
    for one in questions:
        value = answers.right[one.key]
        if isinstance(one, Interval):
            found[one.key] = [value, value]
        elif isinstance(value, Names):
            found[one.key] = value.right
        else:
            found[one.key] = value.model if isinstance(value, Commands) else value
    return found


def as_given(one: Question, value: Any) -> Any:
    """A misreading's value, as a learner may write it."""
    if isinstance(one, Interval):
        return [0.999 * value, 1.001 * value]
    return round(value) if isinstance(one, Count) else value


@EACH
def test_its_own_answers_pass_and_its_starter_is_to_do(short: str) -> None:
    found, answers = read(short)
    assert found.judge(found.filled(short, answers.right)).status == "passed"
    assert found.judge(found.starter(short)).status == "to do"
    assert set(answers.right) == {one.key for one in found.questions}


@EACH
def test_every_misreading_is_wrong_and_told(short: str) -> None:
    found, answers = read(short)
    questions = {one.key: one for one in found.questions}
    for misreading in answers.misreadings:
        given = right_ones(answers, found.questions)
        given |= {key: as_given(questions[key], value) for key, value in misreading.gives.items()}
        assert not [questions[key].unfit(given[key]) for key in given if questions[key].unfit(given[key])]
        wrong = [key for key in misreading.gives if not questions[key].same(answers.right[key], given[key])]
        assert wrong, misreading.says
        told = {key: says for says, keys in found.mistaken(given, answers) for key in keys}
        assert any(misreading.says in one for one in told.values()), (misreading.says, told)


@EACH
def test_every_wrong_word_and_command_has_a_reason(short: str) -> None:
    found, answers = read(short)
    for one in found.questions:
        if isinstance(one, Word):
            assert answers.right[one.key] in one.words
            told = {m.gives[one.key] for m in answers.misreadings if set(m.gives) == {one.key}}
            assert set(one.words) - told == {answers.right[one.key]}, one.key
        if isinstance(one, Command):
            for check in answers.right[one.key].checks:
                assert not one.unfit(check.wrong), check.wrong
                assert one.missing(answers.right[one.key], check.wrong)[0] == check.told(
                    commands.read(one.tool, check.wrong)
                )
        if isinstance(one, Interval):
            assert any(one.key in misreading.gives for misreading in answers.misreadings)


@EACH
def test_the_files_that_it_names_are_there(short: str) -> None:
    exercise, found = part(short)
    texts = (read(short)[0].text, *found.hints)
    for name in re.findall(r"captures/[\w/.-]+\.(?:xz|json|gz)\b", " ".join(texts)):
        assert (ROOT / name).is_file() or "NAME" in name, (exercise.id, name)


@EACH
def test_no_answer_stands_in_the_starter(short: str) -> None:
    """Words do, all of them; numbers and the right one of names do not."""
    found, answers = read(short)
    text = found.starter(short)
    for one in found.questions:
        value = answers.right[one.key]
        if isinstance(value, float):
            assert f" {value:.3g} " not in text.replace(":", " ").replace(",", " ") or value in (
                1.0,
                3.0,
                4.0,
            )
        if isinstance(value, Commands):
            assert value.model not in text


BOUNDLESS = ("[0, inf]", "[0.0, 1e308]", "[1e-300, 1e300]", "[-inf, inf]", "[nan, nan]", "[-1e9, 1e9]", "inf")


def turned(one: Question, value: Any) -> Any:
    """An answer the other way round: the other sign, the rest of a share, ends exchanged, another word."""
    if isinstance(one, Interval):
        return [1.3 * value[1] + 1e-9, 0.7 * value[0]]
    if isinstance(one, Word):
        return one.words[one.words.index(value) - 1]
    if isinstance(one, Share):
        return 1 - value
    if isinstance(one, Number):
        return -value
    return " ".join(reversed(value.split())) if isinstance(one, Command) else value[::-1]


def most(one: Question) -> Any:
    """The most that may be written."""
    if isinstance(one, Word):
        return one.words[-1]
    if isinstance(one, Share):
        return 1
    return 10**12 if isinstance(one, Number) else "*" * 200


def written(given: dict[str, Any]) -> str:
    return "".join(f"{key} = {sheet._written(value)}\n" for key, value in given.items())


@EACH
def test_a_sheet_turned_round_or_without_bounds_does_not_pass(short: str) -> None:
    """Nothing, all answers the other way round, the most of all, and intervals that hold everything."""
    found, answers = read(short)
    if any(isinstance(one, Recording) for one in found.questions):
        return  # `tests/grading/test_recordings.py` hands in wrong ones
    alone = copy.copy(found)
    alone.answers = lambda: answers
    right = right_ones(answers, found.questions)
    assert alone.judge("").status == "failed"
    assert (
        alone.judge(written({one.key: turned(one, right[one.key]) for one in found.questions})).status
        == "failed"
    )
    tops = {one.key: right[one.key] if isinstance(one, Interval) else most(one) for one in found.questions}
    if any(not isinstance(one, Interval) for one in found.questions):
        assert alone.judge(written(tops)).status == "failed"
    for one in found.questions:
        others = written({key: value for key, value in right.items() if key != one.key})
        for everything in BOUNDLESS if isinstance(one, Interval) else ():
            verdict = alone.judge(f"{others}{one.key} = {everything}\n")
            assert verdict.status == "failed" and not verdict.score, (one.key, everything, verdict)


def test_there_are_enough_of_each_kind() -> None:
    kinds = [exercise.kind for exercise in EXERCISES]
    least = {"detective": 24, "command": 8, "predict": 12, "step": 16}
    assert {kind: kinds.count(kind) >= count for kind, count in least.items()} == dict.fromkeys(least, True)
    assert sum(exercise.minutes <= 10 for exercise in EXERCISES) >= 24
    assert len(EXERCISES) >= 100 and sum(not exercise.needs for exercise in EXERCISES) >= 75


def test_each_page_of_the_book_has_an_exercise() -> None:
    """But those that only tell where to find what, and one that sums up others."""
    without = ("guides", "reference", "start", "index")
    pages = {
        path.relative_to(ROOT / "book").with_suffix("").as_posix() for path in (ROOT / "book").rglob("*.md")
    }
    asked = {one for one in pages if not one.startswith(without)}
    assert sorted(asked - {exercise.chapter for exercise in EXERCISES}) == []


def test_steps_come_just_before_what_they_lead_to() -> None:
    order = [exercise.short for exercise in EXERCISES]
    for exercise in EXERCISES:
        if exercise.kind == "step":
            after = EXERCISES[order.index(exercise.short) + 1]
            assert exercise.minutes <= 5 and exercise.before == after.short
