"""Joining narrow events: gaps stay, heights are shares of time, few rectangles are left."""

import numpy as np
import pytest

from labcode.figures.timeline.rows import GAP_PX, LOWEST, Condensed, assign_lanes, condense


def run(*events: tuple[float, float], kinds: list[int] | None = None) -> Condensed:
    start, end = np.array(events, dtype=np.float64).T
    return condense(start, end, np.array(kinds or [0] * len(events), dtype=np.int64))


def test_wide_events_stay_alone() -> None:
    shown = run((0, 5), (5, 9), (20, 23))
    assert shown.alone.tolist() == [0, 1, 2]
    assert not shown.boxes.size


def test_a_gap_of_a_pixel_is_never_closed() -> None:
    rng = np.random.default_rng(7)
    start = np.cumsum(rng.uniform(0.01, 2.2, 3000))
    end = start + rng.uniform(0, 0.6, 3000)
    end[:-1] = np.minimum(end[:-1], start[1:])
    shown = condense(start, end, np.zeros(3000, dtype=np.int64))
    gaps = [(a, b) for a, b in zip(end[:-1], start[1:], strict=True) if b - a >= GAP_PX]
    assert len(gaps) > 500
    for a, b in gaps:
        middle = b - 0.1
        covering = (shown.boxes[:, 0] < middle) & (shown.boxes[:, 1] > middle)
        assert not covering.any(), (a, b)


def test_smaller_gaps_are_joined_and_the_height_is_the_covered_share() -> None:
    shown = run(*[(i * 0.5, i * 0.5 + 0.25) for i in range(160)])
    assert shown.boxes[0, 0] == 0
    assert shown.boxes[-1, 1] == pytest.approx(79.75)
    assert shown.boxes[:, 3] == pytest.approx(0.5, abs=0.05)
    assert len(shown.boxes) < 8
    assert shown.runs.tolist() == [[0, 79.75]]


def test_narrow_events_without_gaps_keep_their_places() -> None:
    shown = run((0, 1.5), (1.5, 3.7), (3.9, 5.4), kinds=[0, 1, 2])
    assert shown.boxes.tolist() == [[0, 1.5, 0, 1], [1.5, 3.7, 0, 1], [3.9, 5.4, 0, 1]]
    assert shown.kinds.tolist() == [0, 1, 2]
    assert not shown.runs.size


def test_kinds_are_stacked_by_their_shares() -> None:
    events = [(i * 1.0, i * 1.0 + (0.6 if i % 2 else 0.3)) for i in range(100)]
    # gaps below a pixel: one run with 30 % of kind 1 and 15 % of kind 0
    shown = run(*events, kinds=[i % 2 for i in range(100)])
    zero, one = shown.boxes[shown.kinds == 0], shown.boxes[shown.kinds == 1]
    assert zero[:, 2].max() == 0
    assert (zero[:, 3] - zero[:, 2]).mean() == pytest.approx(0.15, abs=0.06)
    assert (one[:, 3] - one[:, 2]).mean() == pytest.approx(0.30, abs=0.06)


def test_what_is_there_can_be_seen() -> None:
    sparse = run(*[(i * 0.9, i * 0.9 + 0.001) for i in range(50)])
    assert sparse.boxes[:, 3].min() >= LOWEST - 0.05
    lone = run((10.0, 10.0))
    assert lone.boxes.tolist() == [[10.0, 10.8, 0.0, 1.0]]
    points = run((10.0, 10.0), (10.2, 10.2), (10.4, 10.4))
    assert points.boxes[:, 3].min() > 0


def test_no_events() -> None:
    none = np.empty(0)
    shown = condense(none, none, np.empty(0, dtype=np.int64))
    assert shown.alone.size == shown.boxes.size == shown.runs.size == 0


def test_a_hundred_thousand_events_become_a_few_hundred_rectangles() -> None:
    start = np.sort(np.random.default_rng(1).uniform(0, 560, 100_000))
    shown = condense(start, start + 0.004, np.zeros(100_000, dtype=np.int64))
    assert len(shown.alone) + len(shown.boxes) < 300


def test_nested_ranges_get_their_depth() -> None:
    start = np.array([0, 10, 12, 30, 60])
    end = np.array([50, 25, 20, 40, 90])
    assert assign_lanes(start, end).tolist() == [0, 1, 2, 1, 0]


def test_lanes_are_capped_and_tolerate_a_little_overlap() -> None:
    start, end = np.array([0, 1, 2, 3]), np.array([100, 100, 100, 100])
    assert assign_lanes(start, end, most=3).tolist() == [0, 1, 2, 2]
    assert assign_lanes(np.array([0, 98]), np.array([100, 200]), tolerance=5).tolist() == [0, 0]
    assert assign_lanes(np.array([0, 98]), np.array([100, 200])).tolist() == [0, 1]
