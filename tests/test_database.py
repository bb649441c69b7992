"""SQLite files that are only read: whatever their name, and without what a start does not need."""

import ast
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from labcode.inputs import address, open_read_only

PACKAGE = Path(__file__).resolve().parents[1] / "labcode"
LOADERS = {"as_uri", "from_uri", "pathname2url", "url2pathname"}  # of urllib.request, on 3.14 or before


def made(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (n INTEGER)")
        db.execute("INSERT INTO t VALUES (7)")
        db.commit()
    return path


@pytest.mark.parametrize("name", ["a %20 ü?#b&mode=rwc", os.fsdecode(b"no utf-8 \xff"), "; : +"])
def test_a_name_is_no_part_of_the_address(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = made(folder / f"{name}.sqlite")
    with closing(open_read_only(path)) as db:
        assert db.execute("SELECT n FROM t").fetchall() == [(7,)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("INSERT INTO t VALUES (8)")
    with closing(sqlite3.connect(":memory:", uri=True)) as db:
        db.execute("ATTACH ? AS other", (address(path),))
        assert db.execute("SELECT n FROM other.t").fetchall() == [(7,)]
    assert list(folder.iterdir()) == [path]


def test_what_a_file_declares_is_not_run(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE VIEW v AS SELECT load_extension('x') FROM t")
        db.commit()
    with closing(open_read_only(path)) as db, pytest.raises(sqlite3.OperationalError, match="unsafe use"):
        db.execute("SELECT * FROM v").fetchall()


def test_addresses_of_files_are_made_in_one_place() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in LOADERS
    }
    assert not found, "labcode.inputs.address does it without loading urllib.request at a start"
