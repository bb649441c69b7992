"""What NVML reads of a GPU: nothing in; the GPUs that this process sees, each ready to be sampled, out."""

import hashlib
import os
import time
from collections.abc import Callable
from typing import Any

from labcode.errors import LabError, ToolError
from labcode.meter.visible import visible

SLOW_NS = 450_000_000  # clocks, temperature and reasons are asked for no more often: they delay the GPU
Reading = tuple[int | None, ...]  # in the order of `labcode.reports.power.schema.COLUMNS`


class GpuLostError(Exception):
    """A GPU that cannot be read any more; says why."""


class Gpu:
    """One GPU, ready to be sampled.

    ``number`` is CUDA's number for it, ``nvml_index`` the machine's, ``digest`` stands for its UUID,
    ``power_limit_w`` is in watts. Raises `LabError` for a GPU with MIG enabled, without an energy counter or
    readings of power, and where reading them is not permitted.
    """

    def __init__(self, nvml: Any, handle: Any, number: int, nvml_index: int | None = None) -> None:
        self._nvml, self._handle, self.number, self.nvml_index = nvml, handle, number, nvml_index
        self.name: str = _text(self._ask("nvmlDeviceGetName") or "GPU")
        uuid = _text(self._ask("nvmlDeviceGetUUID") or "")
        self.digest = hashlib.sha256(f"labcode.power {uuid}".encode()).hexdigest()[:12] if uuid else ""
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        self.power_limit_w: float | None = None if limit is None else limit / 1000
        self._asked_ns = 0
        self._slow: Reading = (None,) * 4
        modes = self._ask("nvmlDeviceGetMigMode")
        if modes is not None and modes[0]:
            raise LabError(
                f"{self}: is in MIG mode; NVML meters the whole GPU and not its parts, so switch MIG off "
                "(`nvidia-smi -mig 0`, as administrator) or use another GPU"
            )
        self._fields = (
            nvml.NVML_FI_DEV_POWER_INSTANT,
            nvml.NVML_FI_DEV_POWER_AVERAGE,
            nvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
        )
        self._counter, self._power = self._plan()

    def __str__(self) -> str:
        return f"GPU {self.number} ({self.name})"

    def read(self) -> Reading:
        """One sample, with a value or None per column; `GpuLostError` where no more samples can come."""
        nvml = self._nvml
        try:
            instant, average, energy = self._read_fields()
            if self._counter is not None:
                energy = self._counter(self._handle)
            if self._power is not None:
                average = self._power(self._handle)
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_UNINITIALIZED):
                raise GpuLostError(str(error)) from None
            return (None,) * 7
        now = time.monotonic_ns()
        if now - self._asked_ns >= SLOW_NS:
            self._asked_ns = now
            self._slow = (
                self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
                self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
                self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
                self._ask(self._reasons_call()),
            )
        return (instant, average, energy, *self._slow)

    def _read_fields(self) -> tuple[int | None, int | None, int | None]:
        """Instantaneous and average power (mW) and the counter (mJ), by one call."""
        nvml = self._nvml
        values = nvml.nvmlDeviceGetFieldValues(self._handle, self._fields)
        readings: list[int | None] = []
        for place, one in enumerate(values):
            if one.nvmlReturn == nvml.NVML_ERROR_GPU_IS_LOST:
                raise nvml.NVMLError(nvml.NVML_ERROR_GPU_IS_LOST)
            if one.nvmlReturn != nvml.NVML_SUCCESS:
                readings.append(None)
            else:
                readings.append(int(one.value.ullVal if place == 2 else one.value.uiVal))
        return readings[0], readings[1], readings[2]

    def _plan(self) -> tuple[Callable[[Any], int] | None, Callable[[Any], int] | None]:
        """Which readings need a call of their own: that of the counter, that of the average power."""
        nvml = self._nvml
        try:
            instant, average, energy = self._read_fields()
        except nvml.NVMLError as error:
            instant = average = energy = None
            if error.value == nvml.NVML_ERROR_NO_PERMISSION:
                raise self._refused(error) from None
        counter = power = None
        if energy is None:
            counter = nvml.nvmlDeviceGetTotalEnergyConsumption
            self._try(counter, "has no energy counter")
        if instant is None and average is None:
            power = nvml.nvmlDeviceGetPowerUsage  # an average over one second on Ampere and later
            self._try(power, "gives no readings of power")
        return counter, power

    def _try(self, call: Callable[[Any], int], otherwise: str) -> None:
        try:
            call(self._handle)
        except self._nvml.NVMLError as error:
            if error.value == self._nvml.NVML_ERROR_NO_PERMISSION:
                raise self._refused(error) from None
            raise LabError(
                f"{self}: {otherwise} ({error}), so its energy cannot be measured; use a GPU of the "
                "architecture Volta or later whose driver has both"
            ) from None

    def _refused(self, error: Exception) -> LabError:
        return LabError(
            f"{self}: reading its power is not permitted here ({error}); ask the administrator, or run where "
            "nvidia-smi shows watts"
        )

    def _reasons_call(self) -> str:
        new = "nvmlDeviceGetCurrentClocksEventReasons"
        return new if hasattr(self._nvml, new) else "nvmlDeviceGetCurrentClocksThrottleReasons"

    def _ask(self, name: str, *arguments: Any) -> Any:
        """A reading, or None where this GPU, driver or package does not have it."""
        try:
            return getattr(self._nvml, name)(self._handle, *arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None


def open_gpus() -> list[Gpu]:
    """The GPUs that CUDA shows this process, in its order (`labcode.meter.visible`).

    Raises `ToolError` without NVML or without a GPU, and `LabError` for a GPU that cannot be metered. NVML
    stays open until the process ends.
    """
    try:
        import pynvml as nvml
    except ImportError:
        raise ToolError("the power meter needs NVML's Python package: pip install nvidia-ml-py") from None
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        uuids = [_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        names = {_text(nvml.nvmlDeviceGetName(handle)) for handle in handles}
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_NO_PERMISSION:
            raise ToolError(f"NVML: not permitted here ({error}); ask the administrator") from None
        raise ToolError(f"NVML does not start ({error}); is the NVIDIA driver installed?") from None
    if not handles:
        raise ToolError("the NVIDIA driver is installed, but shows no GPU; run where nvidia-smi shows one")
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    by_number = chosen is not None and any(part.strip().isdecimal() for part in chosen.split(","))
    if by_number and len(names) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise LabError(
            f"CUDA_VISIBLE_DEVICES={chosen}: GPUs of several kinds are here, which CUDA and NVML number "
            "differently; set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID (`nvidia-smi -L`)"
        )
    return [Gpu(nvml, handles[index], number, index) for number, index in enumerate(visible(chosen, uuids))]


def driver_version(gpus: list[Gpu]) -> str:
    """The version of the NVIDIA driver; '' where it is unknown."""
    try:
        return _text(gpus[0]._nvml.nvmlSystemGetDriverVersion()) if gpus else ""
    except gpus[0]._nvml.NVMLError:
        return ""


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
