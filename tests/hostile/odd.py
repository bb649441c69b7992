"""What is no damaged file: hands an attacker, a bad disk or an odd machine would play.

A random generator and a new folder in, the command that is tried out, as in the other cases of the campaign.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import socket
import sqlite3
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from labcode.grading import grades as grading
from tests.hostile import formats
from tests.hostile.judge import STEERS, Asked
from tests.hostile.values import MARK, TEXTS, as_json, weird
from tests.support import ncu as golden
from tests.support import pftraces, ranks
from tests.support.random_export import make_random_export
from tests.support.sets import make_set

Make = Callable[[random.Random, Path], Asked]
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("stats", "FILE", "--all"),
    ("stats", "FILE", "--all", "-f", "json"),
    ("stats", "FILE", "--all", "-f", "md"),
    ("stats", "--list", "FILE"),
    ("diagnose", "FILE", "-f", "json"),
    ("report", "FILE", "-f", "md"),
    ("report", "FILE", "-o", "{out}/a.html"),
    ("timeline", "FILE", "-o", "{out}/a.svg"),
    ("timeline", "FILE", "-o", "{out}/a.html"),
    ("compare", "FILE", "FILE"),
    ("flame", "FILE", "-o", "{out}/a.svg"),
    ("export", "FILE", "-o", "{out}", "-f", "csv"),
    ("scrub", "FILE", "--review"),
    ("scrub", "FILE"),
)


def _asked(rng: random.Random, path: Path | str, *more: str, **options: Any) -> Asked:
    """Any command that reads a file."""
    words = [*rng.choice(COMMANDS), *more]
    name = str(path).replace("{", "{{").replace("}", "}}")
    said = [name if word == "FILE" else word for word in words]
    listed = "--list" in said
    return Asked(said, markdown="md" in said, document="json" in said and not listed, **options)


def _export(rng: random.Random, folder: Path, name: str = "run.sqlite") -> Path:
    return make_random_export(folder / name, rng.randrange(1 << 30), calls=20)


# ---- SQLite that is sound, and is not what nsys would write


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f'PRAGMA table_info("{table}")')]


def _again(db: sqlite3.Connection, table: str, columns: str, begin: str = "TABLE", end: str = "") -> None:
    """Make a table anew, with other words around its columns, and put its rows back."""
    names = ", ".join(f'"{name}"' for name in _columns(db, table))
    db.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_old"')
    db.execute(f'CREATE {begin} "{table}" {columns.format(names=names)} {end}')
    db.execute(f'INSERT INTO "{table}" ({names}) SELECT {names} FROM "{table}_old"')
    db.execute(f'DROP TABLE "{table}_old"')


COSTLY = (
    *("zeroblob(900000000)", "hex(zeroblob(400000000))", "printf('%.*c', 900000000, 'x')", "abs(-1 << 63)"),
    *("json('{')", "randomblob(300000000)", "load_extension('x')", "replace(zeroblob(9000), x'00', 'abc')"),
)


def schema(rng: random.Random, folder: Path) -> Asked:
    """Triggers, views, computed columns, other kinds of tables, collations and functions of one's own."""
    path = _export(rng, folder / "in")
    with closing(sqlite3.connect(path)) as db:
        db.create_collation("odd", lambda a, b: (a > b) - (a < b))
        db.create_function("odd", 1, lambda value: value, deterministic=True)
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        often = [name for name in tables if name in ("StringIds", "CUPTI_ACTIVITY_KIND_KERNEL")]
        table = rng.choice((rng.choice(tables), rng.choice(often)))
        columns = _columns(db, table)
        column, what = rng.choice(columns), rng.randrange(16)
        db.isolation_level = None
        with suppress(sqlite3.Error):
            _schema(rng, db, table, columns, column, what)
    if what == 15:
        at, put = rng.choice(((18, 3), (19, 3), (59, 9), (20, 255), (47, 100), (16, 0), (31, 255), (21, 1)))
        data = bytearray(path.read_bytes())
        data[at] = put
        path.write_bytes(data)
    return _asked(rng, path)


