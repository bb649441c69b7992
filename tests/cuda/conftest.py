"""What the CUDA programs compile to, once a test run, also where several processes share it.

Tests are skipped where there is no compiler.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.tools import find_nvcc

CUDA = Path(__file__).resolve().parents[2] / "cuda"
PROGRAMS = ("kernel_overlap", "many_operations", "memory_timeline")
BY_MAKE = "kernel_overlap"  # whose binary is made by its Makefile, which is like the others
WARNINGS = ("-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Wshadow")
NEWEST = "90a"
# The oldest and the newest: what the code asks for by __CUDA_ARCH__ is compiled in one of them.
ARCHITECTURES = ("75", NEWEST)
# The device code is optimized without being asked; what the compiler makes of the host's, nobody looks at.
FLAGS = ("-std=c++17", *WARNINGS, "-Xptxas", "-v", "-Xcompiler", "-O0")


@dataclass(frozen=True)
class Assembled:
    """A file with a program's device code at full optimization; what the assembler said of its kernels."""

    code: Path
    report: str


Built = Callable[[str], Path]
Assemble = Callable[[str, str], Assembled]


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
def compiled(nvcc: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pytest's cache for this compiler, these flags and sources; those of others are removed."""
    key = hashlib.sha256(" ".join(FLAGS).encode())
    key.update(subprocess.run([nvcc, "--version"], capture_output=True, check=True).stdout)
    kinds = (*map(CUDA.rglob, ("*.cu*", "*.h*", "*.mk")), Path(__file__).parent.glob("*.cu"))
    for source in (Path(__file__), *sorted(chain.from_iterable(kinds))):
        key.update(source.name.encode() + source.read_bytes())
    cache = getattr(request.config, "cache", None)
    if cache is None:  # pytest -p no:cacheprovider
        return tmp_path_factory.mktemp("cuda")
    folder: Path = cache.mkdir(f"cuda-{key.hexdigest()[:16]}")
    for other in folder.parent.glob("cuda-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return folder


@pytest.fixture(scope="session")
def built(nvcc: Path, compiled: Path) -> Built:
    """The binary of a program (of cuda/, or a .cu file beside the tests), for compute capability 9.0."""

    @cache
    def build(name: str) -> Path:
        target = compiled / name
        command = [nvcc, *FLAGS, _target(NEWEST), f"-I{CUDA}", _source(name), "-o", target]
        if name == BY_MAKE and shutil.which("make"):
            said = "-Xptxas -v -Xcompiler -O0"
            command = ["make", "-C", CUDA / name, f"BUILD={compiled}", f"NVCC={nvcc} {said}"]
        _once(target, command)
        return target

    return build


@pytest.fixture(scope="session")
def assembled(nvcc: Path, compiled: Path, built: Built) -> Assemble:
    """The device code of a program, as above, for an architecture; for the newest, its binary's."""

    @cache
    def assemble(name: str, architecture: str) -> Assembled:
        if architecture == NEWEST:
            binary = built(name)
            return Assembled(binary, _log(binary).read_text())
        cubin = compiled / f"{name}-{architecture}.cubin"
        command = [nvcc, *FLAGS, _target(architecture), f"-I{CUDA}", "-cubin", _source(name), "-o", cubin]
        return Assembled(cubin, _once(cubin, command))

    return assemble


def _source(name: str) -> Path:
    own = Path(__file__).with_name(f"{name}.cu")
    return own if own.is_file() else CUDA / name / f"{name}.cu"


def _target(architecture: str) -> str:
    return f"-gencode=arch=compute_{architecture},code=sm_{architecture}"


def _once(target: Path, command: list[str | Path]) -> str:
    """Make a file by a command unless another process did; what the command said."""
    log = _log(target)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not log.is_file():
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr + done.stdout
            log.write_text(done.stderr + done.stdout)
        return log.read_text()


def _log(target: Path) -> Path:
    return target.with_name(f"{target.name}.log")
