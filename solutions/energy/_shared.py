"""Made-up power logs: watts over time and a counter that is updated at intervals in; samples out.

Times are whole nanoseconds, energies multiples of a quarter joule, so that no rounding decides an answer.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

Rng = np.random.Generator
MS = 1_000_000
Stretches = Sequence[tuple[int, int]]  # watts, and for how many ms


def samples(
    rng: Rng, stretches: Stretches, *, update_ms: int = 100, every_ms: int = 20, phase_ms: int = 0
) -> pd.DataFrame:
    """A log of one GPU: t_ns, energy_j, instant_w, sm_mhz, reasons; sampled and updated so often.

    The counter and the instantaneous power are those of the last update, which come ``phase_ms`` after each
    multiple of their period.
    """
    total = sum(ms for _, ms in stretches)
    watts = np.concatenate([np.full(ms, float(w)) for w, ms in stretches])
    joules = np.concatenate([[0.0], np.cumsum(watts)]) / 1000  # at each ms
    start = int(rng.integers(10**12, 10**13)) // MS * MS
    before = float(rng.integers(10**5, 10**6))
    at = np.arange(0, total + 1, every_ms)
    known = np.clip((at - phase_ms) // update_ms * update_ms + phase_ms, 0, total)
    return pd.DataFrame(
        {
            "t_ns": start + at.astype(np.int64) * MS,
            "energy_j": before + np.round(joules[known] * 4) / 4,
            "instant_w": watts[np.clip(known - 1, 0, total - 1)],
            "sm_mhz": np.full(len(at), 1755),
            "reasons": np.zeros(len(at), np.int64),
        }
    )


def at_ms(log: pd.DataFrame, ms: float) -> int:
    """The time so many ms after the first sample."""
    return int(log["t_ns"].iloc[0]) + int(ms * MS)


def describe(log: pd.DataFrame, begin_ns: int, end_ns: int) -> str:
    """A log and a window in a few words."""
    first = int(log["t_ns"].iloc[0])
    seconds = (int(log["t_ns"].iloc[-1]) - first) / 1e9
    return (
        f"{len(log)} samples over {seconds:.2f} s; window from {(begin_ns - first) / 1e9:.3f} s "
        f"to {(end_ns - first) / 1e9:.3f} s after the first"
    )
