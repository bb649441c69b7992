"""What a GPU's power sensor resolves: samples in, how often its readings change, out; and a made-up sensor.

The sensor of an A100 or H100 averages over about a quarter of its update period and is blind in the rest
(arXiv 2312.02741, "Part-time Power Measurements"): `Sensor` shows what such a one says about a known load.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from labcode.reports.columns import Floats
from labcode.reports.report import PowerReport

READINGS = {"energy_j": "energy counter", "instant_w": "instantaneous power", "average_w": "average power"}


def updates(log: PowerReport) -> pd.DataFrame:
    """How often each reading changed: a row for each device and reading.

    device, reading, samples (int64), changes (int64), sampled_ms (median time between samples), update_ms
    (median time between changes; nan with fewer than two), longest_ms. Power that stays the same hides
    updates; the counter always changes. Nothing shorter than ``sampled_ms`` can be seen.
    """
    rows = []
    for device in log.devices.loc[log.devices["samples"] > 0, "device"]:
        samples = log.of(int(device))
        for column, reading in READINGS.items():
            mine = samples[samples[column].notna()]
            times, values = mine["t_ns"].to_numpy(np.float64), mine[column].to_numpy()
            changed = np.flatnonzero(np.diff(values) != 0) + 1
            middles = (times[changed] + times[changed - 1]) / 2
            gaps = np.diff(middles) / 1e6
            sampled = float(np.median(np.diff(times)) / 1e6) if len(times) > 1 else np.nan
            rows.append(
                (
                    *(int(device), reading, len(mine), len(changed), sampled),
                    *((float(np.median(gaps)), float(gaps.max())) if len(gaps) else (np.nan, np.nan)),
                )
            )
    columns = ["device", "reading", "samples", "changes", "sampled_ms", "update_ms", "longest_ms"]
    kinds = ["int64", "str", "int64", "int64", "float64", "float64", "float64"]
    return pd.DataFrame(rows, columns=columns).astype(dict(zip(columns, kinds, strict=True)))


@dataclass(frozen=True)
class Load:
    """A power over time that is known: ``watts`` between neighbors of ``edges_ns``, in W and ns."""

    edges_ns: Floats
    watts: Floats

    def energy(self, t_ns: Floats | float) -> Floats:
        """J used from the first edge to these moments; the last power goes on, before the first is none."""
        used = np.concatenate([[0.0], np.cumsum(self.watts * np.diff(self.edges_ns) / 1e9)])
        times = np.asarray(t_ns, np.float64)
        inside = np.interp(times, self.edges_ns, used)
        return np.asarray(inside + np.maximum(times - self.edges_ns[-1], 0.0) / 1e9 * self.watts[-1])

    @staticmethod
    def square(high_w: float, low_w: float, period_s: float, seconds: float, duty: float = 0.5) -> Load:
        """Power that alternates: ``duty`` of each period high, for so many seconds."""
        count = max(1, round(seconds / period_s))
        begins = np.arange(count) * period_s
        edges = np.sort(np.concatenate([begins, begins + duty * period_s, [count * period_s]])) * 1e9
        return Load(edges, np.tile([high_w, low_w], count))


@dataclass(frozen=True)
class Sensor:
    """A sensor that is updated every ``update_s`` and then says the mean power of the last ``averaged_s``.

    The counter adds what is true (``honest``) or what the sensor said times the update period, as one would
    that integrates the sensor. ``phase_s``: when the first update comes.
    """

    update_s: float = 0.1
    averaged_s: float = 0.025
    phase_s: float = 0.0
    honest: bool = True

    def samples(self, load: Load, at_ns: Floats) -> pd.DataFrame:
        """What calls that take no time read at these moments: a table as `PowerLog.of` gives it."""
        at = np.asarray(at_ns, np.float64)
        period = self.update_s * 1e9
        first = float(load.edges_ns[0]) + self.phase_s * 1e9
        last_update = first + np.floor((at - first) / period) * period
        moments = np.arange(min(float(last_update.min()), first) - period, float(at.max()) + period, period)
        moments = first + np.round((moments - first) / period) * period
        averaged = self.averaged_s * 1e9
        said = (load.energy(moments) - load.energy(moments - averaged)) / self.averaged_s
        counted = load.energy(moments) if self.honest else np.cumsum(said) * self.update_s
        place = np.clip(np.round((last_update - moments[0]) / period).astype(int), 0, len(moments) - 1)
        nothing = np.full(len(at), np.nan)
        return pd.DataFrame(
            {
                "device": np.zeros(len(at), np.int64),
                **dict.fromkeys(("t_ns", "before_ns", "after_ns"), at.astype(np.int64)),
                "instant_w": said[place],
                "average_w": nothing,
                "energy_j": counted[place],
                "sm_mhz": nothing,
                "memory_mhz": nothing,
                "temperature_c": nothing,
                "reasons": np.zeros(len(at), np.int64),
            }
        )
