"""Look into files of a set: is one what its name says, and what is private in it? A file in, finds out."""

import gzip
import json
import lzma
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from labcode import columnar
from labcode.capture import privacy
from labcode.capture.privacy import Names
from labcode.capture.trim import METADATA, columns, is_kept, table_names
from labcode.errors import InputError
from labcode.inputs import open_read_only, plain_file
from labcode.outputs import private_folder
from labcode.reports.ncu import wire
from labcode.reports.ncu.open import check_frame
from labcode.store import unpack_limit, unpack_xz

UNPACKED = "export.sqlite"  # what an export by columns is called meanwhile
_LARGEST_UNPACKED = 1 << 30
_MOST_HELD = 1 << 30  # bytes of the objects that a JSON file becomes
_CHUNK = 1 << 20
_SQLITE = b"SQLite format 3\0"
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")


@dataclass(frozen=True)
class Content:
    """What was found in a file: private things, and those to look at (see `privacy.review`)."""

    private: tuple[str, ...]
    review: tuple[str, ...]


def look_into(path: Path, where: str, names: Names = (), harmless: set[str] | None = None) -> Content:
    """What is private in a file of a set, packed or not; ``where`` is what messages call it.

    ``harmless`` gets the texts of files in which nothing was found, and need not be searched for the same
    names again. Raises `InputError` (``WHERE is not valid JSON …``) for one that is not what its name says.
    """
    if path.name.endswith((".json", ".json.gz", ".json.xz")):
        data = _read(path, where)
        if data.startswith(_PICKLES):
            pickled = "a pickle or an archive: data that runs code or hides files does not belong here"
            return Content((pickled,), ())
        try:
            texts = json_texts(data)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not valid JSON ({error}); refused") from None
        return _content(texts, names, harmless)
    with private_folder() as work:
        unpacked = path
        if path.name.endswith(columnar.SUFFIX):
            unpacked = work / UNPACKED
            try:
                unpack_xz(path, unpacked)
            except InputError as error:
                raise InputError(f"{where} {str(error).removeprefix(f'{path}: ')}") from None
        elif path.suffix == ".xz":
            unpacked = work / path.name.removesuffix(".xz")
            with unpacked.open("wb") as out:
                _unpack(path, where, out.write)
        found = _content(texts_of(unpacked), names, harmless)
        dropped = [] if ".ncu-rep" in path.name else _dropped(unpacked)
        return Content((*dropped, *found.private), found.review)


@cache
def own_names() -> Names:
    """The names of this machine, its user and home folder; not those that the lab itself uses as words."""
    package = Path(privacy.__file__).parents[1]
    sources = (*package.rglob("*.py"), *(package.parent / "cuda").rglob("*.c*"))
    return privacy.own_names(source.read_text(encoding="utf-8", errors="replace") for source in sources)


def texts_of(path: Path) -> Iterator[str]:
    """Every text in an unpacked export, report or JSON file; `InputError` for a damaged one."""
    if path.name.endswith(".ncu-rep"):
        data = path.read_bytes()
        check_frame(data, path)
        yield from ncu_texts(data)
    elif path.name.endswith(".sqlite"):
        check_export(path)
        yield from sqlite_texts(path)
    else:
        yield from json_texts(path.read_bytes())


def json_texts(data: bytes) -> list[str]:
    """Every text in a JSON value, also under keys that are there twice; `ValueError` for other bytes."""
    held = 32 * data.count(b",") + 64 * data.count(b"[")  # at least, as Python holds it
    if held > _MOST_HELD:
        raise ValueError(f"{data.count(b','):,} values, which would take {held / (1 << 30):.1f} GiB")
    texts: list[str] = []
    top = json.loads(data, object_pairs_hook=lambda pairs: texts.extend(privacy.texts_of_json(pairs)))
    texts += privacy.texts_of_list([top])
    return texts


def ncu_texts(data: bytes) -> Iterator[str]:
    """Every text in a report of Nsight Compute, those of the programs in it too; some of them once."""
    seen: set[bytes] = set()
    for block in wire.blocks(data):
        if block.process[1]:
            yield f'"hostname": "{block.process[1]}"'
        held = [v for _, kind, v in block.header if kind == 2 and isinstance(v, bytes)]
        held += [data[begin:end] for begin, end in (*block.sources, *block.results)]
        for leaf in (leaf for message in held for leaf in wire.leaves(message, seen)):
            if wire.is_text(leaf):
                yield leaf.decode()
            else:
                yield from privacy.texts_of_bytes(leaf)


