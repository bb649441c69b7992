"""NVTX ranges on the CPU and projected to the GPU: ranges, calls and operations in, one row for each range
out.

A range covers a GPU operation when the API call that launched it lies inside the range on the same thread, as
nsys projects. The projected span runs from the start of the first operation to the end of the last, wherever
they ran; it contains idle time, so the time in which at least one of them ran stands beside it.
"""

import re

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, launch_rows
from labcode.reports.columns import Ints
from labcode.reports.frames import is_any, rows_of

NUMBER = re.compile(r"(?:\s*[#:=]?\s*|_)\d+$")  # at the end of a name: step 3, step_3, ProfilerStep#3
_MOST_PAIRS = 1 << 22  # (range, operation) pairs held in memory at once
_WIDEST = 1 << 62
_AUTOGRAD = re.compile(r", (?:seq|op_id) = -?\d+|, input_op_ids = \[[^\]]*\]")


def operation_of(name: str) -> str:
    """The name of a range without the numbers that PyTorch's ``emit_nvtx`` adds to each: ``aten::mul`` for
    ``aten::mul, seq = 4, op_id = 9``; sizes stay.
    """
    return _AUTOGRAD.sub("", name) if " = " in name else name


def labels(nvtx: pd.DataFrame) -> pd.Series:
    """Names with their domain, ``domain:name``; just the name in the default domain."""
    names: pd.Series = nvtx["name"].rename(None)
    some = ~is_any(nvtx["domain"], "")
    if some.any():
        names = names.copy()
        names[some] = nvtx["domain"][some] + ":" + nvtx["name"][some]
    return names


def cpu_ranges(nvtx: pd.DataFrame, open_until: int | None = None, *, nested: bool = True) -> pd.DataFrame:
    """The ranges, by start time, with how they nest on their thread; marks are left out.

    Ranges still open at the end of the capture are left out too, unless ``open_until`` (ns) says when they
    end. Columns: start_ns, end_ns, duration_ns; pid, tid; domain, name, label ('domain:name'); event_type
    ('push_pop', 'start_end'); row (the index label in ``nvtx``). For push/pop ranges also depth (0: outermost
    on the thread), parent (Int64: the position in this table of the range around it), child_count and self_ns
    (the time outside all child ranges); start/end ranges stand alone: depth 0, no parent, no child. Without
    ``nested`` these four are left out.
    """
    wanted = is_any(nvtx["event_type"], "push_pop", "start_end")
    if open_until is None:
        wanted &= nvtx["end_ns"].notna().to_numpy()
    ranges = rows_of(nvtx, wanted)
    if open_until is not None:
        ranges = ranges.assign(end_ns=ranges["end_ns"].fillna(open_until))
    table = pd.DataFrame(
        {
            "start_ns": ranges["start_ns"],
            "end_ns": ranges["end_ns"].astype("int64"),
            **{c: ranges[c] for c in ("pid", "tid", "domain", "name")},
            "label": labels(ranges),
            "event_type": ranges["event_type"],
            "end_tid": ranges["end_tid"],
            "row": ranges.index,
        }
    )
    order = np.lexsort((-table["end_ns"].to_numpy(), table["start_ns"].to_numpy()))
    if (order[1:] < order[:-1]).any():
        table = table.iloc[order]
    table = table.reset_index(drop=True)
    table.insert(2, "duration_ns", duration_ns(table))
    return _nested(table) if nested else table


def project(nvtx: pd.DataFrame, api: pd.DataFrame, ops: pd.DataFrame, *, nested: bool = True) -> pd.DataFrame:
    """Every range that covers GPU operations, by start time.

    Adds to the columns of `cpu_ranges`: gpu_start_ns, gpu_end_ns, span_ns (between the two); busy_ns (how
    much of the span at least one of its operations ran); op_count; op_time_ns (their durations summed).
    Ranges that were ended on another thread are not projected. Operations without a launch call belong to no
    range: see `unattributed`.
    """
    table = cpu_ranges(nvtx, nested=nested)
    table = table[table["end_tid"].isna() | (table["end_tid"] == table["tid"])]
    row = launch_rows(ops, api)
    launched = np.flatnonzero(row >= 0)
    call, op = api.iloc[row[launched]], ops.iloc[launched]
    threads = call.groupby(["pid", "tid"]).indices
    parts = []
    for key, ranges in table.groupby(["pid", "tid"]):
        where = threads.get(key)
        if where is not None:
            parts.append(_projected(ranges, call.iloc[where], op.iloc[where]))
    if not parts:
        parts = [_measured(table.iloc[:0], *(np.empty(0, np.int64),) * 3)]
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)


def projection_summary(projected: pd.DataFrame) -> pd.DataFrame:
    """Projected ranges by label, the most span first.

    label; event_type; instances; span_ns, busy_ns, cpu_ns (the ranges' own durations), op_time_ns, op_count
    (sums over the instances); mean_span_ns, median_span_ns; busy_share (busy_ns of span_ns; nan without a
    span).
    """
    grouped = projected.groupby(["label", "event_type"], sort=True)
    summary = grouped.agg(
        instances=("span_ns", "size"),
        span_ns=("span_ns", "sum"),
        busy_ns=("busy_ns", "sum"),
        cpu_ns=("duration_ns", "sum"),
        op_time_ns=("op_time_ns", "sum"),
        op_count=("op_count", "sum"),
        mean_span_ns=("span_ns", "mean"),
        median_span_ns=("span_ns", "median"),
    ).reset_index()
    summary["busy_share"] = summary["busy_ns"] / summary["span_ns"].where(summary["span_ns"] > 0)
    return summary.sort_values(["span_ns", "label"], ascending=[False, True], ignore_index=True)


