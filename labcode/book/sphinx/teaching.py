"""For those who teach with the book: names of pages and exercises in; syllabi, a bank of exercises out.

``syllabus``, ``exercise-bank``. Minutes, stars, needs and outcomes are those of the exercises themselves;
what is renamed fails the build.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from labcode.book import reading
from labcode.book.sphinx.render import plain_table
from labcode.book.sphinx.roles import exercise_link
from labcode.errors import LabError
from labcode.grading import catalogue, needs
from labcode.grading.records import KINDS, NEEDS, Exercise, Part

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ROUND = 5  # minutes


def register(app: Sphinx) -> None:
    """Add the directives to the application."""
    app.add_directive("syllabus", Syllabus)
    app.add_directive("exercise-bank", ExerciseBank)


def reading_minutes(page: Path) -> int:
    """How long to plan for reading a page; a multiple of five minutes."""
    return _ROUND * math.ceil(reading.minutes(page) / _ROUND)


def solving_minutes(exercise: Exercise, part: Part | None) -> int:
    """How long to plan for an exercise, or for one of its parts: an equal share."""
    return exercise.minutes if part is None else round(exercise.minutes / len(exercise.parts))


class Syllabus(SphinxDirective):
    """``{syllabus}``: a table of sessions, from lines ``title | pages | exercises``, names parted by blanks.

    ``:minutes:`` is the time there is for all of them, ``:each:`` that for one: a warning says what exceeds
    it. A page's minutes are those of reading it, an exercise's those of its description.
    """

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "minutes": directives.positive_int,
        "each": directives.positive_int,
    }

    def run(self) -> list[nodes.Node]:
        """The table, with a row for the whole time."""
        rows, total = list[list[list[nodes.Node]]](), 0
        for line in filter(str.strip, self.content):
            title, *names = (cell.strip() for cell in line.split("|"))
            if len(names) != 2:
                raise self.error(f"{line!r}: a session is “title | pages | exercises”")
            try:
                cells, minutes = self._session(names[0].split(), names[1].split())
            except LabError as error:
                raise self.error(f"{title}: {error}") from None
            rows.append([[nodes.strong(text=title)], *cells])
            self._limit(title, minutes, self.options.get("each"))
            total += minutes
        self._limit("all sessions", total, self.options.get("minutes"))
        spare = [f"{total} minutes in all"]
        if "minutes" in self.options:
            spare.append(f"{self.options['minutes'] - total} are left for talk, breaks and own programs")
        rows.append([[nodes.Text("; ".join(spare))]])
        header = ("Session", "Read", "Solve", "Minutes", "Who has done it can")
        return [plain_table(header, (3, 5, 3, 2, 6), rows, "lab-syllabus")]

    def _limit(self, what: str, minutes: int, limit: int | None) -> None:
        if limit is not None and minutes > limit:
            self.state.document.reporter.warning(
                f"syllabus: {what}: {minutes} minutes, and there are {limit}", line=self.lineno
            )

    def _session(self, pages: Sequence[str], exercises: Sequence[str]) -> tuple[list[list[nodes.Node]], int]:
        read, solve, outcomes, minutes = list[nodes.Node](), list[nodes.Node](), list[str](), 0
        for name in pages:
            if name not in self.env.found_docs:
                raise LabError(f"{name} is no page of the book")
            path = Path(self.env.doc2path(name))
            self.env.note_dependency(str(path))
            minutes += reading_minutes(path)
            read += [nodes.Text("; ")] if read else []
            target = {"reftarget": f"/{name}", "refexplicit": False, "refwarn": True}
            about = {"reftype": "doc", "refdomain": "std", "refdoc": self.env.docname}
            page = addnodes.pending_xref("", **target, **about)
            page += nodes.inline()
            read.append(page)
        for name in exercises:
            exercise, part = catalogue.find(name)
            minutes += solving_minutes(exercise, part)
            solve += [nodes.Text(", ")] if solve else []
            solve.append(exercise_link(name))
            outcomes.append(exercise.outcome)
        told = "; ".join(dict.fromkeys(outcomes))
        return [read, solve, [nodes.Text(str(minutes))], [nodes.Text(told)]], minutes


class ExerciseBank(SphinxDirective):
    """``{exercise-bank} stars``: every exercise by difficulty; ``kinds``: how many there are of each kind;
    ``needs``: every part by its need.
    """

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table."""
        if self.arguments[0] == "stars":
            header = ("Exercise", "Minutes", "Parts", "Some parts need", "Who has solved it can")
            return [plain_table(header, (3, 1, 1, 3, 6), by_stars(catalogue.EXERCISES))]
        if self.arguments[0] == "kinds":
            header = ("Kind", "Exercises", "Parts", "Minutes each", "Minutes")
            return [plain_table(header, (3, 1, 1, 2, 1), by_kinds(catalogue.EXERCISES))]
        if self.arguments[0] == "needs":
            return [plain_table(("Needs", "Parts", "Minutes"), (2, 8, 1), by_needs(catalogue.EXERCISES))]
        raise self.error("exercise-bank: say stars, kinds or needs")


def by_stars(exercises: Sequence[Exercise]) -> Iterator[list[list[nodes.Node]]]:
    """Rows of all exercises, the easiest first, each difficulty under a line of its own."""
    for stars in sorted({exercise.stars for exercise in exercises}):
        found = sorted((e for e in exercises if e.stars == stars), key=lambda e: e.minutes)
        minutes = sum(exercise.minutes for exercise in found)
        word = "exercise" if len(found) == 1 else "exercises"
        yield [[nodes.Text(f"{'★' * stars}: {len(found)} {word}, {minutes} minutes")]]
        for exercise in found:
            facts = (
                str(exercise.minutes),
                str(len(exercise.parts)),
                needs.in_words(exercise.needs) if exercise.needs else "–",
                exercise.outcome,
            )
            cells: list[list[nodes.Node]] = [[nodes.Text(fact)] for fact in facts]
            yield [[exercise_link(exercise.short)], *cells]


def by_kinds(exercises: Sequence[Exercise]) -> Iterator[list[list[nodes.Node]]]:
    """A row for each kind, and one for all: how many, and how long they take."""
    groups = [(word, [e for e in exercises if e.kind == kind]) for kind, word in KINDS.items()]
    for word, found in (*((word, found) for word, found in groups if found), ("All", list(exercises))):
        minutes = [exercise.minutes for exercise in found]
        parts = sum(len(exercise.parts) for exercise in found)
        facts = (str(len(found)), str(parts), f"{min(minutes)} to {max(minutes)}", str(sum(minutes)))
        yield [[nodes.Text(fact)] for fact in (word, *facts)]


def by_needs(exercises: Sequence[Exercise]) -> Iterator[list[list[nodes.Node]]]:
    """A row for each need that parts share, what needs nothing first."""
    parts = [(exercise, part) for exercise in exercises for part in exercise.parts]
    kinds = sorted({part.needs for _, part in parts}, key=lambda one: [NEEDS.index(need) for need in one])
    for kind in kinds:
        found = [(exercise, part) for exercise, part in parts if part.needs == kind]
        names: list[nodes.Node] = []
        for exercise, part in found:
            names += [nodes.Text(", ")] if names else []
            names.append(exercise_link(f"{exercise.short}{part.letter}"))
        minutes = sum(solving_minutes(exercise, part) for exercise, part in found)
        yield [[nodes.Text(needs.in_words(kind))], names, [nodes.Text(str(minutes))]]
