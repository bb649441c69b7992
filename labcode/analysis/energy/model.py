"""Where joules go: energies of kernels and what they did in; pJ per bit and per FLOP, with intervals, out.

The model is E = P₀·t + ε_bit·bits + Σ ε_flop·FLOP: a constant power while anything runs, and a price for each
bit moved and each operation done (Choi, Bedard, Fowler, Vuduc: *A Roofline Model of Energy*, IPDPS 2013).
Prices are found by least squares of relative errors in which no price is negative, and judged by leaving one
kernel out: the model of the others must predict it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.numeric import nonnegative_least_squares
from labcode.reports.columns import Floats

_RESAMPLED = 400
_LEVEL = 0.95
PICO = 1e12
UNITS: Mapping[str, tuple[str, float]] = {  # term → the unit of its price, and how many make a J
    "seconds": ("W", 1.0),
    "bytes": ("pJ/bit", PICO / 8),
}
_FLOP = ("pJ/FLOP", PICO)


@dataclass(frozen=True)
class Fit:
    """Prices ``values`` with an interval of 95 % (``low``, ``high``) by resampling, in J each.

    ``drawn``: the prices of each resampling, a row each.
    """

    values: Floats
    low: Floats
    high: Floats
    drawn: Floats


def fit(work: Floats, joules: Floats, *, relative: bool = False, seed: int = 1) -> Fit:
    """Prices ≥ 0 with which ``work`` (rows by terms) explains ``joules`` best.

    ``relative``: errors count as shares of the row's energy. The interval comes from fitting rows that are
    drawn again, with the same ``seed`` the same. ``ValueError`` with fewer rows than terms, or an energy that
    is not positive with ``relative``.
    """
    solve = _solver(work, joules, relative)
    everything = np.arange(len(joules))
    drawn = np.random.default_rng(seed).integers(0, len(joules), (_RESAMPLED, len(joules)))
    prices = np.array([solve(rows) for rows in drawn])
    edge = (1 - _LEVEL) / 2
    low, high = np.quantile(prices, (edge, 1 - edge), axis=0)
    return Fit(solve(everything), low, high, prices)


def _solver(work: Floats, joules: Floats, relative: bool) -> Callable[[NDArray[np.int64]], Floats]:
    """What gives the prices that explain some of the rows best, as `fit` says."""
    work, joules = np.asarray(work, np.float64), np.asarray(joules, np.float64)
    if work.ndim != 2 or len(work) != len(joules) or len(work) < work.shape[1]:
        raise ValueError(f"{len(joules)} energies cannot give {work.shape[-1]} prices; measure more kernels")
    if relative:
        if (joules <= 0).any():
            raise ValueError("an energy that is not positive has no relative error")
        work, joules = work / joules[:, None], np.ones(len(joules))
    scale = np.linalg.norm(work, axis=0)
    scale[scale == 0] = 1.0

    def solve(rows: NDArray[np.int64]) -> Floats:
        return np.asarray(nonnegative_least_squares(work[rows] / scale, joules[rows]) / scale)

    return solve


def prices(kernels: pd.DataFrame, terms: Sequence[str]) -> pd.DataFrame:
    """What each term costs: term, price, low, high, unit (W, pJ/bit, pJ/FLOP).

    ``kernels`` has energy_j and the terms as columns: ``seconds`` (its price is the constant power),
    ``bytes`` moved, and any number of columns of operations done (``flop``, ``flop_fp32``, …).
    """
    found = fit(kernels[list(terms)].to_numpy(np.float64), _joules(kernels), relative=True)
    units = [UNITS.get(term, _FLOP) for term in terms]
    factors = np.array([factor for _, factor in units])
    return pd.DataFrame(
        {
            "term": pd.Series(list(terms), dtype="str"),
            "price": found.values * factors,
            "low": found.low * factors,
            "high": found.high * factors,
            "unit": pd.Series([unit for unit, _ in units], dtype="str"),
        }
    )


def price_ratio(
    kernels: pd.DataFrame, terms: Sequence[str], over: str, under: str
) -> tuple[float, float, float]:
    """How many of ``under`` cost what one of ``over`` costs: the ratio, and its interval of 95 %.

    ``kernels`` and ``terms`` as for `prices`; bytes count as bytes, not as bits. The interval is that of the
    ratios of each resampling, since prices are not drawn apart from each other; infinite where ``under`` may
    cost nothing.
    """
    found = fit(kernels[list(terms)].to_numpy(np.float64), _joules(kernels), relative=True)
    top, bottom = terms.index(over), terms.index(under)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = found.drawn[:, top] / found.drawn[:, bottom]
        ratio = found.values[top] / found.values[bottom]
    edge = (1 - _LEVEL) / 2
    low, high = np.quantile(drawn[~np.isnan(drawn)], (edge, 1 - edge), method="nearest")
    return float(ratio), float(low), float(high)


def predict(kernels: pd.DataFrame, priced: pd.DataFrame) -> Floats:
    """The energy of kernels in J by a table of `prices`."""
    factors = [UNITS.get(term, _FLOP)[1] for term in priced["term"]]
    each = priced["price"].to_numpy(np.float64) / np.array(factors)
    return np.asarray(kernels[list(priced["term"])].to_numpy(np.float64) @ each)


def leave_one_out(kernels: pd.DataFrame, terms: Sequence[str]) -> pd.DataFrame:
    """Each kernel predicted by the model of all others: kernel, energy_j, predicted_j, error (a share).

    ``kernels`` as for `prices`, with a column kernel. ``ValueError`` where the others are fewer than terms.
    """
    rows = []
    for place in range(len(kernels)):
        others = kernels.drop(kernels.index[place])
        left = kernels.iloc[[place]]
        work = others[list(terms)].to_numpy(np.float64)
        values = _solver(work, _joules(others), relative=True)(np.arange(len(others)))
        predicted = float((left[list(terms)].to_numpy(np.float64) @ values)[0])
        measured = float(left["energy_j"].iloc[0])
        rows.append((left["kernel"].iloc[0], measured, predicted, predicted / measured - 1))
    return pd.DataFrame(rows, columns=["kernel", "energy_j", "predicted_j", "error"])


def roofline(
    intensity: Floats,
    *,
    watts: float,
    pj_per_bit: float,
    pj_per_flop: float,
    peak_flops: float,
    peak_bytes: float,
) -> Floats:
    """FLOP/J that the model allows at arithmetic intensities (FLOP/byte): the roofline of energy.

    ``peak_flops`` (FLOP/s) and ``peak_bytes`` (bytes/s) say how long a FLOP takes at that intensity, which
    ``watts`` of constant power are paid for.
    """
    per_byte = 1 / np.asarray(intensity, np.float64)
    seconds = np.maximum(1 / peak_flops, per_byte / peak_bytes)
    return np.asarray(1 / (watts * seconds + (pj_per_flop + pj_per_bit * 8 * per_byte) / PICO))


def _joules(kernels: pd.DataFrame) -> Floats:
    return kernels["energy_j"].to_numpy(np.float64)
