"""Exercise compute-ex08, part b: what a matmul kernel's counters ask for next.

A table of launches comes in, a row each, with numbers from Nsight Compute, of matmuls in fp32:

    kernel, duration_ns
    multiply_adds        multiply-adds of warps: m * n * k / 32, the same work for all
    shared_loads         instructions that load from shared memory
    shared_turns         turns (wavefronts) that shared memory took for them
    wait_memory          cycles that a warp waits for memory, for each instruction it issues
    wait_barrier         … that it waits at a barrier

`uses(launch)`: multiply-adds for each shared load, and turns for each shared load; (0.0, 0.0) for a kernel
that loads nothing from there.

`next_step(launch)`: what is missing. The first that applies:

    'a tile in shared memory'   nothing is loaded from shared memory
    'more sums a thread'        fewer than 4 multiply-adds for each shared load
    'fewer turns'               more than 4 turns for each: a load of 16 bytes by 32 lanes needs no more
    'a second buffer'           a warp waits for memory and at barriers, together, 1 cycle or more
    'nothing'

`climb(table)`: the kernels in the order in which a ladder would have them: by their next step, in the order
above, and within it the slowest first.

A worked example:

    kernel  duration_ns  multiply_adds  shared_loads  shared_turns  wait_memory  wait_barrier
    K1             9000           1600          1600          2000          3.0           1.0
    K2             2000           1600           100           350          0.1           0.2
    K3             4000           1600           100           600          1.5           0.5
    K4             8000           1600          3200          4000          2.0           0.5

    uses of K1         ->  (1.0, 1.25)
    next_step of K3    ->  'fewer turns'
    climb(table)       ->  ['K1', 'K4', 'K3', 'K2']

Grade it:         labcode exercises compute-ex08b        (or: nox -s exercises -- compute-ex08b)
Get a hint:       labcode exercises compute-ex08b --hint
"""

from typing import Any

import pandas as pd

ORDER = ("a tile in shared memory", "more sums a thread", "fewer turns", "a second buffer", "nothing")


def uses(launch: dict[str, Any]) -> tuple[float, float]:
    """Multiply-adds and turns for each load from shared memory."""
    raise NotImplementedError("two quotients, and a kernel without shared loads")


def next_step(launch: dict[str, Any]) -> str:
    """What the kernel lacks, one of `ORDER`."""
    raise NotImplementedError("the first that applies")


def climb(table: pd.DataFrame) -> list[str]:
    """The kernels from the lowest rung to the highest."""
    raise NotImplementedError("two keys to sort by")


if __name__ == "__main__":
    from labcode import book

    size = book.record("ncu_gemm", "fp32")["parameters"]
    waits = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    shown = pd.DataFrame(
        {
            "kernel": f"K{number}",
            "duration_ns": one.number("duration_ns"),
            "multiply_adds": size["m"] * size["n"] * size["k"] // 32,
            "shared_loads": one.metric("smsp__sass_inst_executed_op_shared_ld.sum"),
            "shared_turns": one.metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
            "wait_memory": one.metric(waits.format("long_scoreboard")),
            "wait_barrier": one.metric(waits.format("barrier")),
        }
        for number, one in enumerate(book.launches("ncu_gemm", "fp32").list, start=1)
    )
    print(climb(shown), [next_step(row) for row in shown.to_dict("records")], sep="\n")
