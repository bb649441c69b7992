"""The raw columns of an open nsys export: a table and column names in, numpy arrays out.

Stands between the tables that `labcode.reports.nsys.report` documents and the file: looks columns up, notes
what is missing, names the file in what is said of it, and has a large file's tables checked for damage where
reading would not notice it.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from labcode.errors import InputError
from labcode.reports.columns import Column, Ints, whole, without
from labcode.reports.nsys import schema
from labcode.reports.nsys.open import Opened, quick_check
from labcode.reports.nsys.sqlite import Coded, Found, read_columns, read_strings

T = TypeVar("T")

_DOMAIN = ("globalTid", "domainId", "textId")
MOST_NAMES = 50_000  # of kernels; programs have hundreds, and what names them one by one is no table to read
_FEW = 1000  # rows that are quicker to leave out than the others to take


class Source:
    """An open export: where it lies, its version, its tables' columns, what was found missing in it."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._connection = opened.connection
        self._warnings = dict.fromkeys(opened.warnings)
        self._checked: set[str] = set()
        self._extents: dict[tuple[str, str], tuple[int, int] | None] = {}
        self._once: dict[str, Any] = {}
        self._none: set[tuple[str, str]] = set()  # tables and conditions that no row meets
        self._kernel_names: dict[int, str] = {}  # by their ids: no more than `MOST_NAMES` for each column
        self.keeps = False
        self.window: tuple[int, int] | None = None
        self.path: Path = opened.path
        self.version: schema.SchemaVersion = opened.version
        self.product: str = opened.product

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the file, a line each: its version; columns missing in tables read so far."""
        return tuple(self._warnings)

    def warn(self, text: str) -> None:
        """Add a line to `warnings`, once."""
        self._warnings[text] = None

    def only(self, window: tuple[int, int]) -> None:
        """From here on read what overlaps a window alone, cut off at its edges.

        Of an event without an end (a mark, a range that was never ended) the start counts. Switches of
        threads, counters and memory in use are states: they are read whole.
        """
        self.window = window
        self._once.clear()
        self._none.clear()
        self._extents.clear()

    def once(self, what: str, read: Callable[[], T]) -> T:
        """What ``read`` gives, which is called the first time alone."""
        if what not in self._once:
            self._once[what] = read()
        found: T = self._once[what]
        return found

    def taken(self, what: str, read: Callable[[], T]) -> T:
        """As `once`; what was read is held no longer."""
        found = self.once(what, read)
        del self._once[what]
        return found

    def has(self, table: str) -> bool:
        """Whether the export has a table of this name; nsys leaves out those without rows."""
        return table in self._opened.tables

    def tables(self, prefix: str) -> list[str]:
        """The export's tables whose names begin so, by name."""
        return sorted(table for table in self._opened.tables if table.startswith(prefix))

    def ints(self, table: str, columns: Sequence[str], where: str = "") -> dict[str, Column]:
        """Columns of integers as the export names them, empty when the table is absent.

        ``rowid`` is the row's number, ``duration`` the end less the start. A column that this export lacks
        reads as missing, and a warning names it. ``where`` is a condition in SQL. Raises `InputError` when
        the file is damaged.
        """
        return self.rows(table, columns, (), where)[0]

    def texts(self, table: str, column: str, where: str = "") -> Coded:
        """A column of texts as codes into distinct texts; -1: missing."""
        return self.rows(table, (), (column,), where)[1][column]

    def shared(self, table: str, columns: Sequence[str], every: Sequence[str]) -> dict[str, Column]:
        """As `ints`, for one of two tables of a report.

        Where that keeps them, it reads ``every`` column of both, and the other one takes what is read.
        """
        if not self.keeps:
            return self.ints(table, columns)
        read = f"columns of {table}"
        if read in self._once:
            return self.taken(read, dict)
        return self.once(read, lambda: self.ints(table, every))

    def domains(self) -> Found:
        """Who made NVTX domains, their numbers and names; read once."""
        created = f"eventType = {schema.DOMAIN_CREATED}"
        return self.once("domains", lambda: self.rows(schema.NVTX, _DOMAIN, ("text",), created))

    def ranges(self, columns: Sequence[str]) -> Found:
        """Columns of NVTX ranges and marks, and their own texts; ``columns`` has those of `domains`, too.

        The table is read once: who made domains, where all events begin and end, and whether there are marks
        is known then.
        """
        types = f"eventType IN ({', '.join(map(str, schema.EVENT_TYPES))})"
        if not self.has_columns(schema.NVTX, ("eventType",)):
            return self.rows(schema.NVTX, columns, ("text",), types)
        raw, own = self.rows(schema.NVTX, columns, ("text",))
        codes, texts = own["text"]
        kind = raw["eventType"].filled(-1)
        created = np.flatnonzero(kind == schema.DOMAIN_CREATED)
        domains = {name: raw[name].take(created) for name in _DOMAIN}, {"text": _used(codes[created], texts)}
        self.once("domains", lambda: domains)
        if not (kind == schema.MARK).any():
            self._none.add((schema.NVTX, f"eventType = {schema.MARK}"))
        wanted = kind == schema.MARK
        for number in schema.EVENT_TYPES:
            wanted |= kind == number
        others = np.flatnonzero(~wanted)
        if len(others) > _FEW:
            rows = np.flatnonzero(wanted)
            raw, codes = {name: raw.pop(name).take(rows) for name in columns}, codes[rows]
        elif len(others):
            raw, codes = {name: raw.pop(name).without(others) for name in columns}, without(codes, others)
        if self.window is None and len(others) == len(created):
            self._extents[schema.NVTX, schema.ALL_BUT_DOMAINS] = _extent(raw["start"].values, raw["end"])
        return raw, {"text": (codes, texts)}

    def rows(self, table: str, columns: Sequence[str], texts: Sequence[str], where: str = "") -> Found:
        """Columns as `ints` has them and columns as `texts` has them, read at once."""
        if self.window is None or not _is_cut(table) or not self.has_columns(table, ("start",)):
            return self._rows(table, columns, texts, where)
        ends = ("end",) if self.has_columns(table, ("end",)) else ()
        more = ("start", *ends, *(("eventType",) if table == schema.NVTX else ()))
        found, coded = self._rows(table, tuple(dict.fromkeys((*columns, *more))), texts, where)
        rows = _cut(found, self.window)
        return {name: found[name].take(rows) for name in columns}, {
            name: (codes[rows], known) for name, (codes, known) in coded.items()
        }

    def _rows(self, table: str, columns: Sequence[str], texts: Sequence[str], where: str) -> Found:
        if table not in self._opened.tables or (table, where) in self._none:
            none: Ints = np.empty(0, np.int64)
            return {name: Column(none) for name in columns}, {name: (none, []) for name in texts}
        have = {"rowid", *self._opened.tables[table]}
        stored = [*columns, "start", "end"] if "duration" in columns else columns
        known = [name for name in dict.fromkeys(stored) if name in have]
        some = known or ["rowid"]  # what says how many rows there are
        known_texts = [name for name in texts if name in have]
        with self._blamed():
            sqlite, check = self._opened.sqlite, partial(self._check, table)
            found, coded = read_columns(
                sqlite, self._connection, table, some, known_texts, where, check=check
            )
            if "duration" in columns:
                found["duration"] = _duration(found["end"], found["start"], table)
        if "start" in found and "end" in found:
            self._extents[table, where] = _extent(found["start"].values, found["end"])
        count = len(found[some[0]].values)
        if not self.keeps:  # others may write to what they read
            found = {name: whole(column) for name, column in found.items()}
        for name in (*columns, *texts):
            if name not in found and name not in coded:
                self.warn(f"table {table} has no column {name}: it reads as missing or 0")
        absent = Column(np.zeros(count, np.int64), np.zeros(count, np.bool_))
        no_text: Coded = np.full(count, -1, np.int64), []
        return {name: found.get(name, absent) for name in columns}, {
            name: coded.get(name, no_text) for name in texts
        }

    def extent(self, table: str, where: str = "") -> tuple[int, int] | None:
        """The first start and the last end (or start) of a table's events; None where there are none."""
        if (table, where) not in self._extents:
            raw = self.ints(table, ("start", "end"), where)
            self._extents[table, where] = _extent(raw["start"].values, raw["end"])
        return self._extents[table, where]

    def kernel_names(self, ids: Column) -> Coded:
        """As `strings`; of more than `MOST_NAMES` those of most kernels, and one name for all others."""
        codes, texts = self.strings(ids, MOST_NAMES, self._kernel_names)
        if len(texts) > MOST_NAMES:
            self.warn(f"{self.path}: of the kernels' names the {MOST_NAMES:,} of most kernels are told apart")
        return codes, texts

    def strings(self, ids: Column, most: int = 0, found: dict[int, str] | None = None) -> Coded:
        """The texts of ids into StringIds as codes into texts; ids without a text read as ``''``.

        ``most`` and ``found`` as `read_strings` has them.
        """
        if schema.STRINGS not in self._opened.tables:
            return np.zeros(len(ids.values), np.int64), [""]
        with self._blamed():
            self._check(schema.STRINGS)
            if ids.present is not None and not ids.present.any():
                texts = read_strings(self._connection, np.full(min(len(ids.values), 1), -1))[1]
                return np.zeros(len(ids.values), np.int64), texts
            return read_strings(self._connection, ids.filled(-1), most, found)

    def has_rows(self, table: str) -> bool:
        """Whether the export has the table with at least one row."""
        if table not in self._opened.tables:
            return False
        with self._blamed():
            return self._connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() is not None

    def has_text(self, table: str, column: str, *texts: str) -> bool:
        """Whether the export has the table with a row whose column is one of some texts."""
        if not self.has_columns(table, (column,)):
            return False
        query = f'SELECT 1 FROM "{table}" WHERE "{column}" IN ({", ".join("?" * len(texts))}) LIMIT 1'
        with self._blamed():
            self._check(table)
            return self._connection.execute(query, texts).fetchone() is not None

    def has_columns(self, table: str, columns: Sequence[str]) -> bool:
        """Whether the export has the table with all of these columns."""
        return set(columns) <= set(self._opened.tables.get(table, ()))

    def _check(self, table: str) -> None:
        """Check a large file's table where nothing has been checked yet."""
        if not self._opened.checked_whole and table not in self._checked:
            quick_check(self._connection, f'"{table}"')
            self._checked.add(table)

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """Errors in reading name the file."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: cannot be read ({error}); export or copy it again") from None
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None


def _used(codes: Ints, texts: list[str]) -> Coded:
    """Codes into no more texts than they use, in the order in which these appear."""
    place = {code: number for number, code in enumerate(dict.fromkeys(codes[codes >= 0].tolist()))}
    return np.array([place.get(code, -1) for code in codes.tolist()], np.int64), [texts[i] for i in place]


def _is_cut(table: str) -> bool:
    return table in schema.CUT or table.startswith((schema.OPENACC, schema.OPENMP))


def _cut(found: dict[str, Column], window: tuple[int, int]) -> Ints:
    """The rows that overlap a window; of all, times are cut off at its edges, in place of the old ones."""
    start = found["start"].values
    end = found.get("end", found["start"])
    stop = end.filled(np.iinfo(np.int64).min)  # without an end it is where it starts
    inside = (start < window[1]) & ((stop > window[0]) | (start >= window[0]))
    if "eventType" in found:
        inside |= ~np.isin(found["eventType"].values, list(schema.EVENT_TYPES))  # names of domains
    found["start"] = Column(np.clip(start, *window), found["start"].present)
    if "end" in found:
        found["end"] = Column(np.clip(end.values, *window), end.present)
    if "duration" in found:
        length = found["end"].values - found["start"].values
        found["duration"] = Column(length, found["duration"].present)
    return np.flatnonzero(inside)


def _extent(start: Ints, end: Column) -> tuple[int, int] | None:
    if not len(start):
        return None
    first = int(start.min())
    return first, max(int(start.max()), int(end.filled(first).max()))


def _duration(end: Column, start: Column, table: str) -> Column:
    duration = end.values - start.values
    if int(((end.values ^ start.values) & (end.values ^ duration)).min(initial=0)) < 0:
        raise InputError(
            f"table {table}: an event lasts longer than 64 bits of nanoseconds can tell; "
            "export the report again"
        )
    if end.present is None and start.present is None:
        return Column(duration)
    present = end.there() & start.there()
    return Column(duration * present, present)
