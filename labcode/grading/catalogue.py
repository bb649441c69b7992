"""All exercises of the book, and how one may be named: a text in, an exercise and perhaps a part of it out.

Needs the standard library alone, so that pages and ``--help`` can read it cheaply. A folder below
``solutions/`` with an ``exercise.toml`` is an exercise; ids begin with the name of a part of the book, so
that several parts may have an ``ex01``. Away from a checkout there are none.
"""

import csv
import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from labcode.errors import LabError
from labcode.grading.records import Exercise, Need, Part, read
from labcode.store import repository_root

__all__ = ["EXERCISES", "Exercise", "Need", "Part", "find", "get", "load"]

BOOK_PARTS = (
    "nsys",
    "compute",
    "advanced",
    "pytorch",
    "lm",
    "energy",
    "serving",
)  # in this order; others follow

# `ex_30_nsight_systems.py` and `01-nsight-systems/ex01-timeline-basics`, after `_` became `-`
_OTHER = re.compile(r"(?:\./)?(?:(?:\d\d-[a-z-]+|practice-exercises)/)?(ex\d\d-[a-z-]+)(?:\.py|/)?")


def load(solutions: Path) -> tuple[Exercise, ...]:
    """The exercises below a folder, in the order of the book's parts; `LabError` names a damaged one."""
    found = [read(path.parent) for path in solutions.glob("*/*/exercise.toml")]
    order = {name: number for number, name in enumerate(BOOK_PARTS)}
    ids = {one.short: one.id for one in found}

    def place(one: Exercise) -> tuple[int, str, bool, str]:
        after = ids.get(one.before, one.id)  # steps come just before what they lead to
        return order.get(one.book_part, len(order)), after, after == one.id, one.id

    return tuple(sorted(found, key=place))


EXERCISES = load(repository_root() / "solutions")


def _other_names() -> dict[str, tuple[str, ...]]:
    """By an exercise's id, what older labs and courses call it (``other_names.csv``)."""
    found: dict[str, tuple[str, ...]] = {}
    with Path(__file__).with_name("other_names.csv").open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            found[row["exercise"]] = (*found.get(row["exercise"], ()), row["name"])
    return found


OTHER_NAMES = _other_names()


def get(exercise_id: str) -> Exercise:
    """The exercise of exactly this id; `LabError` with a suggestion when there is none."""
    exercise, part = find(exercise_id)
    if part is not None:
        raise LabError(f"{exercise_id!r} names a part; the exercise is {exercise.id}")
    return exercise


def find(text: str, exercises: Sequence[Exercise] = EXERCISES) -> tuple[Exercise, Part | None]:
    """The exercise, and the part if one is named, that a learner means.

    Accepted for part a of ``nsys-ex01-timeline-basics``: the id with ``:a`` or ``/a`` after it,
    ``nsys-ex01:a``, ``nsys-ex01a``, ``ex01a`` (while only one part of the book has an ex01),
    ``ex_01_timeline_basics``, ``timeline-basics:a``, and the path of the file or its folder; for an exercise
    also its `OTHER_NAMES`, each with or without ``.py`` and with a folder before it. `LabError` when nothing
    or more than one thing is meant.
    """
    by_path = _by_path(text, exercises)
    if by_path is not None:
        return by_path
    name, letter = _split(text)
    matches = [exercise for exercise in exercises if name in _names(exercise)]
    if not matches:
        raise LabError(_unknown(text, exercises))
    if len(matches) > 1:
        raise LabError(f"{text!r} may mean {' or '.join(e.id for e in matches)}: name one of them")
    exercise = matches[0]
    if letter is None:
        return exercise, None
    for part in exercise.parts:
        if part.letter == letter:
            return exercise, part
    have = ", ".join(part.letter for part in exercise.parts)
    raise LabError(f"{exercise.id} has no part {letter!r} (it has {have})")


def _names(exercise: Exercise) -> tuple[str, ...]:
    without_part = exercise.id[len(exercise.book_part) + 1 :]
    number, _, name = without_part.partition("-")
    return exercise.id, exercise.short, without_part, number, name, *OTHER_NAMES.get(exercise.id, ())


def _split(text: str) -> tuple[str, str | None]:
    name = re.sub(r"\bex-(?=\d\d)", "ex", text.strip().lower().replace("_", "-"))
    other = _OTHER.fullmatch(name)
    name = other.group(1) if other else name
    match = re.fullmatch(r"(.+)[:/]([a-z])", name) or re.fullmatch(r"((?:.*-)?ex\d\d)([a-z])", name)
    return (match.group(1), match.group(2)) if match else (name, None)


def _by_path(text: str, exercises: Sequence[Exercise]) -> tuple[Exercise, Part | None] | None:
    path = text.replace("\\", "/").rstrip("/")
    for exercise in exercises:
        for part in exercise.parts:
            if path.endswith(exercise.path(part)) or path == f"{exercise.folder.split('/')[1]}/{part.file}":
                return exercise, part
        if path.endswith(exercise.folder):
            return exercise, None
    return None


def _unknown(text: str, exercises: Sequence[Exercise]) -> str:
    wanted = _split(text)[0]
    names = {name: exercise.id for exercise in exercises for name in _names(exercise)}
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.7)
    near = [e.short for e in exercises if e.short.startswith(f"{wanted}-") and e.kind == "code"]
    near = near or list(dict.fromkeys(names[one] for one in close))
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"no exercise {text!r}{hint} (`labcode exercises` lists them all)"