def _schema(
    rng: random.Random, db: sqlite3.Connection, table: str, columns: list[str], column: str, what: int
) -> None:
    if what == 0:
        _again(db, table, "(pk INTEGER PRIMARY KEY, {names})")
        _again(db, table, "({names}, PRIMARY KEY (pk))", end="WITHOUT ROWID")
    elif what <= 3:  # a column that is computed, in a table without it, at each reading
        rest = ", ".join(f'"{name}"' for name in columns if name != column)
        db.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_old"')
        kind = rng.choice(("VIRTUAL", "VIRTUAL", "STORED"))
        made = rng.choice((*COSTLY, f'"{rng.choice(columns)}"', "1"))
        db.execute(f'CREATE TABLE "{table}" ({rest}, "{column}" GENERATED ALWAYS AS ({made}) {kind})')
        db.execute(f'INSERT INTO "{table}" ({rest}) SELECT {rest} FROM "{table}_old"')
    elif what <= 5:  # a view that costs much, or too little
        db.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_old"')
        some = ", ".join(
            f'{rng.choice(COSTLY)} AS "{name}"' if name == column else f'"{name}"' for name in columns
        )
        db.execute(f'CREATE VIEW "{table}" AS SELECT {some} FROM "{table}_old"')
        db.execute(f'CREATE TRIGGER t INSTEAD OF UPDATE ON "{table}" BEGIN SELECT 1; END')
    elif what == 6:
        names = ", ".join(f'"{name}"' for name in columns)
        db.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_old"')
        db.execute(f'CREATE VIRTUAL TABLE "{table}" USING {rng.choice(("fts5", "fts4", "rtree"))} ({names})')
        db.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}_old"')
    elif what == 7:
        events = rng.choice(("INSERT", "UPDATE", "DELETE"))
        does = rng.choice(
            ("DELETE FROM StringIds", "SELECT RAISE(ABORT, 'no')", f'UPDATE "{table}" SET x = 1')
        )
        db.execute(
            f'CREATE TRIGGER t {rng.choice(("BEFORE", "AFTER"))} {events} ON "{table}" BEGIN {does}; END'
        )
    elif what == 8:
        _again(db, table, "({names})")
        db.execute(f'CREATE INDEX odd_index ON "{table}" ("{column}" COLLATE odd)')
        db.execute(f'CREATE INDEX other_index ON "{table}" (odd("{column}"))')
    elif what == 9:
        typed = ", ".join(f'"{name}" {rng.choice(("TEXT COLLATE odd", "ANY", "BLOB"))}' for name in columns)
        _again(db, table, f"({typed})")
    elif what == 10:
        db.execute("PRAGMA writable_schema = ON")
        change = rng.choice(
            (
                "rootpage = 1",
                "rootpage = 10000000",
                "rootpage = -1",
                "sql = 'CREATE TABLE x(y)'",
                "sql = 'CREATE TABLE ' || hex(zeroblob(3000000)) || '(y)'",
                "sql = NULL",
                "type = 'index'",
                "name = x'ff'",
                "tbl_name = 'sqlite_master'",
                "sql = replace(sql, ')', ', CHECK (odd(1)))')",
                "rootpage = (SELECT max(rootpage) FROM sqlite_master)",
            )
        )
        db.execute(f"UPDATE sqlite_master SET {change} WHERE name = ?", (table,))
    elif what == 11:
        dumped = "\n".join(db.iterdump())
        name = db.execute("PRAGMA database_list").fetchone()[2]
        db.close()
        Path(name).unlink()
        with closing(sqlite3.connect(name)) as made:
            size = rng.choice((512, 1024, 65536))
            coded = rng.choice(("UTF-16le", "UTF-16be", "UTF-8"))
            made.executescript(
                f"PRAGMA encoding = '{coded}'; PRAGMA page_size = {size}; PRAGMA auto_vacuum = FULL; {dumped}"
            )
    elif what == 12:
        for number in range(3_000):
            db.execute(f'CREATE TABLE "{table}{rng.choice(("_", " ", ""))}{number}" (start, "end", {MARK})')
    elif what == 13:
        many = ", ".join(f"c{number}" for number in range(1_900))
        _again(db, table, "({names}, " + many + ")")
    elif what == 14:
        db.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_old"')
        db.execute(f'ALTER TABLE "{table}_old" RENAME TO "{table.swapcase()}"')


def journal(rng: random.Random, folder: Path) -> Asked:
    """What SQLite leaves beside a file that is written to, of this file, of another one, or of none."""
    path = _export(rng, folder / "in")
    beside = [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]
    if rng.random() < 0.5:
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA journal_mode = {rng.choice(('WAL', 'PERSIST'))}")
            db.execute("PRAGMA wal_autocheckpoint = 0")
            db.execute("UPDATE StringIds SET value = 'changed'")
            db.commit()
            kept = {one: one.read_bytes() for one in beside if one.exists()}
        for one, data in kept.items():
            one.write_bytes(data)
    else:
        for one in rng.sample(beside, 2):
            what = rng.randrange(4)
            if what == 0:
                one.write_bytes(b"\xd9\xd5\x05\xf9 \xa1c\xd7" + rng.randbytes(600))
            elif what == 1:
                one.write_bytes(struct.pack(">5I", 0x377F0682, 3007000, 4096, 0, 1) + rng.randbytes(9000))
            elif what == 2:
                one.symlink_to(rng.choice(("/dev/zero", path.name, "nowhere")))
            else:
                os.mkfifo(one)
    return _asked(rng, path)


