"""Exercise pytorch-ex03, part a: who waits for whom?

A table of the NCCL kernels of all ranks comes in, on one clock, in ns, its rows in no order:

    rank, group (the process group), start_ns, end_ns

A collective is a meeting: its kernel starts on a rank when that rank has arrived, and ends when all have come
and the data is exchanged. The n-th kernel by start of each rank, within a group, is the same meeting. One
counts only when every rank that occurs in the group has it (a recording may end in the middle of one).

In a meeting the last is the rank with the latest start (of equal ones the lowest). Every rank waits from its
start to that moment, but not beyond the end of its own kernel. The answer is a dictionary:

    meetings      how many count
    waits         {rank: ns it waited}, for every rank that occurs
    waited_for    {rank: ns that all ranks waited in the meetings to which this one came last}, likewise
    exchange_ns   the sum over the meetings of the shortest kernel: what the exchange itself needs
    straggler     the rank most waited for (of equal ones the lowest), when more than half of all waiting was
                  for it; else None

A worked example: rank 0 at 0-100 and 200-260, rank 1 at 60-100 and 210-260, rank 2 at 10-100, group "0"

    meetings(collectives)  ->  {"meetings": 1, "waits": {0: 60, 1: 0, 2: 50},
                                "waited_for": {0: 0, 1: 110, 2: 0}, "exchange_ns": 40, "straggler": 1}

Rank 2 lacks the second meeting. Rank 1 has the shortest kernel, and is the one to look at.

Grade it:         labcode exercises pytorch-ex03a        (or: nox -s exercises -- pytorch-ex03a)
Get a hint:       labcode exercises pytorch-ex03a --hint
Try it yourself:  python exercises/pytorch/ex03_distributed/a_meetings.py     (runs the worked example)
"""

import pandas as pd


def meetings(collectives: pd.DataFrame) -> dict[str, object]:
    """Who waits for whom."""
    # [solution]
    ranks = sorted(int(rank) for rank in collectives["rank"].unique())
    rows = collectives.sort_values("start_ns")
    rows = rows.assign(number=rows.groupby(["group", "rank"]).cumcount())
    members = rows.groupby("group")["rank"].nunique()
    waits, waited_for = dict.fromkeys(ranks, 0), dict.fromkeys(ranks, 0)
    count = exchange = 0
    for (group, _), mine in rows.groupby(["group", "number"]):
        if len(mine) < members[group]:
            continue
        count += 1
        last = int(mine["start_ns"].max())
        late = int(mine.loc[mine["start_ns"] == last, "rank"].min())
        exchange += int((mine["end_ns"] - mine["start_ns"]).min())
        for rank, start, end in zip(mine["rank"], mine["start_ns"], mine["end_ns"], strict=True):
            waited = int(min(last, end) - start)
            waits[int(rank)] += waited
            waited_for[late] += waited
    straggler = max(ranks, key=lambda rank: (waited_for[rank], -rank), default=None)
    if straggler is not None and 2 * waited_for[straggler] <= sum(waits.values()):
        straggler = None
    return {
        "meetings": count,
        "waits": waits,
        "waited_for": waited_for,
        "exchange_ns": exchange,
        "straggler": straggler,
    }
    # [starter]
    # raise NotImplementedError("number the collectives of each group and rank; then go through the meetings")
    # [end]


if __name__ == "__main__":
    rows = [(0, "0", 0, 100), (0, "0", 200, 260), (1, "0", 60, 100), (1, "0", 210, 260), (2, "0", 10, 100)]
    found = meetings(pd.DataFrame(rows, columns=["rank", "group", "start_ns", "end_ns"]))
    for key, value in found.items():
        print(f"{key}: {value}")
