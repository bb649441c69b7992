"""Reads columns of an SQLite table through SQLite: a table and column names in, numpy arrays out.

For what `labcode.reports.nsys.direct` cannot read from the pages. Fetching rows through Python's sqlite3
costs about half a microsecond a row and column. Letting SQLite join a column into one text and numpy parse
that text takes a seventh of it, and holds no Python object per row. Texts are fetched row by row, once for
each distinct id or text.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode.errors import InputError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Objects = NDArray[np.object_]

_CHUNK_ROWS = 1 << 18
_NULL = -(1 << 63)  # no time, size or identifier has this value; in an export it reads as missing
_MOST_IDS = 500  # ids in one IN list
_READ_ALL_ABOVE = 5000  # ids from which on all texts are read


@dataclass(frozen=True)
class Column:
    """A column of integers: the values (0 where missing) and which ones are there; ``None``: all of them."""

    values: Ints
    present: Bools | None = None

    def filled(self, missing: int) -> Ints:
        """The values with ``missing`` where there is none."""
        return self.values if self.present is None else np.where(self.present, self.values, missing)

    def take(self, which: Bools | Ints) -> Column:
        """The same column with only some rows."""
        return Column(self.values[which], None if self.present is None else self.present[which])

    def without(self, rows: Ints) -> Column:
        """The same column without a few rows, which are in ascending order."""
        present = None if self.present is None else without(self.present, rows)
        if present is not None and present.all():
            present = None
        return Column(without(self.values, rows), present)


def read_ints(
    connection: sqlite3.Connection, table: str, columns: Mapping[str, tuple[str, bool]], where: str = ""
) -> dict[str, Column]:
    """Columns of integers, in the order of the rows in the file.

    ``columns`` gives for each name its expression in SQL and whether that may be NULL; ``where`` is a
    condition in SQL. Raises `InputError` when a column holds something else than integers, and
    `sqlite3.Error` when the file cannot be read.
    """
    parts: dict[str, list[Ints]] = {column: [] for column in columns}
    ends = f'SELECT (SELECT min(rowid) FROM "{table}"), (SELECT max(rowid) FROM "{table}")'
    low, high = connection.execute(ends).fetchone()
    fields = ", ".join(
        f"group_concat(ifnull({value}, {_NULL}))" if nullable else f"group_concat({value})"
        for value, nullable in columns.values()
    )
    condition = f" AND ({where})" if where else ""
    query = f'SELECT count(*), {fields} FROM "{table}" WHERE rowid BETWEEN ? AND ?{condition}'
    for rowids in [] if low is None else _chunks(connection, table, low, high):
        count, *texts = connection.execute(query, rowids).fetchone()
        for column, text in zip(columns, texts, strict=True):
            parts[column].append(_parse(text, count, table, column))
    return {column: _joined(parts[column], nullable) for column, (_, nullable) in columns.items()}


def read_texts(
    connection: sqlite3.Connection, table: str, column: str, where: str = ""
) -> tuple[Ints, list[str]]:
    """A column of texts as codes into a list of distinct texts; code -1 where the text is missing."""
    seen: dict[str, int] = {}
    condition = f" WHERE {where}" if where else ""
    rows = connection.execute(f'SELECT "{column}" FROM "{table}"{condition} ORDER BY rowid')
    codes = np.fromiter(
        (-1 if text is None else seen.setdefault(text, len(seen)) for (text,) in rows), dtype=np.int64
    )
    return codes, [str(text) for text in seen]


def read_strings(connection: sqlite3.Connection, ids: Ints) -> tuple[Ints, list[str]]:
    """The texts of ids into ``StringIds``, as codes into a list of texts; ``''`` for an id without one."""
    distinct, codes = unique(ids)
    wanted = distinct.tolist()
    found: dict[int, str] = {}
    if len(wanted) > _READ_ALL_ABOVE:
        found = _texts(connection.execute("SELECT id, value FROM StringIds"))
    else:
        for low in range(0, len(wanted), _MOST_IDS):
            some = wanted[low : low + _MOST_IDS]
            marks = ", ".join("?" * len(some))
            query = f"SELECT id, value FROM StringIds WHERE id IN ({marks})"
            found |= _texts(connection.execute(query, some))
    return codes, [found.get(number, "") for number in wanted]


def without(values: NDArray[Any], rows: Ints) -> NDArray[Any]:
    """An array without a few rows, which are in ascending order: pieces are quicker to copy than rows."""
    bounds = [-1, *rows.tolist(), len(values)]
    return np.concatenate([values[low + 1 : high] for low, high in pairwise(bounds)])


def unique(values: Ints) -> tuple[Ints, Ints]:
    """Distinct values in ascending order, and each value's place among them; fast where they are dense."""
    if len(values) == 0:
        return values, np.empty(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return values[:1], np.zeros(len(values), np.int64)
    if high - low < 4 * len(values) + 1024:
        there = np.zeros(high - low + 1, np.bool_)
        there[values - low] = True
        place = np.cumsum(there) - 1
        return np.flatnonzero(there) + low, place[values - low]
    return sorted_unique(values)


def sorted_unique(values: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The same by sorting, for numbers of any kind."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(values)]
    codes = np.empty(len(values), np.int64)
    codes[order] = np.cumsum(first) - 1
    return ordered[first], codes


def objects(codes: Ints, texts: Sequence[str], missing: str = "") -> Objects:
    """Codes into texts as an array of Python strings; code -1 reads as ``missing``."""
    table = np.empty(len(texts) + 1, dtype=np.object_)
    table[:-1] = texts
    table[-1] = missing
    return table[codes]


def named(values: Ints, names: Mapping[int, str], missing: str = "unknown") -> Objects:
    """Numbers of an enumeration as their names."""
    distinct, codes = unique(values)
    return objects(codes, [names.get(int(number), missing) for number in distinct])


def _chunks(connection: sqlite3.Connection, table: str, low: int, high: int) -> Iterable[tuple[int, int]]:
    """Ranges of rowids with at most `_CHUNK_ROWS` rows each."""
    if high - low < 1 << 40:
        for first in range(low, high + 1, _CHUNK_ROWS):
            yield first, min(first + _CHUNK_ROWS - 1, high)
        return
    end_of = f'SELECT max(rowid) FROM (SELECT rowid FROM "{table}" WHERE rowid >= ? ORDER BY rowid LIMIT ?)'
    start_after = f'SELECT min(rowid) FROM "{table}" WHERE rowid > ?'
    following: int | None = low  # rowids far apart: walk along the rows
    while following is not None:
        last = int(connection.execute(end_of, (following, _CHUNK_ROWS)).fetchone()[0])
        yield following, last
        following = connection.execute(start_after, (last,)).fetchone()[0]


def _parse(text: object, count: int, table: str, column: str) -> Ints:
    if count == 0:
        return np.empty(0, np.int64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values = np.fromstring(str(text), dtype=np.int64, sep=",")
    except (ValueError, DeprecationWarning):
        values = np.empty(0, np.int64)
    if len(values) != count:
        raise foreign_values(table, column)
    return values


def foreign_values(table: str, column: str) -> InputError:
    """What to say of a column that holds something else than integers."""
    return InputError(
        f"table {table}, column {column}: holds something else than integers, which no nsys writes; "
        "export the report again"
    )


def _joined(parts: list[Ints], nullable: bool) -> Column:
    values = np.concatenate(parts) if parts else np.empty(0, np.int64)
    if not nullable:
        return Column(values)
    present = values != _NULL
    if present.all():
        return Column(values)
    values[~present] = 0
    return Column(values, present)


def _texts(rows: Iterable[tuple[object, object]]) -> dict[int, str]:
    return {number: str(text) for number, text in rows if isinstance(number, int)}
