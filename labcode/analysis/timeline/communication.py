"""How much of the communication between GPUs hides behind computing: operations in, a row a GPU out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import extent, in_window
from labcode.analysis.timeline.matching import named_like

NCCL = r"^nccl(?:Dev)?Kernel|^nccl.*Kernel"


def is_communication(ops: pd.DataFrame) -> pd.Series:
    """Which rows are NCCL's kernels, by their name."""
    return pd.Series(named_like(ops["short_name"], NCCL, ignore_case=True), index=ops.index)


def communication_overlap(ops: pd.DataFrame, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """Communication and computing of each GPU; takes `kernels` or `gpu_ops` of a report.

    device; window_ns (by default from the first to the last row); comm_ns (time with at least one NCCL kernel
    running); compute_ns (at least one other kernel, or a whole graph); hidden_ns (both), exposed_ns
    (communication only); hidden_share (hidden_ns of comm_ns; nan without communication); comm_count (NCCL
    kernels). An NCCL kernel also runs while it waits for the other GPUs, so comm_ns contains that wait.
    """
    low, high = extent(ops) if window is None else window
    table = in_window(ops, window)
    if "kind" in table:
        table = table[table["kind"].isin(["kernel", "graph"])]
    rows = []
    for device, mine in table.groupby("device", sort=True):
        talking = is_communication(mine)
        comm, compute = _spans(mine[talking]), _spans(mine[~talking])
        comm_ns, hidden = intervals.total(*comm), intervals.total(*intervals.intersect(*comm, *compute))
        rows.append(
            {
                "device": device,
                "window_ns": max(high - low, 0),
                "comm_ns": comm_ns,
                "compute_ns": intervals.total(*compute),
                "hidden_ns": hidden,
                "exposed_ns": comm_ns - hidden,
                "hidden_share": hidden / comm_ns if comm_ns else np.nan,
                "comm_count": int(talking.sum()),
            }
        )
    whole = ("device", "window_ns", "comm_ns", "compute_ns", "hidden_ns", "exposed_ns")
    types = {**dict.fromkeys(whole, "int64"), "hidden_share": "float64", "comm_count": "int64"}
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def _spans(table: pd.DataFrame) -> tuple[intervals.Ints, intervals.Ints]:
    return table["start_ns"].to_numpy(np.int64), table["end_ns"].to_numpy(np.int64)
