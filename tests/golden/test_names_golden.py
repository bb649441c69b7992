"""Exports made for it: ours against what nsys printed of them."""

import io
import sqlite3
import tarfile
from pathlib import Path

import pytest

from labcode.analysis.stats.nsys.reports import TABLES, split, with_arguments
from labcode.analysis.stats.writer import write
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.source import Source
from labcode.store import unpack_tar
from tests.golden.golden import as_nsys_writes, first_difference
from tests.golden.make_names_golden import ARGUMENTS, REPORTS, SEED, STARTEND, make
from tests.support.programming_models import REPORTS as PROGRAMMING_MODELS
from tests.support.programming_models import make_programming_models

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    for name in ("names", "models"):
        with tarfile.open(HERE / f"{name}.tar.xz") as tar:
            unpack_tar(tar, folder / name)
    return folder


def test_the_golden_files_are_of_the_exports_that_are_made_today(unpacked: Path, tmp_path: Path) -> None:
    names = make(tmp_path / "names.sqlite")
    models = make_programming_models(tmp_path / "models.sqlite", SEED)
    for folder, made in (("names", names), ("models", names), ("models", models)):
        rows = []
        for path in (unpacked / folder / made.name, made):
            db = sqlite3.connect(path)
            rows.append(list(db.iterdump()))
            db.close()
        assert rows[0] == rows[1]
    for folder in ("names", "models"):
        assert (unpacked / folder / "version.txt").read_text().startswith("2025.")


@pytest.mark.parametrize("report", [*STARTEND, *PROGRAMMING_MODELS])
def test_reports_of_which_no_capture_has_rows(unpacked: Path, report: str) -> None:
    folder = unpacked / "models"
    source = Source(open_export(folder / f"{'names' if report in STARTEND else 'models'}.sqlite"))
    stream = io.StringIO()
    write(TABLES[report](source), "csv", stream)
    source.close()
    theirs = (folder / f"{report}.csv").read_text().strip("\n").split("\n")
    assert len(theirs) > 1
    assert first_difference(as_nsys_writes(stream.getvalue().strip("\n")), theirs) == ""


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("report", REPORTS)
def test_names_are_those_of_nsys(unpacked: Path, report: str, argument: str) -> None:
    asked = f"{report}:{argument}"
    source = Source(open_export(unpacked / "names" / "names.sqlite"))
    plain, arguments = split(asked)
    stream = io.StringIO()
    write(TABLES[plain](with_arguments(source, arguments)), "csv", stream)
    source.close()
    theirs = (unpacked / "names" / f"{asked.replace(':', '-')}.csv").read_text().strip("\n").split("\n")
    assert len(theirs) > 25
    assert first_difference(as_nsys_writes(stream.getvalue().strip("\n")), theirs) == ""
