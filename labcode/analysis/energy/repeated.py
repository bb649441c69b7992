"""Work repeated in windows: a program's record and the power log of its run in, watts and joules out.

While the same work is done over and over, its mean power is what the counter rises by between two of its
updates, divided by the time between them. That leaves the ends of the window out, where a counter that is
updated ten times a second is worth little, and with them most of the error: what remains is when the two
updates were, known to one sample.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.energy.window import FEW_UPDATES, Curve, curve_of, idle_power
from labcode.errors import InputError
from labcode.reports.report import PowerReport


def steady(curve: Curve, begin_ns: float, end_ns: float) -> tuple[float, float, int]:
    """Mean power of work that does not change, in W, its error (a bound), and the updates it rests on.

    The first update in the window still counts what was before it, and is left out. (nan, nan, updates)
    where fewer than three are left.
    """
    first = begin_ns + (0.0 if np.isnan(curve.update_s) else 1e9 * curve.update_s)
    inside = np.flatnonzero((curve.knots_ns >= first) & (curve.knots_ns <= end_ns))
    if len(inside) < 3:
        return float("nan"), float("nan"), len(inside)
    low, high = int(inside[0]), int(inside[-1])
    seconds = (curve.knots_ns[high] - curve.knots_ns[low]) / 1e9
    watts = float((curve.knots_j[high] - curve.knots_j[low]) / seconds)
    late = sum(float(curve.knots_ns[k] - curve.known_after_ns[k]) for k in (low, high)) / 1e9
    return watts, watts * late / seconds, len(inside)


def windows_of(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The windows of a program's record by name; `InputError` where it has none."""
    found = record.get("results", {}).get("windows")
    if not isinstance(found, dict) or not found:
        raise InputError(
            f"{record.get('program', 'this program')}: its record has no windows of time, so no energies; "
            "give the record of one of the programs named energy"
        )
    return found


def repeated(record: Mapping[str, Any], log: PowerReport, device: int = 0) -> pd.DataFrame:
    """A row for each window, by its name: what the program said of it, and what its work took.

    Added are ``seconds``, ``watts`` and ``watts_error`` (a bound) while the work is repeated, ``energy_j``
    and ``error_j`` of the window at that power, ``each_j`` of one repetition; ``counter_j`` and
    ``counter_error_j`` between the window's very ends, for work that pauses; ``instant_j`` by sampled power;
    ``idle_w`` before the program; ``sm_mhz`` (median), ``slowed`` (reasons, '' for none), ``updates``.
    `InputError` where the log is of another run.
    """
    samples = log.of(device)
    curve = curve_of(samples)
    idle_w, _ = idle_power(log, curve)
    first, last = float(samples["t_ns"].min()), float(samples["t_ns"].max())
    rows = {}
    for name, told in windows_of(record).items():
        begin, end = float(told["begin_ns"]), float(told["end_ns"])
        if begin < first or end > last:
            raise InputError(f"{log.path}: does not cover the window {name!r}; the log is of another run")
        watts, watts_error, updates = steady(curve, begin, end)
        whole = curve.energy(int(begin), int(end))
        seconds = (end - begin) / 1e9
        inside = samples[(samples["t_ns"] >= begin) & (samples["t_ns"] <= end)]
        rows[name] = {
            **{key: value for key, value in told.items() if not isinstance(value, list)},
            "seconds": seconds,
            "watts": watts,
            "watts_error": watts_error,
            "energy_j": watts * seconds,
            "error_j": watts_error * seconds,
            "each_j": watts * seconds / max(told.get("repetitions", 1), 1),
            "counter_j": whole.counter_j,
            "counter_error_j": whole.error_j,
            "instant_j": whole.integral_j,
            "idle_w": idle_w,
            "sm_mhz": float(inside["sm_mhz"].median()),
            "slowed": ", ".join(whole.throttled),
            "updates": updates,
            "few": updates < FEW_UPDATES,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("window")
