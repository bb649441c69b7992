"""A sample of the campaign, some cases of each pair of format and command; all of it is `nox -s hostile`."""

import os
import sys

import pytest

from tests.hostile.__main__ import ready
from tests.hostile.campaign import FOUND, PAIRS, Pair
from tests.hostile.judge import Asked, run

SAMPLE = 8  # cases of a pair, a third of those where each starts a process
DEAR = (
    "ncu:",
    "tools:",
    "ranks:",
    "sets:list",
    "outputs:full",
    "nsys:page",
    "kineto:page",
    "perfetto:",
    "odd:",
)


@pytest.fixture(scope="module", autouse=True)
def _ready() -> None:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    ready()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_nothing_breaks(pair: Pair) -> None:
    count = SAMPLE // 3 if pair.name.startswith(DEAR) else SAMPLE
    found = {f"{pair.name}/{number}": pair.case(number).faults for number in range(count)}
    assert {name: faults for name, faults in found.items() if faults} == {}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_stays_mended(name: str) -> None:
    pair, _, number = name.partition("/")
    assert next(one for one in PAIRS if one.name == pair).case(int(number)).faults == []


def test_bytecode_is_not_kept_while_files_are_cut_off() -> None:
    """Python would keep the start of what a case is the first to import, for all who import it later."""
    asked = Asked(["--version"], file_bytes=4096, after=lambda *_: "" if sys.dont_write_bytecode else "kept")
    assert run(lambda _: asked, terminal=False).faults == []


def test_the_sample_is_no_small_one() -> None:
    sampled = sum(SAMPLE // 3 if pair.name.startswith(DEAR) else SAMPLE for pair in PAIRS)
    assert sampled + len(FOUND) >= 500
    assert sum(pair.count for pair in PAIRS) >= 3000
