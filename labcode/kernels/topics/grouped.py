"""Grouped matmul (``cuda/gemm/grouped.cuh``): each expert's tokens by its own weights, in one launch.

A problem is (tokens, n, k, experts): tokens (tokens × k) sorted by expert, weights (experts × k × n), and the
row behind the last one of each expert; out (tokens × n), all bf16 with sums in fp32. What the steps are held
against is one dense matmul by cuBLAS of as many operations, in the same run; ``predicted`` is their share of
its rate at `SHAPES`' first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from labcode.errors import LabError
from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step, array_module, numbers

HEADER = "gemm/grouped.cuh"
NAMESPACE = "lab::gemm"
PROGRAM = "«python -m labcode.workloads.grouped»"
SHAPES: Mapping[str, tuple[int, int, int, int]] = {  # rows, n, k, experts
    "small": (8192 * 6, 1408, 2048, 64),
    "large": (8192 * 8, 1536, 4096, 64),
    "decode": (64 * 6, 1408, 2048, 64),
}

_OF = {
    **numbers("gemm/layout.cuh"),
    **numbers("gemm/bf16.cuh"),
    **numbers("gemm/fitted.cuh"),
    **numbers(HEADER),
}
TALL, HALF, WIDE, NARROW, DEPTH = _OF["kTileM"], _OF["kGroupM"], 256, _OF["kNarrow"], _OF["kBox"]
MOST_EXPERTS, WORK_THREADS = _OF["kMostExperts"], 3 * _OF["kGroupThreads"]
STEPS: Mapping[str, tuple[str, bool]] = {  # template arguments; whether blocks stay
    "by_expert": ("Deep, false, false, false, false, false", False),
    "persistent": ("Deep, true, false, false, false, false", True),
    "store": ("Wide, true, true, false, false, false", True),
    "fitted": ("Wide, true, true, true, false, false", True),
    "queue": ("Wide, true, true, true, true, false", True),
    "paired": ("Wide, true, true, true, true, true", True),
}


def loads(rows: int, experts: int, seed: int = 1, even: bool = False) -> tuple[int, ...]:
    """Rows of each expert: even, or by Zipf's law in random order, two with none, one with one."""
    if rows < 1 or experts < 1:
        raise LabError(f"loads: {rows} rows for {experts} experts; both count from 1")
    order = np.random.default_rng(seed).permutation(experts)
    shares = np.ones(experts) if even else 1.0 / (1.0 + np.arange(experts))
    few = [] if even or experts < 8 or rows < experts else [0, 0, 1]
    shares[experts - len(few) :] = 0
    ends = np.rint(np.cumsum(shares) / shares.sum() * (rows - sum(few))).astype(int)
    found = np.diff(ends, prepend=0)
    found[experts - len(few) :] = few
    return tuple(int(found[place]) for place in np.argsort(order))


def tiles(of: Sequence[int], n: int) -> int:
    """Tiles of 128 × 256, none of two experts."""
    return sum(ceil(load / TALL) for load in of) * ceil(n / WIDE)


def filled(of: Sequence[int], n: int, fitted: bool) -> float:
    """The share of what is multiplied that is asked for; ``fitted``: tiles end with 64 rows, 128 columns."""
    tall, wide = (HALF, NARROW) if fitted else (TALL, WIDE)
    rows = sum(ceil(load / tall) * tall for load in of)
    return sum(of) * n / (rows * ceil(n / wide) * wide)


