"""Exercise pytorch-ex03, part b: a rank is late. What did it do that the others did not?

The kernels of all ranks come in, each with the program's range that launched it, and the collectives; the
number of the late rank, and what is too little to matter. Times are in ns, rows in no order.

    ops            rank, range, start_ns, end_ns
    collectives    rank, group, start_ns, end_ns

What lies behind a rank's first collective is a consequence of it. So take, of each rank, the operations
that start before its own first collective starts, and add up their durations by range; a range that a rank
does not have took 0. A range's extra is the late rank's sum minus the mean of the other ranks' sums.

The answer is [range, extra] of the range with the largest extra (by name among equal ones), and None when
that is not above `least`, or there is no operation.

A worked example, first collectives at 100 on rank 0 and at 190 on rank 1, late = 1, least = 10:

    rank 0   forward 0-80                     log 300-900
    rank 1   forward 0-80   evaluate 90-180   log 300-310

    cause(ops, collectives, 1, 10)  ->  ["evaluate", 90.0]

Grade it:         labcode exercises pytorch-ex03b        (or: nox -s exercises -- pytorch-ex03b)
Get a hint:       labcode exercises pytorch-ex03b --hint
Try it yourself:  python exercises/pytorch/ex03_distributed/b_cause.py     (runs the worked example)
"""

import pandas as pd


def cause(ops: pd.DataFrame, collectives: pd.DataFrame, late: int, least: int) -> list[object] | None:
    """The range in which the late rank spent more than the others, and how much more."""
    # [solution]
    until = collectives.groupby("rank")["start_ns"].min()
    before = ops[ops["start_ns"] < ops["rank"].map(until)]
    spent = before.assign(ns=before["end_ns"] - before["start_ns"])
    table = spent.pivot_table(index="range", columns="rank", values="ns", aggfunc="sum")
    table = table.reindex(columns=sorted(until.index)).fillna(0)
    extra = table[late] - table.drop(columns=late).mean(axis=1)
    if not len(extra) or not extra.max() > least:
        return None
    name = min(extra.index, key=lambda name: (-extra[name], name))
    return [name, float(extra[name])]
    # [starter]
    # raise NotImplementedError("each rank until its first collective; sums by range and rank")
    # [end]


if __name__ == "__main__":
    rows = [(0, "forward", 0, 80), (0, "log", 300, 900), (1, "forward", 0, 80), (1, "evaluate", 90, 180)]
    ops = pd.DataFrame([*rows, (1, "log", 300, 310)], columns=["rank", "range", "start_ns", "end_ns"])
    meets = [(0, "0", 100, 200), (1, "0", 190, 200)]
    collectives = pd.DataFrame(meets, columns=["rank", "group", "start_ns", "end_ns"])
    print(cause(ops, collectives, 1, 10), "is to be ['evaluate', 90.0]")
    print(cause(ops, collectives, 1, 90), "is to be None")
