import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from labcode.grading import cases
from labcode.grading.cases import Case, brief, duration, table_lines
from labcode.grading.codec import Other
from labcode.grading.records import Part
from labcode.grading.task import Task
from tests.exercises.support import cases as cases_of
from tests.exercises.support import task

PART = Part("a", "the same", "a_same.py", ("give", "it", "back"))
Judge = Callable[..., tuple[str, ...]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """What is said of an answer where another is right; ``mistakes``: what they say, and what they give."""

    def run(expected: Any, got: Any, mistakes: Mapping[str, str] = MappingProxyType({}), **more: Any) -> Any:
        file = tmp_path / "a_same.py"
        file.write_text('"""Of bytes."""\n\ndef same(value):\n    return value\n', encoding="utf-8")
        entries = [
            f'[[mistakes]]\nsays = "{says}"\nold = "return value"\nnew = "return {gives}"\n'
            for says, gives in mistakes.items()
        ]
        (tmp_path / "a_mistakes.toml").write_text("".join(entries), encoding="utf-8")
        task = Task(PART, file, SimpleNamespace())
        return task.judge(Case("a case", "an input", "same", (expected,), **more), got)

    return run


def likely(lines: tuple[str, ...]) -> str:
    """What is told as the likely mistake; empty when nothing is."""
    assert lines, "the answer passed"
    assert lines[0].startswith("expected: ") and lines[1].startswith("got:      ")
    found = [line.removeprefix("likely:").strip() for line in lines if line.startswith("likely:")]
    return found[0] if found else ""


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (0.25, 0.25 + 1e-9),
        (3, 3.0),
        ({0: (1, 2)}, {0: [1, 2]}),
        ([], []),
        ({}, {}),
        ("launch", "launch"),
        (None, None),
        (float("nan"), float("nan")),
    ],
)
def test_right_answers(judge: Judge, expected: Any, got: Any) -> None:
    assert judge(expected, got) == ()


@pytest.mark.parametrize(
    ("expected", "got", "words"),
    [
        (2_000, 2, "a factor of 1,000: check the unit"),
        (2.0, 2_000_000.0, "a factor of 1,000,000: check the unit"),
        ({0: 3_000_000_000}, {0: 3}, "a factor of 1,000,000,000: check the unit"),
        (10.0, 80.0, "a factor of 8: bits or bytes?"),
        (4, 32, ""),  # a count has no unit
        ({"a": 10.0}, {"a": 10.0 / 1.024**3}, "GB (10⁹ bytes) or GiB (2³⁰)?"),
        (10.0, 10.0 * 1.024**2, "MB (10⁶ bytes) or MiB (2²⁰)?"),
        (10.0, 10.24, "KB (1,000 bytes) or KiB (1,024)?"),
        (10.0, -10.0, "the sign is the other way round"),
        ([1, 2, 3, 4], [4, 3, 2, 1], "the right entries in the opposite order"),
        ([1, 2, 3, 4], [4, 1, 3, 2], "the right entries in the wrong order"),
        (["off", "on", "on"], ["on", "on", "off"], ""),  # as many of each, which is no reason
        (["off", "on", "on"] * 2, ["on", "off", "on"] * 2, "the right entries, 1 place later"),
        (["skip", "skip", *"wwaawwa"], [*"wwaawwaaw"], "the right entries, 2 places earlier"),
        (["on"] * 6, ["off", *["on"] * 5], ""),
        (2.5, 0.4, "divided the other way round: this is 1 over what was asked for"),
        ([2.5, 1.0], [0.4, 1.0], "divided the other way round: this is 1 over what was asked for"),
        (2, 0.5, ""),  # small numbers are so by chance
        ([0, 2, 1], [2, 0, 1], ""),  # three small numbers
        (3.0, math.nan, "NaN where there should be a number"),
        ({"a": [3.0, 2.0]}, {"a": [3.0, math.nan]}, "NaN where there should be a number"),
        ({0: 1.0}, None, "the function returned None (is a `return` missing?)"),
        ({0: 1.0}, 1.0, "the answer should be a dictionary, not a number"),
        ({0: 1.0}, {"0": 1.0}, "the keys should be a whole number, not a text"),
        ({0: 1.0, 1: 2.0}, {0: 1.0}, "the keys differ (missing: 1)"),
        ({0: 1.0}, {0: 1.0, 2: 1.0}, "the keys differ (not expected: 2)"),
        ([1, 2], [1], "the answer should have 2 entries, it has 1 (missing: 2)"),
        ([1], [1, 2], "the answer should have 1 entry, it has 2 (too many: 2)"),
        ([1], [3, 2], "the answer should have 1 entry, it has 2"),
        ([], [7, 8, 7, 9], "the answer should have 0 entries, it has 4 (too many: 7, 7, 8, …)"),
        ([1, 2], Other("set", "{1, 2}"), "the answer is a set; return a list (or tuple)"),
        ({"ms": 5.0, "us": 7.0}, {"ms": 5.0, "us": 0.007}, "under 'us': a factor of 1,000: check the unit"),
        ({"a": 5.0, "b": 7.0, "c": 2.0}, {"a": 5.0, "b": 7e3, "c": 4.0}, ""),
        ([1, 2], {0: 1}, "the answer should be a list (or tuple), not a dictionary"),
        ("x", 3, "the answer should be a text, not a whole number"),
        (3, "3", "the answer should be a whole number, not a text"),
        (3, True, "the answer should be a whole number, not True or False"),
        (3.0, Other("ndarray", "…"), "the answer is a ndarray; return a number"),
        (3.0, pd.DataFrame({"a": [1]}), "the answer should be a number, not a table (DataFrame)"),
        ({0: 3.0, 1: 2.0}, {0: "3.0", 1: "2.0"}, "an entry should be a number, not a text"),
        ([[1, 2], [3, 4]], [[1, 2], 3], "an entry should be a list (or tuple), not a whole number"),
        ([[1], [2]], [[1, 2], [2]], "an entry should have 1 entry, it has 2"),
        ([3.0, "x"], ["3.0", 1], ""),  # each in another way
        ([3.0, 2.0], [None, 2.0], "an entry should be a number, not nothing (None)"),
        (3.0, 4.0, ""),
    ],
)
def test_wrong_answers_are_recognized(judge: Judge, expected: Any, got: Any, words: str) -> None:
    found = likely(judge(expected, got))
    assert bool(found) == bool(words)
    assert words in found


