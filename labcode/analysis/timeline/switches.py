"""Context switches in; when each thread ran and when it did not, and what it was waiting in, out."""

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.intervals import Window

_COLUMNS = {"pid": "int64", "tid": "int64", "start_ns": "int64", "end_ns": "int64", "state": "str"}


def thread_states(switches: pd.DataFrame, window: Window) -> pd.DataFrame:
    """What each thread did within the window, from its first context switch on.

    pid, tid, start_ns, end_ns, state ('running': on a CPU; 'off': not on one, blocked or waiting for its
    turn). A thread whose first switch takes it off a CPU ran from the start of the window (it is not known
    since when); one that is switched in first is not known to have existed before. After its last switch a
    thread stays as it is until the end of the window, except one that ended.
    """
    ended = (
        switches["thread_state"] == "terminated"
        if "thread_state" in switches
        else pd.Series(False, switches.index)
    )
    rows: list[tuple[int, int, int, int, str]] = []
    for _, places in switches.groupby(["pid", "tid"]).indices.items():
        part = switches.iloc[np.sort(places)].sort_values("start_ns", kind="stable")
        pid, tid = int(part["pid"].iloc[0]), int(part["tid"].iloc[0])
        at = part["start_ns"].to_numpy(np.int64)
        running = part["is_sched_in"].to_numpy(np.bool_)
        over = ended.loc[part.index].to_numpy(np.bool_) & ~running
        edges = np.append(at, window[1])
        if not running[0]:
            rows.append((pid, tid, window[0], int(at[0]), "running"))
        changed = np.concatenate(([True], running[1:] != running[:-1]))
        first = np.flatnonzero(changed)
        last = np.append(first[1:], len(at))
        for begin, end in zip(first.tolist(), last.tolist(), strict=True):
            if not over[begin:end].any():
                rows.append(
                    (pid, tid, int(edges[begin]), int(edges[end]), "running" if running[begin] else "off")
                )
    table = pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)
    table["start_ns"] = np.maximum(table["start_ns"], window[0])
    table["end_ns"] = np.minimum(table["end_ns"], window[1])
    return table[table["end_ns"] > table["start_ns"]].reset_index(drop=True)


def thread_summary(states: pd.DataFrame, threads: pd.DataFrame | None = None) -> pd.DataFrame:
    """Running and waiting of each thread, the busiest first.

    pid, tid, name (of `NsysReport.threads`, '' without), running_ns, off_ns, running_share (of both),
    times_off (how often it lost its CPU), longest_off_ns.
    """
    spent = states["end_ns"] - states["start_ns"]
    off = states["state"] == "off"
    grouped = pd.DataFrame(
        {
            "pid": states["pid"],
            "tid": states["tid"],
            "running_ns": spent.where(~off, 0),
            "off_ns": spent.where(off, 0),
            "times_off": off.astype("int64"),
            "longest_off_ns": spent.where(off, 0),
        }
    ).groupby(["pid", "tid"], as_index=False)
    table = grouped.agg({"running_ns": "sum", "off_ns": "sum", "times_off": "sum", "longest_off_ns": "max"})
    whole = (table["running_ns"] + table["off_ns"]).to_numpy(np.float64)
    share = np.divide(table["running_ns"], whole, out=np.full(len(table), np.nan), where=whole > 0)
    table.insert(4, "running_share", share)
    table.insert(2, "name", _names(table, threads))
    return table.sort_values(["running_ns", "off_ns"], ascending=False, kind="stable", ignore_index=True)


def waiting_in(states: pd.DataFrame, osrt: pd.DataFrame) -> pd.DataFrame:
    """The times off the CPU, each with the OS call that the thread was in for most of it.

    pid, tid, start_ns, end_ns, duration_ns, call ('' when no traced call overlaps: the thread waited for a
    CPU, for a page, or in a call that nsys does not trace), call_share (of the duration), callchain (Int64:
    that call's stack, joins with `NsysReport.osrt_callchains`).
    """
    off = states[states["state"] == "off"].drop(columns="state").reset_index(drop=True)
    off["duration_ns"] = off["end_ns"] - off["start_ns"]
    name = np.full(len(off), "", object)
    share = np.zeros(len(off), np.float64)
    chain = np.full(len(off), -1, np.int64)
    chains = osrt["callchain"].fillna(-1).to_numpy(np.int64)
    calls = osrt.groupby(["pid", "tid"]).indices
    for thread, places in off.groupby(["pid", "tid"]).indices.items():
        if thread not in calls:
            continue
        rows = np.asarray(calls[thread], np.int64)
        low, high, which = intervals.innermost(
            osrt["start_ns"].to_numpy(np.int64)[rows], osrt["end_ns"].to_numpy(np.int64)[rows]
        )
        begin = off["start_ns"].to_numpy(np.int64)[places]
        end = off["end_ns"].to_numpy(np.int64)[places]
        for place, since, until in zip(list(places), begin.tolist(), end.tolist(), strict=True):
            a, b = np.searchsorted(high, since, "right"), np.searchsorted(low, until, "left")
            if a >= b:
                continue
            inside = np.minimum(high[a:b], until) - np.maximum(low[a:b], since)
            totals = np.bincount(which[a:b], weights=inside)
            best = int(totals.argmax())
            name[place] = osrt["name"].iloc[rows[best]]
            share[place] = totals[best] / (until - since)
            chain[place] = chains[rows[best]]
    off["call"] = pd.Series(name, dtype="str")
    off["call_share"] = share
    off["callchain"] = pd.arrays.IntegerArray(np.maximum(chain, 0), chain < 0)
    return off


def _names(table: pd.DataFrame, threads: pd.DataFrame | None) -> list[str]:
    known: dict[tuple[int, int], str] = {}
    if threads is not None:
        known = dict(zip(zip(threads["pid"], threads["tid"], strict=True), threads["name"], strict=True))
    return [known.get(thread, "") for thread in zip(table["pid"], table["tid"], strict=True)]
