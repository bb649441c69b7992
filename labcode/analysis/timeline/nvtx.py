"""NVTX ranges on the CPU and projected to the GPU: ranges, calls and operations in, one row for each range
out.

A range covers a GPU operation when the API call that launched it lies inside the range on the same thread, as
nsys projects. The projected span runs from the start of the first operation to the end of the last, wherever
they ran; it contains idle time, so the time in which at least one of them ran stands beside it.
"""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, launch_rows, spans
from labcode.reports.columns import Bools, Ints, process_keys
from labcode.reports.frames import is_any, rows_in_order

NUMBER = re.compile(r"(?:\s*[#:=]?\s*|_)\d+$")  # at the end of a name: step 3, step_3, ProfilerStep#3
_MOST_PAIRS = 1 << 20  # (range, operation) pairs held in memory at once
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
    rows, start, end = in_order(nvtx, open_until=open_until)
    ranges = rows_in_order(nvtx, rows)
    table = pd.DataFrame(
        {
            "start_ns": start,
            "end_ns": end,
            "duration_ns": np.maximum(end - start, 0),
            **{c: ranges[c].array for c in ("pid", "tid", "domain", "name")},
            "label": labels(ranges).array,
            "event_type": ranges["event_type"].array,
            "end_tid": ranges["end_tid"].array,
            "row": nvtx.index.to_numpy()[rows],
        }
    )
    return _nested(table) if nested else table


def in_order(
    nvtx: pd.DataFrame, wanted: Bools | None = None, *, open_until: int | None = None
) -> tuple[Ints, Ints, Ints]:
    """Of the ranges of `cpu_ranges`, by start and the longest first, their rows in ``nvtx``, starts and ends;
    of those that are ``wanted`` alone.
    """
    some = is_any(nvtx["event_type"], "push_pop", "start_end")
    if wanted is not None:
        some = some & wanted
    if open_until is None:
        some = some & nvtx["end_ns"].notna().to_numpy()
    rows = np.flatnonzero(some)
    start = nvtx["start_ns"].to_numpy(np.int64)[rows]
    end = nvtx["end_ns"].to_numpy(np.int64, na_value=open_until or 0)[rows]
    order = np.lexsort((-end, start))
    return rows[order], start[order], end[order]


def project(nvtx: pd.DataFrame, api: pd.DataFrame, ops: pd.DataFrame, *, nested: bool = True) -> pd.DataFrame:
    """Every range that covers GPU operations, by start time.

    Adds to the columns of `cpu_ranges`: gpu_start_ns, gpu_end_ns, span_ns (between the two); busy_ns (how
    much of the span at least one of its operations ran); op_count; op_time_ns (their durations summed).
    Ranges that were ended on another thread are not projected. Operations without a launch call belong to no
    range: see `unattributed`.
    """
    table = cpu_ranges(nvtx, nested=nested)
    own = np.flatnonzero(table["end_tid"].isna() | (table["end_tid"] == table["tid"]))
    start, end, pid, tid = (
        table[name].to_numpy(np.int64)[own] for name in ("start_ns", "end_ns", "pid", "tid")
    )
    rows, columns = covered(start, end, pid, tid, api, ops)
    return table.iloc[own[rows]].reset_index(drop=True).assign(**columns)


def covered(
    start: Ints, end: Ints, pid: Ints, tid: Ints, api: pd.DataFrame, ops: pd.DataFrame
) -> tuple[Ints, dict[str, Ints]]:
    """Which of the ranges cover operations, ascending, and the columns that `project` adds for each."""
    row = launch_rows(ops, api)
    launched = np.flatnonzero(row >= 0)
    row = row[launched]
    threads, of_call = process_keys(pid, tid, *(api[name].to_numpy(np.int64)[row] for name in ("pid", "tid")))
    began, ended = (times[row] for times in spans(api))
    if (np.diff(of_call) != 0).any() or (np.diff(began) < 0).any():
        order = np.lexsort((began, of_call))
        of_call, launched, began, ended = (part[order] for part in (of_call, launched, began, ended))
    op_start, op_end = (times[launched] for times in spans(ops))
    by_thread = np.argsort(threads, kind="stable")
    heads = np.flatnonzero(np.diff(threads[by_thread], prepend=-1))
    parts = []
    for mine in np.split(by_thread, heads[1:]) if len(heads) else ():
        thread = threads[mine[0]]
        its = slice(np.searchsorted(of_call, thread, "left"), np.searchsorted(of_call, thread, "right"))
        times = began[its], ended[its], op_start[its], op_end[its]
        parts += [(mine[where], found) for where, found in _projected(start[mine], end[mine], *times)]
    if not parts:
        parts = [_measured(*(np.empty(0, np.int64),) * 3)]
    rows = np.concatenate([where for where, _ in parts])
    order = np.argsort(rows, kind="stable")
    return rows[order], {
        name: np.concatenate([found[name] for _, found in parts])[order] for name in parts[0][1]
    }


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


def _projected(
    start: Ints, end: Ints, began: Ints, ended: Ints, op_start: Ints, op_end: Ints
) -> Iterator[tuple[Ints, dict[str, Ints]]]:
    """As `_measured`, of the ranges of one thread and the operations that its calls launched, by call."""
    low = np.searchsorted(began, start, "left")
    high = np.searchsorted(began, end, "right")
    pairs = np.cumsum(np.maximum(high - low, 0))
    first = 0
    while first < len(start):  # as many ranges at a time as memory allows
        done = pairs[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(pairs, done + _MOST_PAIRS, "right")))
        row, position = intervals.expand(low[first:last], high[first:last])
        inside = ended[position] <= end[first:last][row]
        row, position = row[inside], position[inside]
        where, found = _measured(row, op_start[position], op_end[position])
        yield where + first, found
        first = last


def _measured(row: Ints, start: Ints, end: Ints) -> tuple[Ints, dict[str, Ints]]:
    """The ranges that have operations; ``row`` is the range of each operation, in ascending order."""
    end = np.maximum(start, end)
    if not ((row[1:] > row[:-1]) | (start[1:] >= start[:-1])).all():
        order = np.lexsort((start, row))
        row, start, end = row[order], start[order], end[order]
    heads = np.flatnonzero(np.diff(row, prepend=-1))
    before = np.concatenate((start[:1], intervals.running_end(row, end)[:-1]))
    before[heads] = start[heads]
    busy = np.maximum(end - np.maximum(start, before), 0)
    lows, highs = start[heads], _by_range(np.maximum, end, heads)
    return row[heads], {
        "gpu_start_ns": lows,
        "gpu_end_ns": highs,
        "span_ns": highs - lows,
        "busy_ns": _by_range(np.add, busy, heads),
        "op_count": np.diff(np.append(heads, len(row))),
        "op_time_ns": _by_range(np.add, end - start, heads),
    }


def _by_range(function: np.ufunc, values: Ints, heads: Ints) -> Ints:
    """One value for each stretch that begins at one of ``heads``."""
    return np.asarray(function.reduceat(values, heads), np.int64) if len(heads) else values[:0]
