"""Exercise compute-ex04, part a: what a profile says to do next.

Between two instructions of a warp some cycles pass; Nsight Compute says in which states the warp spent them.
A table of one kernel comes in, one row per state:

    state, cycles          cycles of a warp, an issued instruction, in that state

The states 'selected' (the warp issues) and 'not_selected' (it could, and another warp was taken) are no
stalls. A scheduler issues at most one instruction per cycle; `issued` is the share of cycles in which it did.

A worked example:

    state              cycles
    long_scoreboard       9.0      shares(table)              ->  [('long_scoreboard', 0.75), ('wait', 0.125)]
    wait                  1.5      limited_by(table, 0.4)     ->  'long_scoreboard'
    selected              1.0      limited_by(table, 0.9)     ->  'issue'
    not_selected          0.5      bound(table, 0.4)          ->  2.5

Grade it:         labcode exercises compute-ex04a        (or: nox -s exercises -- compute-ex04a)
Get a hint:       labcode exercises compute-ex04a --hint
"""

import pandas as pd

NO_STALLS = ("selected", "not_selected")


def shares(table: pd.DataFrame) -> list[tuple[str, float]]:
    """The stalls, the largest first, each with its share of the cycles between two instructions.

    States of 0 cycles are left out; equal ones are in order of their names. The shares are of the cycles of
    all states, so they need not add up to 1.
    """
    # [solution]
    total = table["cycles"].sum()
    stalls = table[~table["state"].isin(NO_STALLS) & (table["cycles"] > 0)]
    found = [(str(s), float(c / total)) for s, c in zip(stalls["state"], stalls["cycles"], strict=True)]
    return sorted(found, key=lambda entry: (-entry[1], entry[0]))
    # [starter]
    # raise NotImplementedError("divide by the cycles of all states, leave out those that are no stalls")
    # [end]


def limited_by(table: pd.DataFrame, issued: float) -> str:
    """What to work on: the largest stall; 'issue' when the scheduler issues in 0.8 of the cycles or more.

    A scheduler that nearly always issues is not waiting for anything: then only fewer instructions help.
    'issue' also when there is no stall at all.
    """
    # [solution]
    found = shares(table)
    return "issue" if issued >= 0.8 or not found else found[0][0]
    # [starter]
    # raise NotImplementedError("look at `issued` first")
    # [end]


def bound(table: pd.DataFrame, issued: float) -> float:
    """The most that a kernel can gain, as a factor, if its largest stall vanished and nothing else changed.

    Without the stall a warp's next instruction comes after the remaining cycles, so that each warp issues
    more often by that factor. But a scheduler issues at most once a cycle: no more than 1 / issued. 1.0
    without stalls.
    """
    # [solution]
    found = shares(table)
    if not found:
        return 1.0
    remaining = 1 - found[0][1]
    return float(min(1 / remaining, 1 / issued)) if remaining > 0 else 1 / issued
    # [starter]
    # raise NotImplementedError("the smaller of two factors")
    # [end]


if __name__ == "__main__":
    example = pd.DataFrame(
        {"state": ["long_scoreboard", "wait", "selected", "not_selected"], "cycles": [9.0, 1.5, 1.0, 0.5]}
    )
    print(shares(example), limited_by(example, 0.4), bound(example, 0.4), sep="\n")
