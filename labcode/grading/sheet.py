"""Answers that are a sheet, not code: questions and a learner's TOML in; what is right, wrong, and why, out.

The solution of a part whose file is ``a_NAME.toml`` is ``a_NAME.py``. Its docstring and its ``QUESTIONS``
give the starter; its function ``answers()`` computes the right answers from captures, with what typical
misreadings give::

    QUESTIONS = (Share("idle", "the share of the window in which GPU 0 runs nothing", by=0.02),)

    def answers() -> Answers:
        ...
        return Answers({"idle": idle}, [Misreading("that is the busy share", {"idle": 1 - idle})])

Of captures a solution imports inside of ``answers``: a starter is cut without opening any.
"""

import difflib
import gzip
import hashlib
import lzma
import math
import re
import textwrap
import tomllib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

from labcode import units
from labcode.errors import LabError
from labcode.grading import jail, sealed
from labcode.grading.records import Exercise, Part, Predicted, Verdict
from labcode.store import repository_root

_WIDTH = 100
_MOST_BYTES = 1 << 16
_SCALES = {
    1e3: "a factor of 1,000: check the unit",
    1e6: "a factor of 1,000,000: check the unit",
    1e9: "a factor of 1,000,000,000: check the unit",
    100.0: "a factor of 100: a share, or percent?",
}
_MAYBE = "perhaps: "
_FEW = 10
_OVER = "1 over the right one: the other way round?"
_PERCENT = "a share runs from 0 to 1: in percent?"
_OF_THE_BOOK = "that one came with the book: record it yourself"
_MOST_OF_A_SHARE = 10.0  # as a ratio may be; what is more, in both forms, is neither
_THOUSAND, _SAME_SIZE = 1000.0, 3.0  # an interval in the next unit, of a prediction that is no further off
_ALIKE, _SAME = 0.02, 1e-4  # of a number in another unit, and of one that is the same
_PRINTED = 0.001  # a quotient of two numbers of four digits, as reports print them, is off by so much at most
_NEARER = (
    20  # times as near to a misreading's number as that is to the right one: a digit more than is needed
)
_TWO_DIGITS = 0.05  # by so much at most is a number off that is rounded to two digits
_NUMBER = r"(?:\d{1,3}(?:[, ]\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?"
_QUANTITY = re.compile(rf"\s*([-+]?{_NUMBER})\s*(.*?)\s*")
_SPAN = re.compile(rf"\s*\[?\s*({_NUMBER})\s*(.*?)\s*(?:to|and|,|-|–|…)\s*({_NUMBER})\s*(.*?)\s*\]?\s*")
_THINGS = re.compile(
    r"(?!\S*(?:second|minute|hour|byte|watt|joule|hertz))(?:[a-z]{4,}|x|×)(?:/s| [a-z]+)*"  # what is counted
)


class _Float(float):
    """A number that remembers how it was written."""

    text: str

    @classmethod
    def read(cls, text: str) -> "_Float":
        """The number in a text."""
        found = cls(text)
        found.text = text
        return found


@dataclass(frozen=True)
class Question:
    """What is asked under a key; ``asks`` becomes the comment above it."""

    key: str
    asks: str

    def form(self) -> str:
        """What an answer looks like."""
        return "a text"

    def meant(self, given: Any) -> Any:
        """An answer as it is compared: the same, where it is only written in another way."""
        return given

    def unfit(self, given: Any) -> str:
        """Why an answer is none to this question, whatever is right; empty where it is one."""
        return "" if isinstance(given, str) else f"should be {self.form()}, not {_kind(given)}"

    def same(self, right: Any, given: Any) -> bool:
        """Whether an answer is the right one, within the tolerance."""
        return bool(right == given)

    def near(self, right: Any, given: Any) -> str:
        """What can be said of an answer that is nearly right."""
        return ""

    def shown(self, value: Any) -> str:
        """A value as it would be written into the sheet."""
        return _written(value)


