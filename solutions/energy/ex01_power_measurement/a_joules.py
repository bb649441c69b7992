"""Exercise energy-ex01, part a: joules with bounds.

    samples   t_ns, energy_j, ascending in t_ns: an energy counter, read again and again. It counts joules
              since the driver was loaded and is updated about ten times a second; samples are more frequent,
              so several in a row show the same value. It never falls here.

`updates(samples)`: a list of (t_ns, energy_j), one for each new value: the time of the first sample that
shows it, and the value. The first sample's value is not new.

`bounds(samples, t_ns)`: what the counter can have stood at in truth at a moment, as (low, high): at least
what the last sample at or before it shows; at most the value of the first update seen after it. Without an
update after it both are the same. t_ns is never before the first sample.

`energy(samples, begin_ns, end_ns)`: a dictionary of a window:

    low, high   what it used at least and at most, in J; never below 0
    updates     how many updates were seen after its begin, up to and including its end
    verdict     'declined' with fewer than 3 updates, 'short' with fewer than 10, else 'good'

`mean_power(samples, begin_ns, end_ns)`: watts of even work, from its first to its last update in the window
(counted as above); None with fewer than two.

A worked example, ms and J:   t 0 20 40 60 80   energy 5 5 9 9 15

    updates         [(40 ms, 9), (80 ms, 15)]
    bounds at 50    (9, 15)      at 80: (15, 15)
    energy 0 … 80   at 0 it was 5 to 9, at 80 it was 15: low 6, high 10, updates 2, 'declined'
    mean_power      6 J in 40 ms: 150 W

Grade it:         labcode exercises energy-ex01a        (or: nox -s exercises -- energy-ex01a)
Get a hint:       labcode exercises energy-ex01a --hint
"""

from typing import Any

import pandas as pd


def updates(samples: pd.DataFrame) -> list[tuple[int, float]]:
    """When the counter was first seen with each new value, and the value."""
    # [solution]
    new = samples[samples["energy_j"].diff() > 0]
    return [(int(t), float(joules)) for t, joules in zip(new["t_ns"], new["energy_j"], strict=True)]
    # [starter]
    # raise NotImplementedError("the samples whose value differs from the one before")
    # [end]


def bounds(samples: pd.DataFrame, t_ns: int) -> tuple[float, float]:
    """What the counter can have stood at, at a moment."""
    # [solution]
    low = float(samples.loc[samples["t_ns"] <= t_ns, "energy_j"].iloc[-1])
    later = [joules for t, joules in updates(samples) if t > t_ns]
    return low, later[0] if later else low
    # [starter]
    # raise NotImplementedError("the last reading before, the next update after")
    # [end]


def energy(samples: pd.DataFrame, begin_ns: int, end_ns: int) -> dict[str, Any]:
    """What a window used at least and at most, and what that is worth."""
    # [solution]
    first, last = bounds(samples, begin_ns), bounds(samples, end_ns)
    count = len([t for t, _ in updates(samples) if begin_ns < t <= end_ns])
    return {
        "low": max(0.0, last[0] - first[1]),
        "high": last[1] - first[0],
        "updates": count,
        "verdict": "declined" if count < 3 else "short" if count < 10 else "good",
    }
    # [starter]
    # raise NotImplementedError("bounds at both ends, updates in between")
    # [end]


def mean_power(samples: pd.DataFrame, begin_ns: int, end_ns: int) -> float | None:
    """Watts between the first and the last update in a window."""
    # [solution]
    seen = [(t, joules) for t, joules in updates(samples) if begin_ns < t <= end_ns]
    if len(seen) < 2:
        return None
    return 1e9 * (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])
    # [starter]
    # raise NotImplementedError("joules over seconds between two updates")
    # [end]


if __name__ == "__main__":
    from labcode.reports.power.log import open_log
    from labcode.store import load_set

    captures = load_set()
    log = open_log(captures.path_of("energy_matmul", "record", ".power.json"))
    windows = captures.record("energy_matmul", "record")["results"]["windows"]
    for name in ("repeat 1", "bf16 random", "bf16 zeros"):
        begin_ns, end_ns = windows[name]["begin_ns"], windows[name]["end_ns"]
        found = energy(log.of(0), begin_ns, end_ns)
        print(f"{name:12} {found['low']:8.1f} to {found['high']:8.1f} J, {found['verdict']};", end=" ")
        print(f"{mean_power(log.of(0), begin_ns, end_ns):.0f} W")