def most_tiles(rows: int, n: int, experts: int) -> int:
    """Tiles that there can be, whatever the experts' shares."""
    return (rows // TALL + min(experts, rows)) * ceil(n / WIDE)


def weights_bytes(of: Sequence[int], n: int, k: int) -> int:
    """Bytes of the weights that are needed at all: of experts with a token."""
    return 2 * n * k * sum(load > 0 for load in of)


def _launch(name: str) -> Callable[[Problem, Gpu], Launch]:
    arguments, stays = STEPS[name]
    boxes = 2 if arguments.startswith("Wide") else 0
    shared_bytes = 4 * (TALL + WIDE) * DEPTH * 2 + 2 * boxes * HALF * 128 + 1024

    def launch(problem: Problem, gpu: Gpu) -> Launch:
        rows, n, _, experts = problem.shape
        most = most_tiles(rows, n, experts)
        return Launch(min(most, gpu.sm_count) if stays else most, WORK_THREADS, shared_bytes)

    return launch


def _step(name: str, predicted: float, reason: str) -> Step:
    ring, *flags = STEPS[name][0].split(", ")
    return Step(
        name,
        reason,
        f"{NAMESPACE}::grouped<{NAMESPACE}::{ring}, {', '.join(flags)}>",
        _launch(name),
        min_cc=90,
        predicted=predicted,
        unfit=lambda problem: f"takes tensor maps; {PROGRAM} makes them, checks and times this step",
    )


def _ends(rows: int) -> Callable[[tuple[int, ...], int], np.ndarray[Any, Any]]:
    return lambda shape, seed: np.cumsum(loads(rows, shape[0], seed)).astype(np.int32)


def reference(tokens: Any, weights: Any, ends: Any) -> Any:
    """Each expert's rows by its weights, one after the other."""
    xp = array_module(tokens)
    out = xp.empty((tokens.shape[0], weights.shape[2]), dtype=tokens.dtype)
    start = 0
    for expert, end in enumerate(int(one) for one in ends):
        out[start:end] = tokens[start:end] @ weights[expert]
        start = end
    return out


GROUPED = Kernel(
    "grouped",
    "grouped",
    "Multiply each expert's tokens by its own weights",
    HEADER,
    (
        _step(
            "by_expert",
            0.70,
            "One launch for all experts, a block for each tile there can be. Each finds its tile from the "
            "experts' ends on the GPU, so that the host need not know them; surplus blocks leave.",
        ),
        _step(
            "persistent",
            0.74,
            "A block a multiprocessor stays and takes tile after tile: the next one's stages come while this "
            "one is written.",
        ),
        _step(
            "store",
            0.80,
            "Rows leave through shared memory: whole boxes by the copy engine, in whole lines, and where an "
            "expert ends by the threads, for the rows behind are somebody else's.",
        ),
        _step(
            "fitted",
            0.84,
            "Where at most 64 rows or 128 columns are left, no more than that is fetched and multiplied.",
        ),
        _step(
            "queue",
            0.88,
            "Tiles are no longer of one price, so a fixed deal leaves some blocks with more than others: "
            "they are drawn from a queue instead, one ahead of what is multiplied.",
        ),
        _step(
            "paired",
            0.865,
            "A last column of at most 128 is taken in tiles of 256 rows and 128 columns: as many products as "
            "in any other tile, for as many bytes.",
        ),
    ),
    inputs=lambda problem: (
        Array((problem.shape[0], problem.shape[2])),
        Array((problem.shape[3], problem.shape[2], problem.shape[1])),
        Array((problem.shape[3],), "int32", _ends(problem.shape[0])),
    ),
    output=lambda problem: Array(problem.shape[:2]),
    scalars=lambda problem: (
        np.int32(problem.shape[3]),
        np.int32(problem.shape[1]),
        np.int32(problem.shape[2]),
    ),
    reference=reference,
    flops=lambda problem: 2 * problem.shape[0] * problem.shape[1] * problem.shape[2],
    tolerance={"bfloat16": 4e-3},
    timed=tuple(Problem(shape, "bfloat16") for shape in SHAPES.values()),
    checked=tuple(
        Problem(shape, "bfloat16") for shape in ((1, 8, 8, 1), (100, 264, 72, 5), (1000, 504, 200, 16))
    ),
    ceiling="cuBLAS, dense",
    values=("normal",),
)

KERNELS = (GROUPED,)