@dataclass(frozen=True)
class Number(Question):
    """A number in a unit, right within a relative or an absolute tolerance, whichever is larger."""

    unit: str = ""
    within: float = 0.05
    by: float = 0.0

    def form(self) -> str:
        """With its unit and tolerance."""
        unit = f" of {self.unit}" if self.unit else ""
        return f"a number{unit}, within {self._tolerance()}"

    def _tolerance(self) -> str:
        return f"{self.by:g}" if not self.within else f"{100 * self.within:g} %"

    def meant(self, given: Any) -> Any:
        """Of a text such as "2.5 µs" or "12 cycles" its number, in the unit that is asked for."""
        found = _QUANTITY.fullmatch(given) if isinstance(given, str) else None
        unit = {"percent": "%"}.get(found[2], found[2]) if found else ""
        if not self.unit and unit != "%" and _THINGS.fullmatch(unit):
            unit = ""
        factor = units.factor(unit or self.unit or "1", self.unit or "1")
        return float(re.sub("[, ]", "", found[1])) * factor if found and factor else given

    def unfit(self, given: Any) -> str:
        """A text, a truth value, or no number at all."""
        if not _is_number(given):
            unit = f" in {self.unit}" if self.unit else ", without a unit"
            return f"should be a number such as 2.5{unit}, not {_kind(given)}"
        return "" if math.isfinite(given) else "should be a finite number"

    def same(self, right: Any, given: Any) -> bool:
        """Within the tolerance."""
        return bool(abs(given - right) <= self._allowed(right))

    def gives(self, value: float, given: float, right: float) -> bool:
        """Whether an answer is a misreading's number, within the tolerance: rounded to the digits that were
        written, two or more, or made of what reports print; and with a digit more than tells it from the
        right one, if it is not the same.
        """
        off, (digits, unit) = abs(given - value), _digits(given)
        rounded = digits > 1 and 10 * unit <= abs(value) and off <= unit / 2 * (1 + 1e-9)
        near = (rounded or off <= _PRINTED * abs(value)) and _NEARER * off <= abs(value - right)
        return self.same(value, given) and (near or off <= _SAME * abs(value))

    def sure(self, value: float, given: float) -> bool:
        """Whether an answer that is a misreading's number is so in three digits, not in two by chance."""
        return _digits(given)[0] > 2 or abs(given - value) <= _SAME * abs(value)

    def turned(self, right: float) -> list[tuple[float, str]]:
        """Other numbers that the right one becomes, and what is said of each."""
        found = [(2 * right, "twice the right one"), (right / 2, "half of the right one")]
        if abs(right) < _FEW and right == int(right):
            found.clear()  # twice or half of a few is a few
        return found if self.unit or not right else [*found, (1 / right, _OVER)]

    def _allowed(self, right: float) -> float:
        return max(self.by, self.within * abs(right)) * (1 + 1e-9)

    def near(self, right: Any, given: Any) -> str:
        """A wrong unit, a sign, or too few digits."""
        for factor, words in _SCALES.items():
            if factor == 100 and (
                self.unit not in ("", "%") or min(abs(given), abs(right)) > _MOST_OF_A_SHARE
            ):
                continue  # no share in any form
            for scale in (factor, 1 / factor):
                if right and math.isclose(given, right * scale, rel_tol=_ALIKE):
                    return words
        if right and self.same(-right, given):
            return "the sign is the other way round"
        off, unit = abs(given - right), _digits(given)[1]
        if off <= unit / 2 and unit < abs(right):
            return "rounded to so few digits the right one is that, too: write more"
        if off <= min(2 * self._allowed(right), _TWO_DIGITS * abs(right)):
            close = "another number than the one asked for, or read off too roughly?"
            return f"near, but not within {self._tolerance()}: {close}"
        return ""

    def shown(self, value: Any) -> str:
        """Rounded to four digits."""
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


@dataclass(frozen=True)
class Count(Number):
    """A whole number; exact, if no tolerance is given."""

    within: float = 0.0

    def form(self) -> str:
        """A whole number."""
        return "a whole number" + (f", within {self._tolerance()}" if self.within or self.by else "")

    def meant(self, given: Any) -> Any:
        """Also one with a point behind which nothing stands."""
        value = super().meant(given)
        return int(value) if isinstance(value, float) and value.is_integer() else value

    def unfit(self, given: Any) -> str:
        """No whole number."""
        whole = type(given) is int
        return "" if whole else f"should be a whole number such as 12, not {_kind(given)}"

    def near(self, right: Any, given: Any) -> str:
        """One off, or a wrong unit."""
        if self.within or self.by:
            return super().near(right, given)
        counted = given and abs(right - given) == 1
        return "one off" if counted else ""

    def shown(self, value: Any) -> str:
        """All its digits."""
        return str(int(value))


