"""What joins tables and picks their rows: tables in, the launching call of each operation and windows out."""

import re
import weakref

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.reports.columns import Ints, known, process_keys, small, unique
from labcode.reports.frames import codes_of, rows_of
from labcode.reports.report import TimelineReport

_Joined = tuple["weakref.ref[pd.DataFrame]", "weakref.ref[pd.DataFrame]", Ints]
_JOINED: weakref.WeakKeyDictionary[TimelineReport, _Joined] = weakref.WeakKeyDictionary()


def named_like(names: pd.Series, pattern: str, *, ignore_case: bool = False) -> NDArray[np.bool_]:
    """Which names contain a match; each different name is looked at once, so a million rows are quick."""
    search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    if (made := known(names)) is not None:
        return made.matching(lambda name: search(name) is not None)
    codes, distinct = codes_of(names)
    found = np.array([search(str(name)) is not None for name in distinct], np.bool_)
    return np.append(found, False)[codes]


def launch_rows(ops: pd.DataFrame, api: pd.DataFrame) -> Ints:
    """For each operation the position in ``api`` of the call that launched it; -1 where there is none.

    They have the same correlation in the same process. Where several calls share it (a runtime call and the
    driver call inside it), it is the one that began first. Correlation 0 means that there is none.
    """
    pid, correlation = (ops[c].to_numpy(np.int64) for c in ("pid", "correlation"))
    api_pid, api_correlation = (api[c].to_numpy(np.int64) for c in ("pid", "correlation"))
    if len(api_pid) == 0 or len(pid) == 0:
        return np.full(len(pid), -1, np.int64)
    low, high = int(api_correlation.min()), int(api_correlation.max())
    pids, process = unique(api_pid)
    if len(pids) * (high - low + 1) > 4 * len(api_pid) + (1 << 16):  # too far apart for a place for each
        op_key, api_key = process_keys(pid, correlation, api_pid, api_correlation)
        distinct, code = unique(np.concatenate((op_key, api_key)))
        op_key, api_key, count = code[: len(op_key)], code[len(op_key) :], len(distinct)
        known = correlation != 0
    else:
        count = len(pids) * (high - low + 1)
        api_key = process * (high - low + 1) + (api_correlation - low)
        owner = np.minimum(np.searchsorted(pids, pid), len(pids) - 1)
        known = (correlation != 0) & (correlation >= low) & (correlation <= high) & (pids[owner] == pid)
        op_key = np.where(known, owner * (high - low + 1) + (correlation - low), 0)
    rows = np.arange(len(api_key))
    first = np.full(count, -1, np.int64)
    first[api_key] = rows
    if (first[api_key] != rows).any():  # several calls share one: what is written last counts
        order = np.argsort(api["start_ns"].to_numpy(np.int64), kind="stable")[::-1]
        first[api_key[order]] = order
    return np.where(known, first[op_key], -1)


def launches_of(report: TimelineReport, ops: pd.DataFrame, api: pd.DataFrame) -> Ints:
    """`launch_rows` of all operations and all calls of a report, found once where it keeps its tables."""
    found = _JOINED.get(report)
    if found is None or found[0]() is not ops or found[1]() is not api:
        found = _JOINED[report] = weakref.ref(ops), weakref.ref(api), small(launch_rows(ops, api))
    return found[2]


def spans(table: pd.DataFrame) -> tuple[Ints, Ints]:
    """start_ns and end_ns of a table."""
    return table["start_ns"].to_numpy(np.int64), table["end_ns"].to_numpy(np.int64)


def duration_ns(table: pd.DataFrame) -> Ints:
    """How long each row took, in ns; never less than 0."""
    spent = table["end_ns"].to_numpy(np.int64) - table["start_ns"].to_numpy(np.int64)
    return np.asarray(np.maximum(spent, 0), np.int64)


def in_window(table: pd.DataFrame, window: tuple[int, int] | None) -> pd.DataFrame:
    """The rows that overlap the window, cut off at its ends; all of them without one."""
    if window is None:
        return table
    start = np.maximum(table["start_ns"].to_numpy(np.int64), window[0])
    end = np.minimum(table["end_ns"].to_numpy(np.int64), window[1])
    inside = np.flatnonzero(end > start)
    if len(inside) < len(table):
        table, start, end = rows_of(table, inside), start[inside], end[inside]
    return table.assign(start_ns=start, end_ns=end)


def extent(table: pd.DataFrame) -> tuple[int, int]:
    """From the first start to the last end; (0, 0) for an empty table."""
    if len(table) == 0:
        return 0, 0
    low = int(table["start_ns"].min())
    return low, max(low, int(table["end_ns"].max()))
