"""What a rule is and what it says: a function in, a `Rule` out; its finding in, a `Verdict` out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import pandas as pd

from labcode.errors import LabError
from labcode.show import html_facts, html_table, percent

Status = Literal["found", "not found", "could not judge", "failed"]
Severity = Literal["", "info", "low", "medium", "high"]
S = TypeVar("S")  # what a rule judges: `labcode.analysis.rules.Tables`, or a launch
HIGH, MEDIUM = 0.25, 0.10  # of the window, by the upper bound of the gain


class CannotJudgeError(LabError):
    """The capture lacks what a rule needs; the message names the missing data and how to record them."""


@dataclass(frozen=True, eq=False)
class Finding:
    """What a rule measured.

    ``found`` says whether the problem is there; ``message`` is one sentence with the measured value, in both
    cases. ``numerator`` and ``denominator`` are what was compared, each with its name (and unit in the name:
    ns, calls, …). ``gain`` is what mending it is predicted to save, as a share of an iteration, between
    ``low`` and ``high``; without these two it is an upper bound, as a share of the window. None where there
    is nothing to save, because the profile is at fault and not the program. ``evidence`` holds the rows, the
    weightiest first. ``severity`` follows from the gain unless it is given. ``advice`` replaces the rule's.
    """

    found: bool
    message: str
    numerator: float
    numerator_name: str
    denominator: float
    denominator_name: str
    gain: float | None = None
    evidence: pd.DataFrame = field(default_factory=pd.DataFrame)
    severity: Severity = ""
    low: float | None = None
    high: float | None = None
    advice: str = ""


@dataclass(frozen=True, eq=False)
class Rule(Generic[S]):
    """A named rule: where the book explains it (``book``, a docname), what to try, and the function.

    ``of``: the kinds of files that it judges; where it is empty, all that the rules of its module judge.
    """

    id: str
    title: str
    book: str
    advice: str
    judge: Callable[[S], Finding]
    of: tuple[str, ...] = ()

    def __call__(self, subject: S) -> Finding:
        """Apply the rule to the tables of a capture, or to a launch."""
        return self.judge(subject)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a rule says about a capture.

    ``status`` is 'found', 'not found' (``message`` and the numbers hold what was measured), 'could not judge'
    (``message`` names the missing data) or 'failed' (a rule broke; ``message`` says how). ``gain`` is what
    mending it is predicted to save, as a share of an iteration, between ``low`` and ``high``, which a replay
    without the cause gives. Where ``low`` and ``high`` are None it
    is an upper bound, as a share of the window, argued in the rule's docstring. Gains of different rules
    overlap, for one nanosecond may have several causes: they may not be added.
    """

    rule: str
    title: str
    status: Status
    message: str
    severity: Severity = ""
    numerator: float | None = None
    numerator_name: str = ""
    denominator: float | None = None
    denominator_name: str = ""
    gain: float | None = None
    evidence: pd.DataFrame = field(default_factory=pd.DataFrame)
    book: str = ""
    advice: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def predicted(self) -> bool:
        """Whether the gain is a prediction, and not a bound alone."""
        return self.low is not None and self.high is not None

    @property
    def share(self) -> float | None:
        """Numerator by denominator; None where there is nothing to divide by."""
        if self.numerator is None or not self.denominator:
            return None
        return self.numerator / self.denominator

    def record(self) -> dict[str, object]:
        """What is measured, by name, as every document in JSON has it first."""
        return {name: getattr(self, name) for name in _RECORDED}

    def _repr_html_(self) -> str:
        told = {
            "verdict": _named(self),
            "measured": self.message,
            "to gain": _gain(self),
            "to try": self.advice,
        }
        return html_facts(self.title, {name: text for name, text in told.items() if text})


_RECORDED = (
    *("rule", "title", "status", "severity", "message"),
    *("numerator", "numerator_name", "denominator", "denominator_name", "share"),
)


class Verdicts(list[Verdict]):
    """Verdicts in the order in which they are told; a notebook shows those found, and names the others."""

    def _repr_html_(self) -> str:
        found = [one for one in self if one.status == "found"]
        rows = [(_named(one), one.title, one.message, _gain(one)) for one in found]
        heads = ("Verdict", "What", "Measured", "To gain")
        table = html_table(heads, (False,) * len(heads), rows) if rows else ""
        others: dict[str, list[str]] = {}
        for one in self:
            if one.status != "found":
                others.setdefault(one.status, []).append(one.rule)
        lines = [f"{status}: {', '.join(rules)}" for status, rules in others.items()]
        return table + html_facts(f"{len(found)} of {len(self)} found", {}, lines)


def _named(verdict: Verdict) -> str:
    return f"{verdict.rule} ({verdict.severity or verdict.status})"


def _gain(verdict: Verdict) -> str:
    """What mending it saves, as a share of what was judged; '' where nothing is to be saved."""
    if verdict.gain is None:
        return ""
    if verdict.low is None or verdict.high is None:
        return f"at most {percent(verdict.gain)}"
    return f"{percent(verdict.gain)} ({percent(verdict.low)} to {percent(verdict.high)})"


def rule(
    id: str, *, title: str, book: str = "", advice: str = "", of: tuple[str, ...] = ()
) -> Callable[[Callable[[S], Finding]], Rule[S]]:
    """Make a rule of a function that takes the `Tables` of a capture and returns a `Finding`.

    The function raises `CannotJudgeError` where data are missing (``tables.need_busy()`` and its
    siblings do).
    """

    def decorate(judge: Callable[[S], Finding]) -> Rule[S]:
        made = Rule(id, title, book, advice, judge, of)
        object.__setattr__(made, "__doc__", judge.__doc__)
        return made

    return decorate


def verdict_of(which: Rule[Any], found: Finding) -> Verdict:
    """A rule's finding as a verdict; `TypeError` says what a rule's function gave back in place of one."""
    if not isinstance(found, Finding):
        raise TypeError(f"it returned {type(found).__name__}; a rule returns a Finding")
    for name, wanted in (("message", str), ("evidence", pd.DataFrame)):
        if not isinstance(getattr(found, name), wanted):
            is_type = type(getattr(found, name)).__name__
            raise TypeError(f"the finding's {name} is {is_type}; it should be {wanted.__name__}")
    gain, low, high = (
        None if share is None else min(max(float(share), 0.0), 1.0)
        for share in (found.gain, found.low, found.high)
    )
    return Verdict(
        rule=which.id,
        title=which.title,
        status="found" if found.found else "not found",
        message=found.message,
        severity=(found.severity or _severity(gain, low)) if found.found else "",
        numerator=float(found.numerator),
        numerator_name=found.numerator_name,
        denominator=float(found.denominator),
        denominator_name=found.denominator_name,
        gain=gain,
        evidence=found.evidence,
        book=which.book,
        advice=found.advice or which.advice,
        low=low,
        high=high,
    )


def _severity(gain: float | None, low: float | None) -> Severity:
    """High and medium are alarms: they need a gain of a tenth in the cautious case, too."""
    if gain is None:
        return "info"
    if low is not None and low < MEDIUM:
        return "low"
    return "high" if gain >= HIGH else "medium" if gain >= MEDIUM else "low"