def test_a_none_that_is_meant_is_no_missing_return() -> None:
    assert cases.shape(3.0, None, may_be_none=True) == "the answer should be a number, not nothing (None)"
    assert "is a `return` missing?" in cases.shape(3.0, None)


@pytest.mark.parametrize(
    ("expected", "got", "words"),
    [
        ({0: 0.25, 1: 0.5}, {0: 25.0, 1: 50.0}, "this is in percent; of a share 1 is the whole"),
        ({0: 0.25, 1: 1.0}, {0: 0.75, 1: 0.0}, "this is the other part: 1 minus the share"),
        (0.25, 1.2, "more than the whole: a share is at most 1"),
        (0.25, 4.0, "divided the other way round: this is 1 over what was asked for"),
        (0.5, 1.0, ""),  # a constant, perhaps
        ({0: 0.25, 1: 0.5}, {0: 1 / 3, 1: 1.0}, "this is the part over the rest; a share is the part over"),
        ({0: 0.25, 1: 0.8}, {0: 3.0, 1: 0.25}, "this is the rest over the part; a share is the part over"),
        ({0: 0.25, 1: 0.5}, {0: 0.25, 1: 50.0}, "under 1: this is in percent"),
        (0.125, 1.0, ""),  # which is no matter of bits and bytes
        (0.25, -0.1, "less than nothing: a share is at least 0"),
    ],
)
def test_shares_have_mistakes_of_their_own(judge: Judge, expected: Any, got: Any, words: str) -> None:
    found = likely(judge(expected, got, share=True))
    assert words in found and bool(found) == bool(words)


def test_nothing_is_no_mistake_that_gives_next_to_nothing(judge: Judge) -> None:
    mistakes = {"the other way round": "[one * 1e-12 for one in value]"}
    assert likely(judge([0.83, 1.24], [0.83e-12, 1.24e-12], mistakes)) == "the other way round"
    assert likely(judge([0.83, 1.24], [0.0, 0.0], mistakes)) == ""


def test_tables_as_answers_are_told_as_such() -> None:
    """One table after the other, which are not compared as numbers are."""
    short, table = "nsys-ex01a", pd.DataFrame({"a": [1]})
    first, *more = (one for one in cases_of(short, 7) if one.function == "gpu_idle_share")
    said = task(short).judge(first, table, (), [(one, table) for one in more])
    assert likely(said) == "the answer should be a dictionary, not a table (DataFrame)"


