"""Work repeated in windows: a program's record and the power log of its run in, watts and joules out.

While the same work is done over and over, its mean power is what the counter rises by between two of its
updates, divided by the time between them. That leaves the ends of the window out, where a counter that is
updated ten times a second is worth little, and with them most of the error: what remains is when the two
updates were, known to the calls that read them. A call that waited bounds its update badly, so of all pairs
of updates in the window that one is taken whose power is bounded best.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.energy.window import FEW_UPDATES, Curve, curve_of, idle_power
from labcode.errors import InputError
from labcode.reports.columns import Floats
from labcode.reports.report import PowerReport


def steady(curve: Curve, begin_ns: float, end_ns: float) -> tuple[float, float, int]:
    """Mean power of work that does not change, in W, its error (a bound), and the updates it rests on.

    An update counts what was since the one before: the first in the window is left out. The bound holds for
    a counter that is right at its updates: calls say within what time each of the two came, so the power lies
    between their joules over the longest and over the shortest time between them. (nan, nan, updates) where
    fewer than three are left, or where no two are certainly apart.
    """
    first = begin_ns + (0.0 if np.isnan(curve.update_s) else 1e9 * curve.update_s)
    inside = np.flatnonzero(
        (curve.knots_ns >= first) & (curve.known_after_ns >= begin_ns) & (curve.known_before_ns <= end_ns)
    )
    if len(inside) < 3:
        return float("nan"), float("nan"), len(inside)
    at, joules = curve.knots_ns[inside] / 1e9, curve.knots_j[inside]
    half = (curve.known_before_ns - curve.known_after_ns)[inside] / 2e9
    lows = np.flatnonzero(half < _least_before(half))  # an earlier one that is known as well is better
    highs = len(half) - 1 - np.flatnonzero(half[::-1] < _least_before(half[::-1]))
    seconds = at[highs] - at[lows][:, None]
    late = half[highs] + half[lows][:, None]
    apart = seconds > late
    if not apart.any():
        return float("nan"), float("nan"), len(inside)
    share = np.where(apart, late / np.where(apart, seconds - late, 1.0), np.inf)
    low, high = np.unravel_index(int(share.argmin()), share.shape)
    watts = float((joules[highs[high]] - joules[lows[low]]) / seconds[low, high])
    return watts, watts * float(share[low, high]), len(inside)


def _least_before(values: Floats) -> Floats:
    """For each value the least of those before it; infinite for the first."""
    return np.minimum.accumulate(np.append(np.inf, values[:-1]))


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
