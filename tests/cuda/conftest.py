"""Binaries of the CUDA programs, built once a session; their tests are skipped where there is no compiler."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.kernels.build import find_nvcc

CUDA = Path(__file__).resolve().parents[2] / "cuda"
PROGRAMS = ("kernel_overlap", "memory_timeline")
WARNINGS = ("-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Wshadow")


@pytest.fixture(scope="session")
def nvcc() -> Path:
    try:
        compiler = find_nvcc()
    except LabError as error:
        pytest.skip(str(error))
    if shutil.which("g++") is None and shutil.which("c++") is None:
        pytest.skip("no C++ compiler for nvcc to use")
    return compiler


@pytest.fixture(scope="session")
def built(nvcc: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The binary of a program (of cuda/, or a .cu file beside the tests), for compute capability 9.0."""
    folder = tmp_path_factory.mktemp("cuda")

    @cache
    def build(name: str) -> Path:
        own = Path(__file__).with_name(f"{name}.cu")
        source = own if own.is_file() else CUDA / name / f"{name}.cu"
        target = folder / name
        flags = ["-O3", "-std=c++17", *WARNINGS, "-gencode=arch=compute_90a,code=sm_90a", f"-I{CUDA}"]
        done = subprocess.run(
            [nvcc, *flags, source, "-o", target], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return target

    return build
