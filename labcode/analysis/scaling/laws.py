"""Speed-up, efficiency and the laws they follow: times by number of GPUs in; tables, fits with intervals out.

Strong scaling gives the same work to more GPUs: the speed-up is T(1) / T(n), the efficiency its n-th part.
Weak scaling gives each GPU the same work: the efficiency is T(1) / T(n), the scaled speed-up n times that.

- Amdahl (1967), strong: a share σ of the work is done by one: S = 1 / (σ + (1 − σ) / n).
- Gustafson (1988), weak: a share σ of the time is spent so: S = n − σ (n − 1).
- Universal scalability (Gunther 1993), strong: S = n / (1 + σ (n − 1) + κ n (n − 1)); κ is what every pair of
  GPUs costs, so that more of them can be slower.

Each is linear in its parameters once it is turned round, and is fitted so, none of them negative. Intervals
come from drawing the repeated times again: they say how well times were measured, not whether the law holds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from labcode.analysis.numeric import nonnegative_least_squares
from labcode.analysis.scaling.samples import Times, checked, drawn_medians, interval
from labcode.errors import InputError
from labcode.reports.columns import Floats

Kind = Literal["strong", "weak"]
Law = Literal["amdahl", "gustafson", "universal"]


@dataclass(frozen=True)
class _Form:
    """A law: which scaling it is about, its parameters, its linear form and the speed-up it gives."""

    kind: Kind
    names: tuple[str, ...]
    rows: Callable[[Floats], Floats]  # n → a row of factors of the parameters each
    target: Callable[[Floats, Floats], Floats]  # n, speed-up → what they add up to
    speedup: Callable[[Floats, Floats], Floats]  # n, parameters (last axis) → speed-up


def _universal(n: Floats, p: Floats) -> Floats:
    return np.asarray(n / (1 + p[..., :1] * (n - 1) + p[..., 1:] * n * (n - 1)))


_FORMS: dict[Law, _Form] = {
    "amdahl": _Form(
        *("strong", ("serial",)),
        lambda n: np.stack([1 - 1 / n], axis=1),
        lambda n, s: 1 / s - 1 / n,
        lambda n, p: 1 / (p + (1 - p) / n),
    ),
    "gustafson": _Form(
        *("weak", ("serial",)),
        lambda n: np.stack([n - 1], axis=1),
        lambda n, s: n - s,
        lambda n, p: n - p * (n - 1),
    ),
    "universal": _Form(
        *("strong", ("contention", "crosstalk")),
        lambda n: np.stack([n - 1, n * (n - 1)], axis=1),
        lambda n, s: n / s - 1,
        _universal,
    ),
}


@dataclass(frozen=True)
class Fit:
    """A law's parameters with an interval of 95 %; ``drawn``: those of each drawing, a row each."""

    law: Law
    names: tuple[str, ...]
    values: Floats
    low: Floats
    high: Floats
    drawn: Floats

    def table(self) -> pd.DataFrame:
        """parameter, value, low, high."""
        return pd.DataFrame(
            {"parameter": self.names, "value": self.values, "low": self.low, "high": self.high}
        )


def efficiency(times: Times, kind: Kind) -> pd.DataFrame:
    """count, time (median), speedup, efficiency with ``_low`` and ``_high``, relative to the smallest count.

    `InputError` for fewer than two counts, counts that do not ascend, times that are not positive.
    """
    counts, values = checked(times)
    medians = np.array([np.median(own) for own in values])
    speed = _speedups(counts, medians, kind)
    low, high = interval(_speedups(counts, drawn_medians(values), kind) / counts)
    return pd.DataFrame(
        {
            "count": counts.astype(int),
            "time": medians,
            "speedup": speed,
            "efficiency": speed / counts,
            "efficiency_low": low,
            "efficiency_high": high,
        }
    )


def _speedups(counts: Floats, medians: Floats, kind: Kind) -> Floats:
    """Speed-up over one GPU; where the first count is more, these are taken to scale perfectly."""
    work = counts if kind == "weak" else np.full_like(counts, counts[0])
    return np.asarray(work * medians[..., :1] / medians, np.float64)


def fit(law: Law, times: Times) -> Fit:
    """Fit a law to times: strong scaling for Amdahl's and the universal law, weak for Gustafson's.

    `InputError` as for `efficiency`; also where the law has more parameters than there are numbers of GPUs
    beside the first, or the first is not 1.
    """
    form = _FORMS[law]
    counts, values = checked(times, least=len(form.names) + 1)
    if counts[0] != 1:
        raise InputError(f"{law}'s law starts from one GPU, the times from {int(counts[0])}; measure one")
    n = counts[1:]
    rows = form.rows(n)

    def solve(medians: Floats) -> Floats:
        target = form.target(n, _speedups(counts, medians, form.kind)[1:])
        found = nonnegative_least_squares(rows, target)
        return np.asarray(np.minimum(found, 1.0))

    drawn = np.array([solve(medians) for medians in drawn_medians(values)])
    low, high = interval(drawn)
    best = solve(np.array([np.median(own) for own in values]))
    return Fit(law, form.names, best, low, high, drawn)


def speedup(law: Law, count: int, *values: float) -> float:
    """What a law with these parameters gives ``count`` GPUs."""
    return float(_FORMS[law].speedup(np.array([float(count)]), np.array([values]))[0, 0])


def predict(found: Fit, counts: list[int]) -> pd.DataFrame:
    """count, speedup, low, high by a fitted law; `InputError` for counts below 1."""
    if any(count < 1 for count in counts):
        raise InputError(f"numbers of GPUs are whole and from 1 on, not {', '.join(map(str, counts))}")
    n = np.asarray(counts, np.float64)
    form = _FORMS[found.law]
    low, high = interval(form.speedup(n, found.drawn))
    return pd.DataFrame(
        {"count": counts, "speedup": form.speedup(n, found.values[None])[0], "low": low, "high": high}
    )
