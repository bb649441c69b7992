"""Operations and calls in; how many launches wait, and how fast copies move bytes, at each moment, out."""

from __future__ import annotations

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


def queue_changes(ops: pd.DataFrame, api: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """How many operations each stream had been given and not begun: ``keys`` (what names a stream), start_ns,
    queued.

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


def bandwidth_changes(moved: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """How fast bytes are moved: ``keys``, start_ns, gb_per_s; a row for each change.

    moved: ``keys``, start_ns, end_ns, bytes. Each row moves its bytes evenly from its start to its end; those
    that run together add up.
    """
    spent = np.maximum(duration_ns(moved), 1)
    speed = moved["bytes"].to_numpy(np.float64) / spent
    begins = moved[[*keys, "start_ns"]].assign(step=speed, running=1)
    ends = begins.assign(start_ns=moved["start_ns"] + spent, step=-speed, running=-1)
    changes = pd.concat([begins, ends], ignore_index=True)
    changes = changes.sort_values([*keys, "start_ns"], kind="stable", ignore_index=True)
    levels = changes.groupby(list(keys))[["step", "running"]].cumsum()
    changes["gb_per_s"] = levels["step"].where(levels["running"] > 0, 0.0)
    return changes.drop(columns=["step", "running"])
