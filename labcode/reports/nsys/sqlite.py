"""Reads columns of an SQLite table: a file, a table and column names in, numpy arrays out.

`read_columns` is all that others know of how: it reads from the pages (`labcode.reports.nsys.pages`), five
times as fast as through Python's sqlite3, and through that what is laid out as nsys does not.
"""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from labcode.errors import InputError
from labcode.inputs import open_read_only
from labcode.reports.columns import Bools, Column, Ints, is_narrow, is_same, joined, shortened, unique
from labcode.reports.nsys.pages import (
    NULL,
    Bytes,
    DamagedPagesError,
    Only,
    PageFile,
    Types,
    UnusualLayoutError,
)

Coded = tuple[Ints, list[str]]  # codes into texts; -1: missing
Found = tuple[dict[str, Column], dict[str, Coded]]

_CONDITION = re.compile(r"\s*(\w+)\s*(=|<>|IN)\s*\(?([\d\s,]+?)\)?\s*")
_ROWS = 1 << 14  # fetched at once
_MOST_IDS = 500  # ids in one IN list
_WIDEST = 64  # words of eight bytes; longer texts are looked up one by one
_SLOT_BITS = 16  # of a hash, in which the first text of a slot is looked up
_KEEP = np.array([(1 << 64) - 1, *((1 << 8 * n) - 1 for n in range(1, 8))], np.uint64)  # of a last word
_FACTORS = np.array([pow(0x9E3779B97F4A7C15, n, 1 << 64) for n in range(1, _WIDEST + 2)], np.uint64)  # odd


def connect(sqlite: Path) -> sqlite3.Connection:
    """Open a file only to read it: nothing is written beside it, and nothing stored in it is run."""
    connection = open_read_only(sqlite)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def read_columns(
    sqlite: Path,
    connection: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    texts: Sequence[str] = (),
    where: str = "",
    *,
    check: Callable[[], None] = lambda: None,
) -> Found:
    """Columns of integers, and columns of texts as codes, in the order of the rows in the file.

    ``connection`` is one to the same file; ``rowid`` is the row's number; ``where`` is a condition in SQL;
    ``check`` raises `InputError` when the table is damaged, and is called where reading would not notice.
    Raises `InputError` when the table is damaged or a column holds something else than integers, and
    `sqlite3.Error` when the file cannot be read.
    """
    try:
        return _from_pages(sqlite, connection, table, columns, texts, where)
    except UnusualLayoutError:
        check()
        return _through_sqlite(connection, table, columns, texts, where)
    except DamagedPagesError as error:
        raise InputError(f"damaged ({table}: {error}); export or copy it again") from None
    except InputError:
        check()  # what a damaged table seems to hold is no clue: the damage comes first
        raise


def read_strings(
    connection: sqlite3.Connection, ids: Ints, most: int = 0, found: dict[int, str] | None = None
) -> Coded:
    """The texts of ids into ``StringIds``, as codes into a list of texts; ``''`` for an id without one.

    Of more than ``most`` ids, if that is given, those of most rows; all others have one text, their number.
    ``found`` has the texts that are known already; what is read is added to it.
    """
    distinct, codes = unique(ids)
    rest = len(distinct) - most if most else 0
    if rest > 0:
        often = np.sort(np.argsort(-np.bincount(codes), kind="stable")[:most])
        place = np.full(len(distinct), most)
        place[often] = np.arange(most)
        distinct, codes = distinct[often], place[codes]
    wanted = distinct.tolist()
    found = {} if found is None else found
    unknown = [number for number in wanted if number not in found]
    for low in range(0, len(unknown), _MOST_IDS):
        some = unknown[low : low + _MOST_IDS]
        marks = ", ".join("?" * len(some))
        query = f"SELECT id, value FROM StringIds WHERE id IN ({marks})"
        found |= _texts(connection.execute(query, some))
    others = [f"({rest:,} more names)"] if rest > 0 else []
    return codes, [*(found.get(number, "") for number in wanted), *others]


def _texts(rows: Iterable[tuple[object, object]]) -> dict[int, str]:
    return {number: shortened(str(text)) for number, text in rows if isinstance(number, int)}


def _named(column: str, texts: Iterable[str]) -> list[str]:
    """Texts of a column: names are shortened, documents (of samples, for one) are whole."""
    return list(map(shortened, texts)) if column == "text" else list(texts)


# ---- from the pages


@dataclass(frozen=True)
class Condition:
    """Rows whose column has one of the numbers (or, negated, another number)."""

    column: str
    numbers: tuple[int, ...]
    negated: bool

    def met(self, column: Column) -> Bools:
        """Which of the values are as asked for."""
        first, *more = self.numbers
        rows: Bools = column.values == first
        for number in more:
            rows |= column.values == number
        if self.negated:
            rows = ~rows
        return rows if column.present is None else rows & column.present