def test_bits_for_bytes_are_told_only_of_bytes(tmp_path: Path) -> None:
    file = tmp_path / "a_same.py"
    (tmp_path / "a_mistakes.toml").write_text("", encoding="utf-8")
    for text, said in (("the bytes", "a factor of 8: bits or bytes?"), ("the time", "")):
        file.write_text(
            f'"""What is asked for: {text}."""\n\ndef same(value):\n    return value\n', encoding="utf-8"
        )
        found = Task(PART, file, SimpleNamespace())
        assert likely(found.judge(Case("a case", "an input", "same", (2.5,)), 20.0)) == said


def test_mistakes_come_first(judge: Judge) -> None:
    assert likely(judge(2.0, 2_000.0, {"in µs": "value * 1000"})) == "in µs"


def test_a_mistake_that_gives_the_right_answer_here_says_nothing(judge: Judge) -> None:
    mistakes = {"summed": "value + 0", "first only": "value / 2"}
    assert judge(2.0, 2.0, mistakes) == ()
    assert likely(judge(3.0, 1.5, mistakes)) == "first only"


def test_a_mistake_of_another_shape_is_recognized(judge: Judge) -> None:
    assert likely(judge({0: 1.5, 1: 2.0}, {0: 1.5}, {"only device 0": "{0: value[0]}"})) == "only device 0"


def test_a_mistake_names_the_answers(judge: Judge) -> None:
    assert likely(judge(1.25, 2.5, {"{got}, not {expected}": "value * 2"})) == "2.5, not 1.25"


def test_a_broken_show_does_not_hide_the_answer(judge: Judge) -> None:
    assert judge(2.0, "two", show=lambda value: f"{value / 1e6:.1f} ms")[1] == "got:      'two'"


def test_tolerance(judge: Judge) -> None:
    assert judge(100.0, 101.0, relative=0.02) == ()
    assert judge(100.0, 103.0, relative=0.02) != ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456789, "0.123457"),
        ({0: (1, 2.5)}, "{0: (1, 2.5)}"),
        ("x" * 300, "'" + "x" * 158 + "…"),
        (pd.DataFrame({"a": [1], "b": [2]}), "a table of 1 rows with the columns a, b"),
    ],
)
def test_brief(value: Any, text: str) -> None:
    assert brief(value) == text


@pytest.mark.parametrize(
    ("ns", "text"), [(12, "12 ns"), (1500, "1.5 µs"), (2.5e6, "2.5 ms"), (3e9, "3 s"), (-2000, "-2 µs")]
)
def test_duration(ns: float, text: str) -> None:
    assert duration(ns) == text


def test_small_tables_are_shown_and_large_ones_are_not() -> None:
    small = pd.DataFrame({"start_ns": [10, 20]})
    assert [line.strip() for line in table_lines(small)] == ["start_ns", "10", "20"]
    assert table_lines(pd.DataFrame({"start_ns": range(50)})) == []


def test_where_an_answer_differs_is_told_with_digits_enough() -> None:
    right = cases.plain({"busy_share": 0.4217, "gaps": [(1, 2), (3, 4)]})
    assert (
        cases.difference(right, {**right, "busy_share": 0.4213}, 1e-6)
        == "differs:  busy_share, 0.4213 for 0.4217"
    )
    assert (
        cases.difference(right, {**right, "gaps": [[1, 2], [3, 5]]}, 1e-6) == "differs:  gaps[1][1], 5 for 4"
    )
    close = cases.difference([0.12345671], [0.12345678], 1e-9)
    assert close == "differs:  [0], 0.12345678 for 0.12345671"
    assert cases.difference(1.0, 2.0, 1e-6) == "", "nothing more to say than what is expected"
    assert cases.difference([1], [1, 2], 1e-6) == ""


def test_percent_for_a_share_is_noticed_without_being_told_of_shares() -> None:
    assert "in percent" in cases.generic(False, {"mfu": 0.41}, {"mfu": 41.0})
    assert "in percent" not in cases.generic(False, {"ms": 41.0}, {"ms": 4100.0})


