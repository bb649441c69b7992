"""Columns read from the pages of a file: the same as SQLite reads, or a refusal, whatever is in it."""

import random
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.errors import InputError
from labcode.reports.nsys import open as nsys_open
from labcode.reports.nsys import pages as nsys_pages
from labcode.reports.nsys import sqlite as nsys_sqlite
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.pages import DamagedPagesError, PageFile, UnusualLayoutError
from labcode.reports.nsys.report import open_report
from labcode.reports.nsys.source import Source
from labcode.reports.nsys.sqlite import connect, parse_condition, read_columns, text_codes
from tests.support import exports as e

Table = dict[str, list[object]]
NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([0, 1, -1, 127, 128, -128, -129, 1 << 15, 1 << 23, 1 << 31, 1 << 47, (1 << 63) - 1]),
    st.integers(-(1 << 63) + 1, (1 << 63) - 1),
)
TEXTS = st.one_of(st.none(), st.text(max_size=5), st.integers(50, 140).map("x".__mul__))


@pytest.fixture
def through_sqlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The tables that SQLite itself had to read."""
    read: list[str] = []
    original = nsys_sqlite._through_sqlite

    def noted(connection: sqlite3.Connection, table: str, *more: object) -> object:
        read.append(table)
        return original(connection, table, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(nsys_sqlite, "_through_sqlite", noted)
    return read


def make(
    path: Path,
    rows: Sequence[tuple[object, ...]],
    declared: str = "a INTEGER, b INTEGER",
    page_size: int = 4096,
    more: Sequence[str] = (),
) -> Path:
    """A file with a table t of these rows."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA page_size = {page_size}")
        db.execute(f"CREATE TABLE t ({declared})")
        if rows:
            db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
        for statement in more:
            db.execute(statement)
    return path


def read(path: Path, columns: Sequence[str] = "ab", texts: Sequence[str] = (), where: str = "") -> Table:
    """What `read_columns` finds."""
    with closing(connect(path)) as connection:
        ints, codes = read_columns(path, connection, "t", columns, texts, where)
    found: Table = {}
    for name, column in ints.items():
        assert column.values.dtype == np.int64
        found[name] = [v if p else None for v, p in zip(column.values.tolist(), column.there(), strict=True)]
    for name, (code, distinct) in codes.items():
        assert len(set(distinct)) == len(distinct)
        found[name] = [distinct[c] if c >= 0 else None for c in code.tolist()]
    return found


def expected(path: Path, columns: Sequence[str] = "ab", where: str = "") -> Table:
    """What Python's sqlite3 finds."""
    query = f"SELECT {', '.join(columns)} FROM t {'WHERE' if where else ''} {where} ORDER BY rowid"
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(query).fetchall()
    return {name: [row[place] for row in rows] for place, name in enumerate(columns)}


@given(
    rows=st.lists(st.tuples(NUMBERS, TEXTS, st.floats(allow_nan=False), NUMBERS), max_size=60),
    page_size=st.sampled_from([512, 1024, 4096, 65536]),
)
def test_the_same_as_sqlite(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]], page_size: int
) -> None:
    path = tmp_path_factory.mktemp("pages") / "a.sqlite"
    make(path, rows, "a INTEGER, text TEXT, real REAL, b INTEGER", page_size)
    assert read(path, ("a", "b", "rowid"), ("text",)) == expected(path, ("a", "b", "rowid", "text"))


@pytest.mark.parametrize("where", ["", "b = 1", "b <> 1", "b IN (0, 1)"])
def test_texts(tmp_path: Path, where: str, through_sqlite: list[str]) -> None:
    texts = ["", None, "x" * 300, "ünï, \n⚡", "a\0b", "x" * 57, "x" * 58, "x" * 300, "z" * 600]
    rows = [(i % 3 or None, text, i % 2) for i, text in enumerate(texts * 700)]
    path = make(tmp_path / "a.sqlite", rows, "a INTEGER, text TEXT, b INTEGER", 2048)
    assert read(path, "ab", ("text",), where) == expected(path, ("a", "b", "text"), where)
    assert not through_sqlite


@pytest.mark.parametrize("page_size", [512, 4096])
def test_many_pages_deleted_rows_and_numbers_below_0(
    tmp_path: Path, page_size: int, through_sqlite: list[str]
) -> None:
    rng = random.Random(1)
    rows = [(rng.randint(-300, 1 << rng.randint(1, 62)), "t" * rng.randint(0, 190), i) for i in range(30_000)]
    changes = (
        "DELETE FROM t WHERE a % 3 = 0",
        "DELETE FROM t WHERE b BETWEEN 5000 AND 12000",
        "UPDATE t SET rowid = rowid - 20000",
        "UPDATE t SET a = 7 WHERE b % 5 = 0",
    )
    path = make(tmp_path / "a.sqlite", rows, "a INTEGER, text TEXT, b INTEGER", page_size, changes)
    wanted = expected(path, ("a", "b", "rowid"))
    assert read(path, ("a", "b", "rowid")) == wanted
    assert len(wanted["a"]) > 10_000 and wanted["rowid"][0] < 0  # type: ignore[operator]
    assert not through_sqlite


