"""nsys' report of kernels by NVTX range: an open export in, nsys' columns out."""

from __future__ import annotations

from typing import Any

import numpy as np

from labcode.analysis.stats.nsys.coverage import launching_calls, pairs, with_correlation
from labcode.analysis.stats.nsys.nesting import START_END, STYLE_NAMES, Ranges
from labcode.analysis.stats.nsys.nvtx import DEFAULT_DOMAIN, read_ranges
from labcode.analysis.stats.nsys.rounding import round_half_up
from labcode.analysis.stats.table import Table, Values, texts_of
from labcode.analysis.timeline.grouped import GroupStats, group_stats
from labcode.analysis.timeline.intervals import expand
from labcode.reports.columns import Column, Ints, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.names import pid_of, tid_of
from labcode.reports.nsys.source import Source

_Row = tuple[Any, ...]
_NUMBERS = (
    "NVTX Inst",
    "Kern Inst",
    "Total Time (ns)",
    "Avg (ns)",
    "Med (ns)",
    "Min (ns)",
    "Max (ns)",
    "StdDev (ns)",
)


def nvtx_kern_sum(source: Source, *, default_domain: str = DEFAULT_DOMAIN) -> Table:
    """Kernels by the ranges that cover their launch, by range; kernels outside all ranges first.

    NVTX Range, Style, PID, TID, NVTX Inst, Kern Inst, Total Time, Avg, Med, Min, Max, StdDev (ns), Kernel
    Name. A kernel counts for every range around its launch, and twice for two of the same name inside each
    other: then the times are of more rows than Kern Inst says.
    """
    ranges, elsewhere = read_ranges(source, default_domain=default_domain)
    ranges = ranges.take(~elsewhere)
    raw = source.ints(schema.KERNEL, ("start", "end", "demangledName", "globalPid", "correlationId"))
    code, names = source.strings(raw["demangledName"])
    time = raw["end"].values - raw["start"].values
    present = raw["correlationId"].present
    launched = np.arange(len(time)) if present is None else np.flatnonzero(present)
    linked = with_correlation(raw)
    key, calls = launching_calls(source, pid_of(linked["globalPid"].values), linked["correlationId"].values)
    order = np.argsort(key, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(key)))) if len(key) else np.zeros(1, np.int64)
    kernels = launched[order]  # by key
    covered = np.zeros(len(calls.start), np.bool_)
    rows: list[_Row] = []
    threads: dict[int, list[tuple[Ints, Ints]]] = {}
    for row, call in pairs(ranges, calls):
        covered[call] = True
        pair, place = expand(bounds[calls.key[call]], bounds[calls.key[call] + 1])
        threads.setdefault(int(calls.thread[call[0]]), []).append((row[pair], kernels[place]))
    for thread, parts in threads.items():
        row, kernel = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        rows += _thread_rows(ranges, thread, row, kernel, code, names, time)
    alone = np.flatnonzero(~covered)
    pair, place = expand(bounds[calls.key[alone]], bounds[calls.key[alone] + 1])
    rows += _outside_rows(calls.thread[alone][pair], kernels[place], code, names, time)
    unlinked = np.ones(len(time), np.bool_)
    unlinked[kernels[np.isin(key[order], calls.key)]] = False
    rows += _outside_rows(None, np.flatnonzero(unlinked), code, names, time)
    rows.sort(key=lambda row: (row[0], row[4] > 0, row[2] or -1, row[3] or -1, -row[6], row[1], row[-1]))
    named: dict[str, Values] = {
        "NVTX Range": texts_of([row[0] for row in rows]),
        "Style": texts_of([row[1] for row in rows]),
    }
    for at, name in enumerate(("PID", "TID"), 2):
        present = np.array([row[at] is not None for row in rows], np.bool_)
        named[name] = Column(np.array([row[at] or 0 for row in rows], np.int64), present)
    for at, name in enumerate(_NUMBERS, 4):
        decimal = name in ("Avg (ns)", "Med (ns)", "StdDev (ns)")
        named[name] = np.array([row[at] for row in rows], np.float64 if decimal else np.int64)
    return {**named, "Kernel Name": texts_of([row[-1] for row in rows])}


def _thread_rows(
    ranges: Ranges, thread: int, row: Ints, kernel: Ints, code: Ints, names: list[str], time: Ints
) -> list[_Row]:
    """The rows of one thread; ``row`` and ``kernel`` are pairs of a range and a kernel it covers."""
    label = ranges.code[row] * 2 + (ranges.style[row] == START_END)
    keys, group = unique(label * len(names) + code[kernel])
    stats = group_stats(group, time[kernel], len(keys))
    instances = _distinct(group, row, len(keys))
    kernels = _distinct(group, kernel, len(keys))
    pid, tid = (int(part(np.array([thread]))[0]) for part in (pid_of, tid_of))
    rows: list[_Row] = []
    six = _six(stats)
    for place, key in enumerate(keys.tolist()):
        style, name = divmod(key, len(names))
        label_text, style_text = ranges.names[style // 2], STYLE_NAMES[style % 2]
        counts = (int(instances[place]), int(kernels[place]))
        rows.append((label_text, style_text, pid, tid, *counts, *six[place], names[name]))
    return rows


def _outside_rows(thread: Ints | None, kernel: Ints, code: Ints, names: list[str], time: Ints) -> list[_Row]:
    """Rows of kernels outside all ranges, by the thread that launched them; None: no call launched them."""
    threads, number = unique(np.zeros(len(kernel), np.int64) if thread is None else thread)
    keys, group = unique(number * len(names) + code[kernel])
    stats = group_stats(group, time[kernel], len(keys))
    kernels = _distinct(group, kernel, len(keys))
    rows: list[_Row] = []
    six = _six(stats)
    for place, key in enumerate(keys.tolist()):
        owner, name = divmod(key, len(names))
        own = threads[owner : owner + 1]
        pid, tid = (None, None) if thread is None else (int(pid_of(own)[0]), int(tid_of(own)[0]))
        rows.append(("", "", pid, tid, 0, int(kernels[place]), *six[place], names[name]))
    return rows


def _distinct(group: Ints, item: Ints, groups: int) -> Ints:
    """How many different items each group has."""
    items, place = unique(item)
    both, _ = unique(group * len(items) + place)
    return np.bincount(both // max(len(items), 1), minlength=groups).astype(np.int64)


def _six(stats: GroupStats) -> list[tuple[object, ...]]:
    """Total, Avg, Med, Min, Max, StdDev of each group."""
    average, median, deviation = (
        round_half_up(column, 1).tolist() for column in (stats.mean, stats.median, stats.std)
    )
    total, least, greatest = (column.tolist() for column in (stats.total, stats.least, stats.greatest))
    return list(zip(total, average, median, least, greatest, deviation, strict=True))
