"""Start and end times of one lane in; the few rectangles that show them at a given resolution out.

A hundred thousand kernels do not fit into a row of five hundred pixels. As in the Nsight Systems window,
events too narrow to be seen alone are drawn together, at a height that gives the share of time they cover,
stacked where they are of several kinds; a gap of a pixel or more always stays visible. Positions here are in
pixels (1/96 inch).
"""

import heapq
from dataclasses import dataclass

import numpy as np

from labcode.reports.columns import Floats, Ints

ALONE_PX = 3.0  # an event at least this wide is a rectangle of its own
GAP_PX = 1.0  # a gap this wide is never closed
HAIR_PX = 0.8  # the least width that anything is drawn with
STEP_PX = 4.0  # the resolution of the height of joined events
LEVELS = 12  # heights of joined events are rounded to this many
FULL = 0.8  # the covered share from which events of a pixel or more are drawn at full height
LOWEST = 0.25  # the least height of joined events


@dataclass(frozen=True)
class Condensed:
    """What to draw of one lane.

    alone: indices of the events that are rectangles of their own.
    boxes: joined events, (n, 4): x0, x1 (pixels), bottom and top as shares of the lane's height.
    kinds: the kind of each box.
    runs: where joined events do not fill the lane's height, (n, 2): x0, x1.
    """

    alone: Ints
    boxes: Floats
    kinds: Ints
    runs: Floats


def condense(x0: Floats, x1: Floats, kind: Ints) -> Condensed:
    """Split the events of one lane (in any order, hardly overlapping) into wide ones and joined narrow ones.

    kind: a small number for each event; each kind has a color of its own.
    """
    wide = (x1 - x0) >= ALONE_PX
    alone = np.flatnonzero(wide).astype(np.int64)
    narrow = np.flatnonzero(~wide)
    narrow = narrow[np.argsort(x0[narrow], kind="stable")]
    start, end, kinds = x0[narrow], x1[narrow], kind[narrow]
    boxes: list[tuple[float, float, float, float]] = []
    box_kinds: list[int] = []
    runs: list[tuple[float, float]] = []
    if narrow.size:
        reach = np.maximum.accumulate(end)
        first = np.concatenate(([0], np.flatnonzero(start[1:] - reach[:-1] >= GAP_PX) + 1))
        last = np.concatenate((first[1:], [len(start)])) - 1
        for i, j in zip(first.tolist(), last.tolist(), strict=True):
            left, right = float(start[i]), max(float(reach[j]), float(start[i]) + HAIR_PX)
            if i == j:
                boxes.append((left, right, 0.0, 1.0))
                box_kinds.append(int(kinds[i]))
                continue
            part = slice(i, j + 1)
            if _can_stand_alone(start[part], end[part], right - left):
                boxes += [
                    (a, b, 0.0, 1.0) for a, b in zip(start[part].tolist(), end[part].tolist(), strict=True)
                ]
                box_kinds += kinds[part].tolist()
                continue
            for k, box in _steps(start[part], end[part], kinds[part], left, right):
                boxes.append(box)
                box_kinds.append(k)
            runs.append((left, right))
    return Condensed(
        alone,
        np.array(boxes, dtype=np.float64).reshape(-1, 4),
        np.array(box_kinds, dtype=np.int64),
        np.array(runs, dtype=np.float64).reshape(-1, 2),
    )


def _can_stand_alone(start: Floats, end: Floats, width: float) -> bool:
    """Whether narrow events fill their run and are not too narrow: then they need no share of the height."""
    widths = end - start
    return bool(np.median(widths) >= GAP_PX and widths.sum() >= FULL * width)


def _steps(
    start: Floats, end: Floats, kinds: Ints, left: float, right: float
) -> list[tuple[int, tuple[float, float, float, float]]]:
    """One run of narrow events as boxes, stepwise as high as the share of time that each kind covers."""
    edges = np.linspace(left, right, max(1, round((right - left) / STEP_PX)) + 1)
    present = np.unique(kinds)
    shares = np.array([_coverage(start[kinds == k], end[kinds == k], edges) for k in present])
    total = shares.sum(axis=0)
    if not total.any():  # nothing but events without a duration
        shares = np.array([(kinds == k).mean() * np.ones(len(edges) - 1) for k in present])
        total = shares.sum(axis=0)
    occupied = np.maximum(total, 1e-12)
    shares = shares * (np.clip(occupied, LOWEST, 1.0) / occupied)
    tops = np.round(np.cumsum(shares, axis=0) * LEVELS) / LEVELS
    bottoms = np.vstack((np.zeros(len(edges) - 1), tops[:-1]))
    result = []
    for k, low, high in zip(present.tolist(), bottoms, tops, strict=True):
        change = np.flatnonzero((np.diff(low) != 0) | (np.diff(high) != 0)) + 1
        for a, b in zip([0, *change.tolist()], [*change.tolist(), len(low)], strict=True):
            if high[a] > low[a]:
                result.append((k, (float(edges[a]), float(edges[b]), float(low[a]), float(high[a]))))
    return result


def _coverage(start: Floats, end: Floats, edges: Floats) -> Floats:
    """The share of each interval between edges that events, sorted and hardly overlapping, cover."""
    times, values = np.zeros(2 * len(start)), np.zeros(2 * len(start))  # at the start and end of each
    times[::2], times[1::2] = start, np.maximum.accumulate(end)
    spent = np.append(start[0], times[1:-1:2])
    np.subtract(times[1::2], np.maximum(start, spent, out=spent), out=spent)
    values[1::2] = np.cumsum(spent, out=spent)
    values[2::2] = spent[:-1]
    np.maximum.accumulate(times, out=times)
    return np.asarray(np.diff(np.interp(edges, times, values)) / np.diff(edges), dtype=np.float64)


def assign_lanes(start: Ints, end: Ints, *, tolerance: int = 0, most: int | None = None) -> Ints:
    """The lane of each event so that events of one lane do not overlap, the earliest and longest in lane 0.

    Nested ranges get the depth of their nesting. `tolerance` (ns) is how far two events may overlap and still
    share a lane; with `most`, events that would need a further lane are put into the last one. Arrays in any
    order.
    """
    lanes = np.zeros(len(start), dtype=np.int64)
    order = np.lexsort((-end, start))
    s, e = start[order], end[order]
    if len(s) < 2 or (s[1:] + tolerance >= np.maximum.accumulate(e)[:-1]).all():
        return lanes
    free: list[int] = []  # lanes, the lowest first
    busy: list[tuple[int, int]] = []  # until when, lane
    until: list[int] = []  # the same by lane
    result: list[int] = []
    for a, b in zip(s.tolist(), e.tolist(), strict=True):
        while busy and busy[0][0] <= a + tolerance:
            t, lane = heapq.heappop(busy)
            if until[lane] == t:
                heapq.heappush(free, lane)
        if free:
            lane = heapq.heappop(free)
        elif most is None or len(until) < most:
            lane = len(until)
            until.append(b)
        else:
            lane = most - 1
            if b <= until[lane]:
                result.append(lane)
                continue
        until[lane] = max(until[lane], b)
        heapq.heappush(busy, (until[lane], lane))
        result.append(lane)
    lanes[order] = result
    return lanes