@pytest.mark.parametrize("where", ["a IN (1, 2)", "a = 3", "a <> 75", "b IN (4)"])
def test_conditions(tmp_path: Path, where: str, through_sqlite: list[str]) -> None:
    path = make(tmp_path / "a.sqlite", [(i % 5 or None, i) for i in range(2000)])
    assert read(path, where=where) == expected(path, where=where)
    assert not through_sqlite


@pytest.mark.parametrize("where", ["a > 3", "a = 1 OR 1", "(a = 1)", "a IN (SELECT 1)", "a IS NOT NULL"])
def test_other_conditions_are_for_sqlite(tmp_path: Path, where: str, through_sqlite: list[str]) -> None:
    path = make(tmp_path / "a.sqlite", [(i % 5 or None, i) for i in range(20)])
    assert read(path, where=where) == expected(path, where=where)
    assert through_sqlite == ["t"]


def test_a_list_for_one_number_is_no_condition() -> None:
    with pytest.raises(UnusualLayoutError):
        parse_condition("a = 1, 2")


@pytest.mark.parametrize(
    ("declared", "rows", "more"),
    [
        ("text TEXT, a INTEGER, b INTEGER", [("x" * 9000, 1, None)] * 3, ()),
        ("a INTEGER PRIMARY KEY, b INTEGER", [(5, 2), (3, None)], ()),
        ("a INTEGER", [(1,)], ("ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 5",)),
        ("a INTEGER, b INTEGER, c GENERATED ALWAYS AS (a)", [], ("INSERT INTO t (a, b) VALUES (1, 2)",)),
        ("a, b NUMERIC", [(1, 2)], ()),
        (", ".join(f"c{i} INTEGER" for i in range(150)) + ", a INTEGER, b INTEGER", [(1,) * 152], ()),
    ],
    ids=["overflow", "alias of the row number", "added later", "computed", "no type", "long header"],
)
def test_what_only_sqlite_can_read(
    tmp_path: Path,
    declared: str,
    rows: list[tuple[object, ...]],
    more: Sequence[str],
    through_sqlite: list[str],
) -> None:
    path = make(tmp_path / "a.sqlite", rows, declared, more=more)
    assert read(path) == expected(path)
    assert through_sqlite == ["t"]


@pytest.mark.parametrize(
    ("declared", "value"), [("TEXT", "x'6162'"), ("TEXT", "x'" + "61" * 70 + "'"), ("BLOB", "5")]
)
def test_texts_that_are_none_are_for_sqlite(
    tmp_path: Path, declared: str, value: str, through_sqlite: list[str]
) -> None:
    changes = [f"INSERT INTO t VALUES (1, {value}, 2)", f"INSERT INTO t VALUES (1, '{'x' * 99}', 2)"]
    path = make(tmp_path / "a.sqlite", [(1, "x", 2)], f"a INTEGER, text {declared}, b INTEGER", more=changes)
    found = read(path, "a", ("text",))["text"]
    assert found == [str(text) for text in expected(path, ("text",))["text"]]
    assert through_sqlite == ["t"]


def test_texts_of_another_encoding_are_for_sqlite(tmp_path: Path, through_sqlite: list[str]) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA encoding = 'UTF-16'")
        db.execute("CREATE TABLE t (a INTEGER, text TEXT)")
        db.execute("INSERT INTO t VALUES (1, 'ü')")
    assert read(path, "a", ("text",)) == {"a": [1], "text": ["ü"]}
    assert through_sqlite == ["t"]


def test_a_table_without_row_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER) WITHOUT ROWID")
        db.execute("INSERT INTO t VALUES (1, 2)")
    with pytest.raises(sqlite3.Error, match="rowid"):
        read(path)


@pytest.mark.parametrize("declared", ["a INTEGER", "a"])
@pytest.mark.parametrize("value", ["'text'", "1.5", "x'00'"])
def test_something_else_than_integers(tmp_path: Path, declared: str, value: str) -> None:
    path = make(tmp_path / "a.sqlite", [(1,)] * 9, declared, more=[f"INSERT INTO t VALUES ({value})"])
    with pytest.raises(InputError, match="table t, column a: holds something else than integers"):
        read(path, "a")


@pytest.mark.parametrize(("declared", "value"), [("a INTEGER", "x"), ("a", 1)])
def test_the_check_comes_before_what_the_pages_do_not_tell(
    tmp_path: Path, declared: str, value: object
) -> None:
    def check() -> None:
        raise InputError("damaged")

    path = make(tmp_path / "a.sqlite", [(value,)], declared)
    with closing(connect(path)) as connection, pytest.raises(InputError, match=r"^damaged$"):
        read_columns(path, connection, "t", "a", check=check)


