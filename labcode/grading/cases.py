"""Hidden cases and how answers are compared: a case, the right answer and another in, words to a learner out.

A case is an input with a name. The right answer is what the solution gives on it; `labcode.grading.task` runs
it, and finds the typical mistake that an answer comes from.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pandas as pd

from labcode.grading.codec import Other, decode, encode, pack
from labcode.show import cut, time_text

SMALL_TABLE = 12
_COUNTS = 1000  # whole numbers below are counts, which have no unit
_SMALL, _SEVERAL = 100, 4
_ZERO = 1e-15
_SCALES = {
    1e3: "a factor of 1,000: check the unit (such as ms and s, MB and GB)",
    1e6: "a factor of 1,000,000: check the unit (ns and ms, bytes and MB)",
    1e9: "a factor of 1,000,000,000: check the unit (ns and s, bytes and GB)",
    8.0: "a factor of 8: bits or bytes?",
    1.024: "a factor of 1.024: KB (1,000 bytes) or KiB (1,024)?",
    1.024**2: "a factor of 1.049: MB (10⁶ bytes) or MiB (2²⁰)?",
    1.024**3: "a factor of 1.074: GB (10⁹ bytes) or GiB (2³⁰)?",
}

_ORDER, _TURNED = "the right entries in the wrong order", "the right entries in the opposite order"
PERCENT = "this is in percent; of a share 1 is the whole"
_ABOVE, _BELOW = "more than the whole: a share is at most 1", "less than nothing: a share is at least 0"
TURNED = (  # of 0, 1, or 2 it may be so by chance
    "divided the other way round: this is 1 over what was asked for",
    "this is the part over the rest; a share is the part over the whole",
    "this is the rest over the part; a share is the part over the whole",
    "this is the other part: 1 minus the share that was asked for",
)
_NAN = "NaN where there should be a number: 0 / 0, inf / inf, inf - inf, or a missing value in it?"
FACTS = (_ORDER, _TURNED, _NAN, _ABOVE, _BELOW)  # true of an answer, whatever others are


@dataclass(frozen=True)
class Case:
    """One call of a learner's function with inputs the learner has not seen.

    ``name`` says what is special about the input, ``summary`` describes it, ``table`` is printed with a
    failure when it is small. ``relative`` is the tolerance on numbers. ``show`` turns an answer into text.
    ``share`` says that the numbers are shares between 0 and 1, which has mistakes of its own. ``limit_s`` is
    the time a learner's function may take (10 s, and 60 s on a capture). ``measured`` are entries of the
    answer that a machine gave, which stand in the place of what the solution computes. ``exam`` marks inputs
    that come from a capture; the grader sets it. Dictionaries compare without order.
    """

    name: str
    summary: str
    function: str
    arguments: tuple[Any, ...]
    relative: float = 1e-6
    table: pd.DataFrame | None = None
    show: Callable[[Any], str] | None = None
    share: bool = False
    limit_s: float | None = None
    measured: Mapping[str, Any] | None = None
    exam: bool = False

    @cached_property
    def packed(self) -> bytes:
        """The arguments, from which they are made anew for each call."""
        return pack(self.arguments)

    @property
    def time_s(self) -> float:
        """The seconds that a learner's function may take."""
        return self.limit_s or (60.0 if self.exam else 10.0)


def compared(show: Callable[[Any], str] | None, expected: Any, got: Any) -> tuple[str, str]:
    """The right answer and another as lines, value beside value."""
    return f"expected: {_shown(show, expected)}", f"got:      {_shown(show, got)}"


