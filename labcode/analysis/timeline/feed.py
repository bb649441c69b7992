"""NVTX ranges of a `DataLoader`'s processes in; its items and batches, and who waited for which, out.

The loader of PyTorch deals batches out like cards: batch i goes to worker i mod workers, and the loop gets
batches in that order, whichever is finished first. A worker has at most ``prefetch_factor`` batches ordered
at once: the next is ordered when the loop takes one of its own.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from labcode.analysis.timeline.joins import spans
from labcode.reports.columns import Ints

STAGES = ("read", "decode", "transform")
_CLEARLY = 0.03  # of a batch's time
_BATCH = {"pid": "int64", "tid": "int64", "number": "int64", "items": "int64", "whole": "bool"}
_TIMES = {"start_ns": "int64", "end_ns": "int64", "work_ns": "int64", "after_ns": "Int64"}


def items(nvtx: pd.DataFrame, stages: Sequence[str] = STAGES) -> pd.DataFrame:
    """What was made for batches, one item a row, by thread and time: items of which all stages are known.

    pid, tid, start_ns, end_ns (of the first and the last stage), and for each stage its time, ``read_ns``
    and so on. A range of the first stage begins an item; the next ranges of the other stages belong to it.
    """
    known = nvtx[nvtx["name"].isin(stages) & nvtx["end_ns"].notna()]
    known = known.sort_values(["pid", "tid", "start_ns"], kind="stable")
    known = known.assign(item=(known["name"] == stages[0]).groupby([known["pid"], known["tid"]]).cumsum())
    known = known[known["item"] > 0]
    keys = ["pid", "tid", "item"]
    spent = (known["end_ns"] - known["start_ns"]).astype("int64")
    table = known.groupby(keys).agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max")).astype("int64")
    for stage in stages:
        table[f"{stage}_ns"] = spent[known["name"] == stage].groupby([known[key] for key in keys]).sum()
    table = table.dropna().reset_index().drop(columns="item")
    return table.astype(dict.fromkeys(table.columns, "int64"))


def batches(made: pd.DataFrame, size: int) -> pd.DataFrame:
    """Items put together to batches of ``size``, by thread and time.

    pid, tid, number (on the thread, from 0), items, whole (all ``size`` are in the capture); start_ns, end_ns
    of the first and the last item; work_ns (the time of its items), after_ns (from its end to the thread's
    next item: collating, handing over, waiting for an order; missing for the thread's last). A loader pauses
    longest between batches: of the ``size`` ways to cut a thread's items, the one with the longest pauses
    counts.
    """
    rows: list[tuple[object, ...]] = []
    for _, part in made.groupby(["pid", "tid"]):
        start, end = spans(part)
        pauses = start[1:] - end[:-1]
        by_cut = [int(pauses[cut::size].sum()) for cut in range(min(size, len(pauses)))]
        first = int(np.argmax(by_cut)) + 1 if by_cut else size
        edges = [0, *range(first, len(part), size), len(part)]
        for number, (low, high) in enumerate(itertools.pairwise(edges)):
            after = int(pauses[high - 1]) if high < len(part) else pd.NA
            work = int((end[low:high] - start[low:high]).sum())
            whose = (part["pid"].iloc[0], part["tid"].iloc[0], number, high - low, high - low == size)
            rows.append((*whose, start[low], end[high - 1], work, after))
    return pd.DataFrame(rows, columns=[*_BATCH, *_TIMES]).astype({**_BATCH, **_TIMES})


def numbered(made: pd.DataFrame, takes: pd.DataFrame, ahead: int) -> pd.DataFrame:
    """Batches with ``index``: which of the loop's batches each is (Int64; missing where that is not clear).

    ``takes`` has index, start_ns and end_ns, without gaps: when the loop asked for which batch, and when it
    had it. Workers are ranked by pid; the batches of one are as many indices apart as there are workers. At
    its place each was ordered before it was begun, and finished before it was taken. Where that leaves a
    choice, the place counts that explains why workers paused (nothing was ordered) and why the loop waited
    (the batch was not finished), if one does so clearly better than all others.
    """
    table = made.assign(index=pd.array([pd.NA] * len(made), "Int64"))
    workers = made["pid"].nunique()
    if not len(takes):
        return table
    by_index = takes.sort_values("index")
    low, high = int(by_index["index"].iloc[0]), int(by_index["index"].iloc[-1])
    asked, had = (by_index[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    for rank, (_, mine) in enumerate(made.sort_values("start_ns").groupby("pid")):
        start, end = spans(mine)
        paused = np.append(np.iinfo(np.int64).max, start[1:] - end[:-1])
        offsets = np.arange(len(mine)) * workers
        mine_asked, mine_had = (times[(rank - low) % workers :: workers] for times in (asked, had))
        odds: list[tuple[int, int]] = []
        first = low - int(offsets[-1]) - workers
        for place in range(first + (rank - first) % workers, high + ahead * workers + 1, workers):
            at = place + offsets - low
            before = at - ahead * workers
            ordered, known = _at(had, before), before >= 0
            in_time = (at < 0) & (end <= had[0]) | (at >= len(had)) | (end <= _at(had, at)) & (at >= 0)
            in_order = ((start >= ordered) | ~known) & (before < len(had))
            if (in_time & in_order).all():
                idle = np.clip(np.minimum(start - np.where(known, ordered, had[0]), paused), 0, None)
                ready = np.zeros(len(mine_had), np.int64)
                seen = (at >= 0) & (at < len(had))
                ready[at[seen] // workers] = end[seen]
                unfounded = np.clip(mine_asked - ready, 0, mine_had - mine_asked)
                odds.append((int(idle.sum() + unfounded.sum()), place))
        odds.sort()
        if odds and (len(odds) == 1 or odds[1][0] - odds[0][0] > _CLEARLY * (end - start).max()):
            table.loc[mine.index, "index"] = odds[0][1] + offsets
    return table


def _at(values: Ints, places: Ints) -> Ints:
    """Values at places, those beyond the ends at the ends."""
    return np.asarray(values[np.clip(places, 0, len(values) - 1)], np.int64)


def delivered(
    cost_ns: ArrayLike, step_ns: float, workers: int, ahead: int = 2, hand_over_ns: float = 0.0
) -> pd.DataFrame:
    """A model of the loader: when the loop has each batch in hand, with times from its first order on.

    ``cost_ns`` is what a worker needs for each batch, ``step_ns`` the time from one batch in hand to the
    loop's next question, ``hand_over_ns`` passes from a batch's end until the loop can have it. Workers do
    not slow each other down. Without workers the loop makes each batch itself, as it asks for it.

    index, worker, ordered_ns, start_ns, end_ns (of making it), taken_ns, waited_ns (from the question on).
    """
    cost = np.asarray(cost_ns, np.float64)
    ordered, start, end, taken = (np.zeros(len(cost)) for _ in range(4))
    free = np.zeros(max(workers, 1))
    asked = 0.0
    waited = np.zeros(len(cost))
    for i, needed in enumerate(cost.tolist()):
        worker = i % workers if workers else 0
        if not workers:
            ordered[i] = asked
        elif i >= workers * ahead:
            ordered[i] = taken[i - workers * ahead]
        start[i] = max(ordered[i], free[worker])
        free[worker] = end[i] = start[i] + needed
        taken[i] = max(asked, end[i] + hand_over_ns)
        waited[i] = taken[i] - asked
        asked = taken[i] + step_ns
    return pd.DataFrame(
        {
            "index": np.arange(len(cost)),
            "worker": np.arange(len(cost)) % max(workers, 1),
            "ordered_ns": ordered,
            "start_ns": start,
            "end_ns": end,
            "taken_ns": taken,
            "waited_ns": waited,
        }
    )


def step_of(made: pd.DataFrame) -> float:
    """The mean time between two batches in hand of `delivered`, in its second half (nan below four)."""
    taken = made["taken_ns"].to_numpy(np.float64)
    half = len(taken) // 2
    return float((taken[-1] - taken[half]) / (len(taken) - 1 - half)) if len(taken) >= 4 else float("nan")
