"""Integer columns of a table, from its pages: where the table lies and what is asked of it in, columns out.

None where only SQLite can tell: then `labcode.reports.columns` reads the same columns through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labcode.errors import InputError
from labcode.reports.columns import Column, Ints, foreign_values
from labcode.reports.nsys.bytes import Bytes
from labcode.reports.nsys.pages import (
    NULL,
    DamagedPagesError,
    Decoded,
    Only,
    PageFile,
    Types,
    UnusualLayoutError,
)
from labcode.reports.nsys.texts import TextCodes

Bools = NDArray[np.bool_]
Coded = tuple[Ints, list[str]]  # codes into texts; -1: missing

_CONDITION = re.compile(r"\s*(\w+)\s*(=|<>|IN)\s*\(?([\d\s,]+?)\)?\s*")


@dataclass(frozen=True)
class Layout:
    """Where a table begins and the places of its columns of integers and of texts in a record."""

    root: int
    places: Mapping[str, int]
    texts: Mapping[str, int] = field(default_factory=dict)


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
    found = read_rows_direct(path, layout, columns, (), table, where)
    return None if found is None else found[0]


def read_rows_direct(
    path: Path, layout: Layout, columns: Mapping[str, bool], texts: Sequence[str], table: str, where: str = ""
) -> tuple[dict[str, Column], dict[str, Coded]] | None:
    """The same, and columns of texts as codes into distinct texts, -1: none there."""
    condition = parse_condition(where) if where else None
    if where and condition is None:
        return None
    stored = [name for name in columns if name not in ("rowid", "duration")]
    if "duration" in columns:
        stored += [name for name in ("start", "end") if name not in columns]
    if not {*stored, *([condition.column] if condition else [])} <= set(layout.places):
        return None
    if not all(layout.texts.get(name, 0) > 0 for name in texts):
        return None
    parts: dict[str, list[Column]] = {name: [] for name in columns}
    codes: dict[str, list[Ints]] = {name: [] for name in texts}
    seen = [TextCodes() for _ in texts]
    try:
        file = PageFile(path)
        try:
            if texts and not file.utf8:
                return None
            places = [layout.places[name] for name in stored]
            text_places = [layout.texts[name] for name in texts]
            only = _only(layout, condition, table)
            for decoded in file.read(layout.root, places, only, text_places):
                _add(parts, decoded, stored, table)
                for name, known, span in zip(texts, seen, decoded.texts, strict=True):
                    codes[name].append(_text_codes(decoded.buffer, *span, known))
        finally:
            file.close()
    except UnusualLayoutError:
        return None
    found = {name: _whole(parts.pop(name)) for name in columns}
    for name, nullable in columns.items():
        if not nullable and found[name].present is not None:
            raise DamagedPagesError(f"no value where there must be one in {table}.{name}")
    none: Ints = np.empty(0, np.int64)
    coded = {
        name: (np.concatenate([none, *codes[name]]), known.texts())
        for name, known in zip(texts, seen, strict=True)
    }
    return found, coded


def _text_codes(buffer: Bytes, kind: Types, start: Ints, end: Ints, seen: TextCodes) -> Ints:
    """The codes of texts, new ones of which are added to those seen."""
    if isinstance(kind, int):
        if kind == NULL:
            return np.full(len(start), -1, np.int64)
        there = None
        other = kind < 12 or kind % 2 == 0
    else:
        missing = kind == NULL
        there = np.flatnonzero(~missing) if missing.any() else None
        other = bool((((kind < 12) | (kind & 1 == 0)) & ~missing).any())
    if other:
        raise UnusualLayoutError("something else than a text")
    if there is None:
        return seen.add(buffer, start, end)
    codes = np.full(len(start), -1, np.int64)
    codes[there] = seen.add(buffer, start[there], end[there])
    return codes


def _add(
    parts: dict[str, list[Column]],
    decoded: Decoded,
    stored: Sequence[str],
    table: str,
) -> None:
    """Append some rows to the parts of each column."""
    have = {}
    for name, values, types in zip(stored, decoded.values, decoded.types, strict=True):
        have[name] = _column(values, types, table, name)
    have["rowid"] = Column(decoded.rowid)
    if "duration" in parts:
        have["duration"] = _difference(have["end"], have["start"], table)
    for name, part in parts.items():
        part.append(have[name])


def _only(layout: Layout, condition: Condition | None, table: str) -> Only | None:
    if condition is None:
        return None
    asked = condition

    def choose(values: Ints, types: Types) -> Bools:
        return _meeting(_column(values, types, table, asked.column), asked)

    return layout.places[asked.column], choose


def _column(values: Ints, types: Types, table: str, name: str) -> Column:
    """Integers as a column; `InputError` when something else is among them."""
    if isinstance(types, int):
        foreign = types == 7 or types >= 10
        present = np.zeros(len(values), np.bool_) if types == NULL else None
    else:
        foreign = int(types.max()) >= 10 or bool((types == 7).any())
        present = types != NULL if int(types.min()) == NULL else None
    if foreign:
        raise foreign_values(table, name)
    return Column(values, present)


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