def difference(expected: Any, got: Any, relative: float) -> str:
    """Where an answer of several entries first differs from the right one, with digits that show it."""
    if not isinstance(expected, Mapping | list):
        return ""
    where, right, other = "", expected, got
    while True:
        keys: Any = None
        if isinstance(right, Mapping) and isinstance(other, Mapping) and set(right) == set(other):
            keys = list(right)
        elif isinstance(right, list) and isinstance(other, list) and len(right) == len(other):
            keys = range(len(right))
        key = next((k for k in keys or () if not matches(right[k], other[k], relative)), None)
        if key is None:
            break
        step = key if isinstance(key, str) and not where else f"[{_key_text(key)}]"
        where, right, other = f"{where}{step}", right[key], other[key]
    if not where:
        return ""
    texts = brief(other), brief(right)
    if texts[0] == texts[1] and _is_number(right) and _is_number(other):
        texts = repr(other), repr(right)
    return f"differs:  {where}, {texts[0]} for {texts[1]}"


def matches(expected: Any, got: Any, relative: float) -> bool:
    """Whether an answer is the expected one: same keys, same order in lists, numbers within ``relative``."""
    if isinstance(expected, list):
        return (
            isinstance(got, list)
            and len(expected) == len(got)
            and all(matches(a, b, relative) for a, b in zip(expected, got, strict=True))
        )
    if type(expected) in (str, int) and type(expected) is type(got) and expected == got:
        return True
    if isinstance(expected, Mapping):
        return (
            isinstance(got, Mapping)
            and set(expected) == set(got)
            and all(matches(value, got[key], relative) for key, value in expected.items())
        )
    if _is_number(expected) and _is_number(got):
        return math.isclose(expected, got, rel_tol=relative, abs_tol=relative * 1e-3) or (
            math.isnan(expected) and math.isnan(got)
        )
    if isinstance(expected, pd.DataFrame) and isinstance(got, pd.DataFrame):
        return expected.equals(got)  # two wrong answers: none asks for a table
    return type(expected) is type(got) and bool(expected == got)


def alike(gives: Any, got: Any, relative: float) -> bool:
    """Whether two answers, of which neither may be right, are the same: as `matches`, but zero is zero."""
    return matches(gives, got, relative) and all(
        (abs(a) < _ZERO) == (abs(b) < _ZERO) for a, b in zip(_numbers(gives), _numbers(got), strict=True)
    )


def plain(value: Any) -> Any:
    """A value as it comes back from a learner's process: tuples as lists, numpy's numbers as Python's."""
    return decode(encode(value))


