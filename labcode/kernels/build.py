"""Building: the name of a program in ``cuda/`` in, its binary for this machine's GPU out (cached)."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

from labcode.errors import LabError, ToolError, describe_os_error
from labcode.store import cache_folder, repository_root
from labcode.tools import find_nvcc

FLAGS = ("-O3", "-std=c++17", "-lineinfo")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76  # CUdevice_attribute, CUDA driver API
_CUDA_ERROR_NO_DEVICE = 100
_TIMEOUT_S = 300
_OLDEST = (7, 5)  # the oldest that the CUDA 13 compiler builds for


def compute_capability() -> tuple[int, int]:
    """(major, minor) of GPU 0 as ``CUDA_VISIBLE_DEVICES`` leaves it; `ToolError` without driver or GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise ToolError(
            "no NVIDIA GPU: no NVIDIA driver is installed here (nvidia-smi shows one when there is)"
        ) from None
    status = driver.cuInit(0)
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if status == 0:
        status = driver.cuDeviceGet(ctypes.byref(device), 0)
    if status != 0:
        why = (
            "the driver shows none (is CUDA_VISIBLE_DEVICES empty?)"
            if status == _CUDA_ERROR_NO_DEVICE
            else f"CUDA error {status}"
        )
        raise ToolError(f"no NVIDIA GPU: {why}")
    for attribute, target in ((_COMPUTE_CAPABILITY_MAJOR, major), (_COMPUTE_CAPABILITY_MINOR, minor)):
        if driver.cuDeviceGetAttribute(ctypes.byref(target), attribute, device) != 0:
            raise ToolError("the NVIDIA driver does not say what kind of GPU this is; update the driver")
    return major.value, minor.value


def architecture_flag(capability: tuple[int, int]) -> str:
    """The ``nvcc`` flag that builds for exactly this GPU, architecture-specific instructions included.

    Raises `LabError` for a GPU that the compiler no longer builds for.
    """
    if capability < _OLDEST:
        raise LabError(
            f"this GPU has compute capability {capability[0]}.{capability[1]}; the programs are built for "
            f"{_OLDEST[0]}.{_OLDEST[1]} and newer"
        )
    number = architecture(10 * capability[0] + capability[1])
    return f"-gencode=arch=compute_{number},code=sm_{number}"


def architecture(compute_capability: int) -> str:
    """The compilers' name of a GPU, 90 for 9.0 given: «90a», with what only this architecture has."""
    return f"{compute_capability}{'a' if compute_capability >= 90 else ''}"


def included(source: Path) -> list[Path]:
    """A source file and all that it includes by quotes, directly or not; itself first."""
    found = [source.resolve()]
    for path in found:  # grows while it is gone through
        for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            other = (path.parent / name).resolve()
            if other.is_file() and other not in found:
                found.append(other)
    return found


def source_files(program: str) -> list[Path]:
    """The files a program is built from, in a fixed order; `LabError` when there is no such program."""
    main = repository_root() / "cuda" / program / f"{program}.cu"
    if not main.is_file():
        raise LabError(
            f"{main.parent}: there is no program of this name; is this a whole checkout of the lab?"
        )
    return included(main)


def build(program: str, capability: tuple[int, int] | None = None) -> Path:
    """The binary of ``cuda/<program>/<program>.cu`` for a GPU (by default this machine's), cached.

    The cache key covers the sources, the flags and the compiler's version. A build appears whole or not at
    all.
    """
    sources = source_files(program)
    nvcc = find_nvcc()
    flags = (*FLAGS, architecture_flag(capability or compute_capability()))
    key = hashlib.sha256()
    for path in sources:
        key.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    key.update("\0".join((*flags, _version(nvcc))).encode())
    binary = cache_folder() / "bin" / f"{program}-{key.hexdigest()[:16]}" / program
    if binary.is_file():
        return binary
    try:
        binary.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
            partial = Path(folder) / program
            _compile([str(nvcc), *flags, str(sources[0]), "-o", str(partial)], program)
            partial.replace(binary)
    except OSError as error:
        raise ToolError(describe_os_error(error)) from None
    return binary


def _version(nvcc: Path) -> str:
    done = subprocess.run(
        [str(nvcc), "--version"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    if done.returncode != 0:
        raise ToolError(f"{nvcc}: does not run ({first_error(done.stderr)}); reinstall the CUDA toolkit")
    return done.stdout


def _compile(command: list[str], program: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise ToolError(
            f"nvcc: took longer than {_TIMEOUT_S} s to build {program}; is the machine overloaded?"
        ) from None
    if done.returncode != 0:
        raise ToolError(f"nvcc: could not build {program}: {first_error(done.stderr + done.stdout)}")


def first_error(text: str) -> str:
    """The first line that names an error, or the first one at all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it said nothing")
