"""A language model's parts in a capture of nsys: a report in, its GPU operations with the ranges around, out.

An operation belongs to the ranges that are open on the thread of the call that launched it, when that call
begins. Where the backward pass runs on a thread of its own (PyTorch's way unless told otherwise), a range
around ``loss.backward()`` does not cover it: then the operations launched there while the range was open are
taken for its own.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.lm import attribution
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import launch_rows
from labcode.analysis.timeline.nvtx import cpu_ranges, operation_of
from labcode.reports.columns import Ints
from labcode.reports.common import MEASURED
from labcode.reports.nsys.report import NsysReport

_LONGEST_PATH = 2_000  # characters: what is nested deeper counts for what is around it
_COLUMNS = ["kind", "name", "start_ns", "end_ns", "device", "stream"]


def operations(report: NsysReport) -> pd.DataFrame:
    """The GPU operations of the measured part with their paths, as `attribution` takes them."""
    ops = _measured(report)
    return ops[_COLUMNS].assign(path=range_paths(report.nvtx(), report.api(), ops))


def operations_asked(report: NsysReport) -> pd.DataFrame:
    """Those of `operations` whose call was recorded, with ``asked_ns``, when it began, before the path."""
    ops, api = _measured(report), report.api()
    rows = launch_rows(ops, api)
    paths = range_paths(report.nvtx(), api, ops)
    known = rows >= 0
    asked = api["start_ns"].to_numpy()[rows[known]]
    return ops.loc[known, _COLUMNS].assign(asked_ns=asked, path=paths[known]).reset_index(drop=True)


def _measured(report: NsysReport) -> pd.DataFrame:
    window, ops = report.window(), report.gpu_ops()
    return ops[(ops["end_ns"] > window[0]) & (ops["start_ns"] < window[1])].reset_index(drop=True)


def range_paths(nvtx: pd.DataFrame, api: pd.DataFrame, ops: pd.DataFrame) -> pd.Series:
    """For each operation the push/pop ranges of the default domain around its launch, joined by slashes.

    The range that marks the measured part is left out; '' where there is no range or no launch call.
    """
    ranges = cpu_ranges(nvtx[(nvtx["event_type"] == "push_pop") & (nvtx["domain"] == "")])
    rows = launch_rows(ops, api)
    inner = _innermost(ranges, api, rows)
    full = _full_names(ranges)
    return pd.Series([full[row] if row >= 0 else "" for row in inner.tolist()], index=ops.index, dtype="str")


def _innermost(ranges: pd.DataFrame, api: pd.DataFrame, rows: Ints) -> Ints:
    """The innermost range (position) around each launch: on its thread, or of another when that has none."""
    result = np.full(len(rows), -1, np.int64)
    have = np.flatnonzero(rows >= 0)
    if len(ranges) == 0 or len(have) == 0:
        return result
    calls = api.iloc[rows[have]]
    at = calls["start_ns"].to_numpy(np.int64)
    pids, tids = calls["pid"].to_numpy(np.int64), calls["tid"].to_numpy(np.int64)
    for where in ranges.groupby(["pid", "tid"]).indices.values():
        mine = np.asarray(where, np.int64)
        pid, tid = (int(ranges[c].iloc[mine[0]]) for c in ("pid", "tid"))
        start, end = (ranges[c].to_numpy(np.int64)[mine] for c in ("start_ns", "end_ns"))
        low, high, which = intervals.innermost(start, end)
        if len(low) == 0:  # ranges that end before they begin
            continue
        place = np.searchsorted(low, at, "right") - 1
        inside = (place >= 0) & (at < high[place]) & (pids == pid)
        found = np.where(inside, mine[which[place]], -1)
        own = tids == tid
        result[have[own & inside]] = found[own & inside]
        others = ~own & inside & (result[have] < 0) & ~_has_ranges(ranges, pids, tids)
        result[have[others]] = found[others]
    return result


def _has_ranges(ranges: pd.DataFrame, pids: Ints, tids: Ints) -> NDArray[np.bool_]:
    """Whether each thread opens ranges of its own."""
    known = set(zip(ranges["pid"].tolist(), ranges["tid"].tolist(), strict=True))
    return np.array([key in known for key in zip(pids.tolist(), tids.tolist(), strict=True)], bool)


def _full_names(ranges: pd.DataFrame) -> list[str]:
    """The names of a range and of those around it, outermost first, as far as `_LONGEST_PATH` allows."""
    names, parents = ranges["name"].tolist(), ranges["parent"].fillna(-1).astype("int64").tolist()
    full: list[str] = []
    for name, parent in zip(names, parents, strict=True):  # a range comes after the one around it
        outer = full[parent] if parent >= 0 else ""
        if len(outer) >= _LONGEST_PATH:
            full.append(outer)
            continue
        own = "" if name == MEASURED else operation_of(name).replace("/", "∕")
        full.append("/".join(part for part in (outer, own) if part))
    return full


def lm_buckets(report: NsysReport) -> pd.DataFrame:
    """GPU time by pass and bucket: Pass, Bucket, Time (%) of the pass, Time, Operations."""
    return _table(attribution.buckets(attribution.attribute(operations(report)), by=("pass",)))


def lm_parts(report: NsysReport) -> pd.DataFrame:
    """GPU time by pass, part, bucket: Pass, Part, Bucket, Time (%) of the pass, Time, Operations."""
    found = attribution.parts(attribution.attribute(operations(report)))
    table = _table(found)
    table.insert(1, "Part", found["part"].replace("", "(none)"))
    return table


def lm_kernels(report: NsysReport) -> pd.DataFrame:
    """Kernels by pass: Pass, Bucket, Time (%) of the pass, Time, Operations, Mean, Name."""
    found = attribution.kernels(attribution.attribute(operations(report)))
    return _table(found).assign(**{"Mean (ns)": found["mean_ns"].round(1), "Name": found["name"]})


def _table(found: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Pass": found["pass"].replace("", "(none)"),
            "Bucket": found["bucket"],
            "Time (%)": (100 * found["share"].fillna(0.0)).round(1),
            "Time (ns)": found["time_ns"],
            "Operations": found["operations"],
        }
    )
