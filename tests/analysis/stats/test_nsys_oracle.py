"""Every report against `nsys stats` itself, on random exports full of ties; needs an nsys, but no GPU."""

import io
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from labcode.analysis.stats.nsys import tables as nsys_rounding
from labcode.analysis.stats.nsys.reports import (
    DECLARED,
    TABLES,
    missing_data,
    split,
    with_arguments,
)
from labcode.analysis.stats.writer import write
from labcode.errors import InputError
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.source import Source
from labcode.tools import find_nsys, run_tool, tool_version
from labcode.verbs.stats import print_all
from tests.golden.golden import as_nsys_writes, first_difference
from tests.support import exports as e
from tests.support.programming_models import REPORTS as PROGRAMMING_MODELS
from tests.support.programming_models import make_programming_models
from tests.support.random_export import make_random_export

NSYS = find_nsys()
pytestmark = pytest.mark.skipif(NSYS is None, reason="no nsys here: put one on PATH or set LABCODE_NSYS")


@pytest.fixture(scope="module")
def year() -> int:
    assert NSYS is not None
    return int((tool_version(NSYS) or "2025").split(".")[0])


def of_nsys(path: Path, names: list[str]) -> dict[str, list[str]]:
    """What nsys prints for an export, by report; empty where it has nothing to say."""
    assert NSYS is not None
    flags = [flag for name in names for flag in ("--report", name)]
    folder = path.with_suffix("")
    folder.mkdir()
    run_tool([NSYS, "stats", "--quiet", "--format=csv", *flags, f"--output={folder}/r", path], 120)
    found = {}
    for name in names:
        made = folder / f"r_{name.replace(':', '_')}.csv"
        found[name] = (
            made.read_text().strip("\n").split("\n") if made.is_file() and made.stat().st_size else []
        )
    return found


def compare(
    path: Path,
    year: int,
    monkeypatch: pytest.MonkeyPatch,
    unread: tuple[str, ...] = (),
    asked: Sequence[str] = tuple(TABLES),
) -> None:
    if year < 2025:  # older ones round by the decimal text, and leave the default domain away
        monkeypatch.setattr(nsys_rounding, "_as_decimal", lambda value: Decimal(repr(value)))
    theirs = of_nsys(path, [name for name in asked if name not in unread])
    assert any(theirs.values())
    source = Source(open_export(path))
    wrong = []
    for name in theirs:
        plain, arguments = split(name)
        if plain in PROGRAMMING_MODELS and missing_data(source, plain):
            assert not theirs[name]
            continue
        table = TABLES[plain]
        stream = io.StringIO()
        prefix = {"default_domain": ""} if year < 2025 and name.startswith("nvtx") else {}
        write(table(with_arguments(source, arguments), **prefix), "csv", stream)
        ours = as_nsys_writes(stream.getvalue())
        if not theirs[name]:
            ours = ours[1:]
        difference = first_difference(ours, theirs[name])
        if difference:
            wrong.append(f"{name}: {difference}")
    source.close()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shuffled", [False, True])
def test_random_exports(
    tmp_path: Path, seed: int, shuffled: bool, year: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(make_random_export(tmp_path / "r.sqlite", seed, shuffled=shuffled), year, monkeypatch)


@pytest.mark.parametrize("argument", ["base", "mangled", "mangled:base"])
def test_kernels_by_their_other_names(
    tmp_path: Path, argument: str, year: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{name}:{argument}" for name, one in DECLARED.items() if one.by_name]
    compare(make_random_export(tmp_path / "r.sqlite", 7), year, monkeypatch, asked=names)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("argument", ["nvtx-name", "nvtx-name:base"])
def test_kernels_named_after_ranges(
    tmp_path: Path, argument: str, seed: int, year: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{name}:{argument}" for name, one in DECLARED.items() if one.by_name and one.by_range]
    compare(make_random_export(tmp_path / "r.sqlite", seed), year, monkeypatch, asked=names)


@pytest.mark.parametrize("schema", [(3, 7, 2), (3, 11, 1), (3, 25, 0)])
def test_other_schemas(
    tmp_path: Path, schema: tuple[int, int, int], year: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_random_export(tmp_path / "r.sqlite", 99, schema=schema)
    source = Source(open_export(path))
    assert source.version.minor == schema[1]
    source.close()
    # nsys' own report asks every export for the green contexts that only newer ones have
    compare(path, year, monkeypatch, unread=("cuda_gpu_trace",) if schema[1] < 11 else ())


@pytest.mark.parametrize("seed", range(3))
def test_programming_models(tmp_path: Path, seed: int, year: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_programming_models(tmp_path / "r.sqlite", seed)
    compare(path, year, monkeypatch, asked=PROGRAMMING_MODELS)


def test_open_ranges_registered_names_and_quotes(
    tmp_path: Path, year: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = [
        e.domain(1, "NCCL"),
        e.push_pop(0, None, "open"),
        e.push_pop(5, 90, "x, y", registered=True),
        e.push_pop(6, 80, "", domain=1),
        e.push_pop(7, 70, None),
        e.push_pop(8, 60, "ünï"),
        e.start_end(3, 300, "s", end_tid=101),
    ]
    calls = [e.call(10, 20, correlation=1), e.call(12, 18, "cuLaunchKernel", correlation=1, driver=True)]
    path = e.make_export(
        tmp_path / "a.sqlite",
        nvtx=ranges,
        api=calls,
        kernels=[e.kernel(30, 40, correlation=1), e.kernel(41, 49, correlation=1)],
        threads=[e.thread(100, 100, "main")],
    )
    compare(path, year, monkeypatch)


@pytest.mark.parametrize("fmt", ["csv", "json", "table"])
def test_reports_of_exports_that_hold_nothing(tmp_path: Path, fmt: str) -> None:
    """Tables without a row that counts: nothing, an empty list, a sentence; without the tables: skipped."""
    none = e.make_export(tmp_path / "none.sqlite", schema=(3, 11, 1))
    other = [{**e.osrt(0, 1), "eventClass": 28}]  # a thread that begins
    some = e.make_export(tmp_path / "some.sqlite", schema=(3, 11, 1), nvtx=[e.mark(5)], osrt=other)
    empty = {"nvtx_pushpop_sum", "nvtx_pushpop_trace", "nvtx_startend_sum", "nvtx_sum", "osrt_sum"}
    assert NSYS is not None
    for path, without_rows in ((none, set()), (some, empty)):
        flags = [flag for name in TABLES for flag in ("--report", name)]
        said = run_tool([NSYS, "stats", f"--format={fmt}", "--output=-", *flags, path], 120).stdout
        parts = re.findall(r"^Processing [^\n]*/(\w+)\.py\]\.\.\.(.*?)(?=^Processing|\Z)", said, re.M | re.S)
        assert [name for name, _ in parts] == list(TABLES)
        for name, theirs in ((name, text.strip()) for name, text in parts):
            if name not in without_rows:
                assert theirs.startswith("SKIPPED")
                with pytest.raises(InputError, match=f"so there is no {name}; record them"):
                    print_all([path], [name], fmt, io.StringIO())
                continue
            ours = io.StringIO()
            print_all([path], [name], fmt, ours)
            if fmt == "json":
                assert json.loads(ours.getvalue()) == json.loads(theirs) == []
            else:
                assert ours.getvalue().strip() == (theirs.splitlines() or [""])[-1]
