"""Intervals of ratios: how often they hold the truth, and when there is none."""

import numpy as np
import pytest

from labcode.analysis.compare.interval import MOST, Interval, _median, median_ratio, total_ratio


def sample(seed, count, scale=1.0):
    return scale * np.random.default_rng(seed).lognormal(0, 0.3, count)


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says():
    held = 0
    for seed in range(60):
        found = median_ratio(sample(seed, 30), sample(1000 + seed, 30, 1.5))
        held += found.low <= 1.5 <= found.high
    assert held >= 52, "95 % of 60 is 57"


def test_more_instances_give_a_narrower_interval():
    few, many = (median_ratio(sample(1, n), sample(2, n)) for n in (20, 500))
    assert many.high - many.low < few.high - few.low


def test_many_instances_are_thinned_without_a_shift():
    found = median_ratio(sample(1, 50 * MOST), sample(2, 50 * MOST, 1.2))
    assert found.low < 1.2 < found.high
    assert found.high - found.low < 0.15


def test_values_that_do_not_scatter_are_certain():
    assert median_ratio(np.full(9, 4.0), np.full(9, 6.0)) == Interval(1.5, 1.5, 1.5)


@pytest.mark.parametrize(("before", "after"), [([], [1.0] * 9), ([1.0] * 9, []), ([0.0] * 9, [1.0] * 9)])
def test_without_a_divisor_there_is_no_ratio(before, after):
    assert np.isnan(median_ratio(np.array(before), np.array(after)).ratio)


def test_durations_that_are_mostly_nothing_have_no_interval(recwarn):
    found = median_ratio(np.array([0.0] * 4 + [1.0] * 5), np.arange(1.0, 10.0))
    assert (found.ratio, np.isnan(found.low)) == (5, True)
    assert not recwarn.list


def test_totals_resample_each_group_for_itself():
    before, after = [sample(1, 40), sample(2, 40, 100.0)], [sample(3, 40), sample(4, 40, 200.0)]
    found = total_ratio(before, after)
    assert found.low < 2 < found.high
    assert found.ratio == pytest.approx(sum(v.sum() for v in after) / sum(v.sum() for v in before))


def test_a_total_that_hangs_on_few_values_has_no_interval():
    found = total_ratio([np.array([1e6, 1e6]), sample(1, 40)], [np.array([2e6]), sample(2, 40)])
    assert np.isnan(found.low)
    assert np.isnan(total_ratio([], [sample(1, 9)]).ratio)


@pytest.mark.parametrize("count", [1, 2, 7, 8])
def test_medians_of_resamples_are_numpys(count):
    values = np.random.default_rng(count).integers(0, 5, (3, 20, count)) / 3  # with ties
    for axis in (-1, 1):
        assert (_median(values, axis) == np.median(values, axis)).all()
