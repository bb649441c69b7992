"""What files of one kind can be asked: a table of reports, which the driver of `labcode stats` goes by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from labcode.errors import InputError, LabError
from labcode.reports import FORMATS, Kind, imported

if TYPE_CHECKING:
    import pandas as pd

    from labcode.analysis.stats.table import Table

R = TypeVar("R")
NOTES = "notes"  # in the ``attrs`` of a report's table: lines that are said of it


class LackingError(InputError):
    """A file lacks what a report is made of; ``why`` names the data and how to record them."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.why = why


def no_notes(_: object) -> Sequence[str]:
    """Nothing to say about a file."""
    return ()


def no_plan(_: object, names: Sequence[str]) -> None:
    """Nothing is done before the reports are asked for."""


@dataclass(frozen=True)
class Shelf(Generic[R]):
    """The reports on files of one kind.

    ``reports``: a function by name, which takes the opened file, gives a table and raises `LackingError`;
    its first line of documentation, or of ``about`` it, says what it tells. ``answer`` is asked in place of
    the functions where they need help. ``default``: those that are printed when none is named; ``otherwise``:
    in their place where a file has data for none of them; ``every``: those of ``--all``. ``of``: which
    reports they are, for messages. ``plain``: a name without arguments, `LabError` for one it does not take.
    ``plan`` is told which reports an opened file will be asked for.
    ``open`` opens a file, ``notes`` says what is odd about it. ``beside``: the kind of file that --with
    names, and how an opened file is told of it. ``exact``: numbers keep their digits; else they have nsys'
    decimals. ``tells``: defaults that lack data are told in their places, as nsys does, else on stderr.
    ``advice``: how to record some. ``only``: how an opened file is cut to the window that a text names, with
    what there is to say of that; None where files have no timeline. ``uncut``: reports that look at whole
    files all the same. ``brief``: what of a table that nobody named is printed for people, and what is said
    below it.
    """

    of: str
    reports: Mapping[str, Callable[[R], Table | pd.DataFrame]]
    default: tuple[str, ...]
    open: Callable[[Path], AbstractContextManager[R]]
    advice: str
    every: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    answer: Callable[[R, str], Table | pd.DataFrame] | None = None
    about: Callable[[str], str] | None = None
    plain: Callable[[str], str] = str
    plan: Callable[[R, Sequence[str]], None] = no_plan
    notes: Callable[[R], Sequence[str]] = no_notes
    beside: tuple[Kind, Callable[[R, Path], R]] | None = None
    exact: bool = True
    tells: bool = False
    only: Callable[[R, str], Sequence[str]] | None = None
    uncut: tuple[str, ...] = ()
    brief: Callable[[R, str, pd.DataFrame], tuple[pd.DataFrame, str]] | None = None


def shelf_of(kind: Kind) -> Shelf[Any]:
    """The reports on files of a kind; imported when they are asked for."""
    path = FORMATS[kind].stats
    if path is None:
        raise LabError(f"{FORMATS[kind].what}: there are no reports on it")
    found: Shelf[Any] = imported(path)
    return found
