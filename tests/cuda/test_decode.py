"""Decoding by one kernel: right, without deadlock and within its arrays, on the host's fibers."""

import re
from pathlib import Path

import pytest

from tests.cuda.conftest import NEWEST, NO_SPILLS, Assemble
from tests.cuda.ncu_programs import run
from tests.cuda.on_host import compile_on_host


@pytest.fixture(scope="module")
def on_the_host(compiled: Path) -> tuple[Path, list[str]]:
    return compile_on_host(compiled, "host_decode.cpp", "decode/decode.cuh")


def test_the_next_token_is_that_of_a_plain_loop(on_the_host: tuple[Path, list[str]]) -> None:
    done = run([on_the_host[0]], timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize(
    ("left_out", "nth", "said"),
    [
        ("wait_for(&empty[slot], (number / kSlots - 1) % 2", 0, "its threads wait for each other forever"),
        ("wait_for_blocks(meetings, wanted", 0, "wrong, error"),
        ("hear(fresh, at, round", 0, "wrong, error"),
        ("hear(asked, [&](int) { return heads + 2 * thread; }, round", 0, "wrong, error"),
        ("hear(pieces, at, round", 0, "wrong, error"),
        ("consumers_meet(", 0, "wrong, error"),
        ("consumers_meet(", 5, "wrong, error"),
    ],
)
def test_missing_synchronizations_are_found(
    on_the_host: tuple[Path, list[str]], left_out: str, nth: int, said: str
) -> None:
    program, found = on_the_host
    number = [i for i, what in enumerate(found) if what == left_out][nth]
    done = run([program, number], timeout=600)
    assert done.returncode == 1 and f"tokens: {said}" in done.stdout, done.stdout + done.stderr[:2000]


def test_compiles_without_spills(assembled: Assemble) -> None:
    report = assembled("decode", NEWEST).report
    assert re.findall(r"\d+ bytes stack frame.*", report) == 3 * [NO_SPILLS], report
