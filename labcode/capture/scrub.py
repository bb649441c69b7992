"""Make an nsys export fit to publish: an export in, a copy without host, user, environment, paths out."""

import errno
import lzma
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from labcode import columnar
from labcode.capture import privacy, scan, trim
from labcode.capture.privacy import FIRST_PID, Names
from labcode.capture.scan import check_export, open_export, quoted
from labcode.capture.trim import columns, table_names
from labcode.errors import InputError
from labcode.inputs import address, plain_file
from labcode.outputs import free, whole
from labcode.record.nsys import export
from labcode.store import refuse_large, repository_root, unpack_xz
from labcode.tools import find_nsys

_PROCESS_TABLES = ("PROCESSES", "ThreadNames", "DIAGNOSTIC_EVENT", "PROFILER_OVERHEAD")
_STRING_REFERENCE = re.compile(r"^\s*(?P<column>\w+)\b[^\n]*REFERENCES StringIds", re.MULTILINE)
_JSON_REFERENCE = re.compile(r'"(?:Function|File|Module)"\s*:\s*(\d+)')
_PID_COLUMNS = frozenset(("pid", "processId"))  # others hold a serialized id: machine, process, thread
_SERIALIZED = ("globalpid", "globaltid")
_ID = 0xFFFFFF
_PID_WORD = re.compile(r"(?i)(?<![a-z])((?:pid|process|tid|thread)[ _:=#]{1,2})(\d+)")
_TYPE = re.compile(r"[A-Za-z][A-Za-z ]{0,30}")
LEFT = "something private is left after scrubbing, nothing was written"
UNRESOLVED = "[unresolved]"  # instead of an address that has no name
_XZ_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 25}]


@dataclass(frozen=True)
class ScrubReport:
    """What scrubbing did: tables kept and dropped, pids as they are now, texts kept out of how many, bytes
    written, and the names that were taken out.
    """

    kept: tuple[str, ...]
    dropped: tuple[str, ...]
    pids: tuple[int, ...]
    strings_kept: int
    strings_before: int
    size_bytes: int
    names: Names


def scrub_export(src: Path, dst: Path, also: Names = ()) -> ScrubReport:
    """Write ``dst`` as a copy of the export ``src`` that holds nothing private.

    Known tables are copied, all others dropped. Of the process list, thread names and messages only those of
    the captured processes stay (those with events), of the texts only those some row
    refers to, in the words of `privacy.reduce`: also without the names that the export states, those of this
    machine, and ``also``. Files and modules of call stacks keep their place in the repository, in
    ``site-packages`` or in ``lib/python3.12``. Functions without a name, which nsys calls by their address,
    are all called `UNRESOLVED`. Of the payloads of NVTX events those with Python stacks stay. Processes and
    threads are numbered from `FIRST_PID` on, in their order; of the export's time the day stays. ``src`` is
    not changed. Raises `InputError` for a damaged file.
    """
    root = repository_root()
    check_export(src)
    dst.unlink(missing_ok=True)
    with _told(src), closing(open_export(src)) as source, closing(_new(dst, src)) as target:
        names = table_names(source)
        kept = [name for name in names if trim.is_kept(name)]
        declared = dict(source.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
        pids = _captured_pids(source, kept)
        held = {name: scan.columns_of_texts(source, name) for name in names}
        stated = privacy.stated_names(scan.sqlite_texts(src, held), src)
        words = (*also, *privacy.machine_names(), *stated)
        _define(target, pids, root, words)
        numbers = _number(target, kept)
        for name in kept:
            _copy(target, name, held[name], words)
        _forget_addresses(target)
        target.execute("CREATE TEMP TABLE wanted (id INTEGER PRIMARY KEY)")
        for name in kept:
            if name != "StringIds":
                _want(target, name, declared[name])
        before = source.execute("SELECT count(*) FROM StringIds").fetchone()[0]
        target.execute("DELETE FROM StringIds WHERE id NOT IN (SELECT id FROM wanted)")
        target.commit()
        target.execute("DETACH raw")
        target.execute("VACUUM")
        after = target.execute("SELECT count(*) FROM StringIds").fetchone()[0]
    dropped = tuple(name for name in names if name not in kept)
    renamed = tuple(sorted(numbers[pid] for pid in pids if pid in numbers))
    return ScrubReport(tuple(kept), dropped, renamed, after, before, dst.stat().st_size, words)


def _new(dst: Path, src: Path) -> sqlite3.Connection:
    """A new export, beside which the old one is open for reading as ``raw``."""
    db = sqlite3.connect(dst.resolve(), uri=True, isolation_level=None)
    for setting in ("journal_mode = OFF", "synchronous = OFF", "trusted_schema = OFF"):
        db.execute(f"PRAGMA {setting}")
    db.execute("ATTACH ? AS raw", (address(src),))
    db.execute("BEGIN")
    return db


@contextmanager
def _told(src: Path) -> Iterator[None]:
    """SQLite's errors as those of a file that cannot be written, or of the one that is read."""
    try:
        yield
    except sqlite3.Error as error:
        number = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}.get(
            getattr(error, "sqlite_errorcode", 0) & 0xFF
        )
        if number:
            raise OSError(number, str(error)) from None
        raise InputError(f"{src}: cannot be scrubbed ({error}); export it again") from None