def test_a_reason_is_told_only_if_it_fits_what_was_right_before(tmp_path: Path) -> None:
    file = tmp_path / "a_same.py"
    file.write_text("def same(value):\n    return value\n", encoding="utf-8")
    (tmp_path / "a_mistakes.toml").write_text(
        '[[mistakes]]\nsays = "doubled"\nold = "return value"\nnew = "return 2 * value"\n', encoding="utf-8"
    )
    task = Task(PART, file, SimpleNamespace())
    before, zero, now = (Case("a case", "an input", "same", (value,)) for value in (5.0, 0.0, 3.25))
    assert likely(task.judge(now, 6.5)) == "doubled"
    assert likely(task.judge(now, 6.5, [zero])) == "doubled", "which it would have passed"
    assert likely(task.judge(now, 6.5, [before])) == "", "whoever doubles had been wrong there"


def test_a_reason_is_told_only_if_it_fits_what_is_answered_later(tmp_path: Path) -> None:
    file = tmp_path / "a_same.py"
    file.write_text("def same(value):\n    return value\n", encoding="utf-8")
    (tmp_path / "a_mistakes.toml").write_text(
        '[[mistakes]]\nsays = "doubled"\nold = "return value"\nnew = "return 2 * value"\n'
        '[[mistakes]]\nsays = "squared"\nold = "return value"\nnew = "return value * value"\n',
        encoding="utf-8",
    )
    found = Task(PART, file, SimpleNamespace())
    two, some, more = (Case("a case", "an input", "same", (value,)) for value in (2.0, 3.5, 5.5))
    assert likely(found.judge(two, 4.0, (), [(some, 7.0), (more, 11.0)])) == "a mistake such as “doubled”"
    assert likely(found.judge(some, 7.0, (), [(two, 4.0), (more, 11.0)])) == "a mistake such as “doubled”"
    assert likely(found.judge(two, 4.0, (), [(some, 12.25)])) == "squared"
    assert likely(found.judge(two, 4.0, (), [(some, 3.5)])) == "", "either had been wrong there"
    assert likely(found.judge(two, 4.0, (), [(some, 7.0), (more, 8.0)])) == "", "and something else"
    assert likely(found.judge(two, 2000.0)).startswith("a factor of 1,000")
    assert likely(found.judge(two, 2000.0, (), [(some, 4.0), (more, 6.0)])) == "", "by chance alone"
    zero = Case("a case", "an input", "same", (0.0,))
    said = likely(found.judge(two, 4.0, [zero], [(zero, 0.0), (zero, 0.0)]))
    assert said == "doubled; or else: squared", "which gives the same"


def test_what_many_a_mistake_gives_is_told_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a_same.py"
    file.write_text("def same(value):\n    return value\n", encoding="utf-8")
    (tmp_path / "a_mistakes.toml").write_text(
        '[[mistakes]]\nsays = "none of it"\nold = "return value"\nnew = "return 0"\n', encoding="utf-8"
    )
    found = Task(PART, file, SimpleNamespace())
    one, two, zero = (Case("a case", "an input", "same", (value,)) for value in (1, 2, 0))
    assert likely(found.judge(one, 0, [zero], [(two, 0)])) == "all 3 answers are 0"
    assert likely(found.judge(one, 0, [], [(two, 2)])) == "", "nobody who gives none of it"


def test_a_word_that_there_is_not_lists_those_there_are() -> None:
    found = task("energy-ex03a")
    case = next(one for one in cases_of("energy-ex03a") if found.expect(one) == "gap")
    words = ("none", "not covered", "gap", "reset", "stuck", "too short", "throttled", "disagreement")
    listed = ", ".join(map(repr, words))
    assert f"likely:   'gapp' is none of: {listed}; did you mean 'gap'?" in found.judge(case, "gapp")
    assert not [line for line in found.judge(case, "stuck") if "is none of" in line], "there is such a word"
    assert task("lm-ex02a").words("most_expensive") == (), "names of kernels are no list"


def test_what_is_wrong_in_each_of_several_answers_is_told_once() -> None:
    right = {name: {"count": 3, "busy": 0.25, "bound": "CPU"} for name in ("a", "b")}
    got = {name: {"count": 3, "busy": 25.0, "bound": "GPU"} for name in ("a", "b")}
    said = "under 'a', 'b': under 'busy': this is in percent; of a share 1 is the whole"
    assert cases.generic(False, right, got) == said


def test_nothing_is_said_of_units_where_there_are_other_numbers() -> None:
    assert cases.generic(False, [-math.inf, 0.0, [0.0, 0.0]], [-math.inf, 5.0, [0.0, 0.0]]) == ""
    assert cases.generic(False, [2.0, [3.0]], [2000.0, []]) == ""
