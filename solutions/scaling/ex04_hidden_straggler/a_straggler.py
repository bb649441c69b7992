"""Exercise scaling-ex04, part a: clocks, blame, cause.

    meetings   rank, number, start_ns, end_ns: a row for each rank and collective, times on the rank's own
               clock; every rank takes part in every collective. Ranks are numbered from 0.
    spent      rank, compute_ns, idle_ns: a row for each rank, in the whole run

All ranks leave a collective at nearly the same moment; it begins on each as soon as that rank is there.

`offsets(meetings)`: {rank: ns} how far each clock is ahead of rank 0's: the median, over the collectives, of
its end less rank 0's end.

`delays(meetings)`: {rank: ns} what each rank costs the others. In each collective the last to start, on
rank 0's clock, is charged with how far it is behind the next to last; all others with nothing. Of several
that are last together nobody is behind.

`straggler(meetings, spent)`: (rank, cause) of the rank with the largest delay, of equal ones the first;
None if nobody delays anybody. The cause is 'compute' if its computing time exceeds the median of the *other*
ranks' by at least as much as its idle time exceeds theirs, else 'start'.

A worked example: two ranks, one collective; rank 1's clock is 1000 ahead:

    rank 0: start 100, end 300      rank 1: start 1250, end 1300     -> offsets {0: 0, 1: 1000}
    on rank 0's clock rank 1 starts at 250, and rank 0 waited for it -> delays {0: 0, 1: 150}

Grade it:         labcode exercises scaling-ex04a        (or: nox -s exercises -- scaling-ex04a)
Get a hint:       labcode exercises scaling-ex04a --hint
"""

import pandas as pd


def offsets(meetings: pd.DataFrame) -> dict[int, float]:
    """How far each clock is ahead of rank 0's."""
    # [solution]
    ends = meetings.pivot(index="number", columns="rank", values="end_ns")
    return {int(rank): float((ends[rank] - ends[0]).median()) for rank in ends}
    # [starter]
    # raise NotImplementedError("the same moment on two clocks, in the median")
    # [end]


def delays(meetings: pd.DataFrame) -> dict[int, float]:
    """What each rank costs the others."""
    # [solution]
    starts = meetings.pivot(index="number", columns="rank", values="start_ns") - pd.Series(offsets(meetings))
    cost = dict.fromkeys((int(rank) for rank in starts), 0.0)
    for _, row in starts.iterrows():
        ordered = row.sort_values()
        cost[int(ordered.index[-1])] += float(ordered.iloc[-1] - ordered.iloc[-2])
    return cost
    # [starter]
    # raise NotImplementedError("the last, behind the next to last")
    # [end]


def straggler(meetings: pd.DataFrame, spent: pd.DataFrame) -> tuple[int, str] | None:
    """The rank that delays the others most, and why."""
    # [solution]
    cost = delays(meetings)
    worst = max(cost, key=lambda rank: cost[rank])
    if cost[worst] == 0:
        return None
    table = spent.set_index("rank")
    more = table.loc[worst] - table.drop(index=worst).median()
    return worst, "compute" if more["compute_ns"] >= more["idle_ns"] else "start"
    # [starter]
    # raise NotImplementedError("whom delays() charges most, and what it spent more time on")
    # [end]


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(7)
    ready = 1e6 * np.arange(1, 7)[:, None] + rng.integers(0, 9_000, (6, 4))
    ready[:, 2] += 60_000  # rank 2 comes late, and every clock goes as it likes
    clock = np.array([0, 4_200_000, -900_000, 77_000])
    rows = [
        (
            rank,
            number,
            int(ready[number, rank] + clock[rank]),
            int(ready[number].max() + 150_000 + clock[rank]),
        )
        for number in range(6)
        for rank in range(4)
    ]
    meetings = pd.DataFrame(rows, columns=["rank", "number", "start_ns", "end_ns"])
    spent = pd.DataFrame(
        {"rank": range(4), "compute_ns": [5_000_000] * 4, "idle_ns": [90_000, 88_000, 450_000, 91_000]}
    )
    print("clocks ahead of rank 0's:", offsets(meetings))
    print("what each rank costs:", delays(meetings))
    print("the straggler:", straggler(meetings, spent))
