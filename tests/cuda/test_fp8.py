"""The 8-bit matmul: right, without deadlock and within its arrays, on the host's fibers; no spills."""

import re
from pathlib import Path

import pytest

from tests.cuda.conftest import NEWEST, NO_SPILLS, Assemble
from tests.cuda.ncu_programs import run
from tests.cuda.on_host import compile_on_host

KERNELS = 8  # what instances.cu names


@pytest.fixture(scope="module")
def on_the_host(compiled: Path) -> tuple[Path, list[str]]:
    return compile_on_host(compiled, "host_fp8.cpp", "gemm/layout.cuh", "gemm/bf16.cuh", "fp8/fp8.cuh")


def test_right_and_within_the_arrays_on_the_host(on_the_host: tuple[Path, list[str]]) -> None:
    done = run([on_the_host[0]], timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize(
    ("left_out", "nth", "said"),
    [
        ("wait_for(&full, parity", -1, r"simple, 130 x 264 x 656: \d+ elements are wrong"),
        ("products_wait<1>(", -1, r"pipeline, 130 x 264 x 656: \d+ elements are wrong"),
        ("products_wait<0>(", -2, r"promoted, 130 x 264 x 656: \d+ elements are wrong"),
    ],
)
def test_missing_synchronizations_are_found(
    on_the_host: tuple[Path, list[str]], left_out: str, nth: int, said: str
) -> None:
    program, found = on_the_host
    number = [i for i, what in enumerate(found) if what == left_out][nth]
    done = run([program, number], timeout=300)
    assert done.returncode == 1 and re.match(said, done.stdout), done.stdout + done.stderr[:2000]


def test_compiles_without_spills(assembled: Assemble) -> None:
    report = assembled("fp8", NEWEST).report
    assert re.findall(r"\d+ bytes stack frame.*", report) == KERNELS * [NO_SPILLS], report
    assert "C75" not in report and "serializ" not in report  # no waiting between products of tensor cores
