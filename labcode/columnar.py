"""Exports of Nsight Systems by columns: an SQLite file in, a file of half its packed size out, and back.

An export compressed as it is (``.sqlite.xz``) keeps the bytes of a row together, so that times, identifiers
and names alternate and the compressor finds little. Here each column lies by itself, its integers as what was
added to the row before (or to another column of the same row), their bytes by place: of the exports of the
book this leaves 45 % of what ``.sqlite.xz`` takes. The file, ``X.nsys.xz``, is an .xz stream of one line that
says what follows, then for each table a line of JSON with its declaration and its columns, and their bytes.

Rows come back in their order, with the same values of the same types; numbers of rows are given anew, as
SQLite's own ``VACUUM`` does.
"""

import json
import lzma
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from labcode.inputs import open_read_only

if TYPE_CHECKING:
    import numpy as np

    Integers = np.ndarray[tuple[int], np.dtype[np.int64]]

SUFFIX = ".nsys.xz"
MAGIC = b"labcode nsys columns 1\n"
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
# what is told of a table and of a column, and nothing else, so that no text hides there
_TABLE = {"table", "sql", "rows", "columns"}
_COLUMN = {"of", "way", "text", "blob"}
_LONGEST_LINE = 1 << 20  # bytes
_AT_ONCE = 10_000  # rows that are inserted together
_NULL, _INTEGER, _REAL, _TEXT, _BLOB = range(5)
_CODES = {type(None): _NULL, int: _INTEGER, float: _REAL, str: _TEXT, bytes: _BLOB}


class UnreadableError(ValueError):
    """Bytes that are no such file."""


class TooLargeError(Exception):
    """A file that holds more than it may."""


def pack(source: Path, target: Path) -> None:
    """Write the SQLite file ``source`` by columns, and read it back: `ValueError` when anything differs.

    `sqlite3.Error` for a text that is no UTF-8.
    """
    with closing(open_read_only(source)) as db, lzma.open(target, "wb", filters=_FILTERS) as out:
        out.write(MAGIC)
        made, later = _declared(db)
        for name, sql in made:
            out.writelines(_table(db, name, sql))
        out.write(_line({"later": later}))
    back = target.with_name(f"{target.name}.back")
    try:
        with lzma.open(target) as packed:
            unpack(packed, back, 1 << 40)
        with closing(open_read_only(source)) as db, closing(open_read_only(back)) as again:
            for name, _ in _declared(db)[0]:
                if not all(a == b for a, b in zip(_rows(db, name), _rows(again, name), strict=True)):
                    raise ValueError(f"{source}: table {name} does not come back as it was")
    finally:
        back.unlink(missing_ok=True)


def unpack(packed: BinaryIO | lzma.LZMAFile, target: Path, most_bytes: int) -> None:
    """Write the SQLite file that a stream of columns holds, `MAGIC` included.

    Raises `UnreadableError` for what is none or is cut off, and `TooLargeError` for more than ``most_bytes``.
    """
    if packed.read(len(MAGIC)) != MAGIC:
        raise UnreadableError("it does not hold an export by columns")
    target.unlink(missing_ok=True)
    left = most_bytes
    with closing(sqlite3.connect(target, isolation_level=None)) as db:
        db.set_authorizer(_permitted)
        db.text_factory = bytes
        db.execute("PRAGMA journal_mode=OFF")
        db.execute("PRAGMA synchronous=OFF")
        db.execute("BEGIN")
        try:
            while True:
                told = _told(packed)
                if told.keys() == {"later"}:
                    for sql in told["later"]:
                        db.execute(str(sql))
                    if packed.read(1):
                        raise UnreadableError("something stands behind its end")
                    break
                if told.keys() != _TABLE or any(not one.keys() <= _COLUMN for one in told["columns"]):
                    raise UnreadableError("a line of another kind")
                left -= _filled(db, packed, told, left)
            db.execute("COMMIT")
        except (sqlite3.Error, LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                raise
            raise UnreadableError(f"damaged: {str(error)[:200] or type(error).__name__}") from None


def _permitted(action: int, *_: object) -> int:
    """What a file may ask for: tables, their rows and indexes; no trigger, view, pragma or other database."""
    asked = {
        *(
            sqlite3.SQLITE_CREATE_TABLE,
            sqlite3.SQLITE_CREATE_INDEX,
            sqlite3.SQLITE_INSERT,
            sqlite3.SQLITE_READ,
        ),
        *(sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_REINDEX, sqlite3.SQLITE_FUNCTION),
        *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_PRAGMA),
    }
    return sqlite3.SQLITE_OK if action in asked else sqlite3.SQLITE_DENY


