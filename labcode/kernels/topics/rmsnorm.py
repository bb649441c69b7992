"""RMSNorm over rows (``cuda/rmsnorm``): from two passes over memory to clusters that share a long row."""

from __future__ import annotations

from typing import Any

import numpy as np

from labcode.kernels import row_kernels
from labcode.kernels.catalogue import Array, Kernel, Mark, Problem, Step
from labcode.kernels.row_kernels import CHECKED, TIMED, TIMED_HALF, Instance, chosen_step, step

HEADER = "rmsnorm/rmsnorm.cuh"
NAMESPACE = "lab::rmsnorm"
EPSILON = 1e-6

WARP_ROWS = (
    Instance("warp_rows", 8, 64),
    Instance("warp_rows", 16, 64),
    Instance("warp_rows", 32, 64),
)
VECTORIZED = (
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
)
CLUSTERS = (
    Instance("cluster", 32, 256, 2),
    Instance("cluster", 32, 256, 8),
    Instance("cluster", 32, 1024, 4),
    Instance("cluster", 32, 1024, 8),
)
BULK = (  # one block: one buffer, few rows; clusters: two buffers, which hide the messages
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
)
WARP_ROWS_UP_TO_BYTES = 1024  # where «chosen» goes on to the next step
VECTORIZED_UP_TO = 16384  # rows that the copy engine cannot fetch
FETCHED_ABOVE = 2048  # those that it can


def chosen(problem: Problem, *, clusters: bool) -> Instance | None:
    """The fastest instance for rows of this length; None: they are longer than any of them holds."""
    columns = problem.shape[1]
    if columns * problem.item_bytes <= WARP_ROWS_UP_TO_BYTES:
        return row_kernels.first_that_holds(WARP_ROWS, problem)
    fetched = row_kernels.can_be_fetched(problem)
    if columns <= (FETCHED_ABOVE if fetched else VECTORIZED_UP_TO) or not clusters:
        return row_kernels.first_that_holds(VECTORIZED, problem)
    return row_kernels.first_that_holds((*BULK, *CLUSTERS), problem)


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
        step(
            "vectorized",
            NAMESPACE,
            VECTORIZED,
            "The row stays in registers; all of a thread's 16-byte loads are under way before the first is "
            "used.",
            predicted=0.92,
        ),
        step(
            "warp rows",
            NAMESPACE,
            WARP_ROWS,
            "A warp a row for short rows: no barrier, no shared memory. On an H200 a block a row was faster "
            "at 1,024 elements all the same; this is for rows too short for a block.",
            predicted=0.95,
            helped=False,
        ),
        step(
            "cluster",
            NAMESPACE,
            CLUSTERS,
            "The blocks of a cluster share a long row, each keeps a slice in registers, and they read each "
            "other's sums through distributed shared memory.",
            predicted=0.88,
            min_cc=90,
        ),
        step(
            "bulk",
            NAMESPACE,
            BULK,
            "A cluster takes several rows in turn, so that a block meets the same columns again and keeps "
            "their weights in registers; the copy engine (TMA) fetches the next rows while a row is "
            "computed and written; sums are sent to the blocks that need them and counted by a barrier.",
            predicted=0.95,
            min_cc=90,
        ),
        chosen_step(
            "chosen, any GPU",
            NAMESPACE,
            lambda problem: chosen(problem, clusters=False),
            "two_passes",
            "The fastest step without clusters for the length of the rows; beyond 32,768 elements: two "
            "passes.",
            predicted=0.92,
        ),
        chosen_step(
            "chosen",
            NAMESPACE,
            lambda problem: chosen(problem, clusters=True),
            "two_passes",
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
    bytes_moved=lambda problem: row_kernels.bytes_moved(problem) + problem.shape[1] * problem.item_bytes,
    flops=lambda problem: 4 * problem.elements,  # square, sum, two products
    tolerance={"float32": 1e-5, "bfloat16": 4e-3},
    timed=(*TIMED, *TIMED_HALF),
    checked=CHECKED,
    values=("normal",),  # squares of large values overflow, in PyTorch too
    libraries=("torch rms_norm",),
    marks=(Mark("copy", 0.90, 0.95, tuple(str(problem) for problem in TIMED)),),
)

KERNELS = (RMSNORM,)
