"""From the launch call to the GPU: operations and API calls in, one row for each launch out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.analysis.timeline.joins import duration_ns, launch_rows


def launch_latency(ops: pd.DataFrame, api: pd.DataFrame) -> pd.DataFrame:
    """Operations with their launch call, by the start of the operation; those without a call are left out.

    kind, name, device, stream; start_ns (of the operation), duration_ns; call, pid, tid, call_start_ns,
    call_ns (the API call and its duration); latency_ns (from the start of the call to the start of the
    operation), queue_ns (from the end of the call to the start of the operation, 0 where it began before the
    call returned); ops_in_call (how many operations the call launched: the nodes of a graph share one).
    `labcode.analysis.timeline.nvtx.unattributed` counts those left out.
    """
    row = launch_rows(ops, api)
    known = np.flatnonzero(row >= 0)
    op, call = ops.iloc[known], api.iloc[row[known]]
    start, call_start = op["start_ns"].to_numpy(np.int64), call["start_ns"].to_numpy(np.int64)
    in_call = np.bincount(row[known], minlength=1)
    table = pd.DataFrame(
        {
            **{c: op[c].array for c in ("kind", "name", "device", "stream")},
            "start_ns": start,
            "duration_ns": duration_ns(op),
            "call": call["name"].array,
            "pid": call["pid"].to_numpy(),
            "tid": call["tid"].to_numpy(),
            "call_start_ns": call_start,
            "call_ns": duration_ns(call),
            "latency_ns": start - call_start,
            "queue_ns": np.maximum(start - call["end_ns"].to_numpy(np.int64), 0),
            "ops_in_call": in_call[row[known]],
        }
    )
    return table.sort_values("start_ns", kind="stable", ignore_index=True)


def launch_summary(launches: pd.DataFrame) -> pd.DataFrame:
    """Launches by API call, the most operations first; takes what `launch_latency` returns.

    call; calls (distinct ones); ops; call_ns (durations of the calls summed), call_ns_per_op; median_call_ns;
    median_latency_ns, median_queue_ns, median_op_ns; queued_share (operations that began after the call
    returned).
    """
    rows = []
    for name, group in launches.groupby("call", sort=True):
        calls = group.drop_duplicates(["pid", "tid", "call_start_ns"])
        rows.append(
            {
                "call": name,
                "calls": len(calls),
                "ops": len(group),
                "call_ns": int(calls["call_ns"].sum()),
                "call_ns_per_op": float(calls["call_ns"].sum() / len(group)),
                "median_call_ns": float(calls["call_ns"].median()),
                "median_latency_ns": float(group["latency_ns"].median()),
                "median_queue_ns": float(group["queue_ns"].median()),
                "median_op_ns": float(group["duration_ns"].median()),
                "queued_share": float((group["queue_ns"] > 0).mean()),
            }
        )
    columns = {
        "call": "str",
        **dict.fromkeys(("calls", "ops", "call_ns"), "int64"),
        **dict.fromkeys(("call_ns_per_op", "median_call_ns", "median_latency_ns"), "float64"),
        **dict.fromkeys(("median_queue_ns", "median_op_ns", "queued_share"), "float64"),
    }
    summary = pd.DataFrame(rows, columns=list(columns)).astype(columns)
    return summary.sort_values(["ops", "call"], ascending=[False, True], ignore_index=True)
