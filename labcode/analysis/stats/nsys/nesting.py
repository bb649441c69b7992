"""How NVTX ranges nest, as nsys has it: ranges in, the range around each, its level and its path out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.analysis.stats.table import Made
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
    level, above = np.zeros(count, np.int64), parent
    while (above >= 0).any():
        level += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return Stack(parent, level, children)


def parent_ids(ranges: Ranges, stack: Stack) -> Column:
    """The RangeId of the range around each; missing at the outermost level."""
    inner = stack.parent >= 0
    return Column(np.where(inner, np.append(ranges.number, 0)[stack.parent], 0), inner)


def breadth_first(ranges: Ranges, stack: Stack) -> Ints:
    """Each range's place when all outermost ranges come first, then all inside these, and so on."""
    place = np.zeros(len(stack.level), np.int64)
    done = 0
    for level in range(int(stack.level.max(initial=-1)) + 1):
        rows = np.flatnonzero(stack.level == level)
        around = place[stack.parent[rows]] if level else np.zeros(len(rows), np.int64)
        rows = rows[np.lexsort((ranges.number[rows], around))]
        place[rows] = np.arange(done, done + len(rows))
        done += len(rows)
    return place


def paths(ranges: Ranges, stack: Stack) -> Made:
    """The RangeIds from the outermost range to each, like ':3:4:5'."""

    def texts(rows: Ints) -> list[str]:
        levels = []
        while len(rows):  # from these ranges to those around them, and so on outwards
            around, place = unique(stack.parent[rows])
            levels.append((rows, around, place))
            rows = around[around >= 0]
        made: list[str] = []
        for rows, around, place in reversed(levels):
            heads = ["", *made] if len(around) > len(made) else made
            numbers = ranges.number[rows].tolist()
            made = [f"{heads[at]}:{number}" for at, number in zip(place.tolist(), numbers, strict=True)]
        return made

    return Made(np.arange(len(stack.parent)), texts)


def _stacked(start: Ints, end: Ints) -> Ints | None:
    """The range around each, of ranges by start, longest first; None where some of them only overlap."""
    if (start == end).any():
        return None
    around = np.arange(-1, len(start) - 1)  # all between `around` and itself end before it
    while True:
        wrong = np.flatnonzero((around >= 0) & (end[around] < end))
        if len(wrong) == 0:
            return around
        if (end[around[wrong]] > start[wrong]).any():
            return None
        around[wrong] = around[around[wrong]]


def _overlapping(start: Ints, end: Ints, number: Ints) -> Ints:
    """The same for any ranges, one after the other."""
    parent = np.full(len(start), -1, np.int64)
    active: list[tuple[int, int, int, int]] = []  # end, duration, id, place
    rows = zip(start.tolist(), end.tolist(), number.tolist(), strict=True)
    for place, (low, high, own) in enumerate(rows):
        active = [other for other in active if other[0] >= low]
        around = min((other[1:] for other in active if other[0] >= high), default=None)
        parent[place] = around[2] if around else -1
        active.append((high, high - low, own, place))
    return parent
