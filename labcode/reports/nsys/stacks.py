"""Samples, context switches and call stacks of an nsys capture: its raw tables in, documented tables out.

`labcode.reports.nsys.report.NsysReport` has a method for each function here. A call stack is a table of
frames: the number of the sample or call it belongs to, ``depth`` (0 is the innermost function) and the
function.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.reports.columns import Column, Ints, named, objects
from labcode.reports.frames import frame
from labcode.reports.nsys import schema
from labcode.reports.nsys.names import api_name, pid_of, tid_of
from labcode.reports.nsys.source import Source

UNKNOWN = "[unknown]"  # a function whose name the export does not hold


def cpu_samples(source: Source) -> pd.DataFrame:
    """See `NsysReport.cpu_samples`."""
    columns = ("id", "start", "cpu", "threadState", "globalTid", "cpuCycles")
    raw = source.ints(schema.SAMPLES, columns)
    return frame(
        sample=raw["id"].values,
        start_ns=raw["start"].values,
        pid=pid_of(raw["globalTid"].values),
        tid=tid_of(raw["globalTid"].values),
        cpu=raw["cpu"],
        thread_state=named(raw["threadState"].filled(-1), schema.THREAD_STATES),
        cycles=raw["cpuCycles"].values,
    )


def context_switches(source: Source) -> pd.DataFrame:
    """See `NsysReport.context_switches`."""
    columns = ["start", "cpu", "isSchedIn", "globalTid"]
    told = source.has_columns(schema.SWITCHES, ("threadState",))  # since nsys 2025
    raw = source.ints(schema.SWITCHES, [*columns, "threadState"] if told else columns)
    order = np.lexsort((raw["start"].values, raw["globalTid"].values))
    thread = raw["globalTid"].values[order]
    state = raw["threadState"].filled(0) if told else np.zeros(len(thread), np.int64)
    return frame(
        start_ns=raw["start"].values[order],
        pid=pid_of(thread),
        tid=tid_of(thread),
        cpu=raw["cpu"].take(order),
        is_sched_in=raw["isSchedIn"].values[order] != 0,
        thread_state=named(state, schema.THREAD_STATES)[order],
    )


def callchains(source: Source, table: str, key: str) -> pd.DataFrame:
    """The frames of a table of native call stacks, as ``key``, depth, symbol, module, unresolved.

    By stack, innermost function first. Of frames that claim the same place in a stack the first one counts;
    a warning says so.
    """
    raw = source.ints(table, ("id", "symbol", "module", "stackDepth", "unresolved"))
    number, depth = raw["id"].values, raw["stackDepth"].values
    order = np.lexsort((depth, number))
    again = np.zeros(len(order), np.bool_)
    again[1:] = (np.diff(number[order]) == 0) & (np.diff(depth[order]) == 0)
    if again.any():
        source.warn(f"table {table}: {int(again.sum())} frames stand where another one does; left out")
        order = order[~again]
    symbol, symbols = source.strings(raw["symbol"])
    module, modules = source.strings(raw["module"])
    return frame(
        **{key: number[order]},
        depth=depth[order],
        symbol=objects(symbol, [text or UNKNOWN for text in symbols])[order],
        module=objects(module, [text or UNKNOWN for text in modules])[order],
        unresolved=raw["unresolved"].values[order] != 0,
    )


def chain_of(source: Source, chain: Column, table: str) -> Column:
    """The numbers of call stacks, missing where the export holds no such stack."""
    there = np.unique(source.ints(table, ("id",))["id"].values)
    found = np.isin(chain.values, there)
    return Column(chain.values, found if chain.present is None else found & chain.present)


def api_calls(source: Source) -> pd.DataFrame:
    """All records of CUDA calls, also the second one that a call with a stack has (it begins earlier).

    call_start_ns, call_end_ns, pid, tid, correlation, call_name, callchain (Int64).
    """
    columns = ("start", "end", "globalTid", "correlationId", "nameId", "callchainId")
    raw = source.ints(schema.RUNTIME, columns)
    codes, texts = source.strings(raw["nameId"])
    return frame(
        call_start_ns=raw["start"].values,
        call_end_ns=raw["end"].values,
        pid=pid_of(raw["globalTid"].values),
        tid=tid_of(raw["globalTid"].values),
        correlation=raw["correlationId"].values,
        call_name=objects(codes, [api_name(text) for text in texts]),
        callchain=chain_of(source, raw["callchainId"], schema.CUDA_STACKS),
    )


def api_callchains(source: Source) -> pd.DataFrame:
    """See `NsysReport.api_callchains`."""
    calls = api_calls(source).dropna(subset=["callchain"]).astype({"callchain": "int64"})
    calls = calls[["callchain", *(c for c in calls.columns if c != "callchain")]]
    return calls.merge(callchains(source, schema.CUDA_STACKS, "callchain"), on="callchain").sort_values(
        ["call_start_ns", "callchain", "depth"], kind="stable", ignore_index=True
    )


def enclosing_calls(at: Ints, pid: Ints, tid: Ints, calls: pd.DataFrame) -> Ints:
    """For each time of a thread the row of `api_calls` that was being executed, the innermost; -1: none."""
    found = np.full(len(at), -1, np.int64)
    groups = calls.groupby(["pid", "tid"], sort=False).indices
    wanted = pd.DataFrame({"pid": pid, "tid": tid}).groupby(["pid", "tid"], sort=False).indices
    for thread, places in wanted.items():
        if thread not in groups:
            continue
        rows = np.asarray(groups[thread], np.int64)
        start = calls["call_start_ns"].to_numpy(np.int64)[rows]
        rows = rows[np.argsort(start, kind="stable")]
        found[places] = _innermost(at[places], rows, calls)
    return found


def _innermost(at: Ints, rows: Ints, calls: pd.DataFrame) -> Ints:
    """The last call (``rows`` are one thread's, by start) that began by then and had not ended."""
    start = calls["call_start_ns"].to_numpy(np.int64)[rows]
    end = calls["call_end_ns"].to_numpy(np.int64)[rows]
    latest = np.maximum.accumulate(end)  # nothing before this row reaches further
    place = np.searchsorted(start, at, "right") - 1
    result = np.full(len(at), -1, np.int64)
    for i in np.flatnonzero(place >= 0):
        j = int(place[i])
        while j >= 0 and latest[j] >= at[i]:
            if end[j] >= at[i]:
                result[i] = rows[j]
                break
            j -= 1
    return result