@dataclass(frozen=True)
class Share(Number):
    """A share between 0 and 1, right within an absolute tolerance."""

    within: float = 0.0
    by: float = 0.02

    def form(self) -> str:
        """From 0 to 1."""
        return f"a share from 0 to 1, within {self.by:g}"

    def turned(self, right: float) -> list[tuple[float, str]]:
        """The other part, percent, and other ratios of the two parts."""
        found = [
            (1 - right, "1 minus the right share: the other part?"),
            (100 * right, _PERCENT),
        ]
        if 0 < right < 1:
            found.append((100 * (1 - right), "100 times the rest of the share: the other part, in percent?"))
            found.append((1 / right, _OVER))
        if 0.05 < right < 0.95:  # else a part and the whole are about the same
            found += [
                (right / (1 - right), "the part over the rest; a share is the part over the whole"),
                (1 / right - 1, "the rest over the part; a share is the part over the whole"),
            ]
        return found

    def near(self, right: Any, given: Any) -> str:
        """No share, or too rough a reading."""
        if not 0 <= given <= 1:
            percent = self.same(right, given / 100)
            return _PERCENT if percent else f"asked for is a share, from 0 to 1: {self.asks}"
        return super().near(right, given)


@dataclass(frozen=True)
class Word(Question):
    """One of some words."""

    words: tuple[str, ...] = ()

    def form(self) -> str:
        """All of them."""
        return f"one of: {', '.join(self.words)}"

    def meant(self, given: Any) -> Any:
        """The word that differs from it by case, hyphens, underscores or quotes alone."""
        if _is_number(given) and str(given) in self.words:
            return str(given)
        alike = [word for word in self.words if isinstance(given, str) and _plain(word) == _plain(given)]
        return alike[0] if len(alike) == 1 else given

    def unfit(self, given: Any) -> str:
        """Another word; the allowed ones are listed."""
        if said := super().unfit(given):
            return said
        close = difflib.get_close_matches(given, self.words, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        return "" if given in self.words else f"{given!r} is none of: {', '.join(self.words)}{meant}"


@dataclass(frozen=True)
class Names:
    """The right name among all that there are: of a kernel, a range, a function."""

    right: str
    all: tuple[str, ...]


@dataclass(frozen=True)
class Name(Question):
    """A name, or as much of it as belongs to no other; the right answer is a `Names`."""

    def form(self) -> str:
        """A part of it suffices."""
        return "a name, or a part of it that no other has"

    def same(self, right: Any, given: Any) -> bool:
        """It stands in the right name and in no other, or is the right name."""
        return self.named(right, given) == (right.right if isinstance(right, Names) else right)

    def named(self, right: Any, given: str) -> str | None:
        """The name that is meant, of all that there are; None where it is none of them, or may be several."""
        if not isinstance(right, Names) or given in right.all:
            return given
        found = [name for name in right.all if given.lower() in name.lower()]
        if not found:  # a longer form of it, such as a kernel's name with its template arguments
            found = sorted((name for name in right.all if name.lower() in given.lower()), key=len)[-1:]
        return found[0] if len(found) == 1 and given.strip() else None

    def near(self, right: Any, given: Any) -> str:
        """It stands in several, or in none."""
        if given in right.all:
            return ""  # a whole name, if part of another one, too
        found = [name for name in right.all if given.lower() in name.lower()]
        if not found:
            return "no name that is asked about contains that"
        if len(found) < 2:
            return ""
        inside = isinstance(right, Names) and right.right in found
        return f"{len(found)} names contain that: " + (
            "write more of it" if inside else "the right one is not among them"
        )

    def shown(self, value: Any) -> str:
        """The right one."""
        return _written(value.right if isinstance(value, Names) else value)


@dataclass(frozen=True)
class Interval(Question):
    """A prediction: two numbers that hold the measurement; the last may be ``widest`` times the first.

    Of a share (``share``) ``widest`` is the greatest difference. It scores 1 where both numbers are the same
    and right, 0 at the greatest width, and in between by how narrow it is.
    """

    unit: str = ""
    widest: float = 4.0
    share: bool = False

    def form(self) -> str:
        """The width that is allowed."""
        if self.share:
            return f"[low, high], shares from 0 to 1, at most {self.widest:g} apart"
        unit = f" in {self.unit}" if self.unit else ""
        return f"[low, high]{unit}, high at most {self.widest:g} times low"

    def meant(self, given: Any) -> Any:
        """Of a text such as "50 to 60 GB/s", or of two texts, the numbers."""
        one = Share(self.key, "") if self.share else Number(self.key, "", unit=self.unit)
        found = _SPAN.fullmatch(given) if isinstance(given, str) else None
        if found:
            given = [f"{found[1]} {found[2] or found[4]}", f"{found[3]} {found[4]}"]
        return [one.meant(each) for each in given] if isinstance(given, list) else given

    def unfit(self, given: Any) -> str:
        """No two numbers in order, or too far apart."""
        if not (isinstance(given, list) and len(given) == 2 and all(map(_is_number, given))):
            return f"should be two numbers such as [2, 3.5], not {_kind(given)}"
        low, high = given
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            return "the first number is the lower one"
        if self.share and (low < 0 or high > 1):
            percent = low >= 2 and high <= 100
            return "shares run from 0 to 1" + (f": {low / 100:g} and {high / 100:g}?" if percent else "")
        if not self.share and low <= 0:
            return "both numbers are above 0"
        if self._width(low, high) > 1 + 1e-9:
            return f"too wide to be worth much: {self.form()}"
        return ""

    def _width(self, low: float, high: float) -> float:
        """How wide an interval is: from 0 to 1, which is the widest that is allowed."""
        return (high - low) / self.widest if self.share else math.log(high / low) / math.log(self.widest)

    def same(self, right: Any, given: Any) -> bool:
        """Whether the measurement lies within."""
        return bool(given[0] <= right <= given[1]) if isinstance(given, list) else bool(right == given)

    def score(self, right: float, given: Sequence[float]) -> float:
        """0 where the measurement lies outside; else the narrower, the nearer to 1."""
        return 1 - self._width(*given) if self.same(right, given) else 0.0

    def near(self, right: Any, given: Any) -> str:
        """On which side the measurement lies."""
        side = f"the measurement lies {'above' if right > given[1] else 'below'} your interval"
        times = math.sqrt(given[0] * given[1]) / right if self.unit and right > 0 else 1.0
        other = max(times, 1 / times) if times > 0 else 1.0
        far = _THOUSAND / _SAME_SIZE <= other <= _THOUSAND * _SAME_SIZE
        return f"{side}, by about a factor of 1,000: check the unit" if far else side

    def shown(self, value: Any) -> str:
        """The measurement; as a sheet's answer, an interval of no width."""
        if isinstance(value, list):
            return _written(value)
        return f"[{value!r}, {value!r}]"


@dataclass(frozen=True)
class Check:
    """What a command has to record: ``holds`` gets what it would; ``wrong`` is a command that does not.

    ``says`` is told of what does not hold: a text, or what gives one of what would be recorded.
    """

    says: str | Callable[[Any], str]
    holds: Callable[[Any], bool]
    wrong: str

    def told(self, recording: Any) -> str:
        """What is told of what a command would record."""
        return self.says if isinstance(self.says, str) else self.says(recording)


@dataclass(frozen=True)
class Command(Question):
    """A command, judged by what it would record (`labcode.grading.commands`)."""

    tool: str = "nsys"

    def form(self) -> str:
        """Of this tool."""
        return f"a command of {self.tool}, as you would type it"

    def unfit(self, given: Any) -> str:
        """What the tool would refuse."""
        if said := super().unfit(given):
            return said
        from labcode.grading import commands

        try:
            commands.read(self.tool, given)
        except LabError as error:
            return str(error)
        return ""

    def same(self, right: Any, given: Any) -> bool:
        """What it would record passes every check."""
        return not self.missing(right, given)

    def missing(self, right: Any, given: Any) -> list[str]:
        """What the checks that fail say."""
        from labcode.grading import commands

        recording = commands.read(self.tool, given)
        return [check.told(recording) for check in right.checks if not check.holds(recording)]

    def unjudged(self, given: str) -> str:
        """Options of a command of which nothing is said, in words; empty where there are none."""
        from labcode.grading import commands

        recording = commands.read(self.tool, given)
        names = () if isinstance(recording, commands.Torch) else recording.line.unjudged
        return f"{self.key}: not judged: {', '.join(f'--{name}' for name in names)}" if names else ""

    def near(self, right: Any, given: Any) -> str:
        """What the first check that fails says."""
        return next(iter(self.missing(right, given)), "")

    def shown(self, value: Any) -> str:
        """The model's command."""
        return _written(value.model if isinstance(value, Commands) else value)


@dataclass(frozen=True)
class Commands:
    """The right answer to a `Command`: one that is, and what is checked of any."""

    model: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Recording(Question):
    """The path of a recording that the learner made, judged by what is in it."""

    tool: str = "nsys"

    def form(self) -> str:
        """Seen from the sheet's folder."""
        return f"the path of a recording of {self.tool}, seen from this folder"

    def same(self, right: Any, given: Any) -> bool:
        """It can be opened, and passes every check."""
        return not self.missing(right, given)

    def missing(self, right: Any, given: Any) -> list[str]:
        """What the checks that fail say; a check that cannot look is left to those before it."""
        try:
            with right.open(Path(given)) as report:
                return [check.told(report) for check in right.checks if not check.holds(report)]
        except LabError as error:
            return [str(error)]

    def near(self, right: Any, given: Any) -> str:
        """All that is amiss."""
        return "; ".join(self.missing(right, given))

    def shown(self, value: Any) -> str:
        """The model's recording."""
        return _written(str(value.model) if isinstance(value, Recordings) else value)


@dataclass(frozen=True)
class Recordings:
    """The right answer to a `Recording`: one that is, what opens any, and what is checked of it.

    A check's ``wrong`` says in words what kind of recording fails it.
    """

    model: Path
    open: Callable[[Path], Any]
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Misreading:
    """What one misreading answers, under one key or several, and what is said of it."""

    says: str
    gives: Mapping[str, Any]


@dataclass(frozen=True)
class Answers:
    """The right answers by key, what misreadings give, and what is told once all is right."""

    right: Mapping[str, Any]
    misreadings: Sequence[Misreading] = ()
    notes: Sequence[str] = field(default=())


class Sheet:
    """The questions of a part, from the text of its solution."""

    def __init__(self, source: str, file: Path) -> None:
        module = ModuleType("sheet")
        module.__file__ = str(file)
        exec(compile(source, str(file), "exec"), module.__dict__)
        self.text: str = (module.__doc__ or "").strip()
        self.questions: tuple[Question, ...] = tuple(module.QUESTIONS)
        self.answers: Callable[[], Answers] = module.answers

    def starter(self, short: str) -> str:
        """The sheet as a learner gets it."""
        return self._filled(short, {})

    def filled(self, short: str, right: Mapping[str, Any]) -> str:
        """The sheet with the right answers."""
        return self._filled(short, {q.key: q.shown(right[q.key]) for q in self.questions})

    def _filled(self, short: str, values: Mapping[str, str]) -> str:
        lines = [f"# {line}".rstrip() for line in self.text.splitlines()]
        lines += ["#", f"# Grade it:    labcode exercises {short}     (or: nox -s exercises -- {short})"]
        lines += [f"# Get a hint:  labcode exercises {short} --hint", ""]
        for one in self.questions:
            lines += [f"# {line}" for line in textwrap.wrap(f"{one.asks}: {one.form()}", _WIDTH)]
            lines += [f"{one.key} = {values.get(one.key, _written(''))}", ""]
        return "\n".join(lines[:-1]) + "\n"

    def read(self, text: str) -> tuple[dict[str, Any], list[str], list[str]]:
        """The answers of a filled-in sheet, the keys still empty, and what is wrong with the rest."""
        try:
            data = tomllib.loads(text, parse_float=_Float.read)
        except tomllib.TOMLDecodeError as error:
            return {}, [], [f"not a TOML file: {_where(str(error), text)}"]
        except (ValueError, RecursionError):
            return {}, [], ["not a TOML file: nested too deep, or a number of thousands of digits"]
        if not _in_64_bits(data):
            return {}, [], ["not a TOML file: an integer of more than 64 bits"]
        keys = [one.key for one in self.questions]
        wrong = []
        for key in data:
            if key not in keys:
                close = difflib.get_close_matches(key, keys, n=1)
                meant = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(keys)}"
                wrong.append(f"{key}: no key of this sheet{meant}")
        found, empty = {}, []
        for one in self.questions:
            if one.key not in data:
                wrong.append(f"{one.key}: missing; write {one.key} = …, {one.form()}")
            elif data[one.key] == "":
                empty.append(one.key)
            elif said := one.unfit(value := one.meant(data[one.key])):
                wrong.append(f"{one.key}: {said}")
            else:
                found[one.key] = value
        return found, empty, wrong

    def judge(self, text: str, folder: Path | None = None) -> Verdict:
        """The verdict on a sheet; ``folder`` is where it lies, if its recordings have to be the learner's."""
        given, empty, wrong = self.read(text)
        for one in self.questions:
            if folder is not None and isinstance(one, Recording) and one.key in given:
                given[one.key] = str(folder / given[one.key])
                wrong += [f"{one.key}: {said}" for said in [_not_own(folder, Path(given[one.key]))] if said]
        if wrong:
            return Verdict("failed", wrong[0], tuple(wrong[1:]))
        if empty:
            return Verdict("to do", f"still empty: {', '.join(empty)}")
        try:
            answers = self.answers()
        except LabError as error:
            return Verdict("not run", f"not run: {error}")
        for key, right in answers.right.items():
            if folder is not None and isinstance(right, Recordings) and _alike(Path(given[key]), right.model):
                return Verdict("failed", f"{key}: {_OF_THE_BOOK}")
        return self._judged(given, answers)

    def _judged(self, given: Mapping[str, Any], answers: Answers) -> Verdict:
        right = answers.right
        bad = [one for one in self.questions if not one.same(right[one.key], given[one.key])]
        predicted = tuple(
            self._predicted(one, right[one.key], given[one.key])
            for one in self.questions
            if isinstance(one, Interval)
        )
        score = sum(one.score for one in predicted) / len(predicted) if predicted else None
        if not bad:
            words = f"{len(self.questions)} answers" if len(self.questions) > 1 else "the answer is right"
            lines = [self._beside(one, right[one.key], given[one.key]) for one in self.questions]
            headline = f"passed: {words}" if score is None else f"passed: {words}, score {score:.2f} of 1"
            return Verdict(
                "passed", headline, (*filter(None, lines), *answers.notes), score, predictions=predicted
            )
        lines = [f"{one.key}: {_brief(given[one.key])} is not right" for one in bad]
        told = {key: say for say, keys in self.mistaken(given, answers) for key in keys}
        for place, one in enumerate(bad):
            near = one.near(right[one.key], given[one.key])
            said = told.get(one.key) or near
            if (
                isinstance(one, Interval) and said != near
            ):  # of why somebody predicts there is no more than a guess
                said = f"{near}; {_MAYBE}{said}"
            lines[place] = f"{lines[place]}: {said}" if said else lines[place]
        count = f"{len(bad)} of {len(self.questions)} answers"
        verb = "is" if len(bad) == 1 else "are"
        return Verdict("failed", f"{count} {verb} wrong", tuple(lines), score, predictions=predicted)

    def mistaken(self, given: Mapping[str, Any], answers: Answers) -> list[tuple[str, list[str]]]:
        """What misreadings say that fit every answer they would have given, and the keys they explain.

        Of several for a key those count that explain the most keys, what any number may be turned into among
        them. Where two are left, both are told; where there are more, none. What two digits tell may be so by
        chance.
        """
        questions = {one.key: one for one in self.questions}
        found: dict[str, list[tuple[int, Any, str]]] = {}
        for misreading in answers.misreadings:
            fits = all(
                _gave(questions[key], value, given[key], answers.right[key])
                for key, value in misreading.gives.items()
            )
            wrong = [k for k in misreading.gives if not questions[k].same(answers.right[k], given[k])]
            for key in wrong if fits else ():
                found.setdefault(key, []).append((-len(wrong), misreading.gives[key], misreading.says))
        for key, one in questions.items():
            right = answers.right[key]
            if not isinstance(one, Number) or one.same(right, given[key]):
                continue
            known = [value for _, value, _ in found.get(key, ())]
            for value, says in one.turned(right):
                if one.gives(value, given[key], right) and not any(math.isclose(value, k) for k in known):
                    found.setdefault(key, []).append((-1, value, says))
        told: dict[str, list[str]] = {}
        for key, each in found.items():
            most, one = min(n for n, _, _ in each), questions[key]
            said = dict.fromkeys(says for n, _, says in each if n == most)
            values = [value for n, value, _ in each if n == most]
            chance = isinstance(one, Number) and not all(one.sure(value, given[key]) for value in values)
            if len(said) <= 2:
                told.setdefault(_MAYBE * chance + "; or else: ".join(said), []).append(key)
        return list(told.items())

    def _predicted(self, one: Interval, right: Any, given: Sequence[float]) -> Predicted:
        low, high, measured = float(given[0]), float(given[1]), float(right)
        met, score = one.same(right, given), one.score(right, given)
        return Predicted(one.key, one.asks, low, high, measured, one.unit, met, score)

    def _beside(self, one: Question, right: Any, given: Any) -> str:
        if isinstance(one, Interval):
            unit = f" {one.unit}" if one.unit else ""
            return f"{one.key}: measured {right:.4g}{unit}, you said {given[0]:g} to {given[1]:g}"
        if isinstance(one, Number) and not isinstance(one, Count):
            return f"{one.key}: {one.shown(right)}, you said {given:g}"
        return one.unjudged(given) if isinstance(one, Command) else ""


