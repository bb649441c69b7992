"""Interval arithmetic against a slow reference that marks every nanosecond, and near the limit of 64 bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.analysis.timeline import intervals
from labcode.errors import LabError

LAST = 40
POINT = st.integers(0, LAST)
SPANS = st.lists(st.tuples(POINT, POINT), max_size=12)  # empty and inverted ones included
PROPER = st.lists(st.tuples(POINT, POINT).map(sorted).map(tuple), max_size=12)


def split(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(spans, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def marks(spans: list[tuple[int, int]]) -> set[int]:
    return {t for low, high in spans for t in range(low, high)}


def joined(result: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return list(zip(result[0].tolist(), result[1].tolist(), strict=True))


def assert_disjoint(result: tuple[np.ndarray, np.ndarray]) -> None:
    start, end = result
    assert start.dtype == end.dtype == np.int64
    assert (end > start).all()
    assert (start[1:] >= end[:-1]).all()


@given(SPANS)
def test_union(spans: list[tuple[int, int]]) -> None:
    result = intervals.union(*split(spans))
    assert_disjoint(result)
    assert (result[0][1:] > result[1][:-1]).all()  # touching ones are one
    assert marks(joined(result)) == marks(spans)
    assert intervals.total(*split(spans)) == len(marks(spans))


@given(SPANS, SPANS)
def test_intersect_and_subtract(spans: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    both = intervals.intersect(*split(spans), *split(others))
    only = intervals.subtract(*split(spans), *split(others))
    assert_disjoint(both)
    assert_disjoint(only)
    assert marks(joined(both)) == marks(spans) & marks(others)
    assert marks(joined(only)) == marks(spans) - marks(others)


@given(SPANS, SPANS)
def test_less_is_subtract_of_a_part(spans: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    whole = intervals.union(*split(spans))
    part = intervals.intersect(*whole, *split(others))
    assert joined(intervals.less(*whole, *part)) == joined(intervals.subtract(*whole, *part))


@given(SPANS, POINT, POINT)
def test_complement_and_clip(spans: list[tuple[int, int]], low: int, high: int) -> None:
    window = set(range(low, high))
    gaps = intervals.complement(*split(spans), (low, high))
    assert_disjoint(gaps)
    assert marks(joined(gaps)) == window - marks(spans)
    assert marks(joined(intervals.clip(*split(spans), (low, high)))) == window & marks(spans)


@given(SPANS, SPANS)
def test_covered_within(spans: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    covered = intervals.covered_within(*split(spans), *split(windows))
    assert covered.tolist() == [len(marks(spans) & set(range(*window))) for window in windows]


@given(SPANS)
def test_concurrency(spans: list[tuple[int, int]]) -> None:
    start, end, level = intervals.concurrency(*split(spans))
    assert_disjoint((start, end))
    counts = {t: n for low, high, n in zip(start, end, level, strict=True) for t in range(low, high)}
    expected = {t: sum(low <= t < high for low, high in spans) for t in range(LAST)}
    assert counts == {t: n for t, n in expected.items() if n}


@given(PROPER)
def test_parents(spans: list[tuple[int, int]]) -> None:
    order = sorted(range(len(spans)), key=lambda i: (spans[i][0], -spans[i][1], i))
    around = intervals.parents(*split(spans)).tolist()
    for place, index in enumerate(order):
        before = [other for other in order[:place] if spans[other][1] >= spans[index][1]]
        assert around[index] == (before[-1] if before else -1)


def test_parents_of_a_deep_stack() -> None:
    deep = 100  # more than is skipped at once
    starts = [*range(deep), 2 * deep, 2 * deep + 1]
    ends = [4 * deep, *range(2 * deep - 1, deep, -1), 3 * deep, 3 * deep]
    expected = [*range(-1, deep - 1), 0, deep]
    assert intervals.parents(starts, ends).tolist() == expected


@given(PROPER)
def test_innermost(spans: list[tuple[int, int]]) -> None:
    start, end, index = intervals.innermost(*split(spans))
    assert_disjoint((start, end))
    found = {t: i for low, high, i in zip(start, end, index, strict=True) for t in range(low, high)}
    for t in range(LAST):
        active = [i for i, (low, high) in enumerate(spans) if low <= t < high]
        if active:
            assert found[t] == max(active, key=lambda i: (spans[i][0], -spans[i][1], i))
        else:
            assert t not in found


@given(PROPER)
def test_stretches_of_one_interval_are_not_cut_up(spans: list[tuple[int, int]]) -> None:
    start, end, index = intervals.innermost(*split(spans))
    assert not ((index[1:] == index[:-1]) & (start[1:] == end[:-1])).any()


def test_expand() -> None:
    row, place = intervals.expand(np.array([2, 5, 5]), np.array([4, 5, 7]))
    assert row.tolist() == [0, 0, 2, 2]
    assert place.tolist() == [2, 3, 5, 6]


def test_nothing() -> None:
    none = np.empty(0, np.int64)
    for result in (intervals.union(none, none), intervals.intersect(none, none, none, none)):
        assert joined(result) == []
    assert intervals.total(none, none) == 0
    assert joined(intervals.complement(none, none, (3, 8))) == [(3, 8)]
    assert [len(part) for part in intervals.concurrency(none, none)] == [0, 0, 0]


HIGH = (1 << 63) - 1


def test_times_near_the_limit() -> None:
    assert intervals.total([HIGH - 10, HIGH - 3], [HIGH - 5, HIGH]) == 8
    assert joined(intervals.complement([HIGH - 10], [HIGH - 5], (HIGH - 20, HIGH))) == [
        (HIGH - 20, HIGH - 10),
        (HIGH - 5, HIGH),
    ]


def test_times_too_far_apart_to_subtract() -> None:
    with pytest.raises(LabError, match="further apart than 63 bits"):
        intervals.union([-HIGH, 5], [-HIGH + 1, HIGH])


def test_totals_of_groups_are_those_of_each() -> None:
    rng = np.random.default_rng(7)
    for far in (1, 1 << 61):
        groups = np.sort(rng.integers(0, 5, 60))
        starts = rng.integers(-50, 50, 60)
        ends = starts + rng.integers(-3, 30, 60)
        starts[0], ends[0] = -far, far
        order = np.lexsort((starts, groups))
        found = intervals.totals(groups[order], starts[order], ends[order], 6).tolist()
        assert found == [intervals.total(starts[groups == one], ends[groups == one]) for one in range(6)]
    none = np.empty(0, np.int64)
    assert intervals.totals(none, none, none, 2).tolist() == [0, 0]
