"""Judging a capture takes time and memory in proportion to its operations."""

import io
import tracemalloc
from pathlib import Path

import pytest

from labcode.verbs.diagnose import verdicts as driver
from labcode.workloads.models.big_export import make_big_export
from tests.support.growth import time_growth

FEW, MANY = 40_000, 160_000
MOST_BYTES = 600  # of Python and numpy, an operation


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
