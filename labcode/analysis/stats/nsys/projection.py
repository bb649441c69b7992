"""nsys' reports of NVTX ranges projected to the GPU: an open export in, nsys' columns out.

A range covers a GPU operation when a call with the operation's correlation lies inside the range on the same
thread. nsys counts the operations of one correlation as one: all nodes of a graph launch together are one GPU
op.
"""

from __future__ import annotations

import numpy as np

from labcode.analysis.stats.nsys.coverage import launching_calls, pairs, with_correlation
from labcode.analysis.stats.nsys.nesting import START_END, STYLE_NAMES, Ranges, nest, parent_ids, paths
from labcode.analysis.stats.nsys.nvtx import DEFAULT_DOMAIN, read_ranges
from labcode.analysis.stats.nsys.rounding import round_half_up
from labcode.analysis.stats.table import Floats, Table, Texts, take, texts_of
from labcode.analysis.timeline.grouped import group_stats
from labcode.reports.columns import Ints, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.names import pid_of, tid_of
from labcode.reports.nsys.source import Source


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