def types(rng: random.Random, folder: Path) -> Asked:
    """Numbers as texts and bytes, times before the big bang and after the end of 64 bits."""
    path = _export(rng, folder / "in")
    values = (
        *("'12'", "'0x10'", "' 7 '", "x'3132'", "x''", "9e999", "-9e999", "1e-320", "NULL", "'nan'", "''"),
        *(
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775807 - rowid",
            "-rowid",
            "rowid * 1.5",
        ),
        *(
            "'9' || zeroblob(3)",
            "CAST({} AS TEXT)",
            "CAST({} AS BLOB)",
            "-{}",
            "{} * 4e9",
            "{} || ' '",
            "~{}",
        ),
    )
    with closing(sqlite3.connect(path)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in rng.sample(tables, rng.choice((1, 2, len(tables)))):
            for column in rng.sample(_columns(db, table), 1):
                some = rng.choice(("", "", "WHERE rowid % 3 = 0", "WHERE rowid = 1"))
                with suppress(sqlite3.Error):
                    value = rng.choice(values).format(f'"{column}"')
                    db.execute(f'UPDATE "{table}" SET "{column}" = {value} {some}')
        if rng.random() < 0.5:
            table = rng.choice([name for name in tables if "start" in _columns(db, name)] or ["StringIds"])
            with suppress(sqlite3.Error):
                db.execute(f'UPDATE "{table}" SET start = -(1 << 62) * 2, "end" = (1 << 62) - 1 + (1 << 62)')
        db.commit()
    return _asked(rng, path)


# ---- depth


def _within(depth: int, number: int = 1) -> bytes:
    """Messages of protobuf within each other."""
    heads, size = [], 0
    for _ in range(depth):
        head = pftraces.varint(number << 3 | 2) + pftraces.varint(size)
        heads.append(head)
        size += len(head)
    return b"".join(reversed(heads))


def deep(rng: random.Random, folder: Path) -> Asked:
    """Messages, lists, objects and tables within each other, a hundred thousand times."""
    depth, number = rng.choice((90, 1_000, 100_000)), rng.choice((1, 2, 3, 4, 5, 6, 8, 11, 50, 60))
    message = _within(depth, number)
    kind = rng.randrange(5)
    if kind == 0:
        data = golden.path("few.ncu-rep").read_bytes()
        (size,) = struct.unpack("<I", data[4:8])
        block = rng.choice((message, pftraces.field(number, message)))
        (size_2,) = struct.unpack("<I", data[8 + size : 12 + size])
        first = data[12 + size : 12 + size + size_2]
        rest = data[12 + size + size_2 :]
        header = rng.choice((block, first + block, block + first))
        path = folder / "in" / "run.ncu-rep"
        path.write_bytes(data[: 8 + size] + struct.pack("<I", len(header)) + header + rest)
    elif kind == 1:
        path = folder / "in" / "run.pftrace"
        packet = pftraces.event(5, 1, 10, "k", "kernel", ("grid", 1), more=message)
        whole = rng.choice((pftraces.trace(packet, message), pftraces.rocprof() + message))
        for _ in range(rng.choice((0, 0, 5, 300))):  # packets that hold packets
            whole = pftraces.field(1, pftraces.field(50, zlib.compress(whole)))
        path.write_bytes(whole)
    else:
        made = rng.choice((formats._trace, formats._power))()
        name = "run.trace.json" if "traceEvents" in made else "run.power.json"
        begin, end = rng.choice((("[", "]"), ('{"a":', "}"), ('{"args":[', "]}")))
        inner = begin * depth + "1" + end * depth
        at = rng.choice([place for place, one in enumerate(made[:3000]) if one == ":"])
        put = rng.choice(
            (made[: at + 1] + inner + ',"x":' + made[at + 1 :], made[:-1] + f',"x":{inner}}}', inner)
        )
        path = folder / "in" / name
        path.write_text(put)
    return _asked(rng, path)


# ---- texts


def text(rng: random.Random, folder: Path) -> Asked:
    """JSON that some readers take and others do not: keys twice, half characters, other encodings."""
    made, name = rng.choice(
        (
            (formats._trace(), "run.trace.json"),
            (formats._power(), "run.power.json"),
            (json.dumps(formats.histories.leaking(3)), "run.memory.json"),
        )
    )
    what = rng.randrange(14)
    key = rng.choice(
        ("ts", "dur", "name", "ph", "args", "devices", "events", "schema", "frames", "pid", "samples")
    )
    if what == 0:
        made = made.replace(f'"{key}":', f'"{key}": null, "{key}":', rng.choice((1, 50)))
    elif what == 1:
        made = made.replace(f'"{key}":', "".join(rf'"\u{ord(c):04x}"'[1:-1] for c in key).join(('"', '":')))
    elif what == 2:
        made = made.replace('"name": "', '"name": "' + rng.choice(("\\ud800", "\\udc00\\ud800", "\\u0000")))
    elif what == 3:
        made = rng.choice(("NaN", "Infinity", "-0", "1E400", "-1e-400", "0" * 5000 + "1", "1" * 5000)).join(
            made.split(": 0", 2)
        )
    elif what == 4:
        made = made.replace(",", rng.choice((",\r\n", ",\t", ",/* */", ",\u2028", ",,", ",\x00")), 40)
    elif what == 5:
        made = rng.choice((made + "\n" + made, made + "\x00", made + "]", "[" + made, made[:-1] + ",}"))
    elif what == 6:
        made = made.replace("{", '{"": "", ', 60)
    elif what == 7:
        made = made.replace("}", f', "{MARK * 3000}": "{MARK}"}}', 60)
    elif what == 8:
        made = made.replace(f'"{key}"', f'"{key.upper()}"')
    elif what == 9:
        made = made.replace(": ", ": " + " " * rng.choice((100, 10_000)), 60)
    coding = (
        rng.choice(("utf-8", "utf-16", "utf-16-be", "utf-32", "utf-8-sig", "utf-7")) if what > 9 else "utf-8"
    )
    path = folder / "in" / name
    path.write_bytes(made.encode(coding))
    return _asked(rng, path)


def toml(rng: random.Random, folder: Path) -> Asked:
    """A learner's sheet that is hardly TOML."""
    sheets = sorted(formats_root().glob("exercises/*/*/a*.toml"))
    sheet = rng.choice(sheets)
    key = next(line.partition(" =")[0] for line in sheet.read_text().splitlines() if '= ""' in line)
    depth = rng.choice((200, 5_000, 15_000))
    value = rng.choice(
        (
            "[" * depth + "]" * depth,
            "{a=" * depth + "1" + "}" * depth,
            "9" * 5_000,
            "1e999",
            "nan",
            "-inf",
            "0x" + "f" * 5_000,
            "9999-12-31T23:59:60",
            f'"""{MARK}\\\n  """',
            f'"\\U0000001b[31m{MARK}"',
            '"\\ud800"',
            "'" + "x" * 10**6 + "'",
            "[" + "1," * 10**5 + "]",
        )
    )
    lines = rng.choice(
        (
            f"{key} = {value}\n",
            ".".join(["a"] * depth) + " = 1\n",
            f"[{'.'.join(['a'] * depth)}]\n",
            f"{key} = 1\n{key} = {value}\n",
            f'"\\u001b[31m{MARK}" = {value}\n',
            f"\ufeff{key} = {value}\n",
            f"{key} = {value}\r{key} = 2\n",
        )
    )
    copy = folder / "in" / "exercises" / sheet.parent.parent.name / sheet.parent.name
    copy.mkdir(parents=True)
    place = copy / sheet.name
    coding = rng.choice(("utf-8", "utf-8", "utf-8", "utf-16", "utf-32"))
    _put(rng, place, lines.encode(coding))
    short = f"{sheet.parent.parent.name}-{sheet.parent.name.partition('_')[0]}"
    words = [
        "exercises",
        short,
        "--answers",
        str(folder / "in"),
        *rng.choice(([], ["--grades", "{out}/g.json"])),
    ]
    return Asked(words)


def formats_root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[2]


def records(rng: random.Random, folder: Path) -> Asked:
    """A learner's predictions and signed grades that somebody wrote by hand."""
    if rng.random() < 0.5:
        one = {"id": "p", "page": "p", "title": "t", "question": "q", "predicted": 1.0, "sure_percent": 50}
        one |= {
            "at": "2026-01-01T00:00:00+00:00",
            "measured": 2.0,
            "unit": "ms",
            "machine": "m",
            "right": False,
        }
        one |= {"predicted_by_measured": 0.5, "score": None}
        document: Any = {"kind": "labcode-predictions", "schema": 1, "predictions": [one, dict(one)]}
        for _ in range(rng.choice((1, 3))):
            place = document["predictions"][0]
            place[rng.choice(list(place))] = rng.choice((weird(rng), 10**400, [1e308, -1e308], [10**400] * 2))
        path = folder / "in" / "p.json"
        _put(rng, path, as_json(rng, document))
        return Asked(["exercises", "--with", str(path)])
    secret = folder / "home" / "key"
    secret.write_bytes(rng.choice((b"k" * 32, b"k" * 32, b"k" * 32, b"short", b"\xff" * 40)))
    part = {"id": "nsys-ex01-x:a", "title": rng.choice(TEXTS), "worth": 1.0, "status": "passed"}
    part |= {"headline": rng.choice(TEXTS), "details": [rng.choice(TEXTS)], "sha256": ""}
    part[rng.choice(list(part))] = weird(rng) if rng.random() < 0.5 else rng.choice(TEXTS)
    about = {"schema": "labcode.grades", "version": 1, "labcode": rng.choice(TEXTS), "captures": "h200"}
    document = {**about, "graded": rng.choice((*TEXTS, "2026-01-01T00:00:00+00:00")), "parts": [part]}
    text_of = as_json(rng, document)
    with suppress(Exception):  # grades that are none are refused before their signature is looked at
        made = msgspec.json.decode(text_of, type=grading.Grades)
        signed = msgspec.structs.replace(made, signature=grading._signature(made, secret.read_bytes()))
        text_of = msgspec.json.encode(signed)
    for name in ("anna", rng.choice(("bo", "\u202ebo", f"<b>{MARK}", "\x1b[31mx"))):
        (folder / "in" / f"{name}.json").write_bytes(text_of)
    _put(rng, folder / "in" / "carl.json", text_of)
    named = rng.choice(
        (folder / "in", folder / "in" / "anna.json", folder / "in" / "carl.json", folder / "out")
    )
    said = [
        "course",
        "results",
        str(named),
        "-o",
        "{out}/a.html",
        f"--title={rng.choice(TEXTS)}".partition("{")[0],
    ]
    said[-1] = said[-1].replace("\0", "").replace("}", "")
    return Asked(said, environment={grading.KEY_VARIABLE: str(secret)})


def _put(rng: random.Random, path: Path, data: bytes) -> None:
    """A file, or now and then what is none."""
    what = rng.randrange(10)
    if what == 0:
        os.mkfifo(path)
    elif what == 1:
        path.symlink_to(rng.choice(("/dev/zero", "/proc/self/mem", path.name, "nowhere")))
    elif what == 2:
        path.mkdir()
    else:
        path.write_bytes(data)


# ---- packed


def _dictionary(data: bytes, bits: int) -> bytes:
    """An .xz that says it needs a dictionary of so many bits, whatever it holds."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 16}]
    packed = bytearray(lzma.compress(data, filters=filters))
    size = (packed[12] + 1) * 4
    at = packed.index(b"\x21\x01", 12, 12 + size) + 2
    packed[at] = bits
    packed[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(packed[12 : 12 + size - 4]))
    return bytes(packed)


def packed(rng: random.Random, folder: Path) -> Asked:
    """Packed twice, in several streams, by another packer, with a dictionary of 4 GiB or a long name."""
    if rng.random() < 0.5:
        plain, name = _export(rng, folder / "home").read_bytes(), "run.sqlite"
    else:
        plain, name = formats._trace().encode(), "run.trace.json"
    end = rng.choice((".xz", ".xz", ".gz")) if name != "run.sqlite" else ".xz"
    pack = lzma.compress if end == ".xz" else gzip.compress
    half = len(plain) // 2
    head = gzip.compress(plain)
    data = rng.choice(
        (
            lambda: pack(pack(plain)),
            lambda: pack(plain[:half]) + pack(plain[half:]),
            lambda: b"".join(pack(plain[at : at + 500]) for at in range(0, min(len(plain), 100_000), 500)),
            lambda: pack(plain[:half]) + bytes(4096) + pack(plain[half:]),
            lambda: pack(b"") * 5_000 + pack(plain),
            lambda: pack(plain) + bytes(1 << 20),
            lambda: _dictionary(plain, rng.choice((30, 36, 38, 39, 40))),
            lambda: lzma.compress(plain, lzma.FORMAT_ALONE),
            lambda: lzma.compress(plain, check=lzma.CHECK_NONE),
            lambda: bz2.compress(plain),
            lambda: zlib.compress(plain),
            lambda: head[:3] + b"\x08" + head[4:10] + b"n" * 5_000_000 + b"\0" + head[10:],
            lambda: head[:-8] + struct.pack("<II", 0, 0),
            lambda: gzip.compress(plain) if end == ".xz" else lzma.compress(plain),
            lambda: pack(lzma.compress(bytes(50 << 20), preset=0)),
        )
    )()
    path = folder / "in" / (name + end)
    path.write_bytes(data)
    return _asked(rng, path)


def tar(rng: random.Random, folder: Path) -> Asked:
    """Archives of captures with what tar knows beside files, and with too much of it."""
    record = json.dumps({"results": {"a": 1}, "program": "p"}).encode()
    held = make_set(folder / "home" / "mine", {"one": {"r": {"r.json": record}}})
    manifest = (held / "manifest.json").read_bytes()
    made = io.BytesIO()
    kind = rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    what = rng.randrange(14)
    with tarfile.open(fileobj=made, mode="w", format=kind) as out:

        def add(name: str, data: bytes = b"", **others: Any) -> None:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in others.items():
                setattr(info, key, value)
            with suppress(ValueError):
                out.addfile(info, io.BytesIO(data) if data else None)

        add("manifest.json", manifest)
        if what == 0:
            for number in range(20_000):
                add(f"one/{number}")
        elif what == 1:
            add("one", type=tarfile.SYMTYPE, linkname=rng.choice(("..", "/tmp", "../../in")))
        elif what == 2:
            add("one/r.json", type=tarfile.LNKTYPE, linkname=rng.choice(("manifest.json", "/etc/passwd")))
        elif what == 3:
            add("one/r.json", type=rng.choice((tarfile.CHRTYPE, tarfile.BLKTYPE)), devmajor=1, devminor=5)
        elif what == 4:
            size = str(rng.choice((10**18, -5, 10**30)))
            add("one/r.json", record, pax_headers={"size": size})
        elif what == 5:
            sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 50)}
            add("one/r.json", b"1\n0\n0\n".ljust(512, b"\0"), pax_headers=sparse)
        elif what == 6:
            ordered = {"GNU.sparse.map": "0,1," * 50_000 + "9,9", "GNU.sparse.size": "9999999999"}
            add("one/r.json", record, pax_headers=ordered)
        elif what == 7:
            add(
                rng.choice(("ONE/r.json", "one/./r.json", "one//r.json", "./one/r.json", "one\\r.json")),
                record,
            )
        elif what == 8:
            add("a/" * 5_000 + "r.json", record)
        elif what == 9:
            add("one/r.json", record, mode=0o7777, uid=0, mtime=rng.choice((-1, 1 << 40, 0)))
            add("one/r.json", record[:-1] + b" }")
        elif what == 10:
            add("manifest.json", rng.choice((manifest, b"{}")))
        elif what == 11:
            add("one/r.json", record, pax_headers={f"{MARK}{k}": "x" * 1000 for k in range(3_000)})
        if what not in (2, 3, 4, 5, 6, 9):
            add("one/r.json", record)
    data = made.getvalue()
    if what == 12:
        data = rng.choice((gzip.compress(data), lzma.compress(data), data + data, data[:-10240], data[512:]))
    elif what == 13:
        data = lzma.compress(bytes(300 << 20), preset=0)
    path = folder / "in" / "a.tar"
    path.write_bytes(data)
    (folder / "out" / "sets").mkdir()

    def after(place: Path, _: int) -> str:
        left = [str(one) for one in (place / "out").rglob("*") if one.is_symlink()]
        return f"links were unpacked: {left[:3]}" if left else ""

    words = ["captures", "add", str(path), *rng.choice(([], ["--review"]))]
    return Asked(words, environment={"LABCODE_SETS": str(folder / "out" / "sets")}, after=after)


# ---- folders and names


def folders(rng: random.Random, folder: Path) -> Asked:
    """A run's folder in which pipes, sockets, circles and files of a bad disk lie beside the ranks."""
    run = folder / "in" / "run"
    run.mkdir()
    for number in range(2):
        ranks.rank(run, number)
    for rank in (2, 3):
        name = run / f"run.rank{rank}{rng.choice(('.sqlite', '.trace.json', '.sqlite.xz', ''))}"
        what = rng.randrange(9)
        if what == 0:
            os.mkfifo(name)
        elif what == 1:
            os.chdir(run)
            with closing(socket.socket(socket.AF_UNIX)) as listening:
                listening.bind(name.name)
            os.chdir(folder)
        elif what == 2:
            name.symlink_to(rng.choice((name.name, ".", "..", "../run", "run.rank0.sqlite")))
        elif what == 3:
            name.symlink_to(
                rng.choice(("/proc/self/mem", "/dev/full", "/dev/zero", "/dev/stdin", "/proc/kmsg"))
            )
        elif what == 4:
            deep = name
            for _ in range(200):
                deep = deep / "d"
            deep.mkdir(parents=True)
        elif what == 5:
            name.write_bytes(b"")
            name.chmod(0)
        elif what == 6:
            name.hardlink_to(run / "run.rank0.sqlite")
        elif what == 7:
            (
                run
                / os.fsdecode(
                    rng.choice((b"run.rank7\xff.sqlite", b"run.rank7\n.sqlite", b"run.rank\xd9\xa3.sqlite"))
                )
            ).hardlink_to(run / "run.rank0.sqlite")
        else:
            (run / f"run.rank{rng.choice(('-1', '1e9', '9' * 200, '00', '٣'))}.sqlite").hardlink_to(
                run / "run.rank0.sqlite"
            )
    words = rng.choice(
        (
            ["stats", str(run), "--all"],
            ["diagnose", str(run)],
            ["report", str(run), "-f", "md"],
            ["timeline", str(run), "-o", "{out}/a.svg"],
            ["compare", str(run), str(run)],
            ["scrub", str(run)],
        )
    )
    here = [] if words[0] in ("report", "scrub") else ["--scheduler", "here"]
    return Asked([*words, *here], markdown="md" in words)


NAMES = (
    *(f"\x1b[31m{MARK}", f"\x1b]8;;https://{MARK}.example\x1b\\{MARK}\x1b]8;;\x1b\\", f"{MARK}\u202egnp"),
    *(
        "run?mode=memory&x=",
        "run#a",
        "a%00b",
        "a%2f..%2f",
        "a;DROP TABLE StringIds",
        "a'b",
        'a"b',
        "a`b`",
        "$(id)",
    ),
    *(
        "{out}",
        "{0}",
        "%s%n",
        "-f",
        "--all",
        "-",
        "~root",
        "*",
        "?",
        "[a]",
        " a ",
        "a\tb",
        "a\nb",
        "nul",
        ":memory:",
    ),
    *(
        "file:x",
        "https:",
        "h200:timeline_basics",
        "a@b",
        "..a",
        ".",
        "a\u0301",
        "\U0001f600",
        "\ud800"[:0] + "é" * 100,
    ),
)


def names(rng: random.Random, folder: Path) -> Asked:
    """Files and folders whose names are addresses, options, patterns, or steer a terminal."""
    name = rng.choice(NAMES).replace("/", "_")
    place = folder / "in"
    if rng.random() < 0.4:
        place = place / rng.choice([one for one in NAMES if one != "."])
        place.mkdir(parents=True)
    made = rng.choice(
        (
            lambda: _export(rng, place, f"{name}.sqlite"),
            lambda: formats.traces.training(place, steps=1, layers=1)[0].rename(place / f"{name}.trace.json"),
            lambda: formats.power_log(rng, place).rename(place / f"{name}.power.json"),
        )
    )()
    path: Path | str = made
    if rng.random() < 0.5:
        os.chdir(place)
        path = made.name
    return _asked(rng, path)


def sets(rng: random.Random, folder: Path) -> Asked:
    """A capture set in which a record is a pipe, a link to what never ends, or a folder."""
    home = folder / "home" / "sets"
    home.mkdir()
    record = json.dumps({"results": {"a": 1}, "program": "p"}).encode()
    held = make_set(
        home / "mine", {"one": {"r": {"r.json": record, "s.sqlite": b"x"}}, "two": {"r": {"r.json": record}}}
    )
    place = rng.choice(("one/r.json", "one/s.sqlite", "manifest.json", "claims.json", "one"))
    target = held / place
    if place == "one":
        (held / "one").rename(held / "moved")
    else:
        target.unlink(missing_ok=True)
    what = rng.randrange(5)
    if what == 0:
        os.mkfifo(target)
    elif what <= 2:
        target.symlink_to(
            rng.choice(("/dev/zero", "/proc/self/mem", target.name, "..", "/etc/passwd", "nowhere", "moved"))
        )
    elif what == 3:
        target.mkdir()
    else:
        target.write_bytes(b"\xff\xfe")
    words = rng.choice(
        (
            ["captures", "list"],
            ["captures", "verify", "mine"],
            ["captures", "verify"],
            ["captures", "plan", "mine"],
            ["captures", "compare", "mine", "mine"],
            ["captures", "thin", "mine", "--archive", "{out}/a.tar"],
            ["captures", "restamp", "mine"],
            ["captures", "prune", "mine", "--archive", "{out}/a.tar"],
            ["captures", "export", "mine", "--archive", "{out}/a.tar"],
            ["captures", "pack", "mine", "--archive", "{out}/a.tar"],
            ["captures", "merge", "both", "mine"],
        )
    )
    return Asked(words, environment={"LABCODE_SETS": str(home)})


# ---- what changes while it is read


def changing(rng: random.Random, folder: Path) -> Asked:
    """A file that another program replaces, cuts off or lets grow all the time that a command reads it."""
    place = folder / "home"  # what lies there may change
    made, other = rng.choice(
        (
            lambda: (_export(rng, place), _export(rng, place, "other.sqlite")),
            lambda: (
                formats.traces.training(place, steps=2, layers=1)[0].rename(place / "run.trace.json"),
                Path(__file__),
            ),
            lambda: (_copied(golden.path("few.ncu-rep"), place / "run.ncu-rep"), Path(__file__)),
            lambda: (_xz(_export(rng, place)), Path(__file__)),
        )
    )()
    whole, others = made.read_bytes(), other.read_bytes()
    what = rng.randrange(4)

    def change() -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with suppress(OSError):
                if what == 0:
                    spare = place / "spare"
                    spare.write_bytes(rng.choice((whole, others)))
                    spare.replace(made)
                elif what == 1:
                    os.truncate(made, rng.choice((0, 100, 4096, len(whole) // 2)))
                    made.write_bytes(whole)
                elif what == 2:
                    with made.open("ab") as out:
                        out.write(bytes(4096))
                    os.truncate(made, len(whole))
                else:
                    made.unlink()
                    made.write_bytes(whole)
            time.sleep(rng.choice((0.0, 0.001, 0.01)))

    threading.Thread(target=change, daemon=True).start()
    words = rng.choice([one for one in COMMANDS if "scrub" not in one])
    said = [str(made) if word == "FILE" else word for word in words]
    return Asked(said, markdown="md" in said)


def _copied(source: Path, target: Path) -> Path:
    target.write_bytes(source.read_bytes())
    return target


def _xz(path: Path) -> Path:
    made = path.with_name(path.name + ".xz")
    made.write_bytes(lzma.compress(path.read_bytes(), preset=0))
    return made


# ---- words


def words(rng: random.Random, folder: Path) -> Asked:
    """Options with values of 10 MB, a hundred thousand words, and words that no terminal has to see."""
    path = str(_export(rng, folder / "in"))
    long = rng.choice(
        (
            MARK * 3_500_000,
            "1" * 10_000_000,
            "a," * 5_000_000,
            "(" * 10_000_000,
            "\x1b[31m" * 99,
            "é" * 5_000_000,
        )
    )
    said = rng.choice(
        (
            ["stats", path, f"--report={long}"],
            ["stats", path, f"--window={long}"],
            ["stats", long],
            ["stats", *[path] * 3_000, "-f", long],
            ["stats", path, f"--kernel={long}"],
            ["stats", path, f"--with={long}"],
            ["diagnose", path, f"--only={long}"],
            ["diagnose", path, f"--rules={long}"],
            ["report", path, f"--title={long}", "-f", "md"],
            ["report", path, f"--title={long}", "-o", "{out}/a.html"],
            ["compare", path, path, f"--gate={long}"],
            ["compare", path, path, f"--column=a={long}"],
            ["scrub", path, "--also", long[:131_000]],  # no longer word reaches a program by its command line
            ["flame", path, "-o", "{out}/a.svg", f"--thread={long}"],
            ["timeline", path, "-o", "{out}/" + long],
            ["export", path, "-o", "{out}", f"--table={long}"],
            [f"--limit={long}", "stats", path],
            [long],
            ["--" + long],
            ["exercises", *["nsys-ex01"] * 100_000, long],
            ["captures", "verify", long],
            ["grades", long],
            ["new", "page", long],
            ["completion", long],
            ["energy", f"--period={long}", "--", "true"],
            ["profile", "--dry-run", f"--range={long}", "true"],
        )
    )
    return Asked(said)


# ---- machines


def _run(place: Path, words: list[str], environment: Mapping[str, str | None], shell: str, cwd: str) -> str:
    """``labcode`` in a process of its own, started by a line of shell; what is wrong with its end."""
    own = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(formats_root()), os.environ.get("PYTHONPATH")))),
        **{k: v for k, v in environment.items() if v is not None},
    }
    for key, value in environment.items():
        if value is None:
            own.pop(key, None)
    began = sum(os.times()[:4])
    ended = subprocess.run(
        ["/bin/sh", "-c", shell, "sh", sys.executable, "-m", "labcode", *words],
        cwd=cwd or place,
        env=own,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=300,
    )
    took = sum(os.times()[:4]) - began
    said = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    if "Traceback" in said or "Exception ignored" in said or "Fatal Python error" in said:
        return f"{words} {environment} {shell}: {said[-900:]}"
    if ended.returncode not in (0, 1, 2, 74, 120, 141):
        return f"{words} {environment} {shell}: ended with {ended.returncode}: {said[-300:]}"
    if steers := STEERS.search(ended.stderr.decode("utf-8", "replace")):
        return f"{words} {environment}: {steers[0]!r} on a terminal"
    return f"{words} {environment} {shell}: {took:.0f} s" if took > 10 else ""


