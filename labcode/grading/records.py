"""What describes an exercise: a folder with an ``exercise.toml`` in; what it asks, needs and hints at out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from labcode.errors import LabError

Need = Literal["gpu", "2 gpus", "nsys", "ncu", "nvcc", "torch", "any torch"]
NEEDS: tuple[Need, ...] = ("gpu", "2 gpus", "nsys", "ncu", "nvcc", "torch", "any torch")
Kind = Literal["code", "step", "detective", "command", "predict"]
KINDS: dict[Kind, str] = {
    "code": "Exercise",
    "step": "Step",
    "detective": "Detective",
    "command": "Choose the command",
    "predict": "Predict",
}  # what a card calls them
MIN_HINTS = 3
MAX_STARS = 5
ALWAYS_FORBIDDEN = ("labcode.grading", "solutions")
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Part:
    """One task of an exercise: one file that the learner edits, graded by itself.

    ``letter`` names it (``a``, ``b`` …) and begins the file's name, and those of the files beside its
    solution: ``a_cases.py`` and ``a_mistakes.toml`` when ``needs`` is empty (see `labcode.grading.task`), and
    ``a_gpu.py`` when the part runs on a GPU (see `labcode.grading.grade`). ``hints`` go from a nudge to
    nearly the answer. ``forbidden`` are modules that would do the work for the learner.
    """

    letter: str
    title: str
    file: str
    hints: tuple[str, ...]
    needs: tuple[Need, ...] = ()
    forbidden: tuple[str, ...] = ("labcode.analysis",)

    @property
    def is_sheet(self) -> bool:
        """Whether the answer is a TOML file with facts (`labcode.grading.sheet`), not code."""
        return self.file.endswith(".toml")

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z]", self.letter) or not self.file.startswith(f"{self.letter}_"):
            raise ValueError(
                f"part {self.letter!r}: one letter, which also begins the file's name ({self.file})"
            )
        if len(self.hints) < MIN_HINTS:
            raise ValueError(f"part {self.letter!r} ({self.title}): at least {MIN_HINTS} hints")
        if unknown := set(self.needs) - set(NEEDS):
            raise ValueError(f"part {self.letter!r}: unknown needs {sorted(unknown)}")


@dataclass(frozen=True)
class Exercise:
    """An exercise of the book.

    ``id`` is ``<part of the book>-ex<NN>-<name>``; ``chapter`` is the page it belongs to (a document name of
    the book, without suffix); ``stars`` run from 1 to 5; ``minutes`` is the time to plan for; ``outcome``
    ends the sentence “who has solved it can …”; ``kind`` says what is asked for; ``before`` names the
    exercise that a step leads to.
    """

    id: str
    title: str
    summary: str
    chapter: str
    stars: int
    minutes: int
    parts: tuple[Part, ...]
    outcome: str = ""
    kind: Kind = "code"
    before: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z]+(-[a-z]+)*-ex\d\d-[a-z0-9]+(-[a-z0-9]+)*", self.id):
            raise ValueError(f"{self.id!r} is not an exercise's id, such as nsys-ex01-timeline-basics")
        if not 1 <= self.stars <= MAX_STARS:
            raise ValueError(f"{self.id}: stars run from 1 to {MAX_STARS}")
        if self.kind not in KINDS or (self.kind == "step") != bool(self.before):
            raise ValueError(f"{self.id}: kind is one of {', '.join(KINDS)}; a step says what it is before")
        letters = [part.letter for part in self.parts]
        if not letters or letters != sorted(set(letters)):
            raise ValueError(f"{self.id}: parts are lettered in order, each letter once")

    @cached_property
    def book_part(self) -> str:
        """The part of the book, which is also the folder: ``nsys``."""
        return re.split(r"-ex\d\d-", self.id)[0]

    @cached_property
    def short(self) -> str:
        """The id without its name: ``nsys-ex01``."""
        match = re.match(r".*?-ex\d\d", self.id)
        assert match is not None
        return match.group()

    @cached_property
    def folder(self) -> str:
        """The folder below ``exercises/`` and ``solutions/``: ``nsys/ex01_timeline_basics``."""
        return f"{self.book_part}/{self.id[len(self.book_part) + 1 :].replace('-', '_')}"

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the parts need, taken together, in the order of `NEEDS`."""
        return tuple(need for need in NEEDS if any(need in part.needs for part in self.parts))

    @property
    def needs_nothing(self) -> tuple[Part, ...]:
        """The parts that any machine can grade."""
        return tuple(part for part in self.parts if not part.needs)

    def part_id(self, part: Part) -> str:
        """A part's id: ``nsys-ex01-timeline-basics:a``."""
        return f"{self.id}:{part.letter}"

    def path(self, part: Part) -> str:
        """A part's file below ``exercises/``."""
        return f"{self.folder}/{part.file}"

    def source(self, part: Part) -> str:
        """A part's solution below ``solutions/``: the same file, or of a sheet the one that computes it."""
        path = self.path(part)
        return path.removesuffix(".toml") + ".py" if part.is_sheet else path


