"""RMSNorm over rows (``cuda/rmsnorm``): from two passes over memory to clusters that share a long row."""

from __future__ import annotations

from typing import Any

import numpy as np

from labcode.kernels import row_kernels
from labcode.kernels.catalogue import Array, Kernel, Mark, Step
from labcode.kernels.row_kernels import CHECKED, TIMED, TIMED_HALF, Instance, Ladder

HEADER = "rmsnorm/rmsnorm.cuh"
NAMESPACE = "lab::rmsnorm"
EPSILON = 1e-6

LADDER = Ladder(
    NAMESPACE,
    "two_passes",
    warp_rows=(
        Instance("warp_rows", 8, 64),
        Instance("warp_rows", 16, 64),
        Instance("warp_rows", 32, 64),
    ),
    vectorized=(
        Instance("vectorized", 8, 64),
        Instance("vectorized", 8, 128, item_bytes=4),
        Instance("vectorized", 16, 64, item_bytes=2),
        Instance("vectorized", 8, 256, item_bytes=4),
        Instance("vectorized", 16, 128, item_bytes=2),
        Instance("vectorized", 16, 256),
        Instance("vectorized", 8, 1024, item_bytes=4),
        Instance("vectorized", 32, 256, item_bytes=2),
        Instance("vectorized", 16, 1024),
        Instance("vectorized", 32, 1024),
    ),
    cluster=(
        Instance("cluster", 32, 256, 2),
        Instance("cluster", 32, 256, 8),
        Instance("cluster", 32, 1024, 4),
        Instance("cluster", 32, 1024, 8),
    ),
    bulk=(  # one block: one buffer, few rows; clusters: two buffers, which hide the messages
        Instance("bulk", 16, 256, 1, stages=1, blocks=4, rows=2, item_bytes=4),
        Instance("bulk", 16, 512, 1, stages=1, blocks=2, rows=2, item_bytes=4),
        Instance("bulk", 16, 1024, 1, stages=1, blocks=1, rows=4, item_bytes=4),
        Instance("bulk", 32, 256, 8, stages=2, blocks=3, rows=6, item_bytes=4),
        Instance("bulk", 32, 512, 8, stages=2, blocks=1, rows=69, item_bytes=4),
        Instance("bulk", 16, 256, 1, stages=1, blocks=8, rows=2, item_bytes=2),
        Instance("bulk", 16, 512, 1, stages=1, blocks=4, rows=2, item_bytes=2),
        Instance("bulk", 16, 1024, 1, stages=1, blocks=2, rows=2, item_bytes=2),
        Instance("bulk", 32, 256, 8, stages=2, blocks=4, rows=12, item_bytes=2),
        Instance("bulk", 32, 512, 8, stages=2, blocks=2, rows=8, item_bytes=2),
    ),
    vectorized_up_to=16384,
    fetched_above={4: 2048, 2: 2048},
)


def reference(x: Any, weight: Any) -> Any:
    """x / √(mean(x²) + ε) · weight along the rows."""
    return x / ((x * x).mean(axis=-1, keepdims=True) + EPSILON) ** 0.5 * weight


RMSNORM = Kernel(
    "rmsnorm",
    "rmsnorm",
    "RMSNorm over rows",
    HEADER,
    (
        Step(
            "two passes",
            "A block a row: once over it for the sum of squares, again to write. Two reads and a write "
            "where one read would do: two thirds of the copy's throughput, once rows are too long for a "
            "cache to hold them between passes.",
            f"{NAMESPACE}::two_passes<{{T}}>",
            row_kernels.looping_launch,
            predicted=0.67,
        ),
        Step(
            "on chip",
            "The row stays in shared memory between reading and writing: one read, one write. Loads are "
            "still 4 bytes a thread, and blocks are few where rows are long.",
            f"{NAMESPACE}::on_chip<{{T}}>",
            row_kernels.keeping_launch,
            predicted=0.8,
            unfit=row_kernels.too_long_to_keep,
        ),
        LADDER.step(
            "vectorized",
            "The row stays in registers; all of a thread's 16-byte loads are under way before the first is "
            "used.",
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
            "A cluster takes several rows in turn, so that a block meets the same columns again and keeps "
            "their weights in registers; the copy engine (TMA) fetches the next rows while a row is "
            "computed and written; sums are sent to the blocks that need them and counted by a barrier.",
            predicted=0.95,
            min_cc=90,
        ),
        LADDER.chosen_step(
            "chosen, any GPU",
            "The fastest step without clusters for the length of the rows; beyond 32,768 elements: two "
            "passes.",
            predicted=0.92,
        ),
        LADDER.chosen_step(
            "chosen",
            "The fastest step for the length of the rows.",
            predicted=0.95,
            min_cc=90,
        ),
    ),
    inputs=lambda problem: (Array(problem.shape), Array(problem.shape[1:])),
    output=lambda problem: Array(problem.shape),
    scalars=lambda problem: (
        np.int64(problem.shape[0]),
        np.int32(problem.shape[1]),
        np.float32(EPSILON),
    ),
    reference=reference,
    flops=lambda problem: 4 * problem.elements,  # square, sum, two products
    tolerance={"float32": 1e-5, "bfloat16": 4e-3},
    timed=(*TIMED, *TIMED_HALF),
    checked=CHECKED,
    values=("normal",),  # squares of large values overflow, in PyTorch too
    libraries={
        "torch rms_norm": lambda torch, cupy, x, out: (
            lambda: torch.nn.functional.rms_norm(x[0], x[0].shape[-1:], x[1], EPSILON)
        )
    },
    marks=(Mark("copy", 0.90, 0.95, tuple(str(problem) for problem in TIMED)),),
)

KERNELS = (RMSNORM,)