def unattributed(ops: pd.DataFrame, api: pd.DataFrame) -> pd.DataFrame:
    """How much of the GPU's work has no launch call in the capture, by kind of operation and in all ('all').

    Such operations come from a trimmed capture or the replay of a graph; no range can claim them. kind;
    op_count; unattributed_count; time_ns, unattributed_ns (durations summed); share (of time_ns; nan without
    time).
    """
    table = pd.DataFrame(
        {"kind": ops["kind"], "time_ns": duration_ns(ops), "lost": launch_rows(ops, api) < 0}, index=ops.index
    )
    rows = []
    for kind in [*sorted(table["kind"].unique()), "all"]:
        some = table if kind == "all" else table[table["kind"] == kind]
        lost = some[some["lost"]]
        time, without = int(some["time_ns"].sum()), int(lost["time_ns"].sum())
        rows.append((kind, len(some), len(lost), time, without, without / time if time else np.nan))
    columns = ["kind", "op_count", "unattributed_count", "time_ns", "unattributed_ns", "share"]
    return pd.DataFrame(rows, columns=columns).astype({"kind": "str", "share": "float64"})


def _nested(table: pd.DataFrame) -> pd.DataFrame:
    """Adds depth, parent, child_count, self_ns."""
    count = len(table)
    parent = np.full(count, -1, np.int64)
    stacked = np.flatnonzero(is_any(table["event_type"], "push_pop"))
    for where in table.iloc[stacked].groupby(["pid", "tid"]).indices.values():
        rows = stacked[where]
        around = intervals.parents(table["start_ns"].to_numpy()[rows], table["end_ns"].to_numpy()[rows])
        parent[rows] = np.where(around >= 0, rows[around], -1)
    inner = np.flatnonzero(parent >= 0)
    duration = table["duration_ns"].to_numpy()
    children = np.bincount(parent[inner], minlength=count)
    inside = np.zeros(count, np.int64)
    np.add.at(inside, parent[inner], duration[inner])
    missing = pd.array(parent, dtype="Int64")
    missing[parent < 0] = pd.NA
    return table.assign(
        depth=intervals.depths(parent),
        parent=missing,
        child_count=children,
        self_ns=np.maximum(duration - inside, 0),
    )


def _projected(ranges: pd.DataFrame, call: pd.DataFrame, op: pd.DataFrame) -> pd.DataFrame:
    """The ranges of one thread with the operations that calls of the same thread launched."""
    order = np.argsort(call["start_ns"].to_numpy(), kind="stable")
    began, ended = call["start_ns"].to_numpy()[order], call["end_ns"].to_numpy()[order]
    op_start, op_end = op["start_ns"].to_numpy()[order], op["end_ns"].to_numpy()[order]
    low = np.searchsorted(began, ranges["start_ns"].to_numpy(), "left")
    high = np.searchsorted(began, ranges["end_ns"].to_numpy(), "right")
    pairs = np.cumsum(np.maximum(high - low, 0))
    parts, first = [], 0
    while first < len(ranges):  # as many ranges at a time as memory allows
        done = pairs[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(pairs, done + _MOST_PAIRS, "right")))
        row, position = intervals.expand(low[first:last], high[first:last])
        inside = ended[position] <= ranges["end_ns"].to_numpy()[first:last][row]
        row, position = row[inside], position[inside]
        parts.append(_measured(ranges.iloc[first:last], row, op_start[position], op_end[position]))
        first = last
    return pd.concat(parts)


def _measured(ranges: pd.DataFrame, row: Ints, start: Ints, end: Ints) -> pd.DataFrame:
    """The ranges that have operations; ``row`` is the range of each operation, in ascending order."""
    end = np.maximum(start, end)
    order = np.lexsort((start, row))
    row, start, end = row[order], start[order], end[order]
    heads = np.flatnonzero(np.diff(row, prepend=-1))
    before = np.concatenate((start[:1], _running_end(row, end)[:-1]))
    before[heads] = start[heads]
    busy = np.maximum(end - np.maximum(start, before), 0)
    lows, highs = start[heads], _by_range(np.maximum, end, heads)
    return ranges.iloc[row[heads]].assign(
        gpu_start_ns=lows,
        gpu_end_ns=highs,
        span_ns=highs - lows,
        busy_ns=_by_range(np.add, busy, heads),
        op_count=np.diff(np.append(heads, len(row))),
        op_time_ns=_by_range(np.add, end - start, heads),
    )


def _by_range(function: np.ufunc, values: Ints, heads: Ints) -> Ints:
    """One value for each stretch that begins at one of ``heads``."""
    return np.asarray(function.reduceat(values, heads), np.int64) if len(heads) else values[:0]


def _running_end(row: Ints, end: Ints) -> Ints:
    """The latest end so far within each row's stretch of equal ``row``."""
    if len(end) == 0:
        return end
    low = int(end.min())
    width = int(end.max()) - low + 1
    if (int(row[-1]) + 1) * width < _WIDEST:
        return np.maximum.accumulate(end - low + row * width) - row * width + low
    reach = end.copy()
    for piece in np.split(np.arange(len(row)), np.flatnonzero(np.diff(row)) + 1):
        reach[piece] = np.maximum.accumulate(end[piece])
    return reach
