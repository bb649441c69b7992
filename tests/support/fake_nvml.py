# ruff: noqa: N802 (the names are NVML's)
"""A made-up NVML: GPUs whose power over time, counter and failures a test chooses."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        words = {3: "Not Supported", 4: "Insufficient Permissions", 15: "GPU is lost"}
        super().__init__(words.get(value, "Unknown"))
        self.value = value


@dataclass
class FakeGpu:
    """``watts`` at seconds since the start; the counter is updated every ``update_s``; ``fails`` gives NVML's
    error number of a call by its name, or 0. It is lost so long after it was read first."""

    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    name: str = "NVIDIA Test"
    watts: float = 200.0
    update_s: float = 0.02
    limit_w: float = 700.0
    mig: bool = False
    reasons: int = 0
    offset_mj: int = 5_000_000
    fails: dict[str, int] = field(default_factory=dict)
    lost_after_s: float = float("inf")
    reset_after_s: float = float("inf")


class FakeNvml:
    """What `labcode.meter` calls of ``pynvml``."""

    NVMLError = NVMLError
    NVML_SUCCESS = 0
    NVML_ERROR_UNINITIALIZED = 1
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_FI_DEV_POWER_INSTANT = 186
    NVML_FI_DEV_POWER_AVERAGE = 185
    NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION = 83
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, *gpus: FakeGpu, init: int = 0, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.gpus = list(gpus) or [FakeGpu()]
        self.init = init
        self.clock = clock
        self.began = clock()
        self.first = float("inf")
        self.calls: list[str] = []

    def _check(self, name: str, gpu: FakeGpu | None = None) -> float:
        self.calls.append(name)
        seconds = (self.clock() - self.began) / 1e9
        self.first = min(self.first, seconds)
        if gpu is not None and seconds - self.first >= gpu.lost_after_s:
            raise NVMLError(15)
        if gpu is not None and gpu.fails.get(name):
            raise NVMLError(gpu.fails[name])
        return seconds

    def nvmlInit(self) -> None:
        if self.init:
            raise NVMLError(self.init)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        return gpu.name

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu) -> int:
        return int(gpu.limit_w * 1000)

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:
        return [int(gpu.mig), int(gpu.mig)]

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, which: int) -> int:
        self._check("nvmlDeviceGetClockInfo", gpu)
        return 1980 if which == self.NVML_CLOCK_SM else 2619

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, which: int) -> int:
        self._check("nvmlDeviceGetTemperature", gpu)
        return 45

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: FakeGpu) -> int:
        self._check("nvmlDeviceGetCurrentClocksEventReasons", gpu)
        return gpu.reasons

    def energy_mj(self, gpu: FakeGpu, seconds: float) -> int:
        seconds -= seconds % gpu.update_s
        if seconds >= gpu.reset_after_s:
            return int(gpu.watts * (seconds - gpu.reset_after_s) * 1000)
        return gpu.offset_mj + int(gpu.watts * seconds * 1000)

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: FakeGpu) -> int:
        return self.energy_mj(gpu, self._check("nvmlDeviceGetTotalEnergyConsumption", gpu))

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:
        self._check("nvmlDeviceGetPowerUsage", gpu)
        return int(gpu.watts * 1000)

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, fields: tuple[int, ...]) -> list[Any]:
        seconds = self._check("nvmlDeviceGetFieldValues", gpu)
        found = []
        for one in fields:
            name = {186: "instant", 185: "average", 83: "energy"}[one]
            value = self.energy_mj(gpu, seconds) if one == 83 else int(gpu.watts * 1000)
            found.append(
                SimpleNamespace(
                    nvmlReturn=gpu.fails.get(name, 0), value=SimpleNamespace(uiVal=value, ullVal=value)
                )
            )
        return found
