"""nsys' reports of NVTX ranges and the work launched inside them: an open export in, nsys' columns out.

A range covers a GPU operation when a call with the operation's correlation lies inside the range on the same
thread. nsys counts the operations of one correlation as one: all nodes of a graph launch together are one GPU
op.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labcode.analysis.stats.nsys.nvtx import (
    DEFAULT_DOMAIN,
    START_END,
    STYLE_NAMES,
    Ranges,
    nest,
    parent_ids,
    paths,
    read_ranges,
)
from labcode.analysis.stats.nsys.tables import merged, round_half_up, with_correlation
from labcode.analysis.stats.table import Table, Texts, Values, take, texts_of
from labcode.analysis.timeline.grouped import GroupStats, group_stats
from labcode.analysis.timeline.intervals import expand
from labcode.reports.columns import Column, Floats, Ints, process_keys, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.schema import pid_of, tid_of
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


# ---- ranges projected to the GPU


def nvtx_gpu_proj_trace(source: Source, *, default_domain: str = DEFAULT_DOMAIN) -> Table:
    """Every range that covers GPU operations, in the order of the export.

    Name, Projected Start, Projected Duration, Orig Start, Orig Duration (ns), Style, PID, TID, NumGPUOps,
    Lvl, NumChild, RangeId, ParentId, RangeStack. Ranges without a text are left out. Levels and children
    count such ranges only.
    """
    ranges, first, last, count = _projected(source, default_domain)
    stack = nest(ranges)
    table: Table = {
        "Name": Texts(ranges.code, ranges.names),
        "Projected Start (ns)": first,
        "Projected Duration (ns)": last - first,
        "Orig Start (ns)": ranges.start,
        "Orig Duration (ns)": ranges.end - ranges.start,
        "Style": Texts((ranges.style == START_END).astype(np.int64), STYLE_NAMES),
        "PID": pid_of(ranges.thread),
        "TID": tid_of(ranges.thread),
        "NumGPUOps": count,
        "Lvl": stack.level,
        "NumChild": stack.children,
        "RangeId": ranges.number,
        "ParentId": parent_ids(ranges, stack),
        "RangeStack": paths(ranges, stack),
    }
    order = np.argsort(ranges.number)
    return take(table, order[ranges.named[order]])


def nvtx_gpu_proj_sum(source: Source, *, default_domain: str = DEFAULT_DOMAIN) -> Table:
    """Projected ranges by name and style, the largest total projected time first.

    Range, Style, Total Proj Time, Total Range Time (ns), Range Instances, Proj Avg, Med, Min, Max, StdDev
    (ns), Total GPU Ops, Avg GPU Ops, Avg Range Lvl, Avg Num Child.
    """
    ranges, first, last, count = _projected(source, default_domain)
    stack = nest(ranges)
    some = ranges.named
    groups, group = unique((ranges.code * 2 + (ranges.style == START_END))[some])
    proj = group_stats(group, (last - first)[some], len(groups))

    def sums(values: Ints) -> Ints:
        return group_stats(group, values[some], len(groups)).total

    def mean(values: Ints) -> Floats:
        return round_half_up(sums(values) / np.maximum(proj.count, 1), 1)

    names = [ranges.names[code // 2] for code in groups.tolist()]
    styles = [STYLE_NAMES[code % 2] for code in groups.tolist()]
    table: Table = {
        "Range": texts_of(names),
        "Style": texts_of(styles),
        "Total Proj Time (ns)": proj.total,
        "Total Range Time (ns)": sums(ranges.end - ranges.start),
        "Range Instances": proj.count,
        "Proj Avg (ns)": round_half_up(proj.mean, 1),
        "Proj Med (ns)": round_half_up(proj.median, 1),
        "Proj Min (ns)": proj.least,
        "Proj Max (ns)": proj.greatest,
        "Proj StdDev (ns)": round_half_up(proj.std, 1),
        "Total GPU Ops": sums(count),
        "Avg GPU Ops": mean(count),
        "Avg Range Lvl": mean(stack.level),
        "Avg Num Child": mean(stack.children),
    }
    order = sorted(range(len(groups)), key=lambda g: (-int(proj.total[g]), names[g], styles[g]))
    return take(table, np.array(order, np.int64))


def _projected(source: Source, default_domain: str) -> tuple[Ranges, Ints, Ints, Ints]:
    """Ranges that have GPU ops, with the first start, last end and number of these."""
    ranges, elsewhere = read_ranges(source, default_domain=default_domain)
    ranges = ranges.take(~elsewhere)
    start, end, pid, correlation = _operations(source)
    key, calls = launching_calls(source, pid, correlation)
    del pid, correlation
    order = np.argsort(key, kind="stable")
    heads = np.flatnonzero(np.diff(key[order], prepend=-1))
    op_start, op_end = _by_key(np.minimum, start[order], heads), _by_key(np.maximum, end[order], heads)
    del key, order, start, end
    first, last, count = (np.zeros(len(ranges.start), np.int64) for _ in range(3))
    repeated = np.bincount(calls.key, minlength=1)[calls.key] > 1
    for row, call in pairs(ranges, calls):
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        number = calls.key[call]
        first[row[starts]] = np.minimum.reduceat(op_start[number], starts)
        last[row[starts]] = np.maximum.reduceat(op_end[number], starts)
        if repeated[call].any():
            row = np.unique(np.stack((row, number)), axis=1)[0]
        count += np.bincount(row, minlength=len(count))
    some = np.flatnonzero(count)
    return ranges.take(some), first[some], last[some], count[some]


def _operations(source: Source) -> tuple[Ints, Ints, Ints, Ints]:
    """Start, end, process and correlation of the operations that have one."""
    columns = ("start", "end", "globalPid", "correlationId")
    tables = (schema.KERNEL, schema.MEMCPY, schema.MEMSET)
    parts = [with_correlation(source.ints(table, columns)) for table in tables]
    start, end, process, correlation = (
        np.concatenate([part.pop(name).values for part in parts]) for name in columns
    )
    return start, end, pid_of(process), correlation


def _by_key(function: np.ufunc, values: Ints, heads: Ints) -> Ints:
    return np.asarray(function.reduceat(values, heads), np.int64) if len(heads) else values


# ---- kernels by range


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
    code, names = source.kernel_names(raw["demangledName"])
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
    both = np.sort(item * groups + group, kind="stable")  # by item: nearly in order already
    first = np.diff(both, prepend=-1) != 0
    return np.bincount(both[first] % max(groups, 1), minlength=groups).astype(np.int64)


def _six(stats: GroupStats) -> list[tuple[object, ...]]:
    """Total, Avg, Med, Min, Max, StdDev of each group."""
    average, median, deviation = (
        round_half_up(column, 1).tolist() for column in (stats.mean, stats.median, stats.std)
    )
    total, least, greatest = (column.tolist() for column in (stats.total, stats.least, stats.greatest))
    return list(zip(total, average, median, least, greatest, deviation, strict=True))


# ---- kernels named after the innermost range around their launch


_OWN = -2  # names of our own have the numbers from here downwards, which no text of an export has


class RangeNames(Source):
    """An export whose kernels are called ``range/kernel``, as nsys 2024.2 and 2025.3.1 have it.

    The range is the one that begins last among those around a call that launched the kernel, on its thread;
    of several that begin together, the one in the first row. Its domain is left away. A kernel without such a
    range, or whose range has no text, keeps its name.
    """

    def __init__(self, source: Source) -> None:
        self.__dict__.update(source.__dict__)
        self._plain = source
        self._codes: Ints | None = None  # of each kernel: a number of a name below
        self._texts: list[str] = []

    def ints(self, table: str, columns: Sequence[str], where: str = "") -> dict[str, Column]:
        """As `Source.ints`, with names of our own in place of the demangled ones."""
        found = self._plain.ints(table, columns, where)
        if table != schema.KERNEL or "demangledName" not in columns or where:
            return found
        if self._codes is None:
            self._codes = self._named()
        return {**found, "demangledName": Column(_OWN - self._codes)}

    def kernel_names(self, ids: Column) -> tuple[Ints, list[str]]:
        """As `Source.kernel_names`, also for names of our own."""
        if self._codes is None or len(ids.values) == 0 or int(ids.values.max()) > _OWN:
            return self._plain.kernel_names(ids)
        return _OWN - ids.values, self._texts

    def _named(self) -> Ints:
        """Names for all kernels, as codes into texts."""
        raw = self._plain.ints(schema.KERNEL, ("globalPid", "correlationId", "demangledName"))
        ranges, elsewhere = read_ranges(self._plain, default_domain="", domains=False)
        ranges = ranges.take(~elsewhere)
        linked = raw["correlationId"].present
        rows = np.arange(len(raw["globalPid"].values)) if linked is None else np.flatnonzero(linked)
        key, calls = launching_calls(
            self._plain, pid_of(raw["globalPid"].values[rows]), raw["correlationId"].values[rows]
        )
        best = np.full(int(key.max(initial=-1)) + 1, -1, np.int64)  # the range of each launch
        for row, call in pairs(ranges, calls):
            launch = np.concatenate((calls.key[call], np.flatnonzero(best >= 0)))
            among = np.concatenate((row, best[best >= 0]))
            order = np.lexsort((-ranges.number[among], ranges.start[among], launch))
            last = order[np.flatnonzero(np.diff(launch[order], append=-1))]
            best[launch[last]] = among[last]
        around = np.full(len(raw["globalPid"].values), -1, np.int64)
        around[rows] = best[key]
        prefix = np.full(len(around), -1, np.int64)
        inside = np.flatnonzero(around >= 0)
        prefix[inside] = np.where(ranges.named[around[inside]], ranges.code[around[inside]], -1)
        code, names = self._plain.kernel_names(raw["demangledName"])
        both, group = unique((prefix + 1) * len(names) + code)
        texts = []
        for pair in both.tolist():
            number, name = divmod(pair, len(names))
            texts.append(f"{ranges.names[number - 1]}/{names[name]}" if number else names[name])
        codes, self._texts = merged(group, texts)
        return codes
