"""Clock, power and temperature of a GPU while it works: a GPU in, columns of samples out; nothing is set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from labcode.experiments.shared.common import rounded

if TYPE_CHECKING:
    import torch

SAMPLE_PERIOD_S = 0.05


class Sensors:
    """Clocks, power, temperature and throttle reasons of a GPU through NVML; reads only.

    Without NVML, or where it does not know the GPU (a partition), it is not ``available`` and reads nothing.
    """

    def __init__(self, torch: Any, device: torch.device) -> None:
        self._nvml: Any = None
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            uuid = torch.cuda.get_device_properties(device).uuid
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            self._nvml = pynvml
        except pynvml.NVMLError:
            return

    @property
    def available(self) -> bool:
        """Whether NVML answers for this GPU."""
        return self._nvml is not None

    def read(self) -> dict[str, float]:
        """One sample, of what this GPU tells.

        ``sm_mhz``, ``memory_mhz``, ``power_w`` (the driver's average), ``power_instant_w``,
        ``temperature_c``, ``reasons`` (why the clock is not higher, NVML's bit mask).
        """
        nvml = self._nvml
        if nvml is None:
            return {}
        questions: Mapping[str, Callable[[], float]] = {
            "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM),
            "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_MEM),
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(self._handle) / 1e3,
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(self._handle, nvml.NVML_TEMPERATURE_GPU),
            "reasons": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle),
            "power_instant_w": self._instant_power,
        }
        sample = {}
        for name, ask in questions.items():
            try:
                sample[name] = ask()
            except nvml.NVMLError:  # this GPU does not tell
                continue
        return sample

    def _instant_power(self) -> float:
        nvml = self._nvml
        field = nvml.nvmlDeviceGetFieldValues(self._handle, [nvml.NVML_FI_DEV_POWER_INSTANT])[0]
        if field.nvmlReturn != nvml.NVML_SUCCESS:
            raise nvml.NVMLError(field.nvmlReturn)
        return float(field.value.uiVal) / 1e3


class Sampler:
    """Reads the sensors on a thread while its ``with`` block runs; times are since ``origin``."""

    def __init__(self, sensors: Sensors, origin: float | None = None) -> None:
        self._sensors, self._done = sensors, threading.Event()
        self._origin = time.perf_counter() if origin is None else origin
        self.times_s: list[float] = []
        self.samples: list[dict[str, float]] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Sampler:
        if self._sensors.available:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._sensors.available:
            self._thread.join()

    def _work(self) -> None:
        while True:
            self.times_s.append(time.perf_counter() - self._origin)
            self.samples.append(self._sensors.read())
            if self._done.wait(SAMPLE_PERIOD_S):
                return

    def columns(self) -> dict[str, list[float]]:
        """The samples as columns, for the record; only what every sample has."""
        names = set.intersection(*(set(s) for s in self.samples)) if self.samples else set()
        columns = {name: rounded([s[name] for s in self.samples], 5) for name in sorted(names - {"reasons"})}
        if "reasons" in names:
            columns["reasons"] = [int(s["reasons"]) for s in self.samples]
        return {"time_s": rounded(self.times_s, 5), **columns}
