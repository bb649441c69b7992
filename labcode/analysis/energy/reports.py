"""The tables of `labcode stats` on power logs: a log in, a table out."""

import numpy as np
import pandas as pd

from labcode.analysis.energy.window import curve_of, idle_power
from labcode.reports.report import PowerReport


def power_sum(log: PowerReport) -> pd.DataFrame:
    """Energy, mean and peak power of each GPU while the command ran.

    device, name, seconds, energy_j ± error_j (by the counter; nan where the time was too short), integral_j
    (by power), mean_w, peak_w, power_limit_w, idle_w, above_idle_j, sm_mhz (mean), temperature_c (highest),
    updates (of the counter), update_ms, verdict (what speaks against the numbers).
    """
    begin, end = log.window()
    rows = []
    for device, name, limit in _devices(log):
        samples = log.of(device)
        curve = curve_of(samples)
        idle_w, idle_error_w = idle_power(log, curve)
        one = curve.energy(begin, end, idle_w=idle_w, idle_error_w=idle_error_w)
        inside = samples[(samples["t_ns"] >= begin) & (samples["t_ns"] <= end)]
        rows.append(
            {
                "device": device,
                "name": name,
                "seconds": one.seconds,
                "energy_j": one.counter_j,
                "error_j": one.error_j,
                "integral_j": one.integral_j,
                "mean_w": one.mean_w,
                "peak_w": one.peak_w,
                "power_limit_w": limit,
                "idle_w": idle_w,
                "above_idle_j": one.above_idle_j,
                "sm_mhz": inside["sm_mhz"].mean(),
                "temperature_c": inside["temperature_c"].max(),
                "updates": one.updates,
                "update_ms": curve.update_s * 1e3,
                "verdict": one.verdict,
            }
        )
    return pd.DataFrame(rows)


def power_trace(log: PowerReport) -> pd.DataFrame:
    """Every sample: powers, the counter since the first one, clocks, temperature, reasons (bits of NVML)."""
    samples = log.samples
    begin = int(samples["t_ns"].min()) if len(samples) else 0
    first = samples.groupby("device")["energy_j"].transform("first")
    table = samples.assign(energy_j=samples["energy_j"] - first)
    table.insert(1, "time_ms", (table.pop("t_ns") - begin) / 1e6)
    return table


def clock_reasons(log: PowerReport) -> pd.DataFrame:
    """Why clocks were lower than they could be, while the command ran: seconds and share by reason.

    device, reason, seconds, share (of the time that samples cover). Only reasons that were there.
    """
    begin, end = log.window()
    rows = []
    for device, _, _ in _devices(log):
        curve = curve_of(log.of(device))
        covered = curve.energy(begin, end).seconds
        for reason, seconds in curve.throttled(begin, end).items():
            rows.append((device, reason, seconds, seconds / covered if covered else np.nan))
    table = pd.DataFrame(rows, columns=["device", "reason", "seconds", "share"])
    return table.astype({"device": "int64", "reason": "str", "seconds": "float64", "share": "float64"})


def _devices(log: PowerReport) -> list[tuple[int, str, float]]:
    """Number, name and power limit of each GPU that has samples."""
    there = log.devices[log.devices["samples"] > 0]
    return list(there[["device", "name", "power_limit_w"]].itertuples(index=False, name=None))
