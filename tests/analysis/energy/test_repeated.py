"""Repeated work: its power without the ends of the window, within its error; other runs are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labcode.analysis.energy.repeated import repeated, steady, windows_of
from labcode.analysis.energy.sensor import Load, Sensor
from labcode.analysis.energy.window import curve_of
from labcode.errors import InputError
from labcode.reports.power.log import PowerLog
from labcode.reports.power.log import log_of as log_of_document
from labcode.reports.power.schema import Clock, Device, Document

SECOND = 1_000_000_000


def log_of(load: Load, *, phase_s: float = 0.0, every_s: float = 0.01) -> PowerLog:
    """A log of a made-up sensor, sampled so often, over the whole load."""
    times = np.arange(0, float(load.edges_ns[-1]) + SECOND, every_s * SECOND)
    samples = Sensor(phase_s=phase_s).samples(load, times).assign(sm_mhz=1755.0)
    devices = pd.DataFrame({"device": [0], "name": ["GPU"], "samples": [len(samples)]})
    empty = pd.DataFrame({"name": [], "begin_ns": [], "end_ns": []})
    return PowerLog(
        *(Path("x.power.json"), devices, samples, empty, pd.DataFrame()),
        *(every_s, "", "", 0, False, ()),
    )


def load_of(*stretches: tuple[float, float]) -> Load:
    """Watts, each for so many seconds."""
    edges = np.concatenate([[0.0], np.cumsum([seconds for _, seconds in stretches])]) * SECOND
    return Load(edges, np.array([watts for watts, _ in stretches]))


def record_of(**windows: tuple[float, float]) -> dict[str, Any]:
    return {
        "program": "energy",
        "results": {
            "windows": {
                name: {
                    "begin_ns": int(a * SECOND),
                    "end_ns": int(b * SECOND),
                    "repetitions": 10,
                    "flop": 1e12,
                }
                for name, (a, b) in windows.items()
            }
        },
    }


@pytest.mark.parametrize("phase_s", [0.0, 0.03, 0.071])
def test_power_is_that_of_the_work_and_not_of_its_neighbors(phase_s: float) -> None:
    log = log_of(load_of((90, 1.0), (600, 2.0), (90, 1.0)), phase_s=phase_s)
    watts, error, updates = steady(curve_of(log.of(0)), 1.0 * SECOND, 3.0 * SECOND)
    assert abs(watts - 600) <= error < 12
    assert 17 <= updates <= 20


def waiting(log: PowerLog, calls: list[tuple[float, float]], rng: np.random.Generator) -> pd.DataFrame:
    """Samples of such a log, each read at a moment that its call (begin and end, s) does not tell."""
    begun, ended = (np.array(column) * SECOND for column in zip(*calls, strict=True))
    read = begun + rng.random(len(calls)) * (ended - begun)
    found = log.samples.iloc[np.searchsorted(log.samples["t_ns"], read, "right") - 1].reset_index(drop=True)
    middle = (begun + ended) / 2
    return found.assign(before_ns=begun, after_ns=ended, t_ns=middle).astype(
        dict.fromkeys(("before_ns", "after_ns", "t_ns"), "int64")
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("version", [1, 2])
def test_the_bound_holds_where_calls_wait(seed: int, version: int) -> None:
    rng = np.random.default_rng(seed)
    log = log_of(load_of((90, 1.0), (600, 2.0), (90, 1.0)), phase_s=rng.random() / 10, every_s=0.0001)
    calls, now = [], 0.0
    while now < 4.5:
        end = now + (rng.uniform(0.03, 0.14) if rng.random() < 0.05 else rng.uniform(0.0005, 0.006))
        calls.append((now, end))
        now = np.ceil(end / 0.01 + 1e-9) * 0.01  # the next turn of ten milliseconds
    samples = waiting(log, calls, rng)
    if version == 1:
        middles = [int(t) for t in samples["t_ns"]]
        device = Device(number=0, name="GPU", t_ns=middles)
        old = Document(version=1, clock=Clock("CLOCK_MONOTONIC", []), period_ns=10_000_000, devices=[device])
        columns = ["t_ns", "before_ns", "after_ns"]
        samples[columns] = log_of_document(old, Path("x.power.json")).of(0)[columns]
    watts, error, updates = steady(curve_of(samples), 1.0 * SECOND, 3.0 * SECOND)
    assert abs(watts - 600) <= error + 0.1  # the sensor was asked every tenth of a millisecond
    assert error < 30 and updates >= 10


def test_an_update_whose_call_waited_is_no_end() -> None:
    log = log_of(load_of((90, 1.0), (600, 2.0), (90, 1.0)), phase_s=0.03)
    samples = log.of(0)
    last = samples["t_ns"].between(2.84 * SECOND, 2.97 * SECOND)  # around the update at 2.93 s: one call
    kept = samples[~last].reset_index(drop=True)
    call = int(np.argmax(kept["t_ns"] > 2.9 * SECOND))
    kept.loc[call, ["before_ns", "t_ns", "after_ns"]] = [2_840_000_000, 2_905_000_000, 2_970_000_000]
    watts, error, _ = steady(curve_of(kept), 1.0 * SECOND, 3.0 * SECOND)
    assert watts == pytest.approx(600, rel=1e-3)
    assert error < 8


def test_too_few_updates_give_no_power() -> None:
    log = log_of(load_of((90, 1.0), (600, 0.25), (90, 1.0)))
    watts, error, updates = steady(curve_of(log.of(0)), 1.0 * SECOND, 1.25 * SECOND)
    assert np.isnan(watts)
    assert np.isnan(error)
    assert updates < 3


def test_a_row_a_window_with_what_the_program_said() -> None:
    log = log_of(load_of((100, 1.0), (500, 2.0), (300, 2.0), (100, 1.0)))
    table = repeated(record_of(dear=(1, 3), cheap=(3, 5)), log)
    assert list(table.index) == ["dear", "cheap"]
    assert table["watts"].to_numpy() == pytest.approx([500, 300], rel=0.02)
    assert table["energy_j"].to_numpy() == pytest.approx([1000, 600], rel=0.02)
    assert table["each_j"].to_numpy() == pytest.approx([100, 60], rel=0.02)
    assert (abs(table["counter_j"] - [1000, 600]) <= table["counter_error_j"]).all()
    assert set(table["sm_mhz"]) == {1755.0}
    assert set(table["flop"]) == {1e12}


def test_a_log_of_another_run_is_refused() -> None:
    with pytest.raises(InputError, match="does not cover the window 'late'; the log is of another run"):
        repeated(record_of(late=(30, 32)), log_of(load_of((100, 5.0))))


def test_a_record_without_windows_is_refused() -> None:
    with pytest.raises(InputError, match="softmax: its record has no windows of time"):
        windows_of({"program": "softmax", "results": {}})
