"""The golden reports of Nsight Compute: a name in, a path, an opened report or ncu's own page out."""

import atexit
import csv
import os
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

from labcode.reports.ncu.launch import Launch
from labcode.reports.ncu.report import NcuReport, open_report
from labcode.store import unpack_tar

ARCHIVE = Path(__file__).resolve().parents[1] / "golden" / "ncu.tar.xz"
REPORTS = ("full", "basic", "sol", "few")


@cache
def folder() -> Path:
    """Where the golden files lie unpacked, for as long as this process runs."""
    made = Path(tempfile.mkdtemp(prefix="labcode-ncu-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    with tarfile.open(ARCHIVE) as tar:
        unpack_tar(tar, made)
    return made


def path(name: str) -> Path:
    """A golden file."""
    return folder() / name


@cache
def opened(name: str) -> NcuReport:
    """A golden report, read once."""
    with mock.patch.dict(os.environ, {"LABCODE_CACHE": str(folder() / "cache")}):
        return open_report(path(f"{name}.ncu-rep"))


def page(name: str, which: str) -> list[list[str]]:
    """A page as ncu printed it: rows of cells, the header first."""
    with path(f"{name}.{which}.csv").open(newline="", encoding="utf-8") as handle:
        return list(csv.reader(handle))


def launch(kernel: str) -> Launch:
    """The first launch of a kernel in the report that holds everything."""
    return next(one for one in opened("full").list if one.function == kernel)
