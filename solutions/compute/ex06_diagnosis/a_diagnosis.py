"""Exercise compute-ex06, part a: what is wrong with a kernel, and the number that proves it.

A table of launches comes in, a row each, with counters of Nsight Compute:

    kernel, duration_ns
    instructions, thread_instructions     executed by warps, and by their threads (32 a warp at most)
    shared_loads, shared_wavefronts       loads of four bytes per thread from shared memory, and their turns
    local_loads, local_stores             instructions that access local memory
    l2_atomics                            atomic requests that arrive at the L2
    slices_mean_pct, slices_busiest_pct   how busy the slices of the L2 were: all, and the busiest
    issued                                share of cycles in which a scheduler issued an instruction
    wait, long_scoreboard, short_scoreboard, mio_throttle, lg_throttle, math_pipe_throttle, barrier,
    other, not_selected, selected         cycles of a warp in each state, an issued instruction

Some of what a kernel does may be waste, however busy it looks. Only where there is no waste do the schedulers
and the states of the warps say what is wrong.

A worked example:

    kernel  duration_ns  instructions  thread_  shared_loads  shared_wavefronts  issued  wait  selected
    K1             1000           100     3200            40                160    0.30  2.00      1.00
    K2             1000           100      800             0                  0    0.95  0.05      1.00
    K3             5000           100     3200             0                  0    0.25  3.00      1.00

(thread_: thread_instructions; every other column is 0)

    evidence of K1     ->  {'idle lanes': 0.0, 'bank conflicts': 0.75, 'spills': 0.0, 'contention': 0.0}
    diagnosis(table)   ->  {'K1': ('bank conflicts', 0.75), 'K2': ('idle lanes', 0.75), 'K3': ('wait', 0.75)}
    first(table)       ->  'K3'

Grade it:         labcode exercises compute-ex06a        (or: nox -s exercises -- compute-ex06a)
Get a hint:       labcode exercises compute-ex06a --hint
"""

from typing import Any

import pandas as pd

LANES = 32
ENOUGH = 0.2
BUSY = 0.8
STALLS = (
    *("wait", "long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle"),
    *("math_pipe_throttle", "barrier", "other"),
)
NO_STALLS = ("not_selected", "selected")


def evidence(launch: dict[str, Any]) -> dict[str, float]:
    """How much of a launch's work is waste, as shares between 0 and 1, one for each cause.

    'idle lanes': of the lanes that the instructions could have used, those that were off.
    'bank conflicts': of the turns of shared loads, those beyond one a load; 0 without shared loads.
    'spills': of the instructions, those that access local memory.
    'contention': 1 - the mean slice over the busiest one; 0 unless there is at least one atomic at the L2 for
    each 100 instructions, since slices may be uneven for other reasons.
    """
    # [solution]
    lanes = launch["thread_instructions"] / (LANES * launch["instructions"])
    turns = launch["shared_wavefronts"]
    local = launch["local_loads"] + launch["local_stores"]
    adds = launch["l2_atomics"] >= launch["instructions"] / 100
    return {
        "idle lanes": 1 - lanes,
        "bank conflicts": 1 - launch["shared_loads"] / turns if turns else 0.0,
        "spills": local / launch["instructions"],
        "contention": 1 - launch["slices_mean_pct"] / launch["slices_busiest_pct"] if adds else 0.0,
    }
    # [starter]
    # raise NotImplementedError("four shares, each of its own whole")
    # [end]


def diagnosis(table: pd.DataFrame) -> dict[str, tuple[str, float]]:
    """For each kernel the cause and its proof.

    The largest waste, with its share, if it is ENOUGH or more. Otherwise ('issue', the share of cycles with
    an instruction issued), if that is BUSY or more: only fewer instructions would help. Otherwise the
    largest stall, with its share of the cycles of all states.
    """
    # [solution]
    found: dict[str, tuple[str, float]] = {}
    for launch in table.to_dict("records"):
        waste = evidence(launch)
        worst = max(waste, key=lambda cause: waste[cause])
        states = sum(launch[state] for state in (*STALLS, *NO_STALLS))
        stall = max(STALLS, key=lambda state: launch[state])
        if waste[worst] >= ENOUGH:
            found[launch["kernel"]] = worst, waste[worst]
        elif launch["issued"] >= BUSY:
            found[launch["kernel"]] = "issue", launch["issued"]
        else:
            found[launch["kernel"]] = stall, launch[stall] / states
    return found
    # [starter]
    # raise NotImplementedError("waste first, then the schedulers, then the states")
    # [end]


def first(table: pd.DataFrame) -> str:
    """The kernel to work on: where most time could be saved.

    Without a waste of share s at most s of the time goes. Without a stall of share s at most s, but never
    more than the share of cycles in which nothing was issued. A busy scheduler ('issue') saves nothing.
    """
    # [solution]
    saved: dict[str, float] = {}
    causes = diagnosis(table)
    for launch in table.to_dict("records"):
        cause, share = causes[launch["kernel"]]
        if cause == "issue":
            share = 0.0
        elif cause in STALLS:
            share = min(share, 1 - launch["issued"])
        saved[launch["kernel"]] = share * launch["duration_ns"]
    return max(saved, key=lambda kernel: saved[kernel])
    # [starter]
    # raise NotImplementedError("time, not share")
    # [end]


if __name__ == "__main__":
    rows = [
        {"kernel": "K1", "duration_ns": 1000, "thread_instructions": 3200, "shared_loads": 40}
        | {"shared_wavefronts": 160, "issued": 0.3, "wait": 2.0},
        {"kernel": "K2", "duration_ns": 1000, "thread_instructions": 800, "issued": 0.95, "wait": 0.05},
        {"kernel": "K3", "duration_ns": 5000, "thread_instructions": 3200, "issued": 0.25, "wait": 3.0},
    ]
    columns = ["shared_loads", "shared_wavefronts", "local_loads", "local_stores", "l2_atomics"]
    columns += ["slices_mean_pct", "slices_busiest_pct", *STALLS, "not_selected"]
    example = pd.DataFrame(
        [{**dict.fromkeys(columns, 0.0), "instructions": 100, "selected": 1.0, **r} for r in rows]
    )
    print(evidence(example.to_dict("records")[0]), diagnosis(example), first(example), sep="\n")