def read(home: Path, exercise: Exercise, part: Part) -> Sheet:
    """The sheet of a part, from the folder of the solutions."""
    file = home / exercise.source(part)
    return Sheet(file.read_text(encoding="utf-8"), file)


def judge(home: Path, exercise: Exercise, part: Part, file: Path, *, own: bool = True) -> Verdict:
    """The verdict on a learner's file; of one that is too large, or no text, too."""
    if file.stat().st_size > _MOST_BYTES:
        return Verdict("failed", f"{file.name} is larger than {_MOST_BYTES >> 10} KiB: a sheet is not")
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        return Verdict("failed", f"{file.name} is not UTF-8 text")
    return read(home, exercise, part).judge(text, file.parent if own else None)


def _not_own(folder: Path, file: Path) -> str:
    """Why a recording is not taken: one of the book's, or handed in from elsewhere; empty where it is."""
    place = file.resolve()
    if place.is_relative_to((repository_root() / "captures").resolve()) or sealed.root(
        repository_root()
    ).resolve() in (place.parents):
        return _OF_THE_BOOK
    if jail.current() is not None and (file.is_symlink() or not place.is_relative_to(folder.resolve())):
        return f"{file.name} lies elsewhere: hand it in beside the sheet"
    return ""


def _alike(file: Path, other: Path) -> bool:
    """Whether two files hold the same, packed or not."""
    try:
        return file.is_file() and other.is_file() and _unpacked(file) == _unpacked(other)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return False


