"""Compute metrics (``cuda/compute_metrics``): divergence, bank conflicts, dependent operations, spills.

Here are those of its kernels whose variants compute the same floating-point result; the program of the same
name has all of them, with occupancy, instruction mix, division and atomics.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step, array_module

HEADER = "compute_metrics/compute_metrics.cuh"
NAMESPACE = "lab::compute_metrics"
PATHS, PATH_STEPS = 32, 512
TURNS = 256
CHAIN_STEPS, VALUES, FACTOR, SUMMAND = 4096, 8, 0.9990234375, 1 / 64
POINTS, ROUNDS = 64, 16


def _each(threads: int) -> Callable[[Problem, Gpu], Launch]:
    """A thread an element."""
    return lambda problem, gpu: Launch(-(-problem.elements // threads), threads)


def _same(problem: Problem) -> Array:
    return Array(problem.shape)


def _advanced(x: Any, factor: Any, summand: Any, steps: int) -> Any:
    """``steps`` times x ← factor·x + summand: the distance from the fixed point shrinks by factor^steps."""
    fixed = summand / (1 - factor)
    return fixed + factor**steps * (x - fixed)


def follow_paths(x: Any) -> Any:
    """Element i after the steps of path i mod `PATHS`."""
    path = array_module(x).arange(x.size) % PATHS + 1
    return _advanced(x, 1 - path / 256, path / 128, PATH_STEPS)


def column_sums(x: Any) -> Any:
    """What the lanes of 32 warps add up from a tile of 32 × 32 (see ``read_columns``)."""
    xp = array_module(x)
    tiles = x.reshape(-1, 32, 4, 8)  # tile, row (lane), eight columns at a time
    eights = (tiles * xp.ldexp(xp.ones(8), -xp.arange(8))).sum(axis=-1)
    visits = xp.asarray([[len(range((k - warp) % 4, TURNS, 4)) for k in range(4)] for warp in range(32)])
    return xp.einsum("tlk,wk->twl", eights, visits).reshape(x.shape)


def follow_chains(x: Any) -> Any:
    """Σ over eight values x + c, each advanced by the steps of a chain."""
    return sum(_advanced(x + c, FACTOR, SUMMAND, CHAIN_STEPS) for c in range(VALUES))


def hadamard(x: Any) -> Any:
    """`ROUNDS` Walsh–Hadamard transforms of 64 points, a column each, as the kernel scales and signs them."""
    xp = array_module(x)
    signs = xp.asarray(
        [[-1.0 if (p & q).bit_count() % 2 else 1.0 for q in range(POINTS)] for p in range(POINTS)]
    )
    scale = xp.where(xp.arange(POINTS) % 3 == 0, -0.125, 0.125)[:, None]
    columns = x.reshape(POINTS, -1)
    for _ in range(ROUNDS):
        columns = scale * (signs @ columns)
    return columns.reshape(x.shape)


DIVERGENCE = Kernel(
    "divergence",
    "compute_metrics",
    "Different work for neighboring elements",
    HEADER,
    (
        Step(
            "in order",
            "Neighboring lanes are on different paths, and a warp goes through them one after another: "
            "each instruction works for one lane of 32.",
            f"{NAMESPACE}::diverge<false>",
            _each(256),
        ),
        Step(
            "regrouped",
            "The same elements dealt out differently: a warp takes 32 that are on one path.",
            f"{NAMESPACE}::diverge<true>",
            _each(256),
        ),
    ),
    inputs=lambda problem: (_same(problem),),
    output=_same,
    scalars=lambda problem: (np.int32(problem.elements), np.int32(PATH_STEPS), np.int32(PATHS)),
    reference=follow_paths,
    flops=lambda problem: 2 * PATH_STEPS * problem.elements,
    tolerance={"float32": 1e-4},
    timed=(Problem((1 << 22,)),),
    checked=tuple(Problem((n,)) for n in (1, 33, 1023, 1024, 1025, 5000, 1 << 20)),
    values=("normal",),
)

BANK_CONFLICTS = Kernel(
    "bank_conflicts",
    "compute_metrics",
    "Reading a tile by columns",
    HEADER,
    tuple(
        Step(
            name,
            reason,
            f"{NAMESPACE}::read_columns<{NAMESPACE}::{layout}>",
            lambda problem, gpu: Launch(problem.elements // 1024, (32, 32)),
        )
        for name, layout, reason in (
            (
                "plain",
                "kPlain",
                "Rows of 32 words: a column lies in one bank, and the lanes of a warp wait for each other.",
            ),
            ("padded", "kPadded", "Rows of 33 words: a column goes through all 32 banks."),
            (
                "swizzled",
                "kSwizzled",
                "Word (row, column) stored at column ^ row: all banks too, without a word more.",
            ),
        )
    ),
    inputs=lambda problem: (_same(problem),),
    output=_same,
    scalars=lambda problem: (np.int32(TURNS),),
    reference=column_sums,
    flops=lambda problem: 2 * 8 * TURNS * problem.elements,
    tolerance={"float32": 1e-5},
    timed=(Problem((1 << 20,)),),
    checked=tuple(Problem((1024 * tiles,)) for tiles in (1, 3, 133)),
    values=("normal",),
)

CHAINS = Kernel(
    "dependency_chains",
    "compute_metrics",
    "Multiply-adds that wait for each other",
    HEADER,
    tuple(
        Step(
            f"{count} at a time",
            reason,
            f"{NAMESPACE}::chains<{count}>",
            lambda problem, gpu: Launch(problem.elements // 128, 128),
        )
        for count, reason in (
            (
                1,
                "Each multiply-add needs the one before, and with a warp a scheduler there is no other.",
            ),
            (2, "Two chains side by side: twice as many instructions to choose from."),
            (4, "Four: as many as a multiply-add takes cycles."),
            (8, "Eight: nothing is left to gain."),
        )
    ),
    inputs=lambda problem: (_same(problem),),
    output=_same,
    scalars=lambda problem: (np.int32(CHAIN_STEPS), np.float32(FACTOR)),
    reference=follow_chains,
    flops=lambda problem: 2 * VALUES * CHAIN_STEPS * problem.elements,
    tolerance={"float32": 1e-4},
    timed=(Problem((128 * 128,)),),
    checked=tuple(Problem((128 * blocks,)) for blocks in (1, 7, 132)),
    values=("normal",),
)

SPILLS = Kernel(
    "hadamard",
    "compute_metrics",
    "64 values a thread: in registers, or not",
    HEADER,
    tuple(
        Step(
            name,
            reason,
            f"{NAMESPACE}::hadamard<{blocks}>",
            lambda problem, gpu: Launch(problem.elements // POINTS // 256, 256),
        )
        for name, blocks, reason in (
            (
                "for occupancy",
                8,
                "Room for eight blocks a multiprocessor leaves 32 registers a thread; the other values are "
                "stored to local memory and loaded again in every round.",
            ),
            ("half of it", 4, "Room for four blocks: 64 registers, a few values too many still."),
            ("registers", 1, "As many registers as 64 values take: a quarter of the warps, no spill."),
        )
    ),
    inputs=lambda problem: (_same(problem),),
    output=_same,
    scalars=lambda problem: (np.int32(ROUNDS),),
    reference=hadamard,
    flops=lambda problem: 7 * ROUNDS * problem.elements,
    tolerance={"float32": 1e-5},
    timed=(Problem((1 << 24,)),),
    checked=tuple(Problem((POINTS * 256 * blocks,)) for blocks in (1, 5)),
    values=("normal",),
)

KERNELS = (DIVERGENCE, BANK_CONFLICTS, CHAINS, SPILLS)
