"""Power logs (``.power.json``, ``.power.json.xz``) in, tables out::

    log = open_log("run.power.json.xz")
    log.of(0).plot(x="t_ns", y="instant_w")

`labcode energy` and `labcode.meter` write such logs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
import pandas as pd

from labcode.errors import InputError
from labcode.reports.common import Shown
from labcode.reports.documents import decoded, text_of
from labcode.reports.power.schema import COLUMNS, COMMAND, SCHEMA, VERSION, Device, Document

Times = np.ndarray[Any, np.dtype[np.int64]]
_MOST = 1 << 62
_MOST_VALUE = {  # beyond these no GPU can be, so the file is damaged
    "instant_mw": 100_000_000,
    "average_mw": 100_000_000,
    "sm_mhz": 1_000_000,
    "memory_mhz": 1_000_000,
    "temperature_c": 1_000,
}
_MOST_WINDOWS = 1 << 18  # the meter keeps 100,000
_DEVICE_TYPES = {
    "device": "int64",
    "nvml_index": "Int64",
    "name": "str",
    "digest": "str",
    "power_limit_w": "float64",
    "peak_w": "float64",
    "lost": "str",
    "samples": "int64",
}
_HOW = "name a .power.json or .power.json.xz that labcode recorded"


class _Head(msgspec.Struct):
    schema: Any = None
    version: Any = None


@dataclass(frozen=True, eq=False)
class PowerLog(Shown):
    """What was measured of the GPUs during one run, with times in ns of the log's own clock.

    ``devices`` has one row per GPU: device (CUDA's number), nvml_index (the machine's number, Int64), name,
    digest (in place of the UUID), power_limit_w, peak_w, lost ('', or why its samples end early), samples
    (how many). ``samples`` is sorted by device and time: device, t_ns (the middle of the NVML call that took
    the sample), before_ns and after_ns (that call's start and end), instant_w, average_w, energy_j (the
    counter, since the driver was loaded), sm_mhz, memory_mhz, temperature_c (all float64, nan where a reading
    is missing), reasons (int64: NVML's bits for why clocks are lowered, 0 where missing). ``windows``: name,
    begin_ns, end_ns. ``clock``: t_ns and utc_ns, the same instants on the log's clock and in UTC.

    ``period_s`` is the sampling period, ``driver`` the driver's version, ``command`` a short form of what
    ran, ``exit_code`` its exit code or None, ``partial`` True where something could not be measured,
    ``warnings`` one line for each oddity, and ``beside`` the Nsight Systems export of the same run, if any.
    """

    format: ClassVar[Literal["power"]] = "power"

    path: Path
    devices: pd.DataFrame
    samples: pd.DataFrame
    windows: pd.DataFrame
    clock: pd.DataFrame
    period_s: float
    driver: str
    command: str
    exit_code: int | None
    partial: bool
    warnings: tuple[str, ...]
    beside: Path | None = None

    def of(self, device: int) -> pd.DataFrame:
        """The samples of one device, numbered from 0; `InputError` where the log has none of it."""
        found = self.samples[self.samples["device"] == device]
        if not len(found):
            there = ", ".join(map(str, self.devices["device"]))
            raise InputError(f"{self.path}: no samples of GPU {device}; it has those of {there or 'none'}")
        return found.reset_index(drop=True)

    def window(self) -> tuple[int, int]:
        """(start, end) of the command in ns; without one, of the samples; (0, 0) without any."""
        found = self.windows[self.windows["name"] == COMMAND]
        if len(found):
            return int(found["begin_ns"].iloc[0]), int(found["end_ns"].iloc[0])
        if not len(self.samples):
            return 0, 0
        return int(self.samples["t_ns"].min()), int(self.samples["t_ns"].max())


def open_log(path: str | Path) -> PowerLog:
    """Open a power log; `InputError` for a file that is missing, damaged, not one, or of a newer version."""
    path = Path(path)
    text = text_of(path, less="sample less often")
    head = decoded(text, _Head, path, "a power log", how=_HOW)
    if head.schema != SCHEMA:
        raise InputError(f"{path}: JSON, but no power log: its schema is not {SCHEMA!r}; {_HOW}")
    if not isinstance(head.version, int) or isinstance(head.version, bool) or head.version < 1:
        raise InputError(f"{path}: a power log whose version is no number; {_HOW}")
    if head.version > VERSION:
        raise InputError(
            f"{path}: power log of version {head.version}, newer than this labcode knows ({VERSION}); "
            "update labcode"
        )
    return log_of(decoded(text, Document, path, "a power log", how=_HOW), path)


def log_of(document: Document, path: Path) -> PowerLog:
    """A log as tables; ``path`` only serves messages.

    Raises `InputError` for columns of unequal length, times that go backwards, and impossible values.
    """
    numbers = [device.number for device in document.devices]
    if len(set(numbers)) < len(numbers):
        raise InputError(f"{path}: two devices have the same number; the log is damaged, record it again")
    if any(not -1 < number < 1 << 31 for d in document.devices for number in (d.number, d.nvml_index or 0)):
        raise InputError(
            f"{path}: a device has a number that no GPU has; the log is damaged, record it again"
        )
    frames = [
        _samples(device, document.version, path) for device in document.devices or [Device(number=0, name="")]
    ]
    samples = pd.concat(frames, ignore_index=True)
    if len(document.windows) > _MOST_WINDOWS:
        raise InputError(
            f"{path}: {len(document.windows):,} windows, and a power log can have {_MOST_WINDOWS:,}; measure "
            "several repetitions of short work in one window"
        )
    for window in document.windows:
        if not 0 <= window.begin_ns <= window.end_ns < _MOST:
            raise InputError(
                f"{path}: the window {window.name[:40]!r} ends before it begins; the log is damaged"
            )
    for pair in document.clock.realtime_ns:
        _ints(pair, "clock", path)
    devices = pd.DataFrame(
        [
            (
                d.number,
                d.nvml_index,
                d.name,
                d.digest,
                _number(d.power_limit_w),
                _watts(d.peak_mw),
                d.lost,
                int((samples["device"] == d.number).sum()),
            )
            for d in document.devices
        ],
        columns=list(_DEVICE_TYPES),
    ).astype(_DEVICE_TYPES)
    return PowerLog(
        path=path,
        devices=devices,
        samples=samples,
        windows=pd.DataFrame(
            [(w.name, w.begin_ns, w.end_ns) for w in document.windows],
            columns=["name", "begin_ns", "end_ns"],
        ).astype({"name": "str", "begin_ns": "int64", "end_ns": "int64"}),
        clock=pd.DataFrame(document.clock.realtime_ns, columns=["t_ns", "utc_ns"]).astype("int64"),
        period_s=document.period_ns / 1e9,
        driver=document.driver,
        command=document.command,
        exit_code=document.exit_code,
        partial=document.partial,
        warnings=tuple(_warnings(document, samples, path)),
    )


def _calls(device: Device, version: int, path: Path) -> tuple[Times, Times, Times]:
    """Of each sample the middle of its call, when it began at the earliest, and when it ended at the latest.

    Version 1 has the middles alone. One call begins after the one before has ended; so half a call is no
    longer than the way to the neighboring middle, on either side.
    """
    if version > 1:
        before, after = _ints(device.before_ns, "before_ns", path), _ints(device.after_ns, "after_ns", path)
        if len(before) != len(after):
            raise InputError(
                f"{path}: GPU {device.number} has {len(before):,} calls that began and {len(after):,} that "
                "ended; the log is damaged, record it again"
            )
        _refuse(after < before, "a call ends before it begins", device, path)
        _refuse(np.append(False, before[1:] < after[:-1]), "times go back", device, path)
        return before + (after - before) // 2, before, after
    times = _ints(device.t_ns, "t_ns", path)
    steps = np.diff(times)
    _refuse(np.append(False, steps <= 0), "times go back", device, path)
    if not len(steps):
        return times, times, times
    half = np.minimum(np.append(steps[:1], steps), np.append(steps, steps[-1:]))
    return times, times - half, times + half


def _refuse(wrong: np.ndarray[Any, np.dtype[np.bool_]], what: str, device: Device, path: Path) -> None:
    if wrong.any():
        raise InputError(
            f"{path}: {what} at sample {int(np.argmax(wrong))} of GPU {device.number}; the log is damaged, "
            "record it again"
        )


def _samples(device: Device, version: int, path: Path) -> pd.DataFrame:
    times, before, after = _calls(device, version, path)
    raw = {name: _column(getattr(device, name), name, len(times), device.number, path) for name in COLUMNS}
    return pd.DataFrame(
        {
            "device": np.full(len(times), device.number, np.int64),
            "t_ns": times,
            "before_ns": before,
            "after_ns": after,
            "instant_w": raw["instant_mw"] / 1000,
            "average_w": raw["average_mw"] / 1000,
            "energy_j": raw["energy_mj"] / 1000,
            "sm_mhz": raw["sm_mhz"],
            "memory_mhz": raw["memory_mhz"],
            "temperature_c": raw["temperature_c"],
            "reasons": np.nan_to_num(raw["reasons"]).astype(np.int64),
        }
    )


def _ints(values: Sequence[int], name: str, path: Path) -> Times:
    if any(not -_MOST < value < _MOST for value in values):
        raise InputError(f"{path}: {name} has a number that is no time; the log is damaged, record it again")
    return np.array(values, np.int64)


def _column(
    values: Sequence[int | None] | None, name: str, count: int, device: int, path: Path
) -> np.ndarray[Any, np.dtype[np.float64]]:
    if values is None:
        return np.full(count, np.nan)
    if len(values) != count:
        raise InputError(
            f"{path}: GPU {device} has {count:,} times and {len(values):,} values of {name}; the log is "
            "damaged, record it again"
        )
    most = _MOST_VALUE.get(name, _MOST)
    if any(value is not None and not 0 <= value <= most for value in values):
        raise InputError(
            f"{path}: {name} of GPU {device} has a value that no GPU has; the log is damaged, record it again"
        )
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _warnings(document: Document, samples: pd.DataFrame, path: Path) -> list[str]:
    found = [f"{path}: {problem}" for problem in document.problems]
    for device in document.devices:
        mine = samples[samples["device"] == device.number]
        fell = int((mine["energy_j"].dropna().diff() < 0).sum())
        if fell:
            found.append(
                f"{path}: the energy counter of GPU {device.number} fell {fell} times: it was reset or "
                "wrapped; energies across that are bridged by power"
            )
        if mine["energy_j"].isna().all():
            found.append(f"{path}: no reading of the energy counter of GPU {device.number}")
    return found


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _watts(value: int | None) -> float:
    return float("nan") if value is None else value / 1000
