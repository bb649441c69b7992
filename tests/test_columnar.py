"""Exports by columns: what comes back is what went in, and what is none is told in one line."""

import lzma
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from labcode import columnar
from labcode.capture.filing import file_export
from labcode.errors import InputError
from labcode.store import unpack_xz


def database(path: Path, rows: int = 3000, seed: int = 5) -> Path:
    """Times that rise, ends, names, holes, every type in one column, an empty table, an index."""
    draw, now = random.Random(seed), 10**18
    with closing(sqlite3.connect(path)) as db:
        db.execute('CREATE TABLE "a ""b" (start INTEGER, end INTEGER, name TEXT, part REAL, any)')
        db.execute("CREATE TABLE void (id INTEGER PRIMARY KEY, text TEXT)")
        db.execute("CREATE TABLE named (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        for row in range(rows):
            now += draw.randrange(1, 5000)
            some = [
                None,
                draw.randrange(-(2**63), 2**63),
                draw.random(),
                "ä\0b",
                bytes([draw.randrange(256)]),
            ]
            end = now + draw.randrange(900) if row % 7 else None
            db.execute(
                'INSERT INTO "a ""b" VALUES (?,?,?,?,?)', (now, end, f"k{row % 9}", row / 3, some[row % 5])
            )
        db.executemany("INSERT INTO named VALUES (?,?)", [(n * n, "x" * n) for n in range(40)])
        db.execute("CREATE INDEX quick ON named (text)")
        db.commit()
    return path


def held(path: Path) -> dict[str, Any]:
    """Everything that an SQLite file declares and holds, with its types."""
    with closing(sqlite3.connect(path)) as db:
        found: dict[str, Any] = {"": sorted(db.execute("SELECT type, name, sql FROM sqlite_master"))}
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
            rows = db.execute('SELECT * FROM "' + name.replace('"', '""') + '"').fetchall()
            found[name] = [[(type(value), value) for value in row] for row in rows]
        return found


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("columnar")
    columnar.pack(database(folder / "a.sqlite"), folder / "a.nsys.xz")
    return folder / "a.nsys.xz"


def test_comes_back_with_its_types(packed: Path, tmp_path: Path) -> None:
    unpack_xz(packed, tmp_path / "back.sqlite")
    assert held(tmp_path / "back.sqlite") == held(packed.with_name("a.sqlite"))
    columnar.pack(packed.with_name("a.sqlite"), tmp_path / "again.nsys.xz")
    assert (tmp_path / "again.nsys.xz").read_bytes() == packed.read_bytes()


def test_takes_less_than_the_rows(packed: Path) -> None:
    assert packed.stat().st_size < 0.8 * len(
        lzma.compress(packed.with_name("a.sqlite").read_bytes(), preset=9)
    )


def test_what_text_cannot_give_back_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as db:
        db.execute("CREATE TABLE a (text)")
        db.execute("INSERT INTO a VALUES (CAST(x'ff' AS TEXT))")
        db.commit()
    with pytest.raises((ValueError, sqlite3.OperationalError)):
        columnar.pack(tmp_path / "a.sqlite", tmp_path / "a.nsys.xz")


def test_such_an_export_is_filed_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as db:
        db.execute("CREATE TABLE a (text)")
        db.execute("INSERT INTO a VALUES (CAST(x'ff' AS TEXT))")
        db.commit()
    data = (tmp_path / "a.sqlite").read_bytes()
    filed = file_export(tmp_path / "a.sqlite")
    assert filed.name == "a.sqlite.xz" and lzma.decompress(filed.read_bytes()) == data
    assert [path.name for path in tmp_path.iterdir()] == ["a.sqlite.xz"]
    assert file_export(database(tmp_path / "b.sqlite")).name == "b.nsys.xz"


def altered(packed: Path, target: Path, change: Any) -> Path:
    target.write_bytes(lzma.compress(change(lzma.decompress(packed.read_bytes()))))
    return target


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[: len(columnar.MAGIC)],
        lambda data: data.replace(b'"rows":', b'"lines":', 1),
        lambda data: data.replace(b'"rows":', b'"rows":-', 1),
        lambda data: data.replace(b"CREATE TABLE void", b"CREATE VIEW void ", 1),
        lambda data: data.replace(b'"later":[', b'"later":["ATTACH \'x\' AS y",', 1),
        lambda data: data.replace(b'"later":[', b'"later":["DROP TABLE named",', 1),
        lambda data: data.replace(b'"way":[', b'"way":[1,77],"was":[', 1),
        lambda data: columnar.MAGIC + b"[]\n",
        lambda data: data + b"/home/me/secret",
        lambda data: data.replace(b'"rows":', b'"secret":"/home/me","rows":', 1),
        lambda data: (
            columnar.MAGIC + b'{"table":"a","sql":"SELECT 1","rows":1,"columns":[{"of":9}]}\n' + bytes(99)
        ),
        lambda data: columnar.MAGIC + b"1" * (2 << 20),
    ],
    ids=[
        "cut",
        "empty",
        "lacks",
        "negative",
        "view",
        "attach",
        "drop",
        "way",
        "list",
        "behind",
        "hidden",
        "code",
        "endless line",
    ],
)
def test_damage_is_told_in_one_line(packed: Path, tmp_path: Path, change: Any) -> None:
    target = tmp_path / "out.sqlite"
    with pytest.raises(InputError, match=r"cannot be unpacked \(.*\); fetch the file again$") as told:
        unpack_xz(altered(packed, tmp_path / "b.nsys.xz", change), target)
    assert "\n" not in str(told.value)
    assert not target.exists()


def test_every_byte_may_be_wrong(packed: Path, tmp_path: Path) -> None:
    whole, draw, told = lzma.decompress(packed.read_bytes()), random.Random(3), 0
    for _ in range(60):
        place = draw.randrange(len(columnar.MAGIC), len(whole))
        spoilt = whole[:place] + bytes([whole[place] ^ (1 << draw.randrange(8))]) + whole[place + 1 :]
        (tmp_path / "b.nsys.xz").write_bytes(lzma.compress(spoilt, preset=0))
        try:
            unpack_xz(tmp_path / "b.nsys.xz", tmp_path / "out.sqlite")
        except InputError:
            told += 1
    assert told > 0


def test_stops_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_LIMIT", "0.001")
    rows = 1 << 21
    head = b'{"table":"a","sql":"CREATE TABLE a (b)","rows":%d,"columns":[{"of":1,"way":[0,-1]}]}\n' % rows
    (tmp_path / "a.nsys.xz").write_bytes(lzma.compress(columnar.MAGIC + head + bytes(8 * rows)))
    with pytest.raises(InputError, match=r"unpacks to more than 0\.001 GiB"):
        unpack_xz(tmp_path / "a.nsys.xz", tmp_path / "out.sqlite")
    assert not (tmp_path / "out.sqlite").exists()
