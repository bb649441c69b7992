"""Opens an nsys capture: a path in, a checked SQLite connection out, or one line that says what is wrong.

The file is opened read-only and immutable: nothing is ever written to it or beside it, and no statement
stored in it (a view, a virtual table, a trigger) is ever run.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from labcode.errors import InputError, ToolError
from labcode.inputs import plain_file
from labcode.reports.nsys import schema
from labcode.reports.nsys.sqlite import connect

_SQLITE_MAGIC = b"SQLite format 3\x00"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"
_NCU_MAGIC = b"NVR\0"
_CHECK_WHOLE_BELOW = 32 << 20  # bytes; larger files are checked table by table, when one is first read
_EXPORT_TIMEOUT_S = 1800.0
_Tables = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Opened:
    """An export ready to be read: its connection, its origin, its version, its tables and what is amiss."""

    connection: sqlite3.Connection
    path: Path  # the file that was named
    sqlite: Path  # the file that is read: the same, or one made of it
    checked_whole: bool
    version: schema.SchemaVersion
    product: str
    tables: _Tables  # table → its columns that are stored
    warnings: tuple[str, ...]


def open_export(path: Path) -> Opened:
    """Open ``.sqlite``, ``.sqlite.xz``, ``.nsys.xz`` or ``.nsys-rep`` and check it.

    Raises `InputError` for a file that is missing, damaged, foreign, or of a schema that cannot be read, and
    `ToolError` when an ``.nsys-rep`` cannot be exported.
    """
    sqlite = _as_sqlite(path)
    if sqlite == path:
        return _opened(path, path)
    from labcode import store

    with store.kept_if_read(sqlite, path):
        return _opened(sqlite, path)


def _opened(sqlite: Path, path: Path) -> Opened:
    _check_header(sqlite, path)
    try:
        connection = connect(sqlite)
    except sqlite3.Error as error:
        raise _damaged(path, error) from None
    try:
        return _checked(connection, sqlite, path)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter in SQLite's own message
        connection.close()
        raise _damaged(path, error) from None
    except BaseException:
        connection.close()
        raise


def quick_check(connection: sqlite3.Connection, what: str) -> None:
    """SQLite's quick check of a table or, '1', of the whole file; `InputError` when it is damaged."""
    try:
        found = [str(row[0]) for row in connection.execute(f"PRAGMA quick_check({what})")]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        found = [str(error)]
    if found != ["ok"]:
        raise InputError(f"damaged ({found[0] if found else 'no answer'}); export or copy it again")


def _as_sqlite(path: Path) -> Path:
    """The SQLite file behind a path: itself, or one made of it in the user's cache."""
    if path.suffix == ".qdstrm":
        raise InputError(
            f"{path}: a raw recording, not a report: nsys' importer failed where it was made, most often for "
            "want of libdw.so.1; install libdw1 (Debian, Ubuntu) or elfutils-libs (RHEL) there and run "
            "QdstrmImporter on it, or record again"
        )
    if path.is_dir():
        raise InputError(
            f"{path}: a folder; name an nsys export (.sqlite, .sqlite.xz, .nsys.xz) or report (.nsys-rep)"
        )
    with plain_file(path).open("rb") as handle:
        head = handle.read(64)
    if head.startswith(_SQLITE_MAGIC):
        return path
    if head.startswith(_XZ_MAGIC):
        from labcode import store  # these take time to import, and most files need neither

        return store.unpacked(path, ".sqlite")
    if head.startswith(_REPORT_MAGIC) or path.suffix == ".nsys-rep":
        return _exported(path)
    if head.startswith(_NCU_MAGIC):
        raise InputError(
            f"{path}: a report of Nsight Compute: it holds counters of launches and no timeline; name it "
            "X.ncu-rep for `labcode stats`, diagnose, compare or roofline"
        )
    if not head:
        raise InputError(f"{path}: empty; the export was interrupted, make it again")
    raise InputError(
        f"{path}: not an nsys export: it does not begin like an SQLite database; "
        "make one with `nsys export --type sqlite REPORT.nsys-rep`"
    )