@pytest.mark.parametrize("root", [0, 10_000])
def test_a_table_that_begins_nowhere(tmp_path: Path, root: int) -> None:
    file = PageFile(make(tmp_path / "a.sqlite", [(1, 2)]))
    with pytest.raises(DamagedPagesError, match="beyond the end"):
        list(file.read(root, [0]))
    file.close()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN more INTEGER DEFAULT 5",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN more INTEGER GENERATED ALWAYS AS (start)",
    ],
)
def test_a_report_reads_them_all_the_same(tmp_path: Path, change: str) -> None:
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(3, 9)], extra_sql=[change])
    assert open_report(path).kernels()[["start_ns", "end_ns"]].values.tolist() == [[3, 9]]


def test_the_readers_tables_are_read_from_the_pages(tmp_path: Path, through_sqlite: list[str]) -> None:
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(3, 9)], nvtx=[e.push_pop(0, 1)])
    source = Source(open_export(path))
    assert source.ints("CUPTI_ACTIVITY_KIND_KERNEL", ("duration",))["duration"].values.tolist() == [6]
    assert source.ints("NVTX_EVENTS", ("start",), "eventType IN (59, 60)")["start"].values.tolist() == [0]
    assert source.texts("NVTX_EVENTS", "text")[0].tolist() == [0]
    source.close()
    assert not through_sqlite


def test_a_duration_beyond_64_bits(tmp_path: Path) -> None:
    high = (1 << 63) - 1
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(-5, high)])
    source = Source(open_export(path))
    with pytest.raises(InputError, match=r"a\.sqlite: table .*KERNEL: an event lasts longer than 64 bits"):
        source.ints("CUPTI_ACTIVITY_KIND_KERNEL", ("duration",))
    source.close()


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_is_refused_or_harmless(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsys_open, "_CHECK_WHOLE_BELOW", 0)
    rng = random.Random(seed)
    path = tmp_path / "a.sqlite"
    rows = [e.kernel(i * 100, i * 100 + 50, f"k{i % 9}", correlation=i) for i in range(800)]
    whole = e.make_export(path, kernels=rows).read_bytes()
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 3, 40))):
            data[rng.randrange(100, len(data))] = rng.choice((0, 1, 5, 13, 127, 128, 255, rng.randrange(256)))
        path.write_bytes(data)
        try:
            with open_report(path) as report:
                report.kernels()
        except InputError as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
            assert str(error).count(str(path)) == 1
            refused += 1
    assert refused > 20


def test_a_tree_with_a_cycle(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", [(i, i) for i in range(5000)], page_size=512)
    with closing(sqlite3.connect(path)) as db:
        page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'").fetchone()[0]
    data = bytearray(path.read_bytes())
    root = (page - 1) * 512
    data[root + 8 : root + 12] = page.to_bytes(4, "big")  # its last child is itself
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"damaged \(t: a page .*export or copy it again"):
        read(path)


def test_no_value_where_there_must_be_one(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", [(None, 1)])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = 'CREATE TABLE t (a INTEGER NOT NULL, b INTEGER)'")
    with pytest.raises(InputError, match=r"damaged \(t: no value where there must be one in t\.a\)"):
        read(path)


def test_pages_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "a.sqlite", [(i, i * i) for i in range(3000)], page_size=512)
    monkeypatch.setattr(nsys_pages, "_PAGES", 3)
    assert read(path) == expected(path)


def test_a_page_of_another_kind(tmp_path: Path) -> None:
    path = make(tmp_path / "a.sqlite", [], more=["CREATE INDEX i ON t (a)"])
    with closing(sqlite3.connect(path)) as db:
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'i'").fetchone()[0]
    file = PageFile(path)
    with pytest.raises(UnusualLayoutError):
        list(file.read(root, [0]))
    file.close()


def codes(texts: Sequence[bytes], between: bytes, seen: dict[bytes, int]) -> list[int]:
    """The codes of texts that lie one behind the other."""
    length = np.array([len(text) for text in texts], np.int64)
    start = 64 + np.cumsum(length + len(between)) - length
    data = bytes(64) + b"".join(between + text for text in texts) + b"\xff" * 64
    found: list[int] = text_codes(np.frombuffer(data, np.uint8), start, start + length, seen).tolist()
    return found


@given(
    texts=st.lists(
        st.one_of(
            st.text(max_size=20),
            st.sampled_from(["", "a", "a\0", "a\0\0", "\0", "x" * 7 + "y", "x" * 16, "z" * 511, "z" * 600]),
        ),
        max_size=60,
    ),
    between=st.binary(max_size=3),
    collide=st.booleans(),
)
def test_codes_are_those_of_a_dictionary(texts: list[str], between: bytes, collide: bool) -> None:
    raw = [text.encode() for text in texts]
    wanted: dict[bytes, int] = {}
    seen: defaultdict[bytes, int] = nsys_sqlite._counting()
    with pytest.MonkeyPatch.context() as patch:
        if collide:  # all texts have one hash
            patch.setattr(nsys_sqlite, "_FACTORS", np.zeros_like(nsys_sqlite._FACTORS))
        for part in (raw, raw[::-1]):
            assert codes(part, between, seen) == [wanted.setdefault(text, len(wanted)) for text in part]
