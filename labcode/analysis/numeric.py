"""Statistics that NumPy has not: arrays and counts in; least squares without negative coefficients, a
quantile of the binomial distribution, the interval of a share out.
"""

from math import sqrt
from statistics import NormalDist

import numpy as np

from labcode.reports.columns import Floats


def nonnegative_least_squares(factors: Floats, values: Floats) -> Floats:
    """The coefficients ≥ 0 with which ``factors`` (rows by coefficients) explain ``values`` best.

    Lawson, Hanson: *Solving Least Squares Problems*, 1974, chapter 23. Coefficients leave zero one by one,
    that first which promises most; where one would become negative, those go back that reach zero first.
    """
    found = np.zeros(factors.shape[1])
    free = np.zeros(factors.shape[1], bool)
    least = 10 * np.finfo(float).eps * np.linalg.norm(factors) * np.linalg.norm(values)
    for _ in range(3 * len(found)):  # in theory it ends by itself; rounding may send one to and fro
        gain = np.where(free, 0.0, factors.T @ (values - factors @ found))
        if gain.max(initial=0.0) <= least:
            break
        free[gain.argmax()] = True
        while True:
            wanted = np.zeros(len(found))
            wanted[free] = np.linalg.lstsq(factors[:, free], values, rcond=None)[0]
            below = free & (wanted <= 0)
            if not below.any():
                break
            found += (wanted - found) * (found[below] / (found[below] - wanted[below])).min()
            free &= found > np.finfo(float).eps * found.max()
            found[~free] = 0.0
        found = wanted
    return found


def binomial_quantile(share: float, count: int, chance: float) -> int:
    """The smallest number of successes of so many trials that ``share`` of all outcomes do not exceed."""
    places = np.arange(1, count + 1)
    ways = np.concatenate([[0.0], np.cumsum(np.log((count - places + 1) / places))])  # their logarithms
    places = np.arange(count + 1)
    chances = np.exp(ways + places * np.log(chance) + (count - places) * np.log1p(-chance))
    return min(int(np.searchsorted(np.cumsum(chances), share)), count)


def wilson(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a share of which ``count`` independent samples had ``hits`` (Wilson, 1927): all shares
    from which the one seen differs by no more than it scatters.
    """
    if not count:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = (hits + z * z / 2) / (count + z * z)
    reach = z / (count + z * z) * sqrt(hits * (count - hits) / count + z * z / 4)
    return max(0.0, middle - reach), min(1.0, middle + reach)
