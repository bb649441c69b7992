"""Run a learner's query: an SQL file and an export in, the rows out, or an error the learner can read.

.. code-block:: text

    python -m labcode.grading.sql QUERY.sql CAPTURE.nsys.xz

The export is opened read-only, only reading is permitted, and a query that takes too long, or gives more rows
than any answer has, is stopped. Event tables that an export leaves out because they have no rows are there,
empty, so that one query serves every capture.
"""

import re
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from labcode.inputs import open_read_only

LIMIT_S = 6.0  # of all queries of one grading together
MOST_ROWS = 5_000
_STEPS = 20_000  # of SQLite's machine between two looks at the clock
_PERMITTED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_FRAME = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
EVENTS: dict[str, tuple[str, ...]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (*_FRAME, "demangledName", "shortName", "graphNodeId"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (*_FRAME, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"),
    "CUPTI_ACTIVITY_KIND_MEMSET": (*_FRAME, "bytes", "value", "memKind", "graphNodeId"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (*_FRAME, "graphId"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId", "returnValue"),
    "NVTX_EVENTS": ("start", "end", "eventType", "text", "textId", "globalTid", "endGlobalTid", "domainId"),
}


class QueryError(Exception):
    """What is wrong with a query, in words for the one who wrote it."""


def answer(query: str, export: Path, columns: Sequence[str], limit_s: float = LIMIT_S) -> list[list[Any]]:
    """The rows of a query; `QueryError` when it cannot be run or has other columns."""
    bare = re.sub(r"--[^\n]*|/\*.*?\*/", " ", query, flags=re.DOTALL)
    if not bare.strip("; \t\r\n"):
        raise NotImplementedError("write the query below the text")
    names, rows = run_query(query, export, limit_s)
    if names != list(columns):
        raise QueryError(f"the columns should be {', '.join(columns)}; they are {', '.join(names) or 'none'}")
    if len(columns) > 1 and not re.search(r"\bORDER\s+BY\b", _outermost(bare), re.IGNORECASE):
        raise QueryError("without ORDER BY rows come in whatever order: say it at the end of the query")
    return rows


def _outermost(query: str) -> str:
    """A query without what stands in parentheses."""
    shorter = re.sub(r"'[^']*'|\([^()']*\)", " ", query)
    return query if shorter == query else _outermost(shorter)


def learners(query: str) -> Callable[[Path, Sequence[str]], list[list[Any]]]:
    """A function that answers with a query, which has `LIMIT_S` of the processor for all its answers."""
    left = LIMIT_S

    def answer_in_time(export: Path, columns: Sequence[str]) -> list[list[Any]]:
        nonlocal left
        begin = time.thread_time()
        try:
            return answer(query, export, columns, max(left, 0.1))
        finally:
            left -= time.thread_time() - begin

    return answer_in_time


def run_query(query: str, export: Path, limit_s: float = LIMIT_S) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows that a query gives on an export; `QueryError` when it cannot be run, or not within
    ``limit_s`` of the processor.
    """
    with closing(open_read_only(export)) as connection:
        _add_empty(connection)
        connection.set_authorizer(_authorize)
        until = time.thread_time() + limit_s
        connection.set_progress_handler(lambda: int(time.thread_time() > until), _STEPS)
        try:
            cursor = connection.execute(query)
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchmany(MOST_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise QueryError(_words(error, limit_s, late=time.thread_time() > until)) from None
    if len(rows) > MOST_ROWS:
        raise QueryError(
            f"more than {MOST_ROWS:,} rows: does a join lack a condition, or is GROUP BY missing?"
        )
    return names, [list(row) for row in rows]


def _add_empty(connection: sqlite3.Connection) -> None:
    there = {str(name).upper() for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    for table, columns in EVENTS.items():
        if table not in there:
            declared = ", ".join(f'"{name}"' for name in columns)
            connection.execute(f"CREATE TEMP TABLE {table} ({declared})")


def _authorize(action: int, _first: str | None, second: str | None, *_: object) -> int:
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _PERMITTED else sqlite3.SQLITE_DENY


def _words(error: Exception, limit_s: float, *, late: bool) -> str:
    text = str(error)
    if late and "interrupted" in text:
        return f"the query took longer than {limit_s:.2g} s: join on equal columns, not on every pair of rows"
    if "not authorized" in text or "prohibited" in text:
        return "only reading is permitted: one SELECT (or WITH … SELECT), no PRAGMA, ATTACH or changes"
    if "one statement at a time" in text:
        return "the file holds several statements: write one SELECT (it may begin with WITH)"
    return f"SQLite: {text}"


def main(argv: Sequence[str]) -> int:
    """Print what a query gives on a capture."""
    from labcode.errors import LabError
    from labcode.reports.nsys.open import open_export

    if len(argv) != 2:
        print("usage: python -m labcode.grading.sql QUERY.sql CAPTURE.sqlite[.xz]", file=sys.stderr)
        return 2
    try:
        opened = open_export(Path(argv[1]))
        with closing(opened.connection):
            query = Path(argv[0]).read_text(encoding="utf-8")
            names, rows = run_query(query, opened.sqlite, limit_s=60.0)
    except (LabError, QueryError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print("\t".join(names))
    for row in rows:
        print("\t".join("NULL" if value is None else str(value) for value in row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
