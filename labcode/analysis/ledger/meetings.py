"""GPU operations of several GPUs in; how long each collective waited for the last GPU to come, out."""

import numpy as np
import pandas as pd

from labcode.analysis.timeline.overlap import is_broadcast, is_meeting
from labcode.reports.columns import Bools, Ints
from labcode.reports.frames import is_any

TOGETHER = 0.9  # of the sets overlap in time on all GPUs, where they belong together


def meets(ops: pd.DataFrame) -> Bools:
    """Which operations `waits` looks at."""
    some = is_any(ops["kind"], "kernel") & (is_meeting(ops).to_numpy() | is_broadcast(ops).to_numpy())
    return np.asarray(some, np.bool_)


def waits(ops: pd.DataFrame, launched: Ints) -> tuple[pd.DataFrame, str]:
    """The collectives that GPUs wait in for each other, with when the last came; and why there are none.

    ``launched`` has an entry for each operation, -1 where its call was not recorded. Columns: row (position
    in ``ops``), device, set (its number), start_ns, end_ns, until_ns (when the last GPU began, at most
    end_ns), last (whether this GPU came last). The k-th of a name belongs together on all GPUs; a recording
    may begin while GPUs still work at what was launched before, so where their numbers differ, operations
    whose launch was not recorded are left out. In a broadcast the root goes on at once: a GPU that left
    before the last one came has not waited there, and broadcasts that do not match are left out.
    """
    one_way = is_broadcast(ops).to_numpy()
    rows = np.flatnonzero(meets(ops))
    talk = ops.iloc[rows][["start_ns", "end_ns", "device", "short_name"]].assign(row=rows)
    talk = talk.assign(one_way=one_way[rows])
    talk = talk.sort_values("start_ns", kind="stable")
    none = talk.iloc[:0].assign(set=0, until_ns=0, last=False)
    if not _alike(talk[talk["one_way"]]) or talk.loc[talk["one_way"], "device"].nunique() == 1:
        talk = talk[~talk["one_way"]]
    if talk["device"].nunique() < 2:
        return none, "fewer than two GPUs communicate"
    if not _alike(talk):
        talk = talk[launched[talk["row"].to_numpy(np.int64)] >= 0]
    if not len(talk) or not _alike(talk) or talk["device"].nunique() < 2:
        return none, (
            "the GPUs ran different numbers of communication kernels, so that they cannot be matched "
            "(a trimmed capture, or several communicators)"
        )
    place = talk.groupby(["short_name", "device"]).cumcount().to_numpy(np.int64)
    codes = np.asarray(pd.factorize(talk["short_name"])[0], np.int64)
    talk = talk.assign(set=codes * (int(place.max(initial=0)) + 1) + place)
    by = talk.groupby("set")
    last, first_end = by["start_ns"].transform("max"), by["end_ns"].transform("min")
    met = (last < first_end)[~talk["one_way"]]
    together = float(met.mean()) if len(met) else 0.0
    if together < TOGETHER:
        return none, (
            f"only {100 * together:.1f} % of the collectives overlap on all GPUs: they cannot be matched "
            "(several communicators, or reports of several machines with clocks apart)"
        )
    until = np.minimum(last.to_numpy(np.int64), talk["end_ns"].to_numpy(np.int64))
    came = talk["start_ns"].to_numpy(np.int64)
    left = talk["one_way"].to_numpy() & (talk["end_ns"].to_numpy(np.int64) < last.to_numpy(np.int64))
    until = np.where(left, came, until)
    is_last = (came == last.to_numpy(np.int64)) & (by["start_ns"].transform("min").to_numpy(np.int64) < came)
    return talk.assign(until_ns=until, last=is_last), ""


def _alike(talk: pd.DataFrame) -> bool:
    """Whether the GPUs have the same number of each of these kernels."""
    counts = talk.groupby(["short_name", "device"]).size().unstack(fill_value=0)
    return bool((counts.nunique(axis=1) == 1).all())
