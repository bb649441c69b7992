"""The transpose's device code, run on the host: right and within its arrays; a missing barrier is found."""

import re
from pathlib import Path

import pytest

from tests.cuda.conftest import CUDA
from tests.cuda.ncu_programs import run
from tests.cuda.on_host import compile_on_host

BARRIERS = (CUDA / "transpose" / "transpose.cuh").read_text(encoding="utf-8").count("__syncthreads()")


@pytest.fixture(scope="module")
def program(compiled: Path) -> Path:
    return compile_on_host(compiled, "host_transpose.cpp", "transpose/transpose.cuh")[0]


def test_right_and_within_the_arrays(program: Path) -> None:
    done = run([program], timeout=600)
    assert (done.returncode, done.stdout) == (0, "0 wrong\n"), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize("barrier", range(BARRIERS))
def test_each_missing_barrier_is_found(program: Path, barrier: int) -> None:
    done = run([program, barrier], timeout=600)
    assert done.returncode == 1 and "AddressSanitizer:" not in done.stderr, done.stderr[:2000]
    assert re.search(r"step \d: \d+ wrong\n", done.stdout)
