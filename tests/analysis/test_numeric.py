"""Statistics that NumPy has not, against their definitions and against values of SciPy 1.17."""

from fractions import Fraction
from itertools import product
from math import comb, sqrt

import numpy as np
import pytest

from labcode.analysis.numeric import binomial_quantile, nonnegative_least_squares, wilson


def by_all_subsets(factors: np.ndarray, values: np.ndarray) -> float:
    """The least error of all sets of coefficients that are not zero, each by least squares."""
    best = float(values @ values)
    for chosen in product((False, True), repeat=factors.shape[1]):
        if any(chosen):
            some = factors[:, chosen]
            found = np.linalg.lstsq(some, values, rcond=None)[0]
            if (found >= 0).all():
                best = min(best, float(((some @ found - values) ** 2).sum()))
    return best


@pytest.mark.parametrize("terms", [1, 2, 3, 5])
def test_no_set_of_coefficients_explains_more(terms: int) -> None:
    rng = np.random.default_rng(terms)
    at_zero = 0
    for _ in range(60):
        factors = rng.normal(size=(9, terms)) * 10.0 ** rng.integers(-6, 7, terms)
        values = rng.normal(size=9)
        found = nonnegative_least_squares(factors, values)
        assert (found >= 0).all()
        assert ((factors @ found - values) ** 2).sum() == pytest.approx(
            by_all_subsets(factors, values), rel=1e-9
        )
        at_zero += int((found == 0).sum())
    assert 0 < at_zero < 60 * terms


def test_coefficients_of_an_exact_law_come_back() -> None:
    factors = np.random.default_rng(3).uniform(1, 9, (20, 4))
    wanted = np.array([2.0, 0.0, 5e-7, 11.0])
    assert nonnegative_least_squares(factors, factors @ wanted) == pytest.approx(wanted, rel=1e-6, abs=1e-12)


def test_what_explains_nothing_stays_at_zero() -> None:
    factors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert nonnegative_least_squares(factors, np.array([2.0, 1.0, 1.0])) == pytest.approx([1.5, 1.0])
    assert nonnegative_least_squares(factors, -np.ones(3)).tolist() == [0.0, 0.0]
    assert nonnegative_least_squares(np.zeros((3, 2)), np.ones(3)).tolist() == [0.0, 0.0]
    twice = nonnegative_least_squares(np.ones((4, 2)), np.full(4, 6.0))
    assert twice.sum() == pytest.approx(6.0)


@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("chance", [0.01, 0.5, 0.95])
@pytest.mark.parametrize("share", [0.025, 0.4, 0.975])
def test_a_quantile_of_the_binomial_distribution_by_its_definition(
    count: int, chance: float, share: float
) -> None:
    exact, place = Fraction(chance), binomial_quantile(share, count, chance)

    def at_most(most: int) -> Fraction:
        return sum(
            (comb(count, k) * exact**k * (1 - exact) ** (count - k) for k in range(most + 1)), Fraction(0)
        )

    assert at_most(place) >= Fraction(share)
    assert place == 0 or at_most(place - 1) < Fraction(share)


@pytest.mark.parametrize(
    ("share", "count", "chance", "place"),
    [
        (0.025, 1000, 0.99, 983),
        (0.975, 1000, 0.99, 996),
        (0.975, 100_000, 0.5, 50_310),
        (0.975, 60, 0.99, 60),
    ],
)
def test_the_same_quantile_of_many(share: float, count: int, chance: float, place: int) -> None:
    assert binomial_quantile(share, count, chance) == place


@pytest.mark.parametrize(("hits", "count"), [(0, 7), (3, 7), (7, 7), (1, 1), (412, 5000)])
def test_the_ends_of_an_interval_are_as_far_as_they_scatter(hits: int, count: int) -> None:
    for end, farthest in zip(wilson(hits, count), (0.0, 1.0), strict=True):
        far = abs(hits / count - end)
        assert end == farthest or far == pytest.approx(1.959963984540054 * sqrt(end * (1 - end) / count))


def test_an_interval_of_nothing_is_everything() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(3, 10) == pytest.approx((0.1077912674, 0.6032218525))
    assert wilson(3, 10, 0.5)[0] > wilson(3, 10)[0]
