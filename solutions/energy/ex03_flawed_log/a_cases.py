"""Hidden cases of part a (the flaw in a log): a generator in, logs with one flaw, or more, or none, out."""

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from solutions.energy import _shared as energy

Rng = np.random.Generator


def _log(rng: Rng, ms: int = 4000) -> pd.DataFrame:
    watts = int(rng.integers(12, 28)) * 25
    return energy.samples(rng, ((watts, ms),))


def _changed(log: pd.DataFrame, column: str, rows: object, value: object) -> pd.DataFrame:
    found = log.copy()
    found.loc[rows, column] = value
    return found


def _without(log: pd.DataFrame, begin_ms: int, end_ms: int) -> pd.DataFrame:
    """Without the samples strictly between two moments."""
    at = (log["t_ns"] - log["t_ns"].iloc[0]) / energy.MS
    return log[(at <= begin_ms) | (at >= end_ms)].reset_index(drop=True)


def _reset(log: pd.DataFrame, at_ms: int) -> pd.DataFrame:
    """The counter begins anew at a moment."""
    later = (log["t_ns"] - log["t_ns"].iloc[0]) >= at_ms * energy.MS
    found = log.copy()
    found.loc[later, "energy_j"] -= float(log.loc[later, "energy_j"].iloc[0])
    return found


def _fallen(log: pd.DataFrame, at_ms: int, joules: float) -> pd.DataFrame:
    """The counter falls by some joules at a moment, and goes on."""
    return _changed(
        log, "energy_j", log["t_ns"] - log["t_ns"].iloc[0] >= at_ms * energy.MS, log["energy_j"] - joules
    )


def _scenes(rng: Rng) -> dict[str, tuple[pd.DataFrame, float, float]]:
    """Logs, and the window in ms after the first sample."""
    log = _log(rng)
    off = (log["t_ns"] - log["t_ns"].iloc[0]) / energy.MS
    middle = off.between(1200, 2000)
    inside = log[off.between(1000, 3000)]
    exact = (inside["energy_j"].iloc[-1] - inside["energy_j"].iloc[0]) / np.trapezoid(
        inside["instant_w"], inside["t_ns"] / 1e9
    )
    changing = energy.samples(rng, ((100, 1500), (600, 1000), (100, 1500)))
    return {
        "two seconds": (log, 1000, 3000),
        "the whole log": (log, 0, 4000),
        "begins before the log": (log, -1, 3000),
        "ends after the log": (log, 1000, 4001),
        "a gap of half a second": (_without(log, 1500, 2000), 1000, 3000),
        "a gap of more": (_without(log, 1500, 2020), 1000, 3000),
        "a gap at the begin": (_without(log, 980, 1520), 1000, 3000),
        "a gap at the end": (_without(log, 2480, 3020), 1000, 3000),
        "a gap of a nanosecond more": (_without(log, 980, 1520), 1019.999999, 3000),
        "hardly any power": (energy.samples(rng, ((5, 4000),)), 1000, 3000),
        "a gap outside": (_without(log, 200, 900), 1000, 3000),
        "a reset": (_reset(log, 2000), 1000, 3000),
        "a reset at the begin": (_reset(log, 1000), 1000, 3000),
        "a fall that is made up for": (_fallen(log, 1500, float(log["instant_w"].iloc[0]) / 4), 1000, 3000),
        "a reset before": (_reset(log, 500), 1000, 3000),
        "a counter that stands still": (_changed(log, "energy_j", off > 900, 5.0), 1000, 3000),
        "half a second": (log, 1010, 1510),
        "nine updates": (log, 1000, 1900),
        "ten updates": (log, 1000, 2000),
        "the power cap": (_changed(log, "reasons", middle, 0x4), 1000, 3000),
        "heat, and an idle bit": (_changed(log, "reasons", middle, 0x41), 1000, 3000),
        "idle bits only": (_changed(log, "reasons", off > 0, 0x1), 1000, 3000),
        "clocks set by a user": (_changed(log, "reasons", off > 0, 0x2), 1000, 3000),
        "throttled before": (_changed(log, "reasons", off < 1000, 0x8), 1000, 3000),
        "throttled at the end": (_changed(log, "reasons", off == 3000, 0x20), 1000, 3000),
        "throttled at the begin": (_changed(log, "reasons", off == 1000, 0x80), 1000, 3000),
        "power reads too low": (log.assign(instant_w=log["instant_w"] * 0.9), 1000, 3000),
        "power reads too high": (log.assign(instant_w=log["instant_w"] * 1.06), 1000, 3000),
        "power reads a little high": (log.assign(instant_w=log["instant_w"] * 1.04), 1000, 3000),
        "power reads a little low": (log.assign(instant_w=log["instant_w"] * 0.96), 1000, 3000),
        "power reads 4.88 % low, which is 5.13 % of what it reads": (
            log.assign(instant_w=log["instant_w"] * exact * 0.9512),
            1000,
            3000,
        ),
        "power changes": (changing, 1000, 3000),
        "fewer samples where power is high": (
            changing[~(off.between(1520, 2480) & (off % 100 != 0))].reset_index(drop=True),
            1000,
            3000,
        ),
        "eight times the power in the first sample": (
            _changed(log, "instant_w", off == 1000, 8 * log["instant_w"]),
            1000,
            3000,
        ),
        "eight times the power in the last sample": (
            _changed(log, "instant_w", off == 3000, 8 * log["instant_w"]),
            1000,
            3000,
        ),
        "a spike of one sample": (_changed(log, "instant_w", off == 1000, 90_000.0), 1000, 3000),
        "short and throttled": (_changed(log, "reasons", off > 0, 0x4), 1010, 1510),
        "a reset and a gap": (_reset(_without(log, 1500, 2100), 2500), 1000, 3000),
    }


def cases(rng: Rng) -> list[Case]:
    """A log a case."""
    made = []
    for name, (log, begin_ms, end_ms) in _scenes(rng).items():
        first = int(log["t_ns"].iloc[0])
        begin, end = first + round(begin_ms * energy.MS), first + round(end_ms * energy.MS)
        made.append(Case(name, energy.describe(log, begin, end), "flaw", (log, begin, end)))
    return made
