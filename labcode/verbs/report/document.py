"""What a report says, apart from how it looks: verdicts, iterations, tables and their texts, a comparison.

Each format declares what it tells (`Part`) in a module beside this, which `gather` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from labcode.analysis.rules.finding import Verdict
from labcode.analysis.rules.writing import gain_text, measured_text
from labcode.analysis.timeline.iterations import Iterations
from labcode.reports import FORMATS, Kind, imported
from labcode.show import byte_text, one_line, percent, time_text, value_text

if TYPE_CHECKING:
    from labcode.analysis.rules.finding import Verdict
    from labcode.analysis.rules.tables import Tables


@dataclass(frozen=True)
class Shown:
    """A table: its first rows, of how many, of which file ('' of several), and what there is to know."""

    title: str
    rows: pd.DataFrame
    count: int
    file: str = ""
    note: str = ""


@dataclass(frozen=True)
class Section:
    """Tables about one thing; ``book`` is the book's page on it, '' where there is none."""

    id: str
    title: str
    tables: tuple[Shown, ...]
    book: str = ""


@dataclass(frozen=True)
class Found:
    """A verdict with its numbers in words; ``of`` is the launch it is about, '' of the whole run."""

    verdict: Verdict
    file: str
    of: str
    measured: str
    gain: str


@dataclass(frozen=True)
class File:
    """One of the files: its name, what it is, facts about it by name, and what is odd about it."""

    name: str
    what: str
    facts: Mapping[str, str]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Folder:
    """What is told of all ranks of a folder, before the page on one of them.

    ``looked_at`` is the report of that rank (the folder itself, where its traces are opened as one).
    """

    path: Path
    looked_at: Path
    headline: tuple[str, ...]
    told: tuple[Found, ...]
    files: tuple[File, ...] = ()
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True)
class Changes:
    """A comparison with a file of before: both names, the verdict in lines, tables."""

    before: str
    after: str
    lines: tuple[str, ...]
    tables: tuple[Shown, ...]


@dataclass(frozen=True)
class Chart:
    """A picture in a section: what draws it, by import path, and of what; its text for who cannot see it."""

    section: str
    draw: str
    of: Any
    alt: str


@dataclass(frozen=True)
class Document:
    """A report; ``opened`` holds the files that pictures are drawn of, by kind. ``shares`` is the time of an
    iteration of each GPU by owner (index: owner; columns: GPUs; ns), ``ledger`` the same as a table.
    """

    title: str
    files: tuple[File, ...]
    headline: tuple[str, ...]
    found: tuple[Found, ...]
    others: tuple[Found, ...]
    iterations: Iterations | None
    sections: tuple[Section, ...]
    changes: tuple[Changes, ...] = ()
    shares: pd.DataFrame = field(default_factory=pd.DataFrame)
    ledger: Shown | None = None
    gpu_time: pd.DataFrame = field(default_factory=pd.DataFrame)
    opened: Mapping[Kind, Sequence[Any]] = field(default_factory=dict)


TOP = 12  # rows of a table
_LONGEST = 90
_UNITS: tuple[tuple[tuple[str, ...], Callable[[float], str]], ...] = (
    (("(ns)", "_ns"), time_text),
    (("_bytes", "(bytes)"), byte_text),
    (("share", "share_of_roof", "mfu"), percent),
    (("(%)",), lambda value: f"{value:.1f}"),
    (("(byte/s)", "bytes_per_s"), lambda value: f"{value / 1e9:,.0f} GB/s"),
    (("flops_per_s",), lambda value: f"{value / 1e12:,.3g} TFLOP/s"),
    (("(Hz)",), lambda value: f"{value / 1e6:,.0f} MHz"),
    (("_j",), lambda value: f"{value:,.4g} J"),
    (("_w",), lambda value: f"{value:,.4g} W"),
)
_WITHOUT = ("(ns)", "_ns", "_bytes", "(bytes)", "(byte/s)", "(Hz)", "_j", "_w", "bytes_per_s")


def _itself(report: Any) -> Any:
    return report


def _none(*_: object) -> Iterator[Any]:
    return iter(())


def _unjudged(*_: object) -> tuple[list[Found], None]:
    return [], None


@dataclass(frozen=True, kw_only=True)
class Part:
    """What files of a format say in a report.

    ``judged``: of an opened file, the window that is asked for, the tables of the timeline that was judged
    before and what was told until then, the verdicts, and the tables of a timeline. ``reports`` of `labcode
    stats` with a title, by section, which ``source`` takes; ``more`` tables, each with its section, of a file
    and what was told. ``idle``: sentences on a run without work of a GPU. ``changed``: the import path of
    what compares a file with one of before (`labcode.verbs.report.changed`). ``charts`` of a file.
    """

    judged: Callable[[Any, str | None, Tables | None, Sequence[Found]], tuple[list[Found], Tables | None]] = (
        _unjudged
    )
    reports: Mapping[str, tuple[tuple[str, str], ...]]
    source: Callable[[Any], Any] = _itself
    more: Callable[[Any, Sequence[Found]], Iterator[tuple[str, Shown]]] = _none
    idle: Callable[[Any], Iterator[str]] = _none
    changed: str | None = None
    charts: Callable[[Any], Iterator[Chart]] = _none


def part_of(kind: Kind) -> Part:
    """What a format declares to be told in a report."""
    found: Part = imported(str(FORMATS[kind].report))
    return found


def told_of(verdict: Verdict, report: Any) -> Found:
    """A verdict on a whole file with its numbers in words."""
    measured = measured_text(verdict) if verdict.status == "found" else ""
    return Found(verdict, Path(report.path).name, "", measured, gain_text(verdict))


def whole(title: str, table: pd.DataFrame, report: Any, stats: str = "") -> Shown:
    """The first rows of a table; ``stats`` names the report that has all of it."""
    note = f"labcode stats -r {stats}" if stats else ""
    return Shown(title, table.head(TOP).reset_index(drop=True), len(table), Path(report.path).name, note)


def readable(rows: pd.DataFrame, longest: int = _LONGEST) -> tuple[list[str], list[bool], list[list[str]]]:
    """A table for people: heads without units, which columns are numbers, the cells' texts with units."""
    names = [str(name) for name in rows.columns]
    numeric = [
        pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
        for dtype in rows.dtypes
    ]
    forms = [_form(name) if number else None for name, number in zip(names, numeric, strict=True)]
    cells = [
        [_text(value, form, longest) for value, form in zip(row, forms, strict=True)]
        for row in rows.itertuples(index=False, name=None)
    ]
    return [_head(name) for name in names], numeric, cells


def _form(name: str) -> Callable[[float], str] | None:
    if name == "bytes":
        return byte_text
    return next((form for ends, form in _UNITS if name.endswith(ends)), None)


def _head(name: str) -> str:
    for unit in _WITHOUT:
        name = name.removesuffix(unit)
    return name.replace("_", " ").strip() or "bytes"


def _text(value: Any, form: Callable[[float], str] | None, longest: int) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return ""
    if form is not None:
        return form(float(value))
    return one_line(value_text(value), longest)
