"""Integer columns of a table, from its pages: where the table lies and what is asked of it in, columns out.

None where only SQLite can tell: then `labcode.reports.nsys_columns` reads the same columns through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labcode.errors import InputError
from labcode.reports.nsys_columns import Column, Ints, foreign_values
from labcode.reports.nsys_pages import NULL, DamagedPagesError, Decoded, PageFile, UnusualLayoutError

Bools = NDArray[np.bool_]

_CONDITION = re.compile(r"\s*(\w+)\s*(=|<>|IN)\s*\(?([\d\s,]+?)\)?\s*")


@dataclass(frozen=True)
class Layout:
    """Where a table begins and the places of its integer columns in a record."""

    root: int
    places: Mapping[str, int]


@dataclass(frozen=True)
class Condition:
    """Rows whose column has one of the numbers (or, negated, another number)."""

    column: str
    numbers: tuple[int, ...]
    negated: bool


def parse_condition(where: str) -> Condition | None:
    """``eventType IN (59, 60)``, ``eventClass = 27`` or ``eventType <> 75``; None for anything else."""
    found = _CONDITION.fullmatch(where)
    if found is None:
        return None
    column, operator, numbers = found.groups()
    wanted = tuple(int(number) for number in numbers.split(","))
    return Condition(column, wanted, operator == "<>") if operator == "IN" or len(wanted) == 1 else None


def read_direct(
    path: Path, layout: Layout, columns: Mapping[str, bool], table: str, where: str = ""
) -> dict[str, Column] | None:
    """Columns of integers in the order of the rows in the file; None where SQLite has to read them.

    ``columns`` gives for each name whether it may be NULL; ``rowid`` is the row's number and ``duration`` the
    end less the start. Raises `InputError` when a column holds something else than integers, and
    `DamagedPagesError` when the file is damaged.
    """
    condition = parse_condition(where) if where else None
    if where and condition is None:
        return None
    stored = [name for name in columns if name not in ("rowid", "duration")]
    if "duration" in columns:
        stored += [name for name in ("start", "end") if name not in columns]
    if condition is not None and condition.column not in stored:
        stored.append(condition.column)
    if not set(stored) <= set(layout.places):
        return None
    parts: dict[str, list[Column]] = {name: [] for name in columns}
    try:
        file = PageFile(path)
        try:
            for decoded in file.read(layout.root, [layout.places[name] for name in stored]):
                _add(parts, decoded, stored, condition, table)
        finally:
            file.close()
    except UnusualLayoutError:
        return None
    found = {name: _whole(parts.pop(name)) for name in columns}
    for name, nullable in columns.items():
        if not nullable and found[name].present is not None:
            raise DamagedPagesError(f"no value where there must be one in {table}.{name}")
    return found


def _add(
    parts: dict[str, list[Column]],
    decoded: Decoded,
    stored: Sequence[str],
    condition: Condition | None,
    table: str,
) -> None:
    """Append the rows that meet the condition to the parts of each column."""
    have = {}
    for name, values, types in zip(stored, decoded.values, decoded.types, strict=True):
        if isinstance(types, int):
            foreign, present = (
                types == 7 or types >= 10,
                None if types != NULL else np.zeros(len(values), bool),
            )
        else:
            foreign = bool((types == 7).any() or int(types.max()) >= 10)
            present = types != NULL if int(types.min()) == NULL else None
        if foreign:
            raise foreign_values(table, name)
        have[name] = Column(values, present)
    have["rowid"] = Column(decoded.rowid)
    if "duration" in parts:
        have["duration"] = _difference(have["end"], have["start"], table)
    if condition is not None:
        rows = _meeting(have[condition.column], condition)
        if not rows.all():
            chosen = np.flatnonzero(rows)
            have = {name: have[name].take(chosen) for name in parts}
    for name, part in parts.items():
        part.append(have[name])


def _meeting(column: Column, condition: Condition) -> Bools:
    first, *more = condition.numbers
    rows: Bools = column.values == first
    for number in more:
        rows |= column.values == number
    if condition.negated:
        rows = ~rows
    return rows if column.present is None else rows & column.present


def _difference(end: Column, start: Column, table: str) -> Column:
    duration = end.values - start.values
    if int(((end.values ^ start.values) & (end.values ^ duration)).min(initial=0)) < 0:
        raise InputError(
            f"table {table}: an event lasts longer than 64 bits of nanoseconds can tell; "
            "export the report again"
        )
    if end.present is None and start.present is None:
        return Column(duration)
    present = np.ones(len(duration), np.bool_)
    for part in (end.present, start.present):
        present = present if part is None else present & part
    return Column(np.where(present, duration, 0), present)


def _whole(parts: list[Column]) -> Column:
    if not parts:
        return Column(np.empty(0, np.int64))
    values: Ints = np.concatenate([part.values for part in parts])
    if all(part.present is None for part in parts):
        return Column(values)
    present = np.concatenate(
        [np.ones(len(p.values), np.bool_) if p.present is None else p.present for p in parts]
    )
    return Column(values) if present.all() else Column(values, present)
