"""From the launch call to the GPU: operations and API calls in; a row for each launch, and queues, out."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.analysis.timeline.joins import duration_ns, launch_rows

QUEUED_BY = (
    *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
    *("cudaLaunchCooperativeKernel", "cudaMemcpyAsync", "cudaMemsetAsync"),
    *("hipLaunchKernel", "hipExtLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel"),
    *("hipMemcpyAsync", "hipMemcpyWithStream", "hipMemsetAsync"),
)


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


def unasked(gaps: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """How much of each GPU's idle time passed before the host had asked for what ended it.

    ``gaps`` as `utilization.idle_gaps` has them, ``launches`` as `launch_latency`. device; idle_ns;
    unasked_ns: from the begin of a gap to the call of the operation that ends it, at most the gap. What is
    left of the idle time lies between a call and its operation, which waited for something else.
    """
    rows = []
    for device, mine in gaps.groupby("device"):
        asked = launches[launches["device"] == device].sort_values("start_ns", kind="stable")
        begun, ended = (mine[c].to_numpy(np.int64) for c in ("start_ns", "end_ns"))
        ends_it = np.searchsorted(asked["start_ns"].to_numpy(np.int64), ended)
        known = ends_it < len(asked)
        call = asked["call_start_ns"].to_numpy(np.int64)[ends_it[known]]
        late = np.clip(call - begun[known], 0, (ended - begun)[known])
        rows.append((device, int((ended - begun).sum()), int(late.sum())))
    return pd.DataFrame(rows, columns=["device", "idle_ns", "unasked_ns"])


def queue_changes(ops: pd.DataFrame, api: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Operations given to each stream and not begun: ``keys`` (what names a stream), start_ns, queued.

    A row for each change: one more when a call in `QUEUED_BY` begins, one less when its operation begins.
    """
    row = launch_rows(ops, api)
    queued = api["name"].isin(QUEUED_BY).to_numpy(np.bool_)
    known = np.flatnonzero((row >= 0) & np.append(queued, False)[row])
    mine = ops.iloc[known][[*keys, "start_ns"]].reset_index(drop=True)
    begun = mine.assign(start_ns=api["start_ns"].to_numpy(np.int64)[row[known]], step=1)
    changes = pd.concat([begun, mine.assign(step=-1)], ignore_index=True)
    changes = changes.sort_values([*keys, "start_ns"], kind="stable", ignore_index=True)
    changes["queued"] = changes.groupby(list(keys))["step"].cumsum()
    return changes.drop(columns="step")
