"""Kernels named after ranges: ours against what nsys 2025.3 printed of an export made for it."""

from __future__ import annotations

import io
import sqlite3
import tarfile
from pathlib import Path

import pytest

from labcode.analysis.stats.nsys.reports import TABLES, split, with_arguments
from labcode.analysis.stats.writer import write
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.source import Source
from tests.golden.golden import as_nsys_writes, first_difference
from tests.golden.make_names_golden import ARGUMENTS, REPORTS, make

PACKED = Path(__file__).with_name("names.tar.xz")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    with tarfile.open(PACKED) as tar:
        tar.extractall(folder, filter="data")
    return folder


def test_the_golden_files_are_of_the_export_that_is_made_today(unpacked: Path, tmp_path: Path) -> None:
    rows = []
    for path in (unpacked / "names.sqlite", make(tmp_path / "names.sqlite")):
        db = sqlite3.connect(path)
        rows.append(list(db.iterdump()))
        db.close()
    assert rows[0] == rows[1]
    assert (unpacked / "version.txt").read_text().startswith("2025.")


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("report", REPORTS)
def test_names_are_those_of_nsys(unpacked: Path, report: str, argument: str) -> None:
    asked = f"{report}:{argument}"
    source = Source(open_export(unpacked / "names.sqlite"))
    plain, arguments = split(asked)
    stream = io.StringIO()
    write(TABLES[plain](with_arguments(source, arguments)), "csv", stream)
    source.close()
    theirs = (unpacked / f"{asked.replace(':', '-')}.csv").read_text().strip("\n").split("\n")
    assert len(theirs) > 25
    assert first_difference(as_nsys_writes(stream.getvalue().strip("\n")), theirs) == ""