def sqlite_texts(path: Path, marked: Mapping[str, Sequence[str]] | None = None) -> Iterator[str]:
    """Every text in an export: values (also of other types than their columns), declarations, stray bytes.

    With ``marked``, the `columns_of_texts` of its tables, only those values that have a mark of a rule.
    """
    with closing(open_export(path)) as db:
        db.text_factory = _decoded
        yield from (sql for (sql,) in db.execute("SELECT sql FROM sqlite_master") if sql)
        for table in table_names(db):
            for column in columns_of_texts(db, table) if marked is None else marked[table]:
                which = "" if table == "StringIds" else "DISTINCT"  # whose texts are distinct
                of = quoted(column)
                values = f"SELECT {which} {of} FROM {quoted(table)} WHERE typeof({of}) = "
                these = "'text'" if marked is None else f"'text' AND NOT ({privacy.harmless_in_sql(of)})"
                try:
                    db.text_factory = str
                    yield from chain.from_iterable(db.execute(f"{values}{these}"))
                except sqlite3.OperationalError:  # not all is UTF-8: from the beginning, at half the speed
                    db.text_factory = _decoded
                    yield from chain.from_iterable(db.execute(f"{values}{these}"))
                db.text_factory = _decoded
                for (value,) in db.execute(f"{values}'blob'"):
                    yield from privacy.texts_of_bytes(value)
            if {"name", "value"} <= set(columns(db, table)):
                yield from (
                    f'"{n}": "{v}"' for n, v in db.execute(f"SELECT name, value FROM {quoted(table)}")
                )
        (pages,), (size,) = (db.execute(f"PRAGMA {fact}").fetchone() for fact in ("page_count", "page_size"))
        deleted = db.execute("PRAGMA freelist_count").fetchone()[0]
    with path.open("rb") as handle:
        handle.seek(0 if deleted else pages * size)
        yield from privacy.texts_of_bytes(handle.read())


def _decoded(data: bytes) -> str:
    return data.decode(errors="replace")


def columns_of_texts(db: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table that hold a text or a blob, whatever they are declared to hold."""
    have = columns(db, table)
    texts = [f"+{quoted(column)} >= '' COLLATE BINARY" for column in have]  # all numbers come before these
    whens = " ".join(f"WHEN {one} THEN 1" for one in texts)  # most tables hold none, as one reading tells
    if not db.execute(f"SELECT 1 FROM {quoted(table)} WHERE CASE {whens} END LIMIT 1").fetchone():
        return []
    held = db.execute(f"SELECT {', '.join(f'max({one})' for one in texts)} FROM {quoted(table)}").fetchone()
    return [column for column, any_ in zip(have, held, strict=True) if any_]


def quoted(column: str) -> str:
    """A column's name in SQL."""
    return '"' + column.replace('"', '""') + '"'


def check_export(path: Path) -> None:
    """`InputError` unless ``path`` is a whole SQLite file with the tables of an nsys export."""
    with plain_file(path).open("rb") as handle:
        header = handle.read(len(_SQLITE))
    if header != _SQLITE:
        raise InputError(f"{path}: not an SQLite file; give a file written by `nsys export --type sqlite`")
    try:
        with closing(open_export(path)) as db:
            names = set(table_names(db))
            odd = db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage = 0"
            ).fetchone()
            verdict = "" if odd else db.execute("PRAGMA quick_check(1)").fetchone()[0]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter: a table's name
        raise InputError(f"{path}: damaged or truncated SQLite file ({error}); export it again") from None
    if odd:
        raise InputError(f"{path}: {odd[0]} is a virtual table, which no export of nsys has; export it again")
    if verdict != "ok":
        raise InputError(f"{path}: damaged or truncated SQLite file ({verdict}); export it again")
    if "StringIds" not in names or not names & METADATA:
        raise InputError(
            f"{path}: an SQLite file, but not an nsys export; give one written by `nsys export --type sqlite`"
        )


def open_export(path: Path) -> sqlite3.Connection:
    """An export opened for reading; nothing that its declarations say is computed."""
    db = open_read_only(path)
    db.execute("PRAGMA ignore_check_constraints = ON")  # they are not run when the file is checked either
    return db


def refuse_private(texts: Iterable[str], names: Names, message: str, error: type[Exception]) -> None:
    """Raise ``error`` with ``message`` and what is private in texts, if anything is."""
    if private := privacy.find(texts, names):
        raise error(f"{message}: {'; '.join(private)}")


def _dropped(export: Path) -> list[str]:
    """What an export holds that scrubbing drops, as a find."""
    with closing(open_export(export)) as db:
        strange = [table for table in table_names(db) if not is_kept(table)]
    return [f"tables that scrubbing drops ({', '.join(strange[:4])})"] if strange else []


def _content(texts: Iterable[str], names: Names, harmless: set[str] | None) -> Content:
    known = set() if harmless is None else harmless
    fresh = dict.fromkeys(text for text in texts if text not in known)
    found = Content(tuple(privacy.find(fresh, names)), tuple(privacy.review(fresh)))
    if not (found.private or found.review):
        known.update(fresh)
    return found


def _read(path: Path, where: str) -> bytes:
    if path.suffix == ".json":
        return path.read_bytes()
    data = bytearray()
    _unpack(path, where, data.extend)
    return bytes(data)


def _unpack(packed: Path, where: str, write: Callable[[bytes], Any]) -> None:
    """Unpack a file; `InputError` for a damaged one and one of more than 1 GiB or `store.unpack_limit`."""
    written, most = 0, min(_LARGEST_UNPACKED, unpack_limit(packed.stat().st_size))
    try:
        with (gzip.open if packed.suffix == ".gz" else lzma.open)(packed) as source:
            while chunk := source.read(_CHUNK):
                written += len(chunk)
                if written > most:
                    raise InputError(f"{where} unpacks to more than {most >> 20} MiB; refused")
                write(chunk)
    except (lzma.LZMAError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{where} cannot be unpacked ({error}); fetch it again") from None
