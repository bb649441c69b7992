"""Integer columns of a table, from its pages: where the table lies and what is asked of it in, columns out.

None where only SQLite can tell: then `labcode.reports.nsys_columns` reads the same columns through it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labcode.errors import InputError
from labcode.reports.nsys_columns import Column, Ints, foreign_values
from labcode.reports.nsys_pages import (
    NULL,
    DamagedPagesError,
    Decoded,
    Only,
    PageFile,
    Types,
    UnusualLayoutError,
)

Bools = NDArray[np.bool_]

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
    condition = parse_condition(where) if where else None
    if where and condition is None:
        return None
    stored = [name for name in columns if name not in ("rowid", "duration")]
    if "duration" in columns:
        stored += [name for name in ("start", "end") if name not in columns]
    if not {*stored, *([condition.column] if condition else [])} <= set(layout.places):
        return None
    parts: dict[str, list[Column]] = {name: [] for name in columns}
    try:
        file = PageFile(path)
        try:
            places = [layout.places[name] for name in stored]
            for decoded in file.read(layout.root, places, _only(layout, condition, table)):
                _add(parts, decoded, stored, table)
        finally:
            file.close()
    except UnusualLayoutError:
        return None
    found = {name: _whole(parts.pop(name)) for name in columns}
    for name, nullable in columns.items():
        if not nullable and found[name].present is not None:
            raise DamagedPagesError(f"no value where there must be one in {table}.{name}")
    return found


def read_texts_direct(
    path: Path, layout: Layout, column: str, table: str, where: str = ""
) -> tuple[Ints, list[str]] | None:
    """A column of texts as codes into distinct texts, -1: none there; None where SQLite has to read it.

    Raises `DamagedPagesError` when the file is damaged.
    """
    condition = parse_condition(where) if where else None
    place = layout.texts.get(column, 0)
    if place == 0 or (where and (condition is None or condition.column not in layout.places)):
        return None
    seen: defaultdict[bytes, int] = defaultdict()
    seen.default_factory = seen.__len__
    parts = []
    try:
        file = PageFile(path)
        try:
            only = _only(layout, condition, table)
            for decoded in file.read(layout.root, [place - 1, place], only) if file.utf8 else ():
                parts.append(_text_codes(decoded, seen))
        finally:
            file.close()
    except UnusualLayoutError:
        return None
    if not file.utf8:
        return None
    codes = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return codes, [text.decode(errors="replace") for text in seen]


def _text_codes(decoded: Decoded, seen: defaultdict[bytes, int]) -> Ints:
    """The codes of the texts in the second column, which the first ends before; new ones are added."""
    kind = decoded.types[1]
    kinds = np.full(len(decoded.rowid), kind, np.uint8) if isinstance(kind, int) else kind
    start, end = decoded.ends
    if ((kinds != NULL) & ((kinds < 12) | (kinds % 2 == 0))).any():
        raise UnusualLayoutError("something else than a text")
    codes = np.full(len(kinds), -1, np.int64)
    there = np.flatnonzero(kinds != NULL)
    data = decoded.buffer.tobytes() if len(there) else b""
    texts = [data[a:b] for a, b in zip(start[there].tolist(), end[there].tolist(), strict=True)]
    codes[there] = np.fromiter(map(seen.__getitem__, texts), np.int64, len(texts))
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
