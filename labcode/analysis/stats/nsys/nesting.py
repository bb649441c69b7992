"""How NVTX ranges nest, as nsys has it: ranges in, the range around each, its level and its path out."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.analysis.stats.table import Made
from labcode.analysis.timeline import intervals
from labcode.reports.columns import Column, Ints, unique

PUSH_POP, START_END = 59, 60
STYLE_NAMES = ("PushPop", "StartEnd")


@dataclass(frozen=True)
class Ranges:
    """NVTX ranges in the order of the export: times in ns, nsys' thread, RangeId, style, name."""

    start: Ints
    end: Ints
    thread: Ints
    number: Ints  # the row in NVTX_EVENTS, which nsys calls RangeId
    style: Ints
    code: Ints
    named: NDArray[np.bool_]  # whether the range has a text, be it an empty one
    names: list[str]

    def take(self, which: NDArray[np.bool_] | Ints) -> Ranges:
        """The same with only some rows."""
        parts = (self.start, self.end, self.thread, self.number, self.style, self.code)
        start, end, thread, number, style, code = (part[which] for part in parts)
        return Ranges(start, end, thread, number, style, code, self.named[which], self.names)


@dataclass(frozen=True)
class Stack:
    """Where each range lies: the row of the range around it (-1: none), its level, its direct children."""

    parent: Ints
    level: Ints
    children: Ints


def nest(ranges: Ranges) -> Stack:
    """How ranges nest on their threads.

    A range lies inside the shortest one of its thread that contains it, both ends included; of several as
    short, the one in the first row. Of ranges with the same start and end the later row lies inside the
    earlier.
    """
    count = len(ranges.start)
    parent = np.full(count, -1, np.int64)
    threads, thread = unique(ranges.thread)
    order = np.lexsort((ranges.number, -ranges.end, ranges.start, thread))
    for rows in np.split(order, np.cumsum(np.bincount(thread, minlength=len(threads)))[:-1]):
        start, end = ranges.start[rows], ranges.end[rows]
        around = _stacked(start, end)
        if around is None:
            around = _overlapping(start, end, ranges.number[rows])
        parent[rows] = np.where(around >= 0, rows[around], -1)
    inner = parent >= 0
    children = np.bincount(parent[inner], minlength=count).astype(np.int64)
    return Stack(parent, intervals.depths(parent), children)


def parent_ids(ranges: Ranges, stack: Stack) -> Column:
    """The RangeId of the range around each; missing at the outermost level."""
    inner = stack.parent >= 0
    return Column(np.where(inner, np.append(ranges.number, 0)[stack.parent], 0), inner)


def breadth_first(ranges: Ranges, stack: Stack) -> Ints:
    """Each range's place when all outermost ranges come first, then all inside these, and so on."""
    place = np.zeros(len(stack.level), np.int64)
    done = 0
    by_level = np.argsort(stack.level, kind="stable")
    bounds = np.searchsorted(stack.level[by_level], np.arange(int(stack.level.max(initial=-1)) + 2))
    for level, (low, high) in enumerate(itertools.pairwise(bounds.tolist())):
        rows = by_level[low:high]
        around = place[stack.parent[rows]] if level else np.zeros(len(rows), np.int64)
        rows = rows[np.lexsort((ranges.number[rows], around))]
        place[rows] = np.arange(done, done + len(rows))
        done += len(rows)
    return place


def paths(ranges: Ranges, stack: Stack) -> Made:
    """The RangeIds from the outermost range to each, like ':3:4:5'."""

    parent, own = stack.parent.tolist(), ranges.number.tolist()

    def texts(rows: Ints) -> list[str]:
        known = {-1: ""}
        made: list[str] = []
        for row in rows.tolist():
            outer = parent[row]
            head = known.get(outer)
            if head is None:
                steps, at = [], outer
                while at not in known:
                    steps.append(f":{own[at]}")
                    at = parent[at]
                head = known[outer] = known[at] + "".join(reversed(steps))
            text = known[row] = f"{head}:{own[row]}"
            made.append(text)
        return made

    return Made(np.arange(len(stack.parent)), texts, 8 * (stack.level + 1))


def _stacked(start: Ints, end: Ints) -> Ints | None:
    """The range around each, of ranges by start, longest first; None where some of them only overlap."""
    if (start == end).any():
        return None
    around = intervals.holders(end)
    siblings = np.argsort(around, kind="stable")
    earlier, later = siblings[:-1], siblings[1:]
    crossing = (around[earlier] == around[later]) & (end[earlier] > start[later])
    return None if crossing.any() else around


def _overlapping(start: Ints, end: Ints, number: Ints) -> Ints:
    """The same for any ranges, one after the other, with a Fenwick tree of least values over their ends."""
    shortest = np.lexsort((number, end - start))
    rank = np.empty(len(start), np.int64)
    rank[shortest] = np.arange(len(start))
    ends, place = unique(-end)  # the latest first
    reach = np.searchsorted(ends, -np.maximum(start, end), "right")  # how many of them are late enough
    least = [len(start)] * (len(ends) + 1)
    parent = []
    for own, at, known in zip(rank.tolist(), (place + 1).tolist(), reach.tolist(), strict=True):
        best = len(start)
        while known:
            best = min(best, least[known])
            known &= known - 1
        parent.append(best)
        while at < len(least):
            least[at] = min(own, least[at])
            at += at & -at
    return np.append(shortest, -1)[parent]
