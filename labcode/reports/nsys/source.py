"""The raw columns of an open nsys export: a table and column names in, numpy arrays out.

Stands between the tables that `labcode.reports.nsys.report` documents and the file: looks columns up, notes
what is missing, checks a large file's tables for damage when each is first read through SQLite. Integers are
read from the pages of the file, which checks them, and through SQLite where a table is laid out unusually.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np

from labcode.errors import InputError
from labcode.reports.columns import Column, Ints, read_ints, read_strings, read_texts
from labcode.reports.nsys import schema
from labcode.reports.nsys.direct import Coded, Layout, read_rows_direct
from labcode.reports.nsys.open import Opened, TableCheck
from labcode.reports.nsys.pages import DamagedPagesError

_T = TypeVar("_T")


class Source:
    """An open export: where it lies, its version, its tables' columns, what was found missing in it."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._connection = opened.connection
        self._sqlite = opened.sqlite
        self._warnings = dict.fromkeys(opened.warnings)
        self._checked: set[str] = set()
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

    def has(self, table: str) -> bool:
        """Whether the export has a table of this name; nsys leaves out those without rows."""
        return table in self._opened.tables

    def ints(self, table: str, columns: Sequence[str], where: str = "") -> dict[str, Column]:
        """Columns of integers as the export names them, empty when the table is absent.

        ``rowid`` is the row's number, ``duration`` the end less the start. A column that this export lacks
        reads as missing, and a warning names it. ``where`` is a condition in SQL. Raises `InputError` when
        the file is damaged.
        """
        if table not in self._opened.tables:
            return {column: Column(np.empty(0, np.int64)) for column in columns}
        wanted = self._wanted(table, columns)
        pages = self._rows_from_pages(table, {name: may for name, (_, may) in wanted.items()}, (), where)
        if pages is not None:
            found = pages[0]
        elif wanted:
            with self._reading(table):
                found = read_ints(self._connection, table, wanted, where)
        else:
            found = {}
        if found:
            count = len(next(iter(found.values())).values)
        else:
            with self._reading(table):
                count = self._count(table, where)
        for column in columns:
            if column not in found:
                self._missing(table, column)
                found[column] = Column(np.zeros(count, np.int64), np.zeros(count, np.bool_))
        return found

    def texts(self, table: str, column: str, where: str = "") -> Coded:
        """A column of texts as codes into distinct texts; -1: missing."""
        if table not in self._opened.tables:
            return np.empty(0, np.int64), []
        found = self._rows_from_pages(table, {}, (column,), where)
        if found is not None:
            return found[1][column]
        with self._reading(table):
            if column in self._opened.tables[table]:
                return read_texts(self._connection, table, column, where)
            self._missing(table, column)
            return np.full(self._count(table, where), -1, np.int64), []

    def rows(
        self, table: str, columns: Sequence[str], texts: Sequence[str], where: str = ""
    ) -> tuple[dict[str, Column], dict[str, Coded]]:
        """Columns as `ints` has them and columns as `texts` has them, read at once."""
        wanted = self._wanted(table, columns)
        if len(wanted) == len(columns):
            nullable = {name: may for name, (_, may) in wanted.items()}
            found = self._rows_from_pages(table, nullable, texts, where)
            if found is not None:
                return found
        return self.ints(table, columns, where), {name: self.texts(table, name, where) for name in texts}

    def _wanted(self, table: str, columns: Sequence[str]) -> dict[str, tuple[str, bool]]:
        """The columns that there are: for each its expression in SQL, and whether that may be NULL."""
        have = self._opened.tables.get(table, {})
        wanted = {c: (f'"{c}"', have[c]) for c in columns if c in have}
        if "rowid" in columns:
            wanted["rowid"] = ("rowid", False)
        if "duration" in columns and have:
            wanted["duration"] = ('"end" - "start"', have["start"] or have["end"])
        return wanted

    def strings(self, ids: Column) -> tuple[Ints, list[str]]:
        """The texts of ids into StringIds as codes into texts; ids without a text read as ``''``."""
        if schema.STRINGS not in self._opened.tables:
            return np.zeros(len(ids.values), np.int64), [""]
        with self._reading(schema.STRINGS):
            return read_strings(self._connection, ids.filled(-1))

    def has_rows(self, table: str) -> bool:
        """Whether the export has the table with at least one row."""
        if table not in self._opened.tables:
            return False
        try:
            return self._connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() is not None
        except sqlite3.Error as error:
            raise self._damaged(error) from None

    def has_columns(self, table: str, columns: Sequence[str]) -> bool:
        """Whether the export has the table with all of these columns."""
        return set(columns) <= set(self._opened.tables.get(table, ()))

    def _rows_from_pages(
        self, table: str, columns: dict[str, bool], texts: Sequence[str], where: str
    ) -> tuple[dict[str, Column], dict[str, Coded]] | None:
        """The columns as `read_rows_direct` has them; reading checks the pages that it reads."""
        if not columns and not texts:
            return None
        return self._pages(
            table, lambda layout: read_rows_direct(self._sqlite, layout, columns, texts, table, where)
        )

    def _pages(self, table: str, read: Callable[[Layout], _T | None]) -> _T | None:
        """What is read from the pages of a table; None where SQLite has to read it."""
        layout = self._opened.layouts.get(table)
        if layout is None:
            return None
        try:
            return read(layout)
        except DamagedPagesError as error:
            raise InputError(f"{self.path}: damaged ({table}: {error}); export or copy it again") from None
        except InputError as error:
            if not self._opened.checked_whole:
                TableCheck(self._opened, table).finish()  # damage comes first
            raise InputError(f"{self.path}: {error}") from None

    @contextmanager
    def _reading(self, table: str) -> Iterator[None]:
        """Reads a table, and meanwhile checks it for damage where it has not been."""
        checks = []
        if not self._opened.checked_whole and table not in self._checked:
            checks.append(TableCheck(self._opened, table))
            self._checked.add(table)
        failure: Exception | None = None
        try:
            yield
        except (sqlite3.Error, InputError) as error:
            failure = error
        for check in checks:  # what a damaged table seems to hold is no clue: the damage comes first
            check.finish()
        if isinstance(failure, sqlite3.Error):
            raise self._damaged(failure)
        if failure is not None:
            raise InputError(f"{self.path}: {failure}")

    def _count(self, table: str, where: str) -> int:
        condition = f" WHERE {where}" if where else ""
        return int(self._connection.execute(f'SELECT count(*) FROM "{table}"{condition}').fetchone()[0])

    def _missing(self, table: str, column: str) -> None:
        self._warnings[f"table {table} has no column {column}: it reads as missing or 0"] = None

    def _damaged(self, error: sqlite3.Error) -> InputError:
        return InputError(f"{self.path}: cannot be read ({error}); export or copy it again")
