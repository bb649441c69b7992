"""What ran at the same time on a GPU: operations in, times of overlap and levels of concurrency out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import extent, in_window
from labcode.analysis.timeline.matching import named_like

_COPIES = {"h2d_ns": r"\bH2D$", "d2h_ns": r"\bD2H$"}


def copy_compute_overlap(ops: pd.DataFrame, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """How much of the copying each GPU did while computing.

    device; window_ns; copy_ns, compute_ns (time with at least one copy, at least one kernel or graph);
    overlap_ns (both); busy_ns (copy, kernel or memset); hidden_share (overlap_ns of copy_ns; nan without
    copies); h2d_ns, d2h_ns (time with at least one copy of the direction). Graph launches count as compute:
    what runs inside is not known.
    """
    width = _width(ops, window)
    rows = []
    for device, mine in in_window(ops, window).groupby("device", sort=True):
        copies = _spans(mine[mine["kind"] == "memcpy"])
        compute = _spans(mine[mine["kind"].isin(["kernel", "graph"])])
        copy_ns, both = intervals.total(*copies), intervals.total(*intervals.intersect(*copies, *compute))
        rows.append(
            {
                "device": device,
                "window_ns": width,
                "copy_ns": copy_ns,
                "compute_ns": intervals.total(*compute),
                "overlap_ns": both,
                "busy_ns": intervals.total(*_spans(mine)),
                "hidden_share": both / copy_ns if copy_ns else np.nan,
                **{
                    name: intervals.total(*_spans(mine[named_like(mine["name"], pattern)]))
                    for name, pattern in _COPIES.items()
                },
            }
        )
    whole = ("device", "window_ns", "copy_ns", "compute_ns", "overlap_ns", "busy_ns")
    types = {**dict.fromkeys(whole, "int64"), "hidden_share": "float64", **dict.fromkeys(_COPIES, "int64")}
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def stream_concurrency(ops: pd.DataFrame, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """For how long how many streams of each GPU were active.

    device; streams (0: the GPU was idle); time_ns; share (of the window, by default from the first to the
    last operation of all GPUs; nan when it is empty). The shares of a GPU add up to 1. Streams of different
    processes or contexts are different streams, whatever their numbers.
    """
    window = extent(ops) if window is None else window
    width = max(window[1] - window[0], 0)
    rows = []
    for device, mine in in_window(ops, window).groupby("device", sort=True):
        parts = [_spans(stream) for _, stream in mine.groupby(["pid", "context", "stream"])]
        merged = [intervals.union(*part) for part in parts]
        start, end, level = intervals.concurrency(
            np.concatenate([s for s, _ in merged]), np.concatenate([e for _, e in merged])
        )
        time = np.bincount(level, weights=end - start, minlength=1).astype(np.int64)
        time[0] = width - time[1:].sum()
        for streams, ns in enumerate(time.tolist()):
            rows.append((device, streams, ns, ns / width if width else np.nan))
    columns = ["device", "streams", "time_ns", "share"]
    return pd.DataFrame(rows, columns=columns).astype({**dict.fromkeys(columns, "int64"), "share": "float64"})


def _spans(table: pd.DataFrame) -> tuple[intervals.Ints, intervals.Ints]:
    return table["start_ns"].to_numpy(np.int64), table["end_ns"].to_numpy(np.int64)


def _width(ops: pd.DataFrame, window: tuple[int, int] | None) -> int:
    low, high = extent(ops) if window is None else window
    return max(high - low, 0)
