"""Looks at the stacks of Python in a trace; functions that begin and end, as PyTorch records them, out.

`labcode record` looks at the stacks now and then where there is no GPU (`labcode.record.traced.Stacks`) and
leaves what it saw in the member ``samples``. A function that two looks in a row see lasts from one to the
other. It begins and ends between two looks, where the fewest operators and annotations are under way, for in
truth none of them lies across.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from labcode.reports.columns import Ints

MOST = 1 << 20  # looks and frames of one trace; a recorder stops far below
DEEPEST = 256


class Thread(msgspec.Struct):
    """The looks at a thread: us since the one before, the first in Unix time; the number of its path."""

    tid: int
    at: list[int]
    path: list[int]


class Samples(msgspec.Struct):
    """What was seen: names of frames, paths of frames from the outermost on, threads."""

    frames: list[str]
    paths: list[list[int]]
    threads: list[Thread]


@dataclass(frozen=True, eq=False)
class Functions:
    """Functions of one thread: names, begins and durations in ns, parents by position (-1: none)."""

    names: list[str]
    start: Ints
    duration: Ints
    parent: Ints


def samples(metadata: Mapping[str, Any]) -> Samples | None:
    """The looks in a trace; None where there are none, or none that fit together."""
    if "samples" not in metadata:
        return None
    try:
        found = msgspec.convert(metadata["samples"], Samples)
    except msgspec.ValidationError:
        return None
    looks = sum(len(one.at) for one in found.threads)
    whole = (
        max(looks, sum(map(len, found.paths))) <= MOST
        and all(len(one) <= DEEPEST for one in found.paths)
        and all(0 <= frame < len(found.frames) for one in found.paths for frame in one)
        and all(len(one.at) == len(one.path) for one in found.threads)
        and all(0 <= path < len(found.paths) for one in found.threads for path in one.path)
        and all(0 <= step < 1 << 53 for one in found.threads for step in one.at)
    )
    return found if whole else None


def functions(seen: Samples, thread: Thread, base_ns: int, start: Ints, end: Ints) -> Functions:
    """The functions of a thread on the trace's own clock; ``start`` and ``end`` are its operators' and
    annotations', in ns.
    """
    at = np.cumsum(np.array(thread.at, np.int64)) * 1000 - base_ns
    places = [i for i, path in enumerate(thread.path) if not i or path != thread.path[i - 1]]
    if not len(at):
        return Functions([], *(np.empty(0, np.int64) for _ in range(3)))
    around = _Around(start, end)
    half = int(np.median(np.diff(at))) // 2 if len(at) > 1 else 500
    bounds = [
        around.edge(int(at[0]) - half, first=True),
        *(around.calm(int(at[i - 1]), int(at[i])) for i in places[1:]),
    ]
    names: list[str] = []
    rows: list[list[int]] = []  # begun, ended, first and last look, parent
    stack: list[int] = []
    before: list[int] = []
    for place, bound in zip(
        [*places, len(at)], [*bounds, around.edge(int(at[-1]) + half, first=False)], strict=True
    ):
        path = seen.paths[thread.path[place]] if place < len(at) else []
        pairs = zip(before, path, strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        for row in stack[same:]:
            rows[row][1], rows[row][3] = bound, int(at[place - 1])
        del stack[same:]
        for frame in path[same:]:
            rows.append([bound, bound, int(at[place]), 0, stack[-1] if stack else -1])
            stack.append(len(names))
            names.append(seen.frames[frame])
        before = path
    table = np.array(rows, np.int64).reshape(-1, 5).T
    begun, ended = around.fitted(*table[:4])
    return Functions(names, begun, np.maximum(ended - begun, 0), table[4])


class _Around:
    """Spans of one thread, each within another or apart from it."""

    def __init__(self, start: Ints, end: Ints) -> None:
        times = np.concatenate([start, end])
        order = np.argsort(times, kind="stable")
        self._times = times[order]
        steps = np.concatenate([np.ones(len(start), np.int64), -np.ones(len(end), np.int64)])[order]
        self._open = np.concatenate([[0], np.cumsum(steps)])  # before each time, and after the last
        outer = np.lexsort((-end, start))
        start, end = start[outer], end[outer]
        depth = self._open[np.searchsorted(self._times, start, "left")]
        self._levels = [
            (start[depth == one], end[depth == one]) for one in range(int(depth.max(initial=-1)) + 1)
        ]

    def edge(self, time: int, *, first: bool) -> int:
        """A time outside of all spans, at or before (``first``) or after another one."""
        for start, end in self._levels[:1]:
            place = int(np.searchsorted(start, time, "right")) - 1
            if place >= 0 and end[place] > time:
                return int(start[place] if first else end[place])
        return time

    def calm(self, low: int, high: int) -> int:
        """The middle of the longest stretch between two times in which the fewest are under way."""
        first, last = np.searchsorted(self._times, [low, high], "right")
        edges = np.concatenate([[low], self._times[first:last], [high]])
        under, length = self._open[first : last + 1], np.diff(edges)
        under = np.where(length > 0, under, np.iinfo(np.int64).max)
        best = np.flatnonzero(under == under.min())
        one = best[int(np.argmax(length[best]))]
        return int(edges[one] + length[one] // 2)

    def fitted(self, begun: Ints, ended: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """Begins and ends of functions moved, though not beyond the looks that saw them, so that they lie
        within a span that they begin or end in.
        """
        for start, end in self._levels:
            place = np.searchsorted(start, begun, "right") - 1
            until = np.where(place >= 0, end[place], 0)
            ended = np.where((place >= 0) & (until > begun) & (until < ended) & (until >= last), until, ended)
        for start, end in self._levels:
            place = np.searchsorted(start, ended, "left") - 1
            since = np.where(place >= 0, start[place], 0)
            inside = (place >= 0) & (end[place] > ended) & (since > begun) & (since <= first)
            begun = np.where(inside, since, begun)
        return begun, ended
