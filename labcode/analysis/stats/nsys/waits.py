"""Where a program waits for its GPU: calls, ranges, operations in; the range and what was waited for out."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, launch_rows, named_like, spans
from labcode.analysis.timeline.nvtx import labels
from labcode.analysis.timeline.utilization import SYNCHRONIZING


def waits(api: pd.DataFrame, nvtx: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Every call that waits for a GPU, by start time; a driver call inside another call is left out.

    start_ns, end_ns, duration_ns, pid, tid, call; label ('domain:name' of the innermost range of its thread
    in which it began, '' for none); waits_for (the operation of its process, launched before the call, that
    ended last while it ran: its short name; '' where none did, so that there was nothing to wait for).
    """
    calls = api[named_like(api["name"], SYNCHRONIZING)].sort_values("start_ns", kind="stable")
    outer = np.zeros(len(calls), np.bool_)
    for rows in calls.groupby(["pid", "tid"]).indices.values():
        outer[rows] = intervals.parents(*spans(calls.iloc[rows])) < 0
    calls = calls[outer].reset_index(drop=True)
    return pd.DataFrame(
        {
            **{name: calls[name] for name in ("start_ns", "end_ns")},
            "duration_ns": duration_ns(calls),
            **{name: calls[name] for name in ("pid", "tid")},
            "call": calls["name"],
            "label": pd.Series(_ranges(calls, nvtx), dtype="str"),
            "waits_for": pd.Series(_last_ended(calls, api, ops), dtype="str"),
        }
    )


def by_range(found: pd.DataFrame) -> pd.DataFrame:
    """`waits` by range and call, the longest first.

    label; call; count; wait_ns; share (of all waiting; nan without any); in_vain_count (calls that had
    nothing to wait for); waits_for (the operation that most of the time was spent on), waits_for_share (its
    part of wait_ns).
    """
    keys = ["label", "call"]
    table = found.groupby(keys, sort=True).agg(
        count=("duration_ns", "size"),
        wait_ns=("duration_ns", "sum"),
        in_vain_count=("waits_for", lambda names: int((names == "").sum())),
    )
    most = found.groupby([*keys, "waits_for"])["duration_ns"].sum().reset_index()
    most = most[most["waits_for"] != ""].sort_values("duration_ns", ascending=False, kind="stable")
    first = most.drop_duplicates(keys).set_index(keys)
    table["waits_for"] = first["waits_for"].reindex(table.index).fillna("").astype("str")
    spent = first["duration_ns"].reindex(table.index).fillna(0)
    table["waits_for_share"] = spent / table["wait_ns"].where(table["wait_ns"] > 0)
    whole = int(table["wait_ns"].sum())
    table.insert(2, "share", table["wait_ns"] / whole if whole else np.nan)
    return table.reset_index().sort_values(
        ["wait_ns", *keys], ascending=[False, True, True], ignore_index=True
    )


def _ranges(calls: pd.DataFrame, nvtx: pd.DataFrame) -> NDArray[np.object_]:
    """The innermost push/pop range of each call's thread around its start."""
    text = np.full(len(calls), "", object)
    ended = nvtx[nvtx["end_ns"].notna() & (nvtx["event_type"] == "push_pop")]
    names = labels(ended).to_numpy(object)
    threads = ended.groupby(["pid", "tid"]).indices
    for key, rows in calls.groupby(["pid", "tid"]).indices.items():
        mine = threads.get(key)
        if mine is None:
            continue
        start, end, index = intervals.innermost(
            ended["start_ns"].to_numpy(np.int64)[mine], ended["end_ns"].to_numpy(np.int64)[mine]
        )
        began = calls["start_ns"].to_numpy(np.int64)[rows]
        place = np.searchsorted(start, began, "right") - 1
        inside = (place >= 0) & (end[place] > began) if len(end) else np.zeros(len(rows), np.bool_)
        text[rows[inside]] = names[mine][index[place[inside]]]
    return text


def _last_ended(calls: pd.DataFrame, api: pd.DataFrame, ops: pd.DataFrame) -> NDArray[np.object_]:
    """For each call the last operation that ended while it ran and was launched before it."""
    text = np.full(len(calls), "", object)
    row = launch_rows(ops, api)
    launched = np.append(api["start_ns"].to_numpy(np.int64), np.iinfo(np.int64).min)[row]  # -1: long ago
    names = ops["short_name"].to_numpy(object)
    every = np.argsort(ops["end_ns"].to_numpy(np.int64), kind="stable")
    for pid, rows in calls.groupby("pid").indices.items():
        mine = every[ops["pid"].to_numpy()[every] == pid]
        ended = ops["end_ns"].to_numpy(np.int64)[mine]
        start, end = spans(calls.iloc[rows])
        first, place = np.searchsorted(ended, start, "right"), np.searchsorted(ended, end, "right") - 1
        left = np.arange(len(rows))
        while len(left):  # past those that other threads launched meanwhile
            left = left[place[left] >= first[left]]
            good = launched[mine[place[left]]] < start[left]
            text[rows[left[good]]] = names[mine[place[left[good]]]]
            left = left[~good]
            place[left] -= 1
    return text
