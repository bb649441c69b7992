"""Power logs whose truth is known."""

from pathlib import Path

import numpy as np

from labcode.analysis.energy.sensor import Load, Sensor
from labcode.reports.power.log import PowerLog, log_of
from labcode.reports.power.schema import Clock, Device, Document, Window

S = 1_000_000_000


def device(
    load: Load,
    *,
    sensor: Sensor | None = None,
    period_s: float = 0.02,
    seconds: float = 12.0,
    begin_s: float = 0.0,
    number: int = 0,
    nvml_index: int | None = None,
    name: str = "NVIDIA H100",
    reasons: int = 0,
) -> Device:
    """A device that was sampled while it bore a load, whose times begin at ``begin_s``."""
    at = np.arange(0, seconds, period_s) * S
    read = (sensor or Sensor()).samples(load, at)
    return Device(
        number=number,
        nvml_index=nvml_index,
        name=name,
        digest="abc",
        power_limit_w=700.0,
        before_ns=[round(t + begin_s * S) for t in at],
        after_ns=[round(t + begin_s * S) for t in at],
        instant_mw=[round(w * 1000) for w in read["instant_w"]],
        energy_mj=[round(j * 1000) for j in read["energy_j"]],
        sm_mhz=[1980] * len(at),
        memory_mhz=[2619] * len(at),
        temperature_c=[50] * len(at),
        reasons=[reasons] * len(at),
    )


def document(*devices: Device, windows: list[tuple[str, float, float]] | None = None) -> Document:
    """A log of these devices; windows in seconds."""
    return Document(
        clock=Clock("CLOCK_MONOTONIC", [(0, 0)]),
        period_ns=20_000_000,
        command="python3 train.py",
        exit_code=0,
        windows=[Window(n, round(b * S), round(e * S)) for n, b, e in windows or []],
        devices=list(devices),
    )


def log(*devices: Device, windows: list[tuple[str, float, float]] | None = None) -> PowerLog:
    """The same, opened."""
    return log_of(document(*devices, windows=windows), Path("run.power.json"))


def steady(watts: float = 400.0, seconds: float = 12.0) -> Load:
    """The same power all the time."""
    return Load(np.array([0.0, seconds * S]), np.array([watts]))
