"""The records an exercise is described by: what it asks, what it needs, how it is graded, its hints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Need = Literal["gpu", "2 gpus", "nsys", "ncu", "nvcc", "torch"]
NEEDS: tuple[Need, ...] = ("gpu", "2 gpus", "nsys", "ncu", "nvcc", "torch")
MIN_HINTS = 3
MAX_STARS = 5


@dataclass(frozen=True)
class Part:
    """One task of an exercise: one file that the learner edits, graded by itself.

    ``letter`` names it (``a``, ``b`` …) and begins the file's name. ``grader`` is ``module:function``. The
    function gives a list of cases when ``needs`` is empty (see `labcode.exercises.cases`), and grades the
    file itself when the part runs on a GPU (see `labcode.grading.gpu`). ``beforehand``, also
    ``module:function``, finds without a GPU, with nvcc alone, what is wrong with a file in any case.
    ``hints`` go from a nudge to nearly the answer.
    """

    letter: str
    title: str
    file: str
    grader: str
    hints: tuple[str, ...]
    needs: tuple[Need, ...] = ()
    beforehand: str = ""

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
    the book, without suffix); ``stars`` run from 1 to 5; ``minutes`` is the time to plan for.
    """

    id: str
    title: str
    summary: str
    chapter: str
    stars: int
    minutes: int
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z]+(-[a-z]+)*-ex\d\d-[a-z0-9]+(-[a-z0-9]+)*", self.id):
            raise ValueError(f"{self.id!r} is not an exercise's id, such as nsys-ex01-timeline-basics")
        if not 1 <= self.stars <= MAX_STARS:
            raise ValueError(f"{self.id}: stars run from 1 to {MAX_STARS}")
        letters = [part.letter for part in self.parts]
        if not letters or letters != sorted(set(letters)):
            raise ValueError(f"{self.id}: parts are lettered in order, each letter once")

    @property
    def book_part(self) -> str:
        """The part of the book, which is also the folder: ``nsys``."""
        return re.split(r"-ex\d\d-", self.id)[0]

    @property
    def short(self) -> str:
        """The id without its name: ``nsys-ex01``."""
        match = re.match(r".*?-ex\d\d", self.id)
        assert match is not None
        return match.group()

    @property
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
        """A part's file below ``exercises/`` and ``solutions/``."""
        return f"{self.folder}/{part.file}"