def _exported(report: Path) -> Path:
    """Export an ``.nsys-rep`` with the nsys of this machine into the user's cache, once for each content."""
    import hashlib

    from labcode import store, tools

    store.refuse_large(report, report.stat().st_size)
    try:
        nsys = tools.require_nsys()
    except ToolError as error:
        raise ToolError(
            f"{report}: a report, and exporting it takes nsys ({error}); or export it elsewhere with "
            "`nsys export --type sqlite` and name the .sqlite file"
        ) from None
    key = hashlib.sha256(f"{store.file_sha256(report)} {nsys}".encode()).hexdigest()

    def export(made: Path) -> None:
        options = ("--type", "sqlite", "--force-overwrite=true", "--output")
        words: list[str | Path] = [nsys, "export", *options, made, report.resolve()]
        result = tools.run_tool(words, _EXPORT_TIMEOUT_S, what=f"nsys export {report}")
        if result.returncode != 0 or not made.exists():
            raise ToolError(
                f"{report}: nsys could not export it ({result.last_line()}); "
                "the report may be damaged or of a newer nsys than the one here"
            )

    return store.cached(key, ".sqlite", export)


def _check_header(sqlite: Path, path: Path) -> None:
    """Compare the size that the header states with the file's."""
    with sqlite.open("rb") as handle:
        head = handle.read(100)
    if len(head) < 100 or not head.startswith(_SQLITE_MAGIC):
        raise InputError(f"{path}: truncated: it ends within the SQLite header; export or copy it again")
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    stated = page * int.from_bytes(head[28:32], "big")
    valid = head[24:28] == head[92:96]  # otherwise the stated size is not kept up to date
    size = sqlite.stat().st_size
    if valid and stated and size < stated:
        raise InputError(
            f"{path}: truncated: {size} of {stated} bytes are there; the export or a copy of it was "
            "interrupted, make it again"
        )


def _checked(connection: sqlite3.Connection, sqlite: Path, path: Path) -> Opened:
    whole = sqlite.stat().st_size <= _CHECK_WHOLE_BELOW
    tables = _tables(connection, path)
    if whole:
        try:
            quick_check(connection, "1")
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    metadata = _metadata(connection, tables, path)
    stated = metadata.get("EXPORT_SCHEMA_VERSION") or ".".join(
        metadata.get(f"EXPORT_SCHEMA_VERSION_{part}", "") for part in ("MAJOR", "MINOR", "MICRO")
    )
    version = schema.parse_version(stated)
    if version is None:
        raise InputError(
            f"{path}: an SQLite database without a readable nsys schema version ({stated[:40]!r}); "
            "make an export with `nsys export --type sqlite REPORT.nsys-rep`"
        )
    product = metadata.get("EXPORT_PRODUCT_VERSION", "")
    warnings = schema.check_version(version, product, str(path))
    _check_columns(tables, path)
    return Opened(connection, path, sqlite, whole, version, product, tables, tuple(warnings))


def _tables(connection: sqlite3.Connection, path: Path) -> _Tables:
    """Every ordinary table with its columns; `InputError` when something else bears a name that nsys uses."""
    by_name = {name.lower(): name for name in (*schema.REQUIRED, *schema.OPTIONAL)}
    tables: _Tables = {}
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    for kind, name, sql in rows:
        standard = by_name.get(str(name).lower()) or schema.one_of_many(str(name))
        if standard is None or kind not in ("table", "view"):
            continue
        if kind == "view" or str(sql).lstrip().upper().startswith("CREATE VIRTUAL"):
            what = "view" if kind == "view" else "virtual table"
            raise InputError(
                f"{path}: {name} is a {what}, not a table, so this is not an export as nsys writes it; "
                "nothing of it was run; export the .nsys-rep again"
            )
        columns = connection.execute(f'PRAGMA table_xinfo("{standard}")').fetchall()
        tables[standard] = tuple(str(column[1]) for column in columns if not column[6])
    return tables


def _metadata(connection: sqlite3.Connection, tables: _Tables, path: Path) -> dict[str, str]:
    table = next((name for name in (schema.METADATA, schema.OLDER_METADATA) if name in tables), None)
    if table is None or not {"name", "value"} <= set(tables[table]):
        raise InputError(
            f"{path}: an SQLite database, but not an nsys export (it has no {schema.METADATA} table); "
            "make one with `nsys export --type sqlite REPORT.nsys-rep`"
        )
    query = f"SELECT name, value FROM {table} LIMIT 1000"
    return {str(name): str(value) for name, value in connection.execute(query)}


def _check_columns(tables: _Tables, path: Path) -> None:
    for table, required in schema.REQUIRED.items():
        missing = [column for column in required if table in tables and column not in tables[table]]
        if missing:
            raise InputError(
                f"{path}: table {table} has no column {', '.join(missing)}, so it cannot be read; "
                "export the .nsys-rep again, or update labcode if this nsys is new"
            )


def _damaged(path: Path, error: Exception) -> InputError:
    what = "damaged" if isinstance(error, UnicodeDecodeError) else error
    return InputError(f"{path}: cannot be read as an SQLite database ({what}); export or copy it again")
