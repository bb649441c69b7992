"""ex02: kernels and calls in; how many kernels ran at once and what each waited for out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.exercises.nsys.expected.tables import per_device, spans


def time_at_least(kernels: pd.DataFrame) -> dict[int, list[int]]:
    """ex02: per device, the time with at least 1, 2, … kernels running."""
    answer = {}
    for device, mine in per_device(kernels):
        starts, ends, level = intervals.concurrency(*spans(mine))
        lasts = ends - starts
        answer[device] = [int(lasts[level >= k].sum()) for k in range(1, int(level.max(initial=0)) + 1)]
    return answer


def average_concurrency(kernels: pd.DataFrame) -> dict[int, float]:
    """ex02: per device, the mean number of kernels running while any runs."""
    return {device: sum(times) / times[0] for device, times in time_at_least(kernels).items()}


def overlapping_streams(kernels: pd.DataFrame) -> dict[int, int]:
    """ex02: per device, the number of streams with a kernel that overlaps one of another stream."""
    answer = {}
    for device, mine in per_device(kernels):
        starts, ends = spans(mine)
        stream = mine.groupby(["pid", "stream"]).ngroup().to_numpy()
        answer[device] = sum(
            intervals.total(*intervals.intersect(starts[own], ends[own], starts[~own], ends[~own])) > 0
            for own in (stream == number for number in np.unique(stream))
        )
    return answer


def with_launches(
    kernels: pd.DataFrame, api: pd.DataFrame, *, process: bool = True, at: str = "end_ns"
) -> pd.DataFrame:
    """ex02: kernels by start, with when their launch returned (or began, for a typical mistake)."""
    keys = ["pid", "correlation"] if process else ["correlation"]
    calls = (
        api[[*keys, at if at != "kernel" else "end_ns"]]
        .drop_duplicates(keys)
        .astype({at if at != "kernel" else "end_ns": "Int64"})
    )
    calls.columns = pd.Index([*keys, "launched_ns"])
    joined = kernels.merge(calls, on=keys, how="left").sort_values(
        "start_ns", kind="stable", ignore_index=True
    )
    return joined.assign(launched_ns=joined["start_ns"].astype("Int64")) if at == "kernel" else joined


def launch_bound_share(
    kernels: pd.DataFrame,
    api: pd.DataFrame,
    *,
    process: bool = True,
    at: str = "end_ns",
    latest: bool = True,
    first: bool = False,
) -> dict[int, float]:
    """ex02: per device, the share of kernels that found it empty.

    The flags ask for what typical mistakes give.
    """
    shares = {}
    for device, mine in per_device(with_launches(kernels, api, process=process, at=at)):
        ends = mine["end_ns"].to_numpy(np.int64)
        before = np.concatenate([[-1], (np.maximum.accumulate(ends) if latest else ends)[:-1]])
        known = mine["launched_ns"].notna().to_numpy() & ((before >= 0) | first)
        launched = mine["launched_ns"].fillna(0).to_numpy(np.int64)
        shares[device] = float((before[known] <= launched[known]).mean()) if known.any() else 0.0
    return shares


def waited_for(
    kernels: pd.DataFrame,
    api: pd.DataFrame,
    slack_ns: int,
    *,
    process: bool = True,
    keys: tuple[str, ...] = ("pid", "device", "stream"),
    unknown: bool = False,
) -> dict[str, int]:
    """ex02: how many kernels waited for what. The flags ask for what typical mistakes give."""
    joined = with_launches(kernels, api, process=process)
    before = joined.groupby(list(keys))["end_ns"].cummax().groupby([joined[key] for key in keys]).shift(1)
    freed = before.fillna(-1).to_numpy(np.float64)
    known = joined["launched_ns"].notna().to_numpy()
    launched = joined["launched_ns"].fillna(-1).to_numpy(np.float64)
    room = joined["start_ns"].to_numpy() > np.maximum(launched, freed) + slack_ns
    counted = known | unknown
    stream = ~room & (freed > launched)
    return {
        "launch": int((counted & ~room & ~stream).sum()),
        "stream": int((counted & stream).sum()),
        "room": int((counted & room).sum()),
    }


def overlap_diagnosis(kernels: pd.DataFrame, api: pd.DataFrame, slack_ns: int) -> str:
    """ex02: what most kernels waited for."""
    counts = waited_for(kernels, api, slack_ns)
    return max(counts, key=lambda key: counts[key]) if any(counts.values()) else "unknown"
