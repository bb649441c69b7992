"""A critical path and the GPU's operations in; a line for each rank of which they disagree out."""

from collections.abc import Iterator

import pandas as pd

from labcode.analysis.timeline.overlap import time_shares

APART = 0.10  # of the path's time, by which both shares of computing may differ


def contradictions(path: pd.DataFrame, ops: pd.DataFrame, *, of: str = "rank") -> tuple[str, ...]:
    """A line for each rank (or what ``of`` calls it) whose path and GPU differ in their share of computing.

    ``path`` as `critical_path` has it, ``ops`` with a column rank. The GPU's share is that of the time in
    which a kernel that is none of a collective's runs, within the path's own time, of the GPU that computes
    the longest. Both can be right: what runs beside the path is not on it.
    """
    return tuple(_contradictions(path, ops, of))


def _contradictions(path: pd.DataFrame, ops: pd.DataFrame, of: str) -> Iterator[str]:
    for rank, mine in path.groupby("rank", sort=True):
        begin = int(mine["start_ns"].min())
        end = int((mine["start_ns"] + mine["duration_ns"]).max())
        shares = time_shares(ops[ops["rank"] == rank], (begin, end))
        if not len(shares) or end <= begin:
            continue
        worst = shares.iloc[int(shares["computing_ns"].argmax())]
        kinds = mine.groupby("kind", observed=True)["duration_ns"].sum() / (end - begin)
        on_path = float(kinds.get("kernel", 0.0))
        computing, idle = (int(worst[c]) / (end - begin) for c in ("computing_ns", "idle_ns"))
        if abs(computing - on_path) <= APART:
            continue
        rest = kinds.drop("kernel", errors="ignore")
        what = f"; most of the path is {rest.idxmax()}, {rest.max():.0%}" if len(rest) else ""
        yield (
            f"critical path of {of} {rank}: {on_path:.0%} computing, while GPU {worst['device']} computes "
            f"for {computing:.0%} of that time and is idle for {idle:.0%}{what}; either the computing runs "
            "beside what decides, or the program waited for the GPU in a way that was not recorded, and then "
            "the path is wrong"
        )
