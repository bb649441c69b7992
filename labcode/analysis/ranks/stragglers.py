"""A run with aligned clocks in; who was late to its collectives, by how much and why, and who waited, out.

A rank that comes last makes all others wait; how far it is behind the next to last is what it costs. Why it
is late shows in what it spent more time on than the rank in the middle: it computed longer (its GPU is slow,
or has more to do), its GPU stood idle longer (its host was late), or it left collectives later (its link is
slow). The GPU that waits longest is not the one to blame: it is the one that was early.
"""

import numpy as np
import pandas as pd

from labcode.analysis.ranks.alignment import Meetings
from labcode.analysis.ranks.lane import below
from labcode.analysis.ranks.run import Run
from labcode.reports.columns import Floats

CAUSES = {"compute_late_ns": "slow compute", "idle_late_ns": "late start", "link_late_ns": "slow link"}
WORTH = 0.005  # of the window: a rank that delays by less is not asked why
_TIMES = ("busy", "compute", "comm", "hidden")
_MEETINGS = (
    *("group", "name", "ranks", "start_ns", "last_rank", "late_ns", "behind_ns", "transfer_ns", "waits_ns"),
    *("left_last_rank", "left_late_ns"),
)


def meetings(run: Run) -> pd.DataFrame:
    """A row for each collective, by time: number, group, name, ranks; start_ns (of the first), last_rank,
    late_ns (of the last, after the rank in the middle), behind_ns (the last after the next to last);
    transfer_ns (the shortest duration: what it took once all were there); waits_ns (of all ranks, for the
    last); left_last_rank, left_late_ns (of the last to leave, after the rank in the middle).
    """
    tables = [_rows(run, one) for one in run.clocks.meetings]
    columns = {name: "str" if name in ("group", "name") else "int64" for name in _MEETINGS}
    whole = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(columns))
    whole = whole.sort_values("start_ns", kind="stable", ignore_index=True).astype(columns)
    whole.insert(0, "number", np.arange(len(whole)))
    return whole


def by_rank(run: Run) -> pd.DataFrame:
    """A row for each rank.

    rank, file, device, gpu; span_ns (from its first to its last event), busy_ns, compute_ns, comm_ns,
    hidden_ns, exposed_ns, idle_ns (of the run's window); collectives; wait_ns (for others, in collectives);
    last_count (how often it came last), delay_ns (how far it then was behind the next to last, summed);
    left_last_count (how often it left last); against the rank in the middle compute_late_ns (computing),
    idle_late_ns (idle), link_late_ns (leaving collectives, summed); cause (the largest of the three, of a
    rank that delays by at least half a percent of the window; '' of others).
    """
    lanes = run.lanes
    table = pd.DataFrame(
        {
            "rank": run.ranks,
            **{name: [getattr(lane, name) for lane in lanes] for name in ("file", "device", "gpu")},
            "span_ns": [lane.end_ns - lane.begin_ns for lane in lanes],
            **{f"{name}_ns": [getattr(lane, f"{name}_ns") for lane in lanes] for name in _TIMES},
        }
    )
    table["exposed_ns"] = table["comm_ns"] - table["hidden_ns"]
    table["idle_ns"] = (run.width - table["busy_ns"]).clip(lower=0)
    table["collectives"] = [len(lane.meetings["name"]) for lane in lanes]
    sums = np.zeros((len(table), 5))
    for one in run.clocks.meetings:
        start, end = one.start, one.end
        last, left = start.argmax(axis=0), end.argmax(axis=0)
        behind = _behind(start)
        sums[one.lanes, 0] += np.clip(np.minimum(start.max(axis=0) - start, end - start), 0, None).sum(axis=1)
        np.add.at(sums[:, 1], one.lanes[last], behind > 0)
        np.add.at(sums[:, 2], one.lanes[last], behind)
        np.add.at(sums[:, 3], one.lanes[left], 1)
        sums[one.lanes, 4] += (end - np.median(end, axis=0)).sum(axis=1)
    names = ["wait_ns", "last_count", "delay_ns", "left_last_count", "link_late_ns"]
    table[names] = np.rint(sums).astype(np.int64)
    for part in ("compute", "idle"):
        table[f"{part}_late_ns"] = np.rint(table[f"{part}_ns"] - table[f"{part}_ns"].median()).astype(
            np.int64
        )
    largest = table[list(CAUSES)].idxmax(axis=1).map(CAUSES)
    table["cause"] = largest.where(table["delay_ns"] >= WORTH * run.width, "")
    return table.astype({"file": "str", "gpu": "str", "cause": "str"})


