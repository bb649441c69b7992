"""Statistics by group against Python's own."""

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.analysis.stats.nsys.tables import round_half_up
from labcode.analysis.timeline.grouped import group_stats

WIDE, FEW = st.integers(-(1 << 40), 1 << 40), st.integers(-6, -5)  # sorted, counted


@given(
    st.lists(st.tuples(st.integers(0, 3), WIDE), max_size=30)
    | st.lists(st.tuples(st.integers(0, 3), FEW), min_size=8, max_size=30)
)
def test_group_stats(rows: list[tuple[int, int]]) -> None:
    group, values = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    stats = group_stats(group, values, 4)
    for number in range(4):
        mine = [value for owner, value in rows if owner == number]
        assert stats.count[number] == len(mine)
        assert stats.total[number] == sum(mine)
        if not mine:
            assert math.isnan(stats.mean[number])
            continue
        assert stats.mean[number] == pytest.approx(sum(mine) / len(mine), rel=1e-15)
        assert stats.median[number] == statistics.median(mine)
        assert (stats.least[number], stats.greatest[number]) == (min(mine), max(mine))
        deviation = statistics.stdev(mine) if len(mine) > 1 else 0
        assert stats.std[number] == pytest.approx(deviation, rel=1e-9, abs=1e-6)


def test_no_rows() -> None:
    none = np.empty(0, np.int64)
    stats = group_stats(none, none, 2)
    assert stats.count.tolist() == stats.total.tolist() == [0, 0]


def test_deviation_of_large_close_values() -> None:
    values = np.array([10**15, 10**15 + 1, 10**15 + 2], np.int64)
    assert group_stats(np.zeros(3, np.int64), values, 1).std[0] == 1.0


def test_sum_beyond_64_bits_is_exact() -> None:
    high = (1 << 63) - 1
    stats = group_stats(np.zeros(3, np.int64), np.array([high, high, 1]), 1)
    assert stats.total[0] == 2 * high + 1


def test_values_at_both_ends_of_64_bits() -> None:
    high = (1 << 63) - 1
    stats = group_stats(np.array([0, 0, 1]), np.array([-high, high, 3]), 2)
    assert stats.total.tolist() == [0, 3]
    assert stats.least.tolist() == [-high, 3]


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (12.25, 12.3),
        (12.35, 12.3),
        (12.15, 12.2),
        (12.349, 12.3),
        (0.05, 0.1),
        (-12.25, -12.3),
        (1e15 + 0.5, 1e15 + 0.5),
        (7, 7.0),
    ],
)
def test_halves_of_the_binary_value_are_rounded_up(value: float, rounded: float) -> None:
    assert round_half_up([value], 1).tolist() == [rounded]


def test_missing_stays_missing() -> None:
    assert math.isnan(round_half_up([math.nan], 1)[0])


@given(st.integers(-(10**12), 10**12), st.integers(1, 400))
def test_averages_are_rounded_as_exact_fractions(total: int, count: int) -> None:
    value = Fraction(total / count)  # what the float holds
    tenths = math.floor(abs(value) * 10 + Fraction(1, 2))
    assert round_half_up([total / count], 1)[0] == (-1 if total < 0 else 1) * tenths / 10