def _unpacked(file: Path) -> bytes:
    """The digest of what a file holds, by its first bytes packed by gzip, xz, or not at all."""
    with file.open("rb") as begins:
        magic = begins.read(6)
    with (
        gzip.open(file)
        if magic[:2] == b"\x1f\x8b"
        else lzma.open(file)
        if magic[:2] == b"\xfd7"
        else file.open("rb")
    ) as content:
        return hashlib.file_digest(content, "sha256").digest()


def _gave(question: Question, value: Any, given: Any, right: Any) -> bool:
    """Whether a learner's answer is what a misreading gives; of a name, a part that no other has suffices."""
    if isinstance(question, Name) and isinstance(value, str):
        if isinstance(right, Names) and value not in right.all:  # it stands elsewhere in the capture
            others = any(given.lower() in name.lower() for name in right.all)  # then it may be one of those
            part = len(given) > 3 and not others and given.lower() in value.lower()
            return value.lower() in given.lower() or part
        return question.named(right, given) == value
    if isinstance(question, Number):
        return question.gives(value, given, right)
    return question.same(value, given)


def _digits(given: float) -> tuple[int, float]:
    """How many digits a number was written with (zeros that end a whole one are none), and the last unit."""
    text = getattr(given, "text", repr(given) if isinstance(given, int) else repr(float(given)))
    _, digits, place = Decimal(text).as_tuple()
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0")) if isinstance(given, int) else 0
    return len(digits) - zeros, 10.0 ** (int(place) + zeros)


def _where(message: str, text: str) -> str:
    """A parser's message, with the line that it is about."""
    match = re.search(r"line (\d+)", message)
    lines = text.splitlines()
    if not match or not 0 < int(match[1]) <= len(lines):
        return message
    return f"line {match[1]}, {lines[int(match[1]) - 1].strip()!r}: {message.partition(' (')[0]}"


def _written(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    return repr(value)


def _brief(value: Any) -> str:
    text = _written(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text).strip().casefold()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_64_bits(value: Any) -> bool:
    """Whether all integers in a value are what TOML has; `tomllib` takes others."""
    if isinstance(value, dict | list):
        return all(map(_in_64_bits, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 63


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return f"the text {_brief(value)}"
    if isinstance(value, list):
        return f"the list {_brief(value)}"
    if isinstance(value, dict):
        return "a table"
    return f"{value}"
