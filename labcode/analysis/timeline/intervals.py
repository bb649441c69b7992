"""Arithmetic of time intervals: arrays of starts and ends in, arrays of starts and ends (or times) out.

Intervals are half-open, [start, end), in integer nanoseconds. One whose end is not after its start covers
nothing and is left out. Results of `union`, `intersect`, `subtract`, `complement` and `clip` are in ascending
order; all but those of `clip` are disjoint, so what is computed from them never exceeds the wall time they
lie in. Where nothing had to be changed, they are the arrays that were given: do not write into them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from labcode.errors import LabError
from labcode.reports.columns import Ints

Window = tuple[int, int]  # from and to, in ns
Spans = tuple[Ints, Ints]  # starts and ends
_WIDEST = (1 << 63) - 1
_APART = 1 << 62
_ROUNDS = 32  # of skipping all at once


def union(starts: ArrayLike, ends: ArrayLike) -> tuple[Ints, Ints]:
    """The times covered by at least one interval, as disjoint intervals; touching ones become one."""
    start, end = _clean(starts, ends)
    if (start[1:] > end[:-1]).all():  # disjoint already
        return start, end
    reach = np.maximum.accumulate(end)
    first = np.flatnonzero(start[1:] > reach[:-1])
    return start[np.append(0, first + 1)], reach[np.append(first, len(reach) - 1)]


def joined(parts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """The intervals of several parts, one part after the other."""
    none = np.empty(0, np.int64)
    starts, ends = zip(*parts, strict=True) if parts else ((none,), (none,))
    return np.concatenate(starts), np.concatenate(ends)


def total(starts: ArrayLike, ends: ArrayLike) -> int:
    """Nanoseconds covered by at least one interval."""
    start, end = union(starts, ends)
    return int((end - start).sum())


def totals(groups: Ints, starts: Ints, ends: Ints, count: int) -> Ints:
    """For each of ``count`` groups: the nanoseconds that at least one of its intervals covers.

    They come group by group, each by start.
    """
    first = np.append(True, groups[1:] != groups[:-1])[: len(groups)]
    before = np.append(starts[:1], running_end(groups, ends)[:-1])
    before[first] = starts[first]
    found = np.zeros(count, np.int64)
    np.add.at(found, groups, np.maximum(ends - np.maximum(starts, before), 0))
    return found


def running_end(groups: Ints, ends: Ints) -> Ints:
    """The latest end so far within each stretch of equal ``groups``, which ascend."""
    if len(ends) == 0:
        return ends
    low = int(ends.min())
    width = int(ends.max()) - low + 1
    if (int(groups[-1]) + 1) * width < _APART:  # so far apart that no end reaches the next group
        apart = groups * width - low
        reach = ends + apart
        return np.asarray(np.maximum.accumulate(reach, out=reach) - apart, np.int64)
    reach = ends.copy()
    for some in np.split(np.arange(len(groups)), np.flatnonzero(np.diff(groups)) + 1):
        reach[some] = np.maximum.accumulate(ends[some])
    return reach


def intersect(
    starts: ArrayLike, ends: ArrayLike, other_starts: ArrayLike, other_ends: ArrayLike
) -> tuple[Ints, Ints]:
    """The times covered by both sets of intervals."""
    a_start, a_end = union(starts, ends)
    b_start, b_end = union(other_starts, other_ends)
    if len(b_start) < len(a_start):  # the fewer are looked up among the more
        a_start, a_end, b_start, b_end = b_start, b_end, a_start, a_end
    low = np.searchsorted(b_end, a_start, "right")  # the first b that ends after a begins
    high = np.searchsorted(b_start, a_end, "left")  # one past the last b that begins before a ends
    a, b = expand(low, high)
    return np.maximum(a_start[a], b_start[b]), np.minimum(a_end[a], b_end[b])


def subtract(
    starts: ArrayLike, ends: ArrayLike, other_starts: ArrayLike, other_ends: ArrayLike
) -> tuple[Ints, Ints]:
    """The times covered by the first set of intervals and not by the second."""
    start, end = union(starts, ends)
    if len(start) == 0:
        return start, end
    return intersect(start, end, *complement(other_starts, other_ends, (int(start[0]), int(end[-1]))))


def less(starts: Ints, ends: Ints, part_starts: Ints, part_ends: Ints) -> tuple[Ints, Ints]:
    """As `subtract`, of intervals that are disjoint what `intersect` found of them."""
    start = np.sort(np.concatenate((starts, part_ends)), kind="stable")
    end = np.sort(np.concatenate((ends, part_starts)), kind="stable")
    there = end > start
    return start[there], end[there]


def complement(starts: ArrayLike, ends: ArrayLike, window: Window) -> tuple[Ints, Ints]:
    """The times within the window that no interval covers."""
    start, end = union(*clip(starts, ends, window))
    if window[1] <= window[0]:
        return start[:0], end[:0]
    gap_start = np.concatenate(([window[0]], end)).astype(np.int64)
    gap_end = np.concatenate((start, [window[1]])).astype(np.int64)
    there = gap_end > gap_start
    return gap_start[there], gap_end[there]


def clip(starts: ArrayLike, ends: ArrayLike, window: Window) -> tuple[Ints, Ints]:
    """The parts of the intervals that lie within the window, by start; they may still overlap."""
    start, end = _clean(starts, ends)
    start, end = np.maximum(start, window[0]), np.minimum(end, window[1])
    there = end > start
    return start[there], end[there]


def covered_within(starts: ArrayLike, ends: ArrayLike, low: ArrayLike, high: ArrayLike) -> Ints:
    """For each window [low, high): how many of its nanoseconds at least one interval covers."""
    start, end = union(starts, ends)
    before = np.concatenate(([0], np.cumsum(end - start)))

    def until(times: Ints) -> Ints:
        index = np.searchsorted(start, times, "right")  # intervals that began by then
        inside = np.zeros(len(times), np.int64)
        some = index > 0
        inside[some] = np.maximum(end[index[some] - 1] - times[some], 0)
        return np.asarray(before[index] - inside, np.int64)

    lows, highs = np.asarray(low, np.int64), np.asarray(high, np.int64)
    return np.where(highs > lows, until(highs) - until(lows), 0)


def concurrency(starts: ArrayLike, ends: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """How many intervals are active: starts and ends of stretches and the count in each, at least 1."""
    start, end = _clean(starts, ends)
    times = np.concatenate((start, end))
    steps = np.concatenate((np.ones(len(start), np.int64), np.full(len(end), -1, np.int64)))
    order = np.argsort(times, kind="stable")
    times = times[order]
    first = np.flatnonzero(np.concatenate(([True], times[1:] != times[:-1]))[: len(times)])
    edges = times[first]
    if len(edges) == 0:
        return edges, edges, edges
    level = np.cumsum(np.add.reduceat(steps[order], first))[:-1]
    busy = level > 0
    return edges[:-1][busy], edges[1:][busy], level[busy]


def parents(starts: ArrayLike, ends: ArrayLike) -> Ints:
    """For each interval the smallest one around it, as an index; -1 for none.

    The one around is the last that begins before it (or with it, and was listed first or is longer) and does
    not end before it. Meant for the ranges of one thread, which nest.
    """
    start, end = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    count = len(start)
    order = np.lexsort((np.arange(count), -end, start))
    around = holders(end[order])
    result = np.empty(count, np.int64)
    result[order] = np.where(around >= 0, order[around], -1)
    return result


def holders(ends: Ints, starts: Ints | None = None) -> Ints:
    """For each of some intervals, by start and the longest first, the last before it that holds it; or -1.

    An interval holds another when it does not end before it; with ``starts``, it must also end after the
    other begins, which matters to those without a length alone.
    """
    enough = ends if starts is None else np.maximum(ends, starts + 1)
    found = np.arange(-1, len(ends) - 1)  # how far back each has got: what lies between ends too soon for it
    rest = np.arange(1, len(ends))
    for _ in range(_ROUNDS):  # whoever is not held skips what that one has skipped
        to = found[rest]
        further = np.flatnonzero((to >= 0) & (ends[to] < enough[rest]))
        rest = rest[further]
        if len(rest) <= len(ends) >> 6:
            break
        found[rest] = found[to[further]]
    last, least, back = (np.ascontiguousarray(values).data for values in (ends, enough, found))
    for place in rest.tolist():  # a few, or those of stacks too deep for that, one by one
        at = place - 1
        while at >= 0 and last[at] < least[place]:
            at = back[at]
        back[place] = at
    return found


def depths(parent: Ints) -> Ints:
    """How many intervals are around each, by doubling the way each pointer goes."""
    depth = (parent >= 0).astype(np.int64)
    far = parent.copy()
    while len(some := np.flatnonzero(far >= 0)):
        depth[some] += depth[far[some]]
        far[some] = far[far[some]]
    return depth


def innermost(starts: ArrayLike, ends: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """The intervals as disjoint stretches, each with the index of the innermost interval that covers it.

    Innermost is the one that began last; of those that began together, the shortest.
    """
    start, end = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    kept = np.flatnonzero(end > start)
    start, end = start[kept], end[kept]
    edges = np.sort(np.concatenate((start, end)))
    edges = edges[np.concatenate(([True], edges[1:] != edges[:-1]))[: len(edges)]]
    if len(edges) == 0:
        return edges, edges, edges
    # a stretch lies in what holds its first moment
    count = len(start)
    start, end = np.concatenate((start, edges[:-1])), np.concatenate((end, edges[:-1]))
    order = np.lexsort((-end, start))
    around = holders(end[order], start[order])
    current = np.full(len(start), -1, np.int64)
    current[order] = np.where(around >= 0, order[around], -1)
    current = current[count:]
    there = current >= 0
    low, high, index = edges[:-1][there], edges[1:][there], current[there]
    first = np.concatenate(([True], (index[1:] != index[:-1]) | (low[1:] != high[:-1])))
    last = np.concatenate((first[1:], [True]))
    return low[first], high[last], kept[index[first]]


def expand(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """All pairs (row, position) with ``low[row] <= position < high[row]``, row by row."""
    counts = np.maximum(high - low, 0)
    row = np.repeat(np.arange(len(low)), counts)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, low[row] + offset


def _clean(starts: ArrayLike, ends: ArrayLike) -> tuple[Ints, Ints]:
    """Intervals that cover something, by start."""
    start, end = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    there = end > start
    if not there.all():
        start, end = start[there], end[there]
    if len(start) and int(end.max()) - int(start.min()) > _WIDEST:
        raise LabError("these times lie further apart than 63 bits of nanoseconds; export the report again")
    if (start[1:] >= start[:-1]).all():  # as tables by time have them: no copy
        return start, end
    order = np.argsort(start, kind="stable")
    return start[order], end[order]