def compress(src: Path, dst: Path) -> None:
    """Compress a file with xz; the result is the same for the same bytes."""
    with src.open("rb") as raw, lzma.open(dst, "wb", filters=_XZ_FILTERS) as packed:
        shutil.copyfileobj(raw, packed, 1 << 20)


def scrub_file(path: Path, output: Path | None = None, also: Names = (), *, force: bool = True) -> Path:
    """Scrub an export (``.sqlite``, packed or not) or, where nsys is at hand, a report (``.nsys-rep``).

    ``output`` defaults to ``NAME.scrubbed.sqlite`` (packed as the input is) beside the input;
    the input stays; ``also`` are names to take out. Returns the path written. Raises `InputError` for
    anything else, and when something private is left.
    """
    packed = next((end for end in (".sqlite.xz", columnar.SUFFIX) if path.name.endswith(end)), "")
    report = path.suffix == ".nsys-rep"
    plain_file(path)
    if not (packed or report or path.suffix == ".sqlite"):
        raise InputError(
            f"{path}: cannot be scrubbed; give a .sqlite, .sqlite.xz, .nsys.xz or .nsys-rep file"
        )
    stem = path.name.removesuffix(packed or path.suffix)
    output = output or path.with_name(f"{stem}.scrubbed{packed or '.sqlite'}")
    free(output, force=force, reads=[path])
    with whole(output, reads=[path]) as made:
        source, clean = made.with_name("raw.sqlite"), made.with_name("clean.sqlite")
        if packed:
            unpack_xz(path, source)
        elif report:
            _export(path, source)
        else:
            source = path
        names = scrub_export(source, clean, also).names
        scan.refuse_private(scan.sqlite_texts(clean), names, f"{path}: {LEFT}", InputError)
        if output.name.endswith(columnar.SUFFIX):
            columnar.pack(clean, made)
        elif output.name.endswith(".xz"):
            compress(clean, made)
        else:
            clean.replace(made)
    return output


def _export(report: Path, target: Path) -> None:
    refuse_large(report, report.stat().st_size)
    nsys = find_nsys()
    if nsys is None:
        raise InputError(
            f"{report}: a report cannot be scrubbed in place: export it first "
            f"with `nsys export --type sqlite {report.name}`"
        )
    export(nsys, report, target, neutral=privacy.reduce)


def _captured_pids(db: sqlite3.Connection, kept: Iterable[str]) -> set[int]:
    """The pids of the processes that events belong to (the profiler's own overhead does not count)."""
    found: set[int] = set()
    for name in kept:
        if trim.EVENT_TABLES.fullmatch(name) and name != "PROFILER_OVERHEAD":
            for column in set(columns(db, name)) & {"globalPid", "globalTid"}:
                rows = db.execute(
                    f'SELECT DISTINCT ("{column}" >> 24) & 0xFFFFFF FROM "{name}" WHERE "{column}" > 0'
                )
                found |= {row[0] for row in rows}
    return found