def machine(rng: random.Random, folder: Path) -> Asked:
    """Odd terminals, languages and environments, closed streams, modules named like Python's."""
    path = _export(rng, folder / "in")
    shade = folder / "home" / "shade"
    shade.mkdir()
    for module in ("json", "random", "types", "numpy", "typing", "sqlite3"):
        (shade / f"{module}.py").write_text("raise SystemExit('a module of this folder ran')\n")
    (folder / "home" / "file").write_text("x")
    environment: dict[str, str | None] = rng.choice(
        (
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
            {"LC_ALL": "tr_TR.UTF-8", "LANG": "xx"},
            {"PYTHONIOENCODING": "utf-16"},
            {"PYTHONIOENCODING": "latin-1:strict"},
            {"TERM": None, "COLUMNS": None},
            {"TERM": f"\x1b[31m{MARK}"},
            {"TERM": "xterm-kitty", "COLUMNS": "1", "LINES": "1", "NO_COLOR": None, "FORCE_COLOR": "1"},
            {"COLUMNS": "-5"},
            {"COLUMNS": "100000000"},
            {"COLUMNS": "x" * 9},
            {"HOME": None, "LABCODE_CACHE": None, "XDG_CACHE_HOME": None, "USER": None, "LOGNAME": None},
            {"HOME": "/nowhere", "LABCODE_CACHE": None},
            {"HOME": "", "LABCODE_CACHE": None, "XDG_CACHE_HOME": "relative"},
            {"HOME": "/dev/null", "LABCODE_CACHE": None},
            {"TMPDIR": "/nowhere"},
            {"TMPDIR": "{home}/file"},
            {"TMPDIR": ""},
            {"TMPDIR": "/proc"},
            {"LABCODE_CACHE": "/proc/x"},
            {"LABCODE_CACHE": "{home}/file"},
            {"LABCODE_SETS": "{home}/file"},
            {"LABCODE_SETS": "/dev/zero"},
            {"LABCODE_CAPTURES": "../../x"},
            {"LABCODE_LIMIT": "nan"},
            {"LABCODE_LIMIT": "-1"},
            {"LABCODE_LIMIT": "1e999"},
            {"LABCODE_HOME": "/proc/self"},
            {"LABCODE_NSYS": "{home}/file", "LABCODE_NCU": "/dev/null"},
            {"PATH": ""},
            {"PATH": None},
            {"TZ": f"{MARK}/../../etc/passwd"},
            {"SOURCE_DATE_EPOCH": "-1"},
            {"SOURCE_DATE_EPOCH": "x"},
            {"PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error::DeprecationWarning:labcode"},
            {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "ignore"},
            {"PYTHONHASHSEED": "1", "PYTHONSAFEPATH": None},
            {"MPLBACKEND": "nothing", "MPLCONFIGDIR": "/proc/x"},
            {"OPENBLAS_NUM_THREADS": "-3", "OMP_NUM_THREADS": "x"},
            {"CUDA_VISIBLE_DEVICES": f"\x1b[31m{MARK}"},
            {"BROWSER": "false", "PAGER": "false", "EDITOR": "false"},
        )
    )
    environment = {k: v.replace("{home}", str(folder / "home")) if v else v for k, v in environment.items()}
    plain = 'exec "$@"'
    shell = rng.choice(
        (
            *((plain,) * 6),
            *(f"{plain} {closed}" for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-")),
            *(f"{plain} {full}" for full in (">/dev/full", "2>/dev/full", ">/dev/full 2>&1")),
            *(f"ulimit {most}; {plain}" for most in ("-n 16", "-u 1", "-s 256")),
            *(f"umask 777; {plain}", f"trap '' PIPE HUP TERM INT; {plain}", '"$@" | head -c 1'),
            f"mkdir gone; cd gone; rmdir ../gone; {plain}",
        )
    )
    cwd = rng.choice(("", "", "", str(shade)))
    said = rng.choice(
        (
            ["stats", str(path), "--all"],
            ["diagnose", str(path)],
            ["report", str(path), "-f", "md"],
            ["report", str(path), "-o", str(folder / "home" / "a.html")],
            ["timeline", str(path), "-o", str(folder / "home" / "a.svg")],
            ["doctor"],
            ["captures", "list"],
            ["--help"],
            ["--version"],
            ["exercises", "nsys"],
            ["nothing"],
            ["scrub", str(path), "-o", str(folder / "home" / "b.sqlite")],
        )
    )
    if cwd:  # where `python -m` looks first, and `labcode` does not
        environment["PYTHONSAFEPATH"] = "1"

    def after(place: Path, _: int) -> str:
        return _run(place / "home", said, environment, shell, cwd)

    return Asked(["--version"], after=after)


def clock(rng: random.Random, folder: Path) -> Asked:
    """A clock in 1970, 2040 or the year 8,941, and files from before and after all time."""
    import datetime as dates

    now = rng.choice((0.0, -86400.0, 2.2e9, 4.2e9, 2.2e11))
    path = _export(rng, folder / "in")
    stamp = rng.choice((0, -(1 << 31), 1 << 32, 1 << 34))
    with suppress(OSError, OverflowError):
        os.utime(path, (stamp, stamp))
    began = time.time()

    class Odd(dates.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Odd:
            return cls.fromtimestamp(now, tz)

        @classmethod
        def utcnow(cls) -> Odd:
            return cls.fromtimestamp(now, dates.UTC).replace(tzinfo=None)

    own = time.time
    time.time = lambda: now + own() - began  # this process is the case's own
    for name, module in list(sys.modules.items()):
        if name.startswith("labcode"):
            for key, value in list(vars(module).items()):
                if value is dates.datetime:
                    setattr(module, key, Odd)
    home = folder / "home" / "sets"
    home.mkdir()
    record = json.dumps({"results": {"a": 1}, "program": "p"}).encode()
    make_set(home / "mine", {"one": {"r": {"r.json": record}}})
    if rng.random() < 0.5:
        return _asked(rng, path)
    said = rng.choice(
        (
            ["captures", "pack", "mine", "--archive", "{out}/a.tar"],
            ["captures", "list"],
            ["captures", "plan", "mine"],
            ["captures", "export", "mine", "--archive", "{out}/a.tar"],
            ["report", str(path), "-o", "{out}/a.json"],
            ["kit", "--python", "x", "-o", "{out}/k.tar"],
            ["exercises", "nsys-ex01", "--grades", "{out}/g.json"],
        )
    )
    return Asked(said, environment={"LABCODE_SETS": str(home)})


KINDS: Mapping[str, Make] = {
    "schema": schema,
    "journal": journal,
    "types": types,
    "deep": deep,
    "text": text,
    "toml": toml,
    "records": records,
    "packed": packed,
    "tar": tar,
    "folders": folders,
    "names": names,
    "sets": sets,
    "changing": changing,
    "words": words,
    "machine": machine,
    "clock": clock,
}