@dataclass(frozen=True)
class Pace:
    """How fast an answer is: ``times`` as fast as a reference of its run, and its share of a ``roof``."""

    times: float
    reference: str
    roof: float | None = None
    roof_of: str = ""

    def __str__(self) -> str:
        """``1.8 × as fast as the plain loop, 0.93 of the roof (memory)``."""
        share = "" if self.roof is None else f", {self.roof:.2f} of the roof ({self.roof_of})"
        digits = 0 if self.times >= 100 else 1 if self.times >= 10 else 2
        return f"{self.times:.{digits}f} × as fast as {self.reference}{share}"


@dataclass(frozen=True)
class Predicted:
    """An interval that was given for a measurement, under a sheet's key, and what came of it.

    ``asks`` is the question, ``score`` what the interval is worth, from 0 to 1, ``at`` when it was graded.
    """

    key: str
    asks: str
    low: float
    high: float
    measured: float
    unit: str
    right: bool
    score: float
    at: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a grading says: the status, one line, and lines that explain it.

    ``to do``: the file is a starter, or one of its functions still is. ``score`` is what
    ``predictions`` are worth, ``pace`` how fast an answer is that was measured.
    """

    status: Literal["passed", "failed", "not run", "to do"]
    headline: str
    details: tuple[str, ...] = ()
    score: float | None = None
    pace: Pace | None = None
    predictions: tuple[Predicted, ...] = ()


def read(folder: Path) -> Exercise:
    """The exercise that a folder's ``exercise.toml`` describes; `LabError` names what is wrong with it."""
    path = folder / "exercise.toml"
    data = read_toml(path)
    try:
        parts = tuple(_record(Part, part) for part in data.pop("parts", ()))
        exercise = _record(Exercise, {**data, "parts": parts})
    except (TypeError, ValueError) as error:
        raise LabError(f"{path}: {error}") from None
    if (folder.parent.name, folder.name) != tuple(exercise.folder.split("/")):
        raise LabError(f"{path}: {exercise.id} belongs in solutions/{exercise.folder}")
    return exercise


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file; `LabError` when it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _record(kind: type[_Record], data: Mapping[str, Any]) -> _Record:
    """A record of a table's entries; `TypeError` for unknown, missing and wrong ones."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    where = f"{kind.__name__.lower()} {data.get('letter') or data.get('id') or ''}".strip()
    if unknown := set(data) - set(known):
        raise TypeError(f"{where}: unknown: {', '.join(sorted(unknown))}")
    values = {}
    for name, field in known.items():
        if name not in data:
            if field.default is MISSING:
                raise TypeError(f"{where}: {name} is missing")
            continue
        value = tuple(data[name]) if isinstance(data[name], list | tuple) else data[name]
        wanted = "int" if field.type == "int" else "str" if field.type in ("str", "Kind") else "tuple"
        if type(value).__name__ != wanted or (
            wanted == "tuple" and name != "parts" and not all(isinstance(item, str) for item in value)
        ):
            words = {"int": "a whole number", "str": "a text", "tuple": "a list of texts"}[wanted]
            raise TypeError(f"{where}: {name} should be {words}")
        values[name] = value
    return kind(**values)