def _declared(db: sqlite3.Connection) -> tuple[list[tuple[str, str]], list[str]]:
    """The tables with their declarations, and what is declared after their rows are in."""
    found = db.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    ).fetchall()
    tables = [(name, sql) for kind, name, sql in found if kind == "table" and not name.startswith("sqlite_")]
    return tables, [sql for kind, _, sql in found if kind == "index"]


def _rows(db: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    yield from db.execute(f"SELECT * FROM {_quoted(table)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


# ---- writing ----


def _table(db: sqlite3.Connection, name: str, sql: str) -> Iterator[bytes]:
    import numpy as np

    rows = list(_rows(db, name))
    streams: list[dict[str, Any]] = []
    parts: list[bytes] = []
    whole: dict[int, Integers] = {}  # columns of integers alone, which others may be counted from
    for place, values in enumerate(zip(*rows, strict=True)):
        codes = bytes(_CODES[type(value)] for value in values)
        told: dict[str, Any] = {"of": codes[0] if len(set(codes)) == 1 else None}
        if told["of"] is None:
            parts.append(codes)
        if _INTEGER in codes:
            numbers = np.array([value for value in values if type(value) is int], dtype=np.int64)
            way, data = _cheapest(numbers, whole if told["of"] == _INTEGER else {})
            told["way"] = way
            parts.append(data)
            if told["of"] == _INTEGER:
                whole[place] = numbers
        if _REAL in codes:
            real = np.array([value for value in values if type(value) is float], dtype="<f8")
            parts.append(_planes(real.view(np.int64)))
        for code, kind in ((_TEXT, str), (_BLOB, bytes)):
            if code in codes:
                raw = [v if isinstance(v, bytes) else str(v).encode() for v in values if type(v) is kind]
                parts += [_planes(np.array([len(one) for one in raw], dtype=np.int64)), b"".join(raw)]
                told["text" if kind is str else "blob"] = sum(map(len, raw))
        streams.append(told)
    yield _line({"table": name, "sql": sql, "rows": len(rows), "columns": streams})
    yield from parts


def _cheapest(numbers: "Integers", others: "dict[int, Integers]") -> tuple[list[int], bytes]:
    """How integers compress best, ``[as differences or not, column counted from or -1]``, and their bytes."""
    best: tuple[int, list[int], bytes] | None = None
    for start in (-1, *others):
        base = numbers if start < 0 else _minus(numbers, others[start])
        for times in (0, 1) if start < 0 else (0,):
            data = _planes(_zigzag(_differences(base)) if times else _zigzag(base))
            size = len(zlib.compress(data, 1))
            if best is None or size < best[0]:
                best = (size, [times, start], data)
    assert best is not None
    return best[1], best[2]


def _minus(a: "Integers", b: "Integers") -> "Integers":
    return a - b  # wraps around, and so back


def _differences(numbers: "Integers") -> "Integers":
    import numpy as np

    return np.diff(numbers, prepend=np.int64(0))


def _zigzag(numbers: "Integers") -> "Integers":
    return (numbers << 1) ^ (numbers >> 63)


def _planes(numbers: "Integers") -> bytes:
    """The eight bytes of each number by place: all first bytes, all second ones."""
    import numpy as np

    return numbers.astype("<i8").view(np.uint8).reshape(-1, 8).T.tobytes()


# ---- reading ----


@dataclass
class _Source:
    """The stream and how many bytes it may still give."""

    stream: BinaryIO | lzma.LZMAFile
    left: int

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise UnreadableError("a size below zero") if size < 0 else TooLargeError
        self.left -= size
        data = self.stream.read(size)
        if len(data) != size:
            raise UnreadableError("it ends early")
        return data

    def numbers(self, count: int) -> "Integers":
        import numpy as np

        planes = np.frombuffer(self.take(8 * count), dtype=np.uint8)
        found: Integers = np.ascontiguousarray(planes.reshape(8, -1).T).view("<i8").ravel().astype(np.int64)
        return found


def _told(packed: BinaryIO | lzma.LZMAFile) -> dict[str, Any]:
    line = packed.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise UnreadableError("it ends early")
    told = json.loads(line)
    if not isinstance(told, dict):
        raise UnreadableError("a line of another kind")
    return told


def _filled(db: sqlite3.Connection, packed: BinaryIO | lzma.LZMAFile, told: dict[str, Any], left: int) -> int:
    """Make a table and insert its rows; how many bytes they took."""
    rows, source = int(told["rows"]), _Source(packed, left)
    if rows < 0:
        raise UnreadableError("a size below zero")
    if rows * max(1, len(told["columns"])) > left:
        raise TooLargeError
    db.execute(str(told["sql"]))
    columns: list[list[Any]] = []
    whole: dict[int, Integers] = {}
    for place, one in enumerate(told["columns"]):
        columns.append(_column(source, one, rows, whole, place))
    if columns:
        marks = ",".join("?" * len(columns))
        into = f"INSERT INTO {_quoted(str(told['table']))} VALUES ({marks})"
        for first in range(0, rows, _AT_ONCE):
            db.executemany(into, zip(*(column[first : first + _AT_ONCE] for column in columns), strict=True))
    return left - source.left


def _column(
    source: _Source, told: dict[str, Any], rows: int, whole: "dict[int, Integers]", place: int
) -> list[Any]:
    same = told["of"]
    if same is None:
        codes = source.take(rows)
        if not set(codes) <= set(_CODES.values()):
            raise UnreadableError("a value of another type")
    else:
        codes = bytes([same]) * rows
    given: dict[int, Iterator[Any]] = {_NULL: iter([None] * codes.count(_NULL))}
    if _INTEGER in codes:
        numbers = _integers(source.numbers(codes.count(_INTEGER)), told["way"], whole)
        if same == _INTEGER:
            whole[place] = numbers
            return numbers.tolist()
        given[_INTEGER] = iter(numbers.tolist())
    if _REAL in codes:
        given[_REAL] = iter(source.numbers(codes.count(_REAL)).view("<f8").tolist())
    for code, key in ((_TEXT, "text"), (_BLOB, "blob")):
        if code in codes:
            lengths = source.numbers(codes.count(code)).tolist()
            data, parts, begin = source.take(int(told[key])), [], 0
            if min(lengths) < 0 or sum(lengths) != len(data):
                raise UnreadableError("lengths that do not add up")
            for length in lengths:
                parts.append(data[begin : begin + length])
                begin += length
            given[code] = iter([one.decode() for one in parts] if code == _TEXT else parts)
    if same is not None:
        return list(given[same])
    return [next(given[code]) for code in codes]


def _integers(written: "Integers", way: list[int], whole: "dict[int, Integers]") -> "Integers":
    import numpy as np

    times, start = way
    numbers = ((written.view(np.uint64) >> np.uint64(1)).view(np.int64)) ^ -(written & 1)
    if times:
        numbers = np.cumsum(numbers)
    if start >= 0:
        numbers = numbers + whole[start]
    return numbers
