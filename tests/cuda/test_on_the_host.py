"""The transpose's device code, run on the host: right and within its arrays; a missing barrier is found."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cuda.conftest import CUDA

HEADER = (CUDA / "transpose" / "transpose.cuh").read_text(encoding="utf-8")
SHARED = ("    extern __shared__ unsigned window[];\n", "    extern __shared__ uint4 chunk[];\n")
BARRIER = re.compile(r"__syncthreads\(\)")
BARRIERS = len(BARRIER.findall(HEADER))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The header with its barriers numbered, compiled for the host."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here")
    header = HEADER
    for line in SHARED:
        assert header.count(line) == 1
        header = header.replace(line, "")
    number = itertools.count()
    header = BARRIER.sub(lambda _: f"__syncthreads({next(number)})", header)
    folder = tmp_path_factory.mktemp("host")
    (folder / "transpose_on_host.cuh").write_text(header, encoding="utf-8")
    source = Path(__file__).with_name("host_transpose.cpp")
    flags = ["-std=c++17", "-O1", "-g", "-w", "-fsanitize=address", f"-I{folder}"]
    built = subprocess.run(
        [compiler, *flags, source, "-o", folder / "run"], capture_output=True, text=True, check=False
    )
    if built.returncode != 0 and ("cannot find" in built.stderr or "unrecognized" in built.stderr):
        pytest.skip("this g++ has no address sanitizer")
    assert built.returncode == 0, built.stderr
    return folder / "run"


def test_right_and_within_the_arrays(program: Path) -> None:
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout) == (0, "0 wrong\n"), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize("barrier", range(BARRIERS))
def test_each_missing_barrier_is_found(program: Path, barrier: int) -> None:
    done = subprocess.run([program, str(barrier)], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 1 and "AddressSanitizer:" not in done.stderr, done.stderr[:2000]
    assert re.search(r"step \d: \d+ wrong\n", done.stdout)
