"""The optimization loop (``cuda/optimization_loop``): a bilateral filter, ten rounds, failures included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step, array_module, numbers

HEADER = "optimization_loop/optimization_loop.cuh"
NAMESPACE = "lab::optimization_loop"
_OF = numbers(HEADER)
RADIUS, SIGMA_SPACE, SIGMA = _OF["kRadius"], 2.0, 0.2
STRIP_COLUMNS, STRIP_WARPS = _OF["kStrip"] - 2 * RADIUS, _OF["kStripWarps"]
# Predicted cycles of a scheduler for a tap of a warp, as in the program's table of rounds; a copy of the
# image takes as long as COPY_CYCLES a tap on an H200 (8 bytes a pixel at 4.26 TB/s, 81 taps).
COPY_CYCLES = 0.77
CYCLES = (128.0, 105.0, 45.0, 12.4, 9.9, 8.2, 7.5, 6.4, 8.0, 7.3)
HALF_TOLERANCE = 1e-3


def bilateral(x: Any) -> Any:
    """The filter by its formula; beyond the border lies the nearest pixel."""
    xp = array_module(x)
    height, width = x.shape
    padded = xp.pad(x, RADIUS, mode="edge")
    total, weights = xp.zeros_like(x), xp.zeros_like(x)
    for dy in range(-RADIUS, RADIUS + 1):
        for dx in range(-RADIUS, RADIUS + 1):
            top, left = RADIUS + dy, RADIUS + dx
            value = padded[top : top + height, left : left + width]
            near, like = (dy * dy + dx * dx) / SIGMA_SPACE**2, ((value - x) / SIGMA) ** 2
            weight = xp.exp(-0.5 * (near + like))
            total += weight * value
            weights += weight
    return total / weights


def _grid(problem: Problem, columns: int, rows: int) -> tuple[int, int]:
    height, width = problem.shape
    return -(-width // columns), -(-height // rows)


def _down(problem: Problem, gpu: Gpu) -> Launch:
    return Launch(_grid(problem, 8, 32), (32, 8))


def _along(problem: Problem, gpu: Gpu) -> Launch:
    return Launch(_grid(problem, 32, 8), (32, 8))


def _columns(problem: Problem, gpu: Gpu) -> Launch:
    return Launch(_grid(problem, 32, 32), (32, 8))


def _scalars(problem: Problem) -> tuple[np.generic, ...]:
    height, width = problem.shape
    return np.int32(height), np.int32(width), np.float32(SIGMA)


def _strips(name: str, reason: str, entry: str, rows: int, helped: bool = True) -> Step:
    return Step(
        name,
        reason,
        f"{NAMESPACE}::{entry}",
        lambda problem, gpu: Launch(_grid(problem, STRIP_COLUMNS * STRIP_WARPS, rows), (32, STRIP_WARPS)),
        helped=helped,
        scalars=lambda problem: (*_scalars(problem), np.int32(rows)),
    )


_ROUNDS = (
    Step(
        "round0",
        "The formula; a warp goes down a column, 32 lines a load.",
        f"{NAMESPACE}::round0",
        _down,
    ),
    Step("round1", "A warp goes along a row: a load is one or two lines.", f"{NAMESPACE}::round1", _along),
    Step("round2", "−0.5f for −0.5: no arithmetic in double any more.", f"{NAMESPACE}::round2", _along),
    Step(
        "round3",
        "Both weights are one power of two; loops unrolled, divisions out of them.",
        f"{NAMESPACE}::round3",
        _along,
    ),
    Step(
        "round4",
        "A tile with its border in shared memory: the image's border is settled once a pixel.",
        f"{NAMESPACE}::round4",
        _along,
    ),
    Step(
        "round5",
        "Four pixels a thread: a value read from shared memory serves up to four of them.",
        f"{NAMESPACE}::round5",
        _columns,
    ),
    Step(
        "round6",
        "Two powers by one instruction of PTX, in half precision. It does not help: the machine has no "
        "such instruction, and the compiler makes two of it, with conversions around them.",
        f"{NAMESPACE}::round6",
        _columns,
        helped=False,
        tolerance=HALF_TOLERANCE,
    ),
    _strips(
        "round7",
        "w(p, q) = w(q, p): each weight computed once and handed over by a shuffle. Half the powers, and no "
        "faster: a multiprocessor holds fewer warps of it.",
        "round7",
        64,
        helped=False,
    ),
    _strips(
        "round8",
        "Shorter strips: places that become free are filled again. Less came of it than predicted.",
        "round7",
        32,
    ),
    _strips(
        "round9",
        "The image scaled once on the way in: an exponent is one multiply-add.",
        "round9",
        32,
    ),
)

BILATERAL = Kernel(
    "bilateral",
    "optimization_loop",
    "A bilateral filter of 9 × 9 pixels",
    HEADER,
    tuple(
        replace(step, predicted=COPY_CYCLES / cycles) for step, cycles in zip(_ROUNDS, CYCLES, strict=True)
    ),
    inputs=lambda problem: (Array(problem.shape),),
    output=lambda problem: Array(problem.shape),
    scalars=_scalars,
    reference=bilateral,
    flops=lambda problem: 8 * (2 * RADIUS + 1) ** 2 * problem.elements,
    tolerance={"float32": 2e-5},
    timed=(Problem((4096, 4096)),),
    checked=tuple(Problem(shape) for shape in ((1, 1), (1, 200), (200, 1), (33, 57), (65, 129), (300, 70))),
    values=("normal",),
)

KERNELS = (BILATERAL,)
