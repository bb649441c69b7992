"""Collectives: times by size and number of GPUs in; latency and bandwidth by a fit, and predicted times, out.

The α–β model: a call takes α, and its bytes pass at a bus bandwidth of B: t = α + factor · bytes / B. In a
ring α grows with the number of steps, n − 1; where launching costs most, it does not grow at all. Other
numbers of GPUs are therefore predicted with α(n) = α(n₀) · ((n − 1) / (n₀ − 1))ᵍ: g = ½, and anything from
0 to 1.

A prediction errs in two ways: α and B are known to within an interval, and they do not describe every size.
The second is drawn from what the fit itself misses, of sizes that mostly wait or of those that mostly move.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.energy import model
from labcode.analysis.scaling.bus import bus_bandwidth_gbps, bus_factor
from labcode.analysis.scaling.samples import DRAWS
from labcode.errors import InputError
from labcode.reports.columns import Floats

GROWTH = 0.5  # of α with the number of steps
_TO_FIT = 3  # least number of sizes


@dataclass(frozen=True)
class Link:
    """α and B of a collective, measured on ``count`` GPUs, with intervals of 95 % from drawing sizes again.

    ``drawn``: [draws, 2] α in s, 1/B in s per byte; ``worst``: the largest share by which a size was missed;
    ``missed``: measured ÷ fitted time − 1 of each size, ``moves``: whether its bytes take longer than α.
    """

    operation: str
    count: int
    alpha_us: float
    alpha_low_us: float
    alpha_high_us: float
    gbps: float
    gbps_low: float
    gbps_high: float
    worst: float
    drawn: Floats
    missed: Floats
    moves: NDArray[np.bool_]


def by_size(cases: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A record's cases as a table: operation, count, bytes, time_us (median), low_us, high_us, bus_gb_per_s.

    ``low_us`` and ``high_us`` are the quartiles of the repetitions.
    """
    rows = []
    for case in cases:
        times = case["times_us"]
        low, typical, high = map(float, np.quantile(times, (0.25, 0.5, 0.75)))
        what = (case["operation"], case["count"], case["bytes"])
        rows.append((*what, typical, low, high, bus_bandwidth_gbps(*what, typical * 1e-6)))
    names = ["operation", "count", "bytes", "time_us", "low_us", "high_us", "bus_gb_per_s"]
    return pd.DataFrame(rows, columns=names)


def fit(table: pd.DataFrame, operation: str, count: int) -> Link:
    """α and B from the sizes of one collective on one number of GPUs, by least squares of relative errors.

    `InputError` with fewer than three sizes, or times that are not positive.
    """
    own = table[(table["operation"] == operation) & (table["count"] == count)]
    if len(own) < _TO_FIT:
        raise InputError(
            f"{operation} on {count} GPUs: {len(own)} size(s), {_TO_FIT} are needed; measure more of them"
        )
    seconds = own["time_us"].to_numpy(np.float64) * 1e-6
    if not (seconds > 0).all():
        raise InputError(f"{operation} on {count} GPUs: a time is zero or negative; measure it again")
    moved = bus_factor(operation, count) * own["bytes"].to_numpy(np.float64)
    work = np.stack([np.ones_like(moved), moved], axis=1)
    found = model.fit(work, seconds, relative=True)
    if found.values[1] <= 0:
        raise InputError(f"{operation} on {count} GPUs: times do not grow with size; measure larger ones")
    (alpha, beta), (alpha_low, beta_low), (alpha_high, beta_high) = found.values, found.low, found.high
    worst = float(np.abs(work @ found.values / seconds - 1).max())
    rate, slow, fast = (1e-9 / b if b > 0 else float("inf") for b in (beta, beta_high, beta_low))
    alphas = (1e6 * alpha, 1e6 * alpha_low, 1e6 * alpha_high)
    missed = seconds / (work @ found.values) - 1
    moves = moved * beta >= alpha
    return Link(operation, count, *alphas, rate, slow, fast, worst, found.drawn, missed, moves)


def seconds(link: Link, count: int, size: float, alone_s: float | None = None) -> float:
    """Time of a collective of ``size`` bytes on ``count`` GPUs.

    With ``alone_s``, of several with so many bytes together, which took that long on ``link.count`` GPUs:
    what moving the bytes does not explain of it is their α.
    """
    values = np.array([[1e-6 * link.alpha_us, 1e-9 / link.gbps]])
    return float(_seconds(link, values, np.array([GROWTH]), np.ones(1), count, size, alone_s)[0])


def drawn_seconds(link: Link, count: int, size: float, alone_s: float | None = None) -> Floats:
    """What `seconds` may be as well, `DRAWS` times: by drawings of the fit and of what it misses, any g.

    The n-th is of the same drawing whatever is asked, where α and B decide. On ``link.count`` GPUs nothing
    is missed of an ``alone_s``: it was measured there.
    """
    rng = np.random.default_rng(4)
    rows = rng.integers(0, len(link.drawn), DRAWS)
    growth = rng.uniform(0.0, 1.0, DRAWS)
    moves = (
        alone_s is not None
        or bus_factor(link.operation, link.count) * size * 1e-3 / link.gbps >= link.alpha_us
    )
    alike = link.missed[link.moves == moves]
    factor = 1 + rng.choice(alike if len(alike) else link.missed, DRAWS)
    if alone_s is not None and count == link.count:
        factor = np.ones(DRAWS)
    return _seconds(link, link.drawn[rows], growth, factor, count, size, alone_s)


def _seconds(
    link: Link, values: Floats, growth: Floats, missed: Floats, count: int, size: float, alone_s: float | None
) -> Floats:
    """α grown and bytes moved; ``missed``: what the time is of what the fit says."""
    grown = ((count - 1) / (link.count - 1)) ** growth
    more = bus_factor(link.operation, count) / bus_factor(link.operation, link.count)
    here = bus_factor(link.operation, link.count) * size * values[:, 1]
    if alone_s is None:
        return np.asarray((values[:, 0] * grown + here * more) * missed)
    here = np.minimum(here, alone_s)
    return np.asarray((alone_s - here) * grown + here * more * missed)
