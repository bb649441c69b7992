"""The transpose's device code, run on the host: right and within its arrays; a missing barrier is found."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cuda.conftest import CUDA

SHARED = ("    extern __shared__ unsigned window[];\n", "    extern __shared__ uint4 chunk[];\n")
BARRIER = "    __syncthreads();\n    // Elements from the tile's first of output row"


def build_and_run(folder: Path, header: str, sanitizer: str) -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here")
    for line in SHARED:
        header = header.replace(line, "")
    (folder / "transpose_on_host.cuh").write_text(header, encoding="utf-8")
    source = Path(__file__).with_name("host_transpose.cpp")
    flags = ["-std=c++20", "-O1", "-g", "-w", "-pthread", f"-fsanitize={sanitizer}", f"-I{folder}"]
    built = subprocess.run(
        [compiler, *flags, source, "-o", folder / "run"], capture_output=True, text=True, check=False
    )
    if built.returncode != 0 and ("cannot find" in built.stderr or "unrecognized" in built.stderr):
        pytest.skip(f"this g++ has no {sanitizer} sanitizer or no C++20")
    assert built.returncode == 0, built.stderr
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}  # the first race is enough
    return subprocess.run(
        [folder / "run"], capture_output=True, text=True, check=False, timeout=200, env=environment
    )


@pytest.fixture
def header() -> str:
    text = (CUDA / "transpose" / "transpose.cuh").read_text(encoding="utf-8")
    assert [text.count(line) for line in SHARED] == [1, 1]
    return text


@pytest.mark.slow
def test_right_and_within_the_arrays(tmp_path: Path, header: str) -> None:
    done = build_and_run(tmp_path, header, "address")
    assert (done.returncode, done.stdout) == (0, "0 wrong\n"), done.stdout + done.stderr[:2000]


@pytest.mark.slow
def test_a_missing_barrier_is_found(tmp_path: Path, header: str) -> None:
    assert header.count(BARRIER) == 1
    broken = header.replace(BARRIER, BARRIER.replace("    __syncthreads();\n", ""))
    done = build_and_run(tmp_path, broken, "thread")
    assert done.returncode != 0
    assert "data race" in done.stderr
