"""Exercise compute-ex11, part a: what is wrong with an attention kernel, from its counters.

A table of launches comes in, a row each, with numbers from Nsight Compute:

    kernel, duration_ns
    blocks, sms          blocks of the grid, multiprocessors of the GPU
    matrix_loads         ldmatrix instructions, each of four 8 × 8 matrices of two-byte elements
    shared_turns         turns (wavefronts) that shared memory took for all loads
    local_requests       loads from and stores to local memory: registers that were spilled
    tensor_pct           how busy the tensor cores were, in percent of their cycles

`evidence(launch)`: how much of a launch is waste, as shares between 0 and 1, one for each cause:

    'idle multiprocessors'   of the multiprocessors, those that get no block
    'bank conflicts'         of the turns, those beyond four per matrix load; 0 without matrix loads
    'spills'                 local requests, of these and the matrix loads together; 0 without either

`diagnosis(table)`: for each kernel (cause, share): the largest waste, when it is at least 0.2. Otherwise
('no overlap', share of the cycles in which the tensor cores were idle).

`first(table)`: the kernel whose tensor cores were idle for the longest time, in nanoseconds.

A worked example:

    kernel  duration_ns  blocks  sms  matrix_loads  shared_turns  local_requests  tensor_pct
    K1             1000     264  132           100           800               0        20.0
    K2             4000      33  132           100           400               0        50.0
    K3             2000     264  132           100           400              10        45.0

    evidence of K1     ->  {'idle multiprocessors': 0.0, 'bank conflicts': 0.5, 'spills': 0.0}
    diagnosis(table)   ->  {'K1': ('bank conflicts', 0.5), 'K2': ('idle multiprocessors', 0.75),
                            'K3': ('no overlap', 0.55)}
    first(table)       ->  'K2'

Grade it:         labcode exercises compute-ex11a        (or: nox -s exercises -- compute-ex11a)
Get a hint:       labcode exercises compute-ex11a --hint
"""

from typing import Any

import pandas as pd

ENOUGH = 0.2


def evidence(launch: dict[str, Any]) -> dict[str, float]:
    """How much of a launch is waste, for each cause."""
    # [solution]
    turns, loads, local = (launch[name] for name in ("shared_turns", "matrix_loads", "local_requests"))
    return {
        "idle multiprocessors": max(0.0, 1 - launch["blocks"] / launch["sms"]),
        "bank conflicts": 1 - 4 * loads / turns if loads else 0.0,
        "spills": local / (local + loads) if local else 0.0,
    }
    # [starter]
    # raise NotImplementedError("three shares, each of its own whole")
    # [end]


def diagnosis(table: pd.DataFrame) -> dict[str, tuple[str, float]]:
    """The cause and its share, by kernel."""
    # [solution]
    found = {}
    for launch in table.to_dict("records"):
        waste = evidence(launch)
        cause = max(waste, key=lambda name: waste[name])
        if waste[cause] >= ENOUGH:
            found[launch["kernel"]] = cause, waste[cause]
        else:
            found[launch["kernel"]] = "no overlap", 1 - launch["tensor_pct"] / 100
    return found
    # [starter]
    # raise NotImplementedError("is one of the wastes large enough?")
    # [end]


def first(table: pd.DataFrame) -> str:
    """The kernel whose tensor cores were idle for the longest time."""
    # [solution]
    idle = table["duration_ns"] * (1 - table["tensor_pct"] / 100)
    return str(table.loc[idle.idxmax(), "kernel"])
    # [starter]
    # raise NotImplementedError("a time, not a share")
    # [end]


if __name__ == "__main__":
    from labcode import book

    rows = []
    for number, one in enumerate(book.launches("ncu_attention", "slow").list, start=1):
        rows.append(
            {
                "kernel": f"K{number}",
                "duration_ns": one.number("duration_ns"),
                "blocks": one.grid[0] * one.grid[1],
                "sms": 132,
                "matrix_loads": one.metric("smsp__inst_executed_op_ldsm.sum"),
                "shared_turns": one.metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
                "local_requests": sum(
                    one.metric(f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum") for op in ("ld", "st")
                ),
                "tensor_pct": one.metric("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
            }
        )
    shown = pd.DataFrame(rows)
    print(diagnosis(shown), first(shown), sep="\n")
