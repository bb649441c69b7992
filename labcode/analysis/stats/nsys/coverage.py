"""Which launching calls lie inside which NVTX ranges: ranges and calls in, pairs of rows out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from labcode.analysis.stats.nsys.nesting import Ranges
from labcode.analysis.timeline.intervals import expand
from labcode.reports.columns import Column, Ints, process_keys, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.names import pid_of
from labcode.reports.nsys.source import Source

_MOST_PAIRS = 1 << 22  # (range, call) pairs held in memory at once


@dataclass(frozen=True)
class Calls:
    """Calls that launched something, by start: times in ns, nsys' thread, what they launched (a number)."""

    start: Ints
    end: Ints
    thread: Ints
    key: Ints


def launching_calls(source: Source, pid: Ints, correlation: Ints) -> tuple[Ints, Calls]:
    """A number for each distinct (process, correlation), and the calls that have one of them."""
    api = with_correlation(source.ints(schema.RUNTIME, ("start", "end", "globalTid", "correlationId")))
    op_key, api_key = process_keys(
        pid, correlation, pid_of(api["globalTid"].values), api["correlationId"].values
    )
    keys, number = unique(op_key)
    place = np.searchsorted(keys, api_key)
    found = np.flatnonzero(np.append(keys, -1)[place] == api_key)
    found = found[np.argsort(api["start"].values[found], kind="stable")]
    start, end, thread = (api[c].values[found] for c in ("start", "end", "globalTid"))
    return number, Calls(start, end, thread, place[found])


def pairs(ranges: Ranges, calls: Calls) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of a range and a call inside it on its thread, by range: rows of both, millions at a time."""
    for thread in sorted(set(unique(ranges.thread)[0].tolist()) & set(unique(calls.thread)[0].tolist())):
        rows = np.flatnonzero(ranges.thread == thread)
        mine = np.flatnonzero(calls.thread == thread)
        start, end = calls.start[mine], calls.end[mine]
        low = np.searchsorted(start, ranges.start[rows], "left")
        high = np.searchsorted(start, ranges.end[rows], "right")
        total = np.cumsum(np.maximum(high - low, 0))
        first = 0
        while first < len(rows):
            done = int(total[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(total, done + _MOST_PAIRS, "right")))
            row, place = expand(low[first:last], high[first:last])
            row += first
            inside = end[place] <= ranges.end[rows[row]]
            if inside.any():
                yield rows[row[inside]], mine[place[inside]]
            first = last


def with_correlation(table: dict[str, Column]) -> dict[str, Column]:
    """The rows that have a correlation."""
    present = table["correlationId"].present
    return table if present is None else {name: column.take(present) for name, column in table.items()}
