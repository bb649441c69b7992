"""Softmax over rows (``cuda/softmax``): from three passes over memory to clusters that share a long row."""

from __future__ import annotations

from typing import Any

import numpy as np

from labcode.kernels import row_kernels
from labcode.kernels.catalogue import Array, Kernel, Mark, Step, array_module
from labcode.kernels.row_kernels import CHECKED, TIMED, TIMED_HALF, Instance, Ladder

HEADER = "softmax/softmax.cuh"
NAMESPACE = "lab::softmax"

LADDER = Ladder(
    NAMESPACE,
    "online",
    warp_rows=(
        Instance("warp_rows", 8, 64),
        Instance("warp_rows", 16, 64),
        Instance("warp_rows", 32, 64, at_most=16),
    ),
    vectorized=(
        Instance("vectorized", 8, 64),
        Instance("vectorized", 8, 128, item_bytes=4),
        Instance("vectorized", 16, 64, item_bytes=2),
        Instance("vectorized", 8, 256, item_bytes=4),
        Instance("vectorized", 32, 64, item_bytes=2),
        Instance("vectorized", 16, 256, at_most=6, item_bytes=4),
        Instance("vectorized", 32, 128, item_bytes=2),
        Instance("vectorized", 8, 1024, item_bytes=4),
        Instance("vectorized", 32, 256, item_bytes=2),
        Instance("vectorized", 32, 512),
        Instance("vectorized", 32, 1024),
    ),
    cluster=(
        Instance("cluster", 32, 256, 2),
        Instance("cluster", 32, 256, 8),
        Instance("cluster", 32, 1024, 4),
        Instance("cluster", 32, 1024, 8),
    ),
    bulk=(  # one buffer; of 2-byte elements two, where an SM holds no more than two blocks
        Instance("bulk", 16, 256, 1, stages=1, blocks=6, rows=2),
        Instance("bulk", 16, 512, 1, stages=1, blocks=4, rows=2),
        Instance("bulk", 32, 512, 1, stages=1, blocks=2, rows=2, item_bytes=4),
        Instance("bulk", 32, 512, 4, stages=1, blocks=2, rows=4, item_bytes=4),
        Instance("bulk", 32, 512, 8, stages=1, blocks=2, rows=4, item_bytes=4),
        Instance("bulk", 32, 1024, 8, stages=1, blocks=1, rows=4, item_bytes=4),
        Instance("bulk", 32, 512, 1, stages=2, blocks=2, rows=4, item_bytes=2),
        Instance("bulk", 32, 512, 4, stages=2, blocks=2, rows=8, item_bytes=2),
        Instance("bulk", 32, 512, 8, stages=2, blocks=2, rows=8, item_bytes=2),
        Instance("bulk", 32, 1024, 8, stages=2, blocks=1, rows=8, item_bytes=2),
    ),
    vectorized_up_to=8192,
    fetched_above={4: 2048, 2: 4096},
)
AT_8K = next(problem for problem in TIMED if problem.shape[1] == 8192)


def reference(x: Any) -> Any:
    """exp(x − m) / Σ exp(x − m) along the rows, m the row's largest."""
    xp = array_module(x)
    powers = xp.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


SOFTMAX = Kernel(
    "softmax",
    "softmax",
    "Softmax over rows",
    HEADER,
    (
        Step(
            "three passes",
            "A block a row: once over it for the largest element, again for the sum, again to write. Three "
            "reads and a write where one read would do: half of the copy's throughput, once rows are too "
            "long for a cache to hold them between passes.",
            f"{NAMESPACE}::three_passes<{{T}}>",
            row_kernels.looping_launch,
            predicted=0.5,
        ),
        Step(
            "online",
            "The sum is kept for the largest element so far and corrected when a larger one comes, so that "
            "one pass finds both: two reads and a write.",
            f"{NAMESPACE}::online<{{T}}>",
            row_kernels.looping_launch,
            predicted=0.67,
        ),
        Step(
            "on chip",
            "The row stays in shared memory between reading and writing: one read, one write. Loads are "
            "still 4 bytes a thread, each waited for by the online sum before the next, and blocks are few "
            "where rows are long.",
            f"{NAMESPACE}::on_chip<{{T}}>",
            row_kernels.keeping_launch,
            predicted=0.8,
            unfit=row_kernels.too_long_to_keep,
        ),
        LADDER.step(
            "vectorized",
            "The row stays in registers; all of a thread's 16-byte loads are under way before the first is "
            "used. Each warp subtracts its own largest element, so that one exchange and one barrier a row "
            "are left.",
            predicted=0.92,
        ),
        LADDER.step(
            "warp rows",
            "A warp a row for short rows: no barrier, no shared memory. On an H200 a block a row was faster "
            "at 1,024 elements all the same; this is for rows too short for a block.",
            predicted=0.95,
            helped=False,
        ),
        LADDER.step(
            "cluster",
            "The blocks of a cluster share a long row, each keeps a slice in registers, and they read each "
            "other's sums through distributed shared memory.",
            predicted=0.88,
            min_cc=90,
        ),
        LADDER.step(
            "bulk",
            "A cluster takes several rows in turn; the copy engine (TMA) fetches the next rows while a row "
            "is computed and written; sums are sent to the blocks that need them and counted by a barrier.",
            predicted=0.95,
            min_cc=90,
        ),
        LADDER.chosen_step(
            "chosen, any GPU",
            "The fastest step without clusters for the length of the rows; beyond 32,768 elements: online.",
            predicted=0.92,
        ),
        LADDER.chosen_step(
            "chosen",
            "The fastest step for the length of the rows.",
            predicted=0.95,
            min_cc=90,
        ),
    ),
    inputs=lambda problem: (Array(problem.shape),),
    output=lambda problem: Array(problem.shape),
    scalars=lambda problem: (np.int64(problem.shape[0]), np.int32(problem.shape[1])),
    reference=reference,
    flops=lambda problem: 4 * problem.elements,  # difference, exponential, sum, product
    tolerance={"float32": 1e-5, "bfloat16": 4e-3},
    timed=(*TIMED, *TIMED_HALF),
    checked=CHECKED,
    libraries={"torch.softmax": lambda torch, cupy, x, out: lambda: torch.softmax(x[0], -1)},
    marks=(
        Mark("copy", 0.90, 0.95, tuple(str(problem) for problem in TIMED)),
        Mark("torch.softmax", 1.9, None, (str(AT_8K),)),
    ),
)

KERNELS = (SOFTMAX,)
