"""What the book needs from a machine: names of needs in, why each unmet one is not met and a remedy out."""

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable

from labcode.errors import LabError
from labcode.hardware import driver, permissions
from labcode.tools import find_ncu, find_nvcc, require_nsys

_PACKAGES = {"cupy": "cupy-cuda13x", "pynvml": "nvidia-ml-py"}  # not called as they are imported


def unmet(needs: Iterable[str]) -> dict[str, str]:
    """The needs that this machine does not meet, each with why and what to do about it.

    Needs are ``gpu``, ``N gpus``, ``N GB`` (of one GPU's memory), ``nsys``, ``ncu``, ``nvcc``, ``counters``,
    or the name of a Python package; for ``torch`` it is that for CUDA, for ``any torch`` either.
    """
    return {need: reason for need in needs if (reason := _reason(need)) is not None}


def gpu_count() -> int:
    """The GPUs that CUDA programs started from here can use (``CUDA_VISIBLE_DEVICES`` respected)."""
    return len(driver.ask().devices)


def is_about_gpus(need: str) -> bool:
    """Whether a need is one for GPUs or for their memory, which no installation meets."""
    return re.fullmatch(r"(\d+ )?gpus?|\d+ GB", need) is not None


def _reason(need: str) -> str | None:
    count = re.fullmatch(r"(?:(\d+) )?gpus?", need)
    if count:
        wanted, have = int(count.group(1) or 1), gpu_count()
        if have >= wanted:
            return None
        if have == 0:
            what = "a GPU" if wanted == 1 else f"{wanted} GPUs"
            return f"needs {what}: {driver.ask().problem or 'none is visible'}"
        return f"needs {wanted} GPUs, this machine has {have}"
    if memory := re.fullmatch(r"(\d+) GB", need):
        least = min((device.memory_bytes for device in driver.ask().devices), default=0)
        if not least or least >= int(memory[1]) * 1e9:  # without a GPU that is what is said
            return None
        return f"needs a GPU with {memory[1]} GB of memory, the one here has {least / 1e9:.0f} GB"
    if need == "counters":
        counters = permissions.counters()
        return (
            None
            if counters.allowed is not False
            else f"needs the GPU's counters: {counters.reason}; {counters.advice}"
        )
    try:
        if need == "nsys":
            require_nsys()
        elif need == "nvcc":
            find_nvcc()
        elif need == "ncu":
            if find_ncu() is None:
                return "needs ncu: not found; install Nsight Compute or set LABCODE_NCU to its path"
        elif importlib.util.find_spec(name := need.removeprefix("any ")) is None:
            package = _PACKAGES.get(name, name)
            return f"needs the Python package {name}: not installed; `python -m pip install {package}`"
        elif need == "torch" and importlib.metadata.version(need).endswith("+cpu"):
            return "needs PyTorch for CUDA: this one is built for the CPU alone; install the CUDA build"
    except LabError as error:
        return f"needs {error}"
    return None