def parse_condition(where: str) -> Condition:
    """``eventType IN (59, 60)``, ``eventClass = 27`` or ``eventType <> 75``; SQLite's are all others."""
    found = _CONDITION.fullmatch(where)
    if found is not None:
        column, operator, numbers = found.groups()
        wanted = tuple(int(number) for number in numbers.split(","))
        if operator == "IN" or len(wanted) == 1:
            return Condition(column, wanted, operator == "<>")
    raise UnusualLayoutError(f"a condition of its own: {where}")


def _from_pages(
    sqlite: Path,
    connection: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    texts: Sequence[str],
    where: str,
) -> Found:
    condition = parse_condition(where) if where else None
    layout = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    query = "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND lower(name) = lower(?)"
    (root,) = connection.execute(query, (table,)).fetchone() or (None,)
    if not isinstance(root, int) or any(row[6] for row in layout):
        raise UnusualLayoutError("a computed column")
    ints = {row[1]: row[0] for row in layout if str(row[2]).upper().startswith("INT") and not row[5]}
    long = {row[1]: row[0] for row in layout if row[2] == "TEXT" and row[0] > 0}
    stored = [name for name in columns if name != "rowid"]
    if not {*stored, *([condition.column] if condition else [])} <= set(ints) or not set(texts) <= set(long):
        raise UnusualLayoutError("columns declared otherwise")
    parts = {name: _Growing() for name in columns}
    codes = {name: _Growing() for name in texts}
    seen = {name: _counting() for name in texts}
    only: Only | None = None
    if condition is not None:
        asked = condition
        only = (
            ints[asked.column],
            lambda values, types: asked.met(_column(values, types, table, asked.column)),
        )
    file = PageFile(sqlite)
    try:
        if texts and not file.utf8:
            raise UnusualLayoutError("texts of another encoding")
        places = [ints[name] for name in stored], [long[name] for name in texts]
        for decoded in file.read(root, places[0], only, places[1]):
            if "rowid" in parts:
                parts["rowid"].add(Column(decoded.rowid), decoded.read)
            for name, values, types in zip(stored, decoded.values, decoded.types, strict=True):
                parts[name].add(_column(values, types, table, name), decoded.read)
            for name, span in zip(texts, decoded.texts, strict=True):
                some = _codes_or_none(decoded.buffer, *span, seen[name])
                codes[name].add(Column(some), decoded.read)
    finally:
        file.close()
    found = {name: parts.pop(name).column() for name in columns}
    for name in (row[1] for row in layout if row[3]):
        if name in found and found[name].present is not None:
            raise DamagedPagesError(f"no value where there must be one in {table}.{name}")
    return found, {
        name: (
            codes[name].column().values,
            _named(name, [text.decode(errors="replace") for text in seen[name]]),
        )
        for name in texts
    }


class _Growing:
    """A column that is read part by part into one array, not kept twice for a moment at the end.

    As long as all values are the same number, they are in the memory of one.
    """

    def __init__(self) -> None:
        self._values: Ints = np.empty(0, np.int64)
        self._count = 0
        self._absent: list[tuple[int, Bools]] = []  # where parts with missing values begin, what is missing
        self._missing = 0

    def add(self, part: Column, read: float) -> None:
        """Add the next values; ``read`` is how much of the table is read with them."""
        low, self._count = self._count, self._count + len(part.values)
        if part.present is not None:
            absent = ~part.present
            self._absent.append((low, absent))
            self._missing += int(np.count_nonzero(absent))
        alike = is_same(part.values) and (low == 0 or is_narrow(self._values))
        if alike and (low == 0 or self._values[0] == part.values[0]):
            self._values = np.broadcast_to(part.values[0].copy(), self._count)
            return
        if self._count > len(self._values) or is_narrow(self._values):
            # by a quarter at least: where the last rows are the shortest no guess holds, each costs a copy
            room = min(self._count / read * 1.02, 2 * self._count + (1 << 20))
            room = int(max(self._count, room, 1.25 * low))
            self._values, old = np.empty(room, np.int64), self._values
            self._values[:low] = old[:low]
        self._values[low : self._count] = part.values

    def column(self) -> Column:
        """All values."""
        values = self._values if is_narrow(self._values) else self._values[: self._count]
        if self._missing in (0, self._count):
            return Column(values, np.broadcast_to(np.False_, self._count) if self._missing else None)
        present = np.ones(self._count, np.bool_)
        for low, absent in self._absent:
            present[low : low + len(absent)] = ~absent
        return Column(values, present)


def _column(values: Ints, types: Types, table: str, name: str) -> Column:
    """Integers as a column; `InputError` when something else is among them."""
    if isinstance(types, int):
        foreign = types == 7 or types >= 10
        present = np.broadcast_to(np.False_, len(values)) if types == NULL else None
    else:
        foreign = int(types.max()) >= 10 or bool((types == 7).any())
        present = types != NULL if int(types.min()) == NULL else None
    if foreign:
        raise _foreign_values(table, name)
    return Column(values, present)