def _define(db: sqlite3.Connection, pids: set[int], root: Path, words: Names) -> None:
    """The functions that copying calls in SQL."""

    def of_stacks(text: str) -> str | None:
        return privacy.reduce(text, words) if trim.KEPT_PAYLOAD.match(text) else None

    functions: dict[str, Callable[[Any], Any]] = {
        "reduced": lambda text: privacy.reduce(text, words),
        "reduced_file": lambda text: privacy.reduce_file(text, root, words),
        "of_stacks": of_stacks,
        "belongs": lambda value: _belongs(value, pids),
        "is_fact": lambda key: bool(trim.EXPORT_FACTS.fullmatch(str(key))),
    }
    for name, function in functions.items():
        db.create_function(name, 1, function, deterministic=True)


def _copy(db: sqlite3.Connection, name: str, held: Sequence[str], words: Names) -> None:
    """Copy a table of the old export (``raw``), in neutral words and numbers; ``held`` hold texts."""
    info = _stored(db, name)
    db.execute(_declaration(name, info))
    names = [row[1] for row in info]
    numbered = _numbered(db, name)
    taken = []
    for index, column in enumerate(names):
        value, blank = quoted(column), _blank(info[index])
        if column in trim.PRIVATE_COLUMNS.get(name, ()):
            taken.append(blank)
        elif column in numbered:  # whatever is no number there would not be numbered
            new = f"(SELECT new FROM {numbered[column]} WHERE old = {value})"
            taken.append(f"CASE typeof({value}) WHEN 'integer' THEN {new} ELSE {blank} END")
        elif column not in held:
            taken.append(value)
        else:
            kept = f"{'reduced_file' if name == 'StringIds' else 'reduced'}({value})"
            kept = f"CASE WHEN {privacy.harmless_in_sql(value, words)} THEN {value} ELSE {kept} END"
            if (name, column) == ("NVTX_EVENTS", "jsonText"):
                kept = f"coalesce(of_stacks({value}), {blank})"
            elif (name, column) == ("DIAGNOSTIC_EVENT", "text"):
                kept = f"in_words({kept})"
            elif name in trim.METADATA and index == 1:
                day = f"{quoted(names[0])} = 'EXPORT_TIME_UTC'"
                kept = f"CASE WHEN {day} THEN substr({kept}, 1, 10) ELSE {kept} END"
            taken.append(
                f"CASE typeof({value}) WHEN 'text' THEN {kept} WHEN 'blob' THEN {blank} ELSE {value} END"
            )
    where = _which(name, names)
    db.execute(f'INSERT INTO "{name}" SELECT {", ".join(taken)} FROM raw."{name}" WHERE {where}')


def _stored(db: sqlite3.Connection, name: str) -> list[tuple[Any, ...]]:
    """The columns of a table of the old export, without those that are computed."""
    return [row for row in db.execute(f'PRAGMA raw.table_xinfo("{name}")') if not row[6]]


def _which(name: str, names: Sequence[str]) -> str:
    """Which rows of a table are copied, in SQL."""
    owner = next((c for c in ("globalPid", "globalTid") if c in names), None)
    if name in _PROCESS_TABLES and owner is not None:
        return f"belongs({quoted(owner)})"
    return f"is_fact({quoted(names[0])})" if name in trim.METADATA else "1"


def _numbered(db: sqlite3.Connection, name: str) -> dict[str, str]:
    """The columns of a table that hold processes and threads, each with the table of their new numbers."""
    return {
        column: "pids" if column in _PID_COLUMNS else "serialized"
        for column in (row[1] for row in _stored(db, name))
        if column in _PID_COLUMNS or column.lower().endswith(_SERIALIZED)
    }