def without_delay(run: Run, rank: int) -> tuple[float, float] | None:
    """What would be saved if a rank were no later than the one in the middle, as shares of the time from the
    first collective to the last: where half of its delay stays, and where none does. None where the rank
    meets nobody.

    The collectives are played again: a rank comes to each as long after it left the one before as it was
    recorded, and all leave when the last one has come and the transfer is done. The rank that is late takes
    as long, from one to the next, as the one in the middle.
    """
    found = [one for one in run.clocks.meetings if rank in run.ranks[one.lanes]]
    if not found:
        return None
    most = max(found, key=lambda one: one.start.shape[1])
    start, end = most.start.astype(np.float64), most.end.astype(np.float64)
    if start.shape[0] < 2 or start.shape[1] < 2:
        return None
    mine = int(np.flatnonzero(run.ranks[most.lanes] == rank)[0])
    between = np.maximum(start[:, 1:] - end[:, :-1], 0.0)
    transfer = np.maximum(end - start.max(axis=0), 0.0)
    late = between[mine] - np.median(np.delete(between, mine, axis=0), axis=0)
    took = _played(between, transfer)
    shares = []
    for kept in (0.5, 0.0):
        less = between.copy()
        less[mine] -= (1 - kept) * late
        shares.append(max(1 - _played(less, transfer) / max(took, 1.0), 0.0))
    return shares[0], shares[1]


def _played(between: Floats, transfer: Floats) -> float:
    """How long collectives take, from the first one's beginning."""
    left = transfer[:, 0]
    for number in range(between.shape[1]):
        left = (left + between[:, number]).max() + transfer[:, number + 1]
    return float(left.max())


def against_median(run: Run, rank: int) -> pd.DataFrame:
    """The kernels of one rank beside those of the others: name, count, median_count, mean_ns, median_mean_ns,
    ratio, extra_ns (what the rank spends beyond the median rank). The most extra time first.
    """
    every = below([lane.kernels for lane in run.lanes], rank=run.ranks.tolist())
    every["mean_ns"] = every["total_ns"] / every["count"]
    mine = every[every["rank"] == rank].set_index("name")
    others = every[every["rank"] != rank].groupby("name")[["count", "mean_ns", "total_ns"]].median()
    own = mine[["count", "mean_ns", "total_ns"]]
    table = own.merge(others, how="left", left_index=True, right_index=True, suffixes=("", "_others")).fillna(
        0.0
    )
    found = pd.DataFrame(
        {
            "name": table.index.astype("str"),
            "count": table["count"].astype("int64"),
            "median_count": table["count_others"],
            "mean_ns": table["mean_ns"],
            "median_mean_ns": table["mean_ns_others"],
            "ratio": table["mean_ns"] / table["mean_ns_others"].where(table["mean_ns_others"] > 0),
            "extra_ns": table["total_ns"] - table["total_ns_others"],
        }
    )
    return found.sort_values("extra_ns", ascending=False, ignore_index=True)


def _behind(start: Floats) -> Floats:
    """How far the last of each column is behind the next to last."""
    two = np.partition(start, -2, axis=0)[-2:]
    return np.asarray(two[1] - two[0], np.float64)


def _rows(run: Run, one: Meetings) -> pd.DataFrame:
    """The collectives of the same ranks."""
    start, end, ranks = one.start, one.end, run.ranks[one.lanes]
    times = {
        "start_ns": start.min(axis=0),
        "late_ns": start.max(axis=0) - np.median(start, axis=0),
        "behind_ns": _behind(start),
        "transfer_ns": (end - start).min(axis=0),
        "waits_ns": np.clip(np.minimum(start.max(axis=0) - start, end - start), 0, None).sum(axis=0),
        "left_late_ns": end.max(axis=0) - np.median(end, axis=0),
    }
    return pd.DataFrame(
        {
            "group": one.group,
            "name": one.names,
            "ranks": len(ranks),
            "last_rank": ranks[start.argmax(axis=0)],
            "left_last_rank": ranks[end.argmax(axis=0)],
            **{name: np.rint(values).astype(np.int64) for name, values in times.items()},
        }
    )[list(_MEETINGS)]
