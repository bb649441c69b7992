"""What a format says in a report: declared by each in a module beside this, asked by `gather`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from labcode.analysis.rules.writing import gain_text, measured_text
from labcode.reports import FORMATS, Kind, imported
from labcode.verbs.report.document import Chart, Found, Shown

if TYPE_CHECKING:
    from labcode.analysis.rules.finding import Verdict
    from labcode.analysis.rules.tables import Tables

TOP = 12  # rows of a table


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
    found: Part = imported(str(FORMATS[kind].page))
    return found


def told_of(verdict: Verdict, report: Any) -> Found:
    """A verdict on a whole file with its numbers in words."""
    measured = measured_text(verdict) if verdict.status == "found" else ""
    return Found(verdict, Path(report.path).name, "", measured, gain_text(verdict))


def whole(title: str, table: pd.DataFrame, report: Any, stats: str = "") -> Shown:
    """The first rows of a table; ``stats`` names the report that has all of it."""
    note = f"labcode stats -r {stats}" if stats else ""
    return Shown(title, table.head(TOP).reset_index(drop=True), len(table), Path(report.path).name, note)
