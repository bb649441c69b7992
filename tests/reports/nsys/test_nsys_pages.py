"""Integers read from the pages of a file: the same as SQLite reads, or a refusal, whatever is in it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.errors import InputError
from labcode.reports.columns import read_ints, read_texts
from labcode.reports.nsys import open as nsys_open
from labcode.reports.nsys import pages as nsys_pages
from labcode.reports.nsys.direct import Coded, Layout, parse_condition, read_direct, read_rows_direct
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.pages import DamagedPagesError, PageFile, UnusualLayoutError
from labcode.reports.nsys.report import open_report
from labcode.reports.nsys.source import Source
from tests.support import exports as e

NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([0, 1, -1, 127, 128, -128, -129, 1 << 15, 1 << 23, 1 << 31, 1 << 47, (1 << 63) - 1]),
    st.integers(-(1 << 63) + 1, (1 << 63) - 1),
)
TEXTS = st.one_of(st.none(), st.text(max_size=5), st.integers(50, 140).map("x".__mul__))


def make(
    path: Path, rows: Sequence[tuple[object, ...]], declared: str, page_size: int = 4096, end: str = ""
) -> Layout:
    """A table t of these rows; where its columns a and b lie."""
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA page_size = {page_size}")
        db.execute(f"CREATE TABLE t ({declared}){end}")
        if rows:
            db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
        names = [row[1] for row in db.execute("PRAGMA table_info(t)")]
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 't'").fetchone()[0]
    db.close()
    return Layout(root, {name: place for place, name in enumerate(names) if name in "ab"})


def lists(found: dict[str, object] | None) -> dict[str, list[int | None]]:
    assert found is not None
    result = {}
    for name, column in found.items():
        present = column.present  # type: ignore[attr-defined]
        values = column.values.tolist()  # type: ignore[attr-defined]
        there = [True] * len(values) if present is None else present.tolist()
        result[name] = [v if p else None for v, p in zip(values, there, strict=True)]
    return result


def of_sqlite(path: Path, where: str = "") -> dict[str, list[int | None]]:
    db = sqlite3.connect(path)
    columns = {"a": ('"a"', True), "b": ('"b"', True), "rowid": ("rowid", False)}
    found = read_ints(db, "t", columns, where)
    db.close()
    return lists(dict(found))


def direct(path: Path, layout: Layout, where: str = "") -> dict[str, list[int | None]]:
    return lists(read_direct(path, layout, {"a": True, "b": True, "rowid": False}, "t", where))  # type: ignore[arg-type]


def texts_direct(path: Path, layout: Layout, where: str = "") -> Coded | None:
    found = read_rows_direct(path, layout, {}, ("text",), "t", where)
    return None if found is None else found[1]["text"]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(NUMBERS, TEXTS, st.floats(allow_nan=False), NUMBERS), max_size=60),
    page_size=st.sampled_from([512, 1024, 4096, 65536]),
)
def test_the_same_as_sqlite(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]], page_size: int
) -> None:
    path = tmp_path_factory.mktemp("pages") / "a.sqlite"
    layout = make(path, rows, "a INTEGER, text TEXT, real REAL, b INTEGER", page_size)
    assert direct(path, layout) == of_sqlite(path)
    found = texts_direct(path, Layout(layout.root, layout.places, {"text": 1}))
    assert found is not None
    assert [found[1][code] if code >= 0 else None for code in found[0]] == [row[1] for row in rows]


@pytest.mark.parametrize("where", ["", "b = 1", "b <> 1"])
def test_texts(tmp_path: Path, where: str) -> None:
    path = tmp_path / "a.sqlite"
    texts = ["", None, "x" * 300, "ünï, \n⚡", "a\0b", "x" * 57, "x" * 58, "x" * 300]
    layout = make(path, [(i % 3 or None, text, i % 2) for i, text in enumerate(texts * 700)],
                  "a INTEGER, text TEXT, b INTEGER", 2048)  # fmt: skip
    layout = Layout(layout.root, layout.places, {"text": 1})
    found = texts_direct(path, layout, where)
    db = sqlite3.connect(path)
    codes, names = read_texts(db, "t", "text", where)
    db.close()
    assert found is not None
    assert (found[0].tolist(), found[1]) == (codes.tolist(), names)


@pytest.mark.parametrize("value", ["x'00ff'", "5", "x'" + "00" * 70 + "'"])
def test_texts_that_are_none_are_for_sqlite(tmp_path: Path, value: str) -> None:
    path = tmp_path / "a.sqlite"
    layout = make(path, [(1, "x", 2)], "a INTEGER, text, b INTEGER")
    with sqlite3.connect(path) as db:
        db.execute(f"INSERT INTO t VALUES (1, {value}, 2)")
        db.execute("INSERT INTO t VALUES (1, ?, 2)", ("x" * 99,))
    db.close()
    assert texts_direct(path, Layout(layout.root, layout.places, {"text": 1})) is None


def test_texts_of_another_encoding_are_for_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA encoding = 'UTF-16'")
        db.execute("CREATE TABLE t (a INTEGER, text TEXT)")
        db.execute("INSERT INTO t VALUES (1, 'x')")
    db.close()
    assert texts_direct(path, Layout(2, {"a": 0}, {"text": 1})) is None


@pytest.mark.parametrize("page_size", [512, 4096])
def test_many_pages_deleted_rows_and_numbers_below_0(tmp_path: Path, page_size: int) -> None:
    rng = random.Random(1)
    rows = [(rng.randint(-300, 1 << rng.randint(1, 62)), "t" * rng.randint(0, 190), i) for i in range(30_000)]
    path = tmp_path / "a.sqlite"
    layout = make(path, rows, "a INTEGER, text TEXT, b INTEGER", page_size)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM t WHERE a % 3 = 0")
        db.execute("DELETE FROM t WHERE b BETWEEN 5000 AND 12000")
        db.execute("UPDATE t SET rowid = rowid - 20000")
        db.execute("UPDATE t SET a = 7 WHERE b % 5 = 0")
    db.close()
    expected = of_sqlite(path)
    assert direct(path, layout) == expected
    assert len(expected["a"]) > 10_000 and expected["rowid"][0] < 0  # type: ignore[operator]


@pytest.mark.parametrize("where", ["a IN (1, 2)", "a = 3", "a <> 75", "b IN (4)"])
def test_conditions(tmp_path: Path, where: str) -> None:
    path = tmp_path / "a.sqlite"
    layout = make(path, [(i % 5 or None, i) for i in range(2000)], "a INTEGER, b INTEGER")
    assert direct(path, layout, where) == of_sqlite(path, where)


@pytest.mark.parametrize("where", ["a > 3", "a = 1 OR 1", "a = 1, 2", "(a = 1)", "a IN (SELECT 1)"])
def test_other_conditions_are_for_sqlite(tmp_path: Path, where: str) -> None:
    assert parse_condition(where) is None
    path = tmp_path / "a.sqlite"
    assert read_direct(path, make(path, [(1, 2)], "a INTEGER, b INTEGER"), {"a": True}, "t", where) is None


@pytest.mark.parametrize("root", [0, 10_000])
def test_a_table_that_begins_nowhere(tmp_path: Path, root: int) -> None:
    path = tmp_path / "a.sqlite"
    make(path, [(1, 2)], "a INTEGER, b INTEGER")
    file = PageFile(path)
    with pytest.raises(DamagedPagesError, match="beyond the end"):
        list(file.read(root, [0]))
    file.close()


def test_what_only_sqlite_can_read(tmp_path: Path) -> None:
    overflowing = tmp_path / "a.sqlite"
    layout = make(overflowing, [("x" * 9000, 1, 2)], "text TEXT, a INTEGER, b INTEGER")
    assert read_direct(overflowing, layout, {"a": True}, "t") is None
    no_rowids = tmp_path / "b.sqlite"
    layout = make(no_rowids, [(1, 2)], "a INTEGER PRIMARY KEY, b INTEGER", end=" WITHOUT ROWID")
    assert read_direct(no_rowids, layout, {"b": True}, "t") is None
    later = tmp_path / "c.sqlite"
    layout = make(later, [(1,)], "a INTEGER")
    with sqlite3.connect(later) as db:
        db.execute("ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 5")
    db.close()
    assert read_direct(later, Layout(layout.root, {"a": 0, "b": 1}), {"a": True, "b": True}, "t") is None


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


def test_the_readers_tables_are_read_from_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(3, 9)], nvtx=[e.push_pop(0, 1)])
    monkeypatch.setattr("labcode.reports.nsys.source.read_ints", None)
    source = Source(open_export(path))
    assert source.ints("CUPTI_ACTIVITY_KIND_KERNEL", ("duration",))["duration"].values.tolist() == [6]
    assert source.ints("NVTX_EVENTS", ("start",), "eventType IN (59, 60)")["start"].values.tolist() == [0]
    source.close()


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
            refused += 1
    assert refused > 20


def test_a_tree_with_a_cycle(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    layout = make(path, [(i, i) for i in range(5000)], "a INTEGER, b INTEGER", 512)
    data = bytearray(path.read_bytes())
    root = (layout.root - 1) * 512
    data[root + 8 : root + 12] = layout.root.to_bytes(4, "big")  # its last child is itself
    path.write_bytes(data)
    with pytest.raises(DamagedPagesError):
        read_direct(path, layout, {"a": True}, "t")


def test_no_value_where_there_must_be_one(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    layout = make(path, [(None, 1)], "a INTEGER, b INTEGER")
    with pytest.raises(DamagedPagesError, match=r"no value where there must be one in t\.a"):
        read_direct(path, layout, {"a": False}, "t")


def test_pages_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.sqlite"
    layout = make(path, [(i, i * i) for i in range(3000)], "a INTEGER, b INTEGER", 512)
    whole = direct(path, layout)
    monkeypatch.setattr(nsys_pages, "_PAGES", 3)
    assert direct(path, layout) == whole
    assert len(whole["a"]) == 3000


def test_a_page_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        db.execute("CREATE INDEX i ON t (a)")
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'i'").fetchone()[0]
    db.close()
    file = PageFile(path)
    with pytest.raises(UnusualLayoutError):
        list(file.read(root, [0]))
    file.close()


def test_widths(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    values = [0, 1, 2, -1, 127, 128, -32769, 1 << 23, 1 << 31, 1 << 40, -(1 << 47), 1 << 47, (1 << 63) - 1]
    layout = make(path, [(v, -v) for v in values], "a INTEGER, b INTEGER")
    found = read_direct(path, layout, {"a": True, "b": True}, "t")
    assert found is not None
    assert found["a"].values.tolist() == values
    assert found["b"].values.tolist() == [-v for v in values]
    assert found["a"].values.dtype == np.int64