def _number(db: sqlite3.Connection, kept: Sequence[str]) -> dict[int, int]:
    """Number the processes and threads of what will be copied, in their order; new numbers by old ones."""
    held: dict[str, set[int]] = {"pids": set(), "serialized": set()}
    for name in kept:
        where = _which(name, [row[1] for row in _stored(db, name)])
        for column, table in _numbered(db, name).items():
            rows = db.execute(
                f'SELECT DISTINCT {quoted(column)} FROM raw."{name}" '
                f"WHERE typeof({quoted(column)}) = 'integer' AND {where}"
            )
            held[table].update(chain.from_iterable(rows))
    found = {part for value in held["serialized"] if value > 0 for part in (value >> 24 & _ID, value & _ID)}
    numbers = {old: FIRST_PID + at for at, old in enumerate(sorted((found | held["pids"]) - {0}))} | {0: 0}

    def serialized(value: int) -> int:
        if value < 0:
            return value
        return value >> 48 << 48 | numbers[value >> 24 & _ID] << 24 | numbers[value & _ID]

    for table, number in (("pids", numbers.__getitem__), ("serialized", serialized)):
        db.execute(f"CREATE TEMP TABLE {table} (old INTEGER PRIMARY KEY, new INTEGER)")
        db.executemany(f"INSERT INTO {table} VALUES (?, ?)", ((old, number(old)) for old in held[table]))

    def in_words(text: str) -> str:
        return _PID_WORD.sub(lambda m: m[1] + str(numbers.get(int(m[2]), m[2])), text)

    db.create_function("in_words", 1, in_words, deterministic=True)
    return numbers


def _declaration(name: str, info: Sequence[tuple[Any, ...]]) -> str:
    """A table with the same columns: names, types, keys, what may be NULL; nothing else of the original."""
    keys = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]]
    if name in trim.STACK_TABLES:  # the key's index is a good part of a compressed export
        keys = []
    parts = []
    for row in info:
        kind = f" {row[2]}" if _TYPE.fullmatch(row[2]) else ""
        key = " PRIMARY KEY" if keys == [row[1]] else ""
        parts.append(quoted(row[1]) + kind + (" NOT NULL" if row[3] else "") + key)
    if len(keys) > 1:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, keys))})")
    return f'CREATE TABLE "{name}" ({", ".join(parts)})'


def _forget_addresses(db: sqlite3.Connection) -> None:
    """Give all functions of call stacks that are named by an address one name."""
    stacks = [t for t in trim.STACK_TABLES if "symbol" in columns(db, t)]
    if not stacks:
        return
    db.execute("CREATE TEMP TABLE addresses (id INTEGER PRIMARY KEY)")
    for table in stacks:
        db.execute(
            "INSERT OR IGNORE INTO addresses SELECT s.id FROM StringIds s WHERE s.value GLOB '0x[0-9a-f]*' "
            f"AND s.value NOT GLOB '0x*[^0-9a-f]*' AND s.id IN (SELECT symbol FROM \"{table}\")"
        )
    one = db.execute("SELECT min(id) FROM addresses").fetchone()[0]
    if one is None:
        return
    for table in stacks:
        db.execute(f'UPDATE "{table}" SET symbol = ? WHERE symbol IN (SELECT id FROM addresses)', (one,))
    db.execute("UPDATE StringIds SET value = ? WHERE id = ?", (UNRESOLVED, one))


def _belongs(serialized: object, pids: set[int]) -> bool:
    if not isinstance(serialized, int) or serialized < 0:
        return True  # about the session, not about a process
    return (serialized >> 24) & 0xFFFFFF in pids


def _blank(column: tuple[object, ...]) -> str:
    """What stands in place of a private value, in SQL."""
    return "NULL" if not column[3] else "''" if str(column[2]).upper() == "TEXT" else "0"


def _want(db: sqlite3.Connection, name: str, declaration: str) -> None:
    """Want the texts that a table's rows refer to; ``declaration`` is the one in the original."""
    have = columns(db, name)
    declared = {m["column"] for m in _STRING_REFERENCE.finditer(declaration)}
    for column in map(quoted, (declared | trim.STRING_COLUMNS) & set(have)):
        db.execute(
            f"INSERT OR IGNORE INTO wanted SELECT {column} FROM \"{name}\" WHERE typeof({column}) = 'integer'"
        )
    if "jsonText" in have:
        texts = db.execute(f'SELECT jsonText FROM "{name}" WHERE jsonText IS NOT NULL')
        found = {int(i) for (text,) in texts for i in _JSON_REFERENCE.findall(str(text))}
        db.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((i,) for i in found))