def _codes_or_none(buffer: Bytes, kind: Types, start: Ints, end: Ints, seen: defaultdict[bytes, int]) -> Ints:
    """The codes of texts, -1 where there is none."""
    kinds = np.full(len(start), kind, np.uint8) if isinstance(kind, int) else kind
    there = np.flatnonzero(kinds != NULL)
    if (kinds[there] < 12).any() or (kinds[there] & 1 == 0).any():
        raise UnusualLayoutError("something else than a text")
    codes = np.full(len(start), -1, np.int64)
    codes[there] = text_codes(buffer, start[there], end[there], seen)
    return codes


def text_codes(buffer: Bytes, start: Ints, end: Ints, seen: defaultdict[bytes, int]) -> Ints:
    """The codes of the texts at these places in ``buffer``, which goes on for 8 bytes behind them.

    Making a Python object of each of a million texts takes long, and nearly all of them come again. So the
    bytes of many are compared at once with those of one that has the same hash.
    """
    length = end - start
    width = (length + 7) >> 3
    alike = np.arange(len(start))  # for each text the place of one with the same bytes
    for words in np.flatnonzero(np.bincount(width)).tolist():
        if not 0 < words <= _WIDEST:
            continue
        rows = np.flatnonzero(width == words)
        whole = np.ndarray((len(buffer) - 8 * words + 1,), f"V{8 * words}", buffer, strides=(1,))
        raw, size = whole[start[rows]], length[rows]
        text = raw.view("<u8").reshape(-1, words)
        text[:, -1] &= _KEEP.take(size & 7)
        mixed = (text ^ text >> np.uint64(32)) @ _FACTORS[:words] + size.view(np.uint64) * _FACTORS[-1]
        slot = (mixed >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
        holder = np.empty(1 << _SLOT_BITS, np.int64)
        holder[slot[::-1]] = np.arange(len(rows))[::-1]
        other = holder[slot]  # the first text in the same slot; most often it is the same
        there = raw[other].view("<u8").reshape(-1, words)
        same = size[other] == size
        for word in range(words):
            same &= there[:, word] == text[:, word]
        rest = np.flatnonzero(~same)
        if len(rest):
            _, first, place = np.unique(mixed[rest], return_index=True, return_inverse=True)
            other[rest] = rest[first][place]
            same[rest] = (text[other[rest]] == text[rest]).all(axis=1) & (size[other[rest]] == size[rest])
        alike[rows] = rows[other] if same.all() else np.where(same, rows[other], rows)
    distinct = np.flatnonzero(alike == np.arange(len(start)))
    places = zip(start[distinct].tolist(), end[distinct].tolist(), strict=True)
    codes = np.empty(len(start), np.int64)
    codes[distinct] = [seen[buffer[low:high].tobytes()] for low, high in places]
    return codes[alike]


def _counting() -> defaultdict[bytes, int]:
    """Gives every distinct text a number, in the order in which they are first asked for."""
    seen: defaultdict[bytes, int] = defaultdict()
    seen.default_factory = seen.__len__
    return seen


# ---- through SQLite


def _through_sqlite(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], texts: Sequence[str], where: str
) -> Found:
    parts: dict[str, list[Column]] = {name: [] for name in columns}
    codes: dict[str, list[int]] = {name: [] for name in texts}
    seen: dict[str, dict[str, int]] = {name: {} for name in texts}
    fields = ", ".join(f'"{name}"' for name in (*columns, *texts))
    query = f'SELECT {fields} FROM "{table}"' + (f" WHERE {where}" if where else "")
    rows = connection.execute(f"{query} ORDER BY rowid")
    while some := rows.fetchmany(_ROWS):
        fetched = dict(zip((*columns, *texts), zip(*some, strict=True), strict=True))
        for name, part in parts.items():
            part.append(_fetched(fetched[name], table, name))
        for name, known in seen.items():
            values = fetched[name]
            codes[name] += [
                -1 if text is None else known.setdefault(str(text), len(known)) for text in values
            ]
    return {name: joined(part) for name, part in parts.items()}, {
        name: (np.array(codes[name], np.int64), _named(name, known)) for name, known in seen.items()
    }


def _fetched(values: tuple[Any, ...], table: str, name: str) -> Column:
    if not {type(value) for value in values} <= {int, type(None)}:
        raise _foreign_values(table, name)
    present = np.array([value is not None for value in values], np.bool_)
    numbers = np.array([value or 0 for value in values], np.int64)
    return Column(numbers, None if present.all() else present)


def _foreign_values(table: str, column: str) -> InputError:
    return InputError(
        f"table {table}, column {column}: holds something else than integers, which no nsys writes; "
        "export the report again"
    )