def generic(share: bool, expected: Any, got: Any) -> str:
    """In words, a mistake that any numeric answer can have: the unit, percent for a share, its complement."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping) and set(expected) == set(got):
        wrong = [key for key in expected if not matches(expected[key], got[key], 1e-6)]
        nested = all(isinstance(expected[key], Mapping) for key in wrong)
        if 0 < len(wrong) < len(expected) or (wrong and nested):  # the mistake is in those, not in others
            numbers = [key for key in wrong if nested or not isinstance(expected[key], str)]
            found = {generic(share, expected[key], got[key]) for key in numbers}
            words = found.pop() if len(found) == 1 else ""
            return f"under {', '.join(map(_key_text, numbers))}: {words}" if words else ""
    if len(_numbers(expected)) != len(_numbers(got)):
        return ""
    pairs = list(zip(_numbers(expected), _numbers(got), strict=True))
    if any(math.isnan(b) and not math.isnan(a) for a, b in pairs):
        return _NAN
    telling = [(a, b) for a, b in pairs if a and b and not math.isinf(a)]
    if telling and len(telling) == len([a for a, _ in pairs if a]):
        shares = share or all(0 <= a <= 1 for a, _ in pairs)
        if shares and all(math.isclose(b, 100 * a, rel_tol=1e-6) for a, b in telling):
            return PERCENT
        counts = all(type(x) is int and abs(x) < _COUNTS for x in (expected, got))
        for factor, words in () if share or counts else _SCALES.items():
            for scale in (factor, 1 / factor):
                if all(_about(b, a * scale) for a, b in telling):
                    return words
        if all(math.isclose(b, -a, rel_tol=1e-6) for a, b in telling):
            return "the sign is the other way round"
    if share and pairs and all(math.isclose(b, 1 - a, rel_tol=1e-6, abs_tol=1e-9) for a, b in pairs):
        return TURNED[3]
    if turned := _turned(pairs, share):
        return turned
    if share and (beyond := next((b for _, b in pairs if b < -1e-9 or b > 1 + 1e-9), 0.0)):
        return _BELOW if beyond < 0 else _ABOVE
    return _moved(expected, got) if isinstance(expected, list) and isinstance(got, list) else ""


def _turned(pairs: Sequence[tuple[float, float]], share: bool) -> str:
    """In words, that right numbers were divided the other way round, or a share by the rest of its whole."""
    if all(a == b or (a and math.isclose(b, 1 / a, rel_tol=1e-6)) for a, b in pairs) and any(
        _is_telling(a) and a != b for a, b in pairs
    ):
        return TURNED[0]
    if share and any(0 < a < 1 for a, _ in pairs) and all(0 <= a < 1 or a == b for a, b in pairs):
        if all(math.isclose(b, a / (1 - a), rel_tol=1e-6) for a, b in pairs if a < 1):
            return TURNED[1]
        if all(math.isclose(b, (1 - a) / a, rel_tol=1e-6) for a, b in pairs if 0 < a < 1):
            return TURNED[2]
    return ""


def _moved(expected: Sequence[Any], got: Sequence[Any]) -> str:
    """In words, that entries are the right ones in another order, or stand earlier or later."""
    right, other = list(map(repr, expected)), list(map(repr, got))
    if len(right) != len(other) or (len(right) < 4 and all(map(_is_small, expected))):
        return ""  # a few small numbers are the same by chance
    if sorted(right) == sorted(other) and len(set(right)) == len(right):
        return _TURNED if right == other[::-1] and len(right) > 2 else _ORDER
    for by in range(1, len(right) // 3 + 1):
        for early, late, word in ((right, other, "later"), (other, right, "earlier")):
            if early[:-by] == late[by:] and len(set(early[:-by])) > 1:
                return f"the right entries, {by} {'place' if by == 1 else 'places'} {word}"
    return ""


def telling(answers: Sequence[Any]) -> bool:
    """Whether wrong answers tell the mistake that gives them from others.

    None, a truth value, a word, nothing, or a small whole number is what many a mistake gives, unless there
    are several different ones.
    """
    return any(map(_is_telling, answers)) or len(set(map(repr, answers))) >= _SEVERAL


def by_chance(answers: Sequence[Any]) -> bool:
    """Whether no number of these answers is another one than 0, 1, and 2."""
    return all(number in (0, 1, 2) for answer in answers for number in _numbers(answer))


def _is_telling(answer: Any) -> bool:
    if isinstance(answer, Mapping | list):
        parts = list(answer.values()) if isinstance(answer, Mapping) else answer
        return len(parts) >= _SEVERAL or any(map(_is_telling, parts))
    return _is_number(answer) and math.isfinite(answer) and not _is_small(answer)


def _is_small(value: Any) -> bool:
    return _is_number(value) and abs(value) < _SMALL and value == int(value)


def shape(expected: Any, got: Any, may_be_none: bool = False, entry: bool = False) -> str:
    """In words: the answer is not of the kind that was asked for; ``may_be_none`` where None can be meant,
    ``entry`` of an entry of it, of which what is left over is not told.
    """
    if got is None and may_be_none:
        return f"the answer should be {_kind(expected)}, not {_kind(got)}"
    if got is None:
        return "the function returned None (is a `return` missing?)"
    if isinstance(got, Other):
        return f"the answer is a {got.type_name}; return {_kind(expected)}"
    if isinstance(expected, Mapping):
        if not isinstance(got, Mapping):
            return f"the answer should be {_kind(expected)}, not {_kind(got)}"
        missing, extra = set(expected) - set(got), set(got) - set(expected)
        if missing and {str(key) for key in missing} <= {str(key) for key in extra}:
            return f"the keys should be {_kind(next(iter(missing)))}, not {_kind(next(iter(extra)))}"
        words = []
        if missing:
            words.append("missing: " + ", ".join(map(_key_text, sorted(missing, key=repr))))
        if extra:
            words.append("not expected: " + ", ".join(map(_key_text, sorted(extra, key=repr))))
        if words:
            return f"the keys differ ({'; '.join(words)})"
        return _of_entries([(value, got[key]) for key, value in expected.items()])
    if isinstance(expected, list):
        if not isinstance(got, list):
            return f"the answer should be {_kind(expected)}, not {_kind(got)}"
        if len(expected) != len(got):
            entries = "entry" if len(expected) == 1 else "entries"
            left = "" if entry else _left_over(expected, got)
            return f"the answer should have {len(expected)} {entries}, it has {len(got)}{left}"
        return _of_entries(list(zip(expected, got, strict=True)))
    if _is_number(expected) != _is_number(got) or isinstance(expected, str) != isinstance(got, str):
        return f"the answer should be {_kind(expected)}, not {_kind(got)}"
    return ""


def _left_over(expected: Sequence[Any], got: Sequence[Any]) -> str:
    """Which entries are missing or too many, where all others are right."""
    right, other = Counter(map(repr, expected)), Counter(map(repr, got))
    missing, beyond = list((right - other).elements()), list((other - right).elements())
    if bool(missing) == bool(beyond):
        return ""
    few = ", ".join(cut(text, 60) for text in (missing or beyond)[:3])
    return f" ({'missing' if missing else 'too many'}: {few}{', …' if len(missing or beyond) > 3 else ''})"


def _of_entries(pairs: Sequence[tuple[Any, Any]]) -> str:
    """In words: entries are not of the kind that was asked for, all that are wrong in the same way."""
    said = {shape(one, other, True, True) for one, other in pairs if not matches(one, other, 1e-6)}
    found = said.pop() if len(said) == 1 else ""
    return found.replace("the answer", "an entry", 1).replace("the keys", "an entry: the keys", 1)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, int):
        return "a whole number"
    if isinstance(value, float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, Mapping):
        return "a dictionary"
    if isinstance(value, list | tuple):
        return "a list (or tuple)"
    if isinstance(value, pd.DataFrame):
        return "a table (DataFrame)"
    return "nothing (None)" if value is None else f"a {type(value).__name__}"


def _about(a: float, b: float) -> bool:
    """Equal, or equal but for rounding to a whole number."""
    return math.isclose(a, b, rel_tol=1e-6) or (abs(b) > 1000 and abs(a - b) <= 1)


def _key_text(key: Any) -> str:
    return repr(key)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(value: Any) -> list[float]:
    """The numbers of an answer in an order that does not depend on the order of keys."""
    if isinstance(value, Mapping):
        return [n for key in sorted(value, key=repr) for n in _numbers(value[key])]
    if isinstance(value, list):
        return [n for item in value for n in _numbers(item)]
    return [float(value)] if _is_number(value) else []


def _shown(show: Callable[[Any], str] | None, value: Any) -> str:
    if show is not None:
        try:
            return show(value)
        except Exception:
            pass  # an answer of the wrong kind: show it as it is
    return brief(value)


def brief(value: Any, limit: int = 160) -> str:
    """An answer as short text: numbers rounded to six digits, long ones cut."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{brief(k)}: {brief(v)}" for k, v in value.items()) + "}"
    elif isinstance(value, tuple):
        text = "(" + ", ".join(brief(item) for item in value) + ")"
    elif isinstance(value, list):
        text = "[" + ", ".join(brief(item) for item in value) + "]"
    elif isinstance(value, pd.DataFrame):
        text = f"a table of {len(value)} rows with the columns {', '.join(map(str, value.columns))}"
    elif isinstance(value, Other):
        text = f"{value.type_name}: {value.text}"
    else:
        text = repr(value)
    return cut(text, limit)


def table_lines(table: pd.DataFrame | None) -> list[str]:
    """A small table as lines; none for a large one."""
    if table is None or len(table) > SMALL_TABLE:
        return []
    return str(table.to_string(index=False)).splitlines()


duration = partial(time_text, digits=4)
