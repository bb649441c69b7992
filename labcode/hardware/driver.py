"""What the CUDA driver says of the GPUs that programs here can use: nothing in, one record per GPU out.

The driver is asked in a process of its own, with a time limit (``python -m labcode.hardware.driver`` prints
the answer as JSON): a broken driver may hang or crash whoever calls it, and a process that has asked cannot
fork safely.
"""

import ctypes
import functools
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labcode.errors import ToolError
from labcode.tools import run_tool

_LIMIT_S = 60.0
_NO_DEVICE = 100
# CUdevice_attribute of the CUDA driver API
_ATTRIBUTES = {
    "sm_count": 16,
    "l2_bytes": 38,
    "async_engines": 40,
    "memory_bus_bits": 37,
    "max_threads_per_sm": 39,
    "shared_memory_per_sm_bytes": 81,
}
_MAJOR, _MINOR = 75, 76


@dataclass(frozen=True)
class CudaDevice:
    """One GPU as the CUDA driver numbers them; ``bus_id`` serves to find it in NVML and is never printed."""

    name: str
    compute_capability: str
    memory_bytes: int
    bus_id: str
    attributes: dict[str, int]


@dataclass(frozen=True)
class Driver:
    """The CUDA driver: the newest CUDA version it can serve, the GPUs it shows, or why it shows none."""

    cuda_version: str | None
    devices: tuple[CudaDevice, ...]
    problem: str | None


@functools.cache
def ask() -> Driver:
    """The CUDA driver's answer, asked once per process. Never raises: ``problem`` says what is wrong."""
    home = Path(__file__).resolve().parents[2]
    try:
        result = run_tool(
            [sys.executable, "-m", "labcode.hardware.driver"], _LIMIT_S, cwd=home, what="CUDA driver"
        )
    except ToolError as error:
        return Driver(None, (), str(error))
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        return Driver(None, (), f"the CUDA driver could not be asked ({result.last_line()})")
    devices = tuple(CudaDevice(**device) for device in answer["devices"])
    return Driver(answer["cuda_version"], devices, answer["problem"])


def _read() -> Driver:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Driver(None, (), "no NVIDIA driver is installed here")
    number = ctypes.c_int()
    version = None
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0 and number.value:
        version = f"{number.value // 1000}.{number.value % 1000 // 10}"
    status = cuda.cuInit(0)
    if status == _NO_DEVICE:
        return Driver(version, (), "the NVIDIA driver shows no GPU (is CUDA_VISIBLE_DEVICES empty?)")
    if status != 0:
        return Driver(version, (), f"the NVIDIA driver does not start (CUDA error {status}); see nvidia-smi")
    cuda.cuDeviceGetCount(ctypes.byref(number))
    return Driver(version, tuple(_device(cuda, index) for index in range(number.value)), None)


def _device(cuda: Any, index: int) -> CudaDevice:
    device, value, size = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name, bus = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(size), device)
    cuda.cuDeviceGetPCIBusId(bus, len(bus), device)

    def attribute(which: int) -> int:
        return value.value if cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device) == 0 else 0

    return CudaDevice(
        name.value.decode(),
        f"{attribute(_MAJOR)}.{attribute(_MINOR)}",
        size.value,
        bus.value.decode(),
        {key: attribute(which) for key, which in _ATTRIBUTES.items()},
    )


if __name__ == "__main__":
    print(json.dumps(asdict(_read())))
