"""Judging a capture takes time and memory in proportion to its operations, and reads each table once."""

import io
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from labcode.experiments.lab.report_speed.big_export import make_big_export
from labcode.reports.nsys import source
from labcode.verbs.diagnose import verdicts as driver
from tests.support.growth import time_growth

FEW, MANY = 20_000, 80_000
MOST_BYTES = 400  # of Python and numpy, an operation


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("exports")
    return {ops: make_big_export(folder / f"{ops}.sqlite", ops) for ops in (FEW, MANY)}


def judge(file: Path) -> str:
    text = io.StringIO()
    driver.run(file, fmt="json", only=[], output=text)
    return text.getvalue()


def test_four_times_the_operations_take_at_most_five_times_as_long(exports: dict[int, Path]) -> None:
    assert time_growth(lambda ops: judge(exports[ops]), FEW, MANY) < 5


def test_memory_an_operation(exports: dict[int, Path]) -> None:
    judge(exports[FEW])  # what is imported
    held = {}
    for ops, file in exports.items():
        tracemalloc.start()
        judge(file)
        held[ops] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (held[MANY] - held[FEW]) / (MANY - FEW) < MOST_BYTES


@pytest.mark.parametrize("mix", ["training", "dense"])
def test_each_table_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mix: str) -> None:
    read: Counter[str] = Counter()
    columns = source.read_columns

    def counted(sqlite: Path, connection: Any, table: str, *more: Any, **options: Any) -> Any:
        read[table] += 1
        return columns(sqlite, connection, table, *more, **options)

    monkeypatch.setattr(source, "read_columns", counted)
    judge(make_big_export(tmp_path / "a.sqlite", 2_000, mix=mix))
    assert {"NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"} < read.keys()
    assert set(read.values()) == {1}, read
