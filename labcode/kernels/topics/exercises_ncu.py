"""Kernels of the Nsight Compute exercises (``cuda/exercises_ncu``): a baseline and an improved one each."""

from typing import Any

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step, array_module, norm, numbers

HEADER = "exercises_ncu/exercises_ncu.cuh"
NAMESPACE = "lab::exercises_ncu"
_OF = numbers(HEADER)
THREADS, TERMS = _OF["kRowThreads"], _OF["kTerms"]
BLUR_RADIUS, BLUR_SIGMA = _OF["kBlurRadius"], 3.0
ROWS_EACH = 512  # of the improved column sums, a block


def _sizes(problem: Problem) -> tuple[np.generic, ...]:
    return tuple(np.int32(n) for n in problem.shape)


def _same(problem: Problem) -> Array:
    return Array(problem.shape)


def row_scores(x: Any) -> Any:
    """Σ exp(−x²) over the even columns + Σ log(1 + x²) over the odd ones, a row each."""
    xp = array_module(x)
    even, odd = x[:, ::2], x[:, 1::2]
    return xp.exp(-even * even).sum(axis=1) + xp.log1p(odd * odd).sum(axis=1)


def polynomial(x: Any, coefficients: Any) -> Any:
    """Σ coefficients[k] · x^k."""
    return sum(coefficients[k] * x**k for k in range(TERMS))


def blur(x: Any) -> Any:
    """A Gaussian of `BLUR_SIGMA` pixels over 15 × 15; beyond the border lies the nearest pixel."""
    xp = array_module(x)
    weights = np.exp(-0.5 * (np.arange(-BLUR_RADIUS, BLUR_RADIUS + 1) / BLUR_SIGMA) ** 2)
    weights /= weights.sum()
    height, width = x.shape
    padded = xp.pad(x, BLUR_RADIUS, mode="edge")
    rows = sum(float(w) * padded[:, d : d + width] for d, w in enumerate(weights))
    return sum(float(w) * rows[d : d + height, :] for d, w in enumerate(weights))


def _step(name: str, entry: str, launch: Any, reason: str, **more: Any) -> Step:
    return Step(name, reason, f"{NAMESPACE}::{entry}", launch, **more)


def _row_grid(problem: Problem, gpu: Gpu) -> Launch:
    return Launch(problem.shape[0], THREADS)


def _column_blocks(problem: Problem, gpu: Gpu) -> Launch:
    rows, columns = problem.shape
    return Launch((-(-columns // 32), -(-rows // ROWS_EACH)), (32, 8))


def _pixels(columns: int, rows: int) -> Any:
    return lambda problem, gpu: Launch(
        (-(-problem.shape[1] // columns), -(-problem.shape[0] // rows)), (32, 8)
    )


COLUMN_SUMS = Kernel(
    "ex01_column_sums",
    "exercises_ncu",
    "Add up the columns of a matrix",
    HEADER,
    (
        _step(
            "baseline",
            "column_sums_baseline",
            lambda problem, gpu: Launch(problem.shape[1], THREADS),
            "A block a column: lanes a row apart, each taking 4 bytes of a sector of 32.",
        ),
        _step(
            "improved",
            "column_sums_improved",
            _column_blocks,
            "A thread a column: lanes side by side, eight rows' loads under way.",
            clears_output=True,
            scalars=lambda problem: (*_sizes(problem), np.int32(ROWS_EACH)),
        ),
    ),
    inputs=lambda problem: (_same(problem),),
    output=lambda problem: Array(problem.shape[1:]),
    scalars=_sizes,
    reference=lambda x: x.sum(axis=0),
    flops=lambda problem: problem.elements,
    tolerance={"float32": 1e-5},
    scale=norm,
    timed=(Problem((32768, 4096)),),
    checked=tuple(Problem(shape) for shape in ((1, 1), (1, 100), (100, 1), (513, 33), (3000, 257))),
)

ROW_SCORES = Kernel(
    "ex02_row_scores",
    "exercises_ncu",
    "Score the rows of a matrix",
    HEADER,
    (
        _step(
            "baseline",
            "row_scores_baseline",
            _row_grid,
            "Neighboring lanes on two paths; a tree of sums that picks its threads by a remainder.",
        ),
        _step(
            "improved",
            "row_scores_improved",
            lambda problem, gpu: Launch(-(-problem.shape[0] // (THREADS // 32)), THREADS),
            "A warp a row, a pair of columns a lane: one path at a time, sums by shuffles, no barrier.",
            scalars=_sizes,
        ),
    ),
    inputs=lambda problem: (_same(problem),),
    output=lambda problem: Array(problem.shape[:1]),
    scalars=lambda problem: (np.int32(problem.shape[1]),),
    reference=row_scores,
    flops=lambda problem: 3 * problem.elements,
    tolerance={"float32": 1e-5},
    timed=(Problem((131072, 512)),),
    checked=tuple(Problem(shape) for shape in ((1, 1), (3, 2), (5, 255), (7, 1000), (1000, 512))),
    values=("normal",),
)

POLYNOMIAL = Kernel(
    "ex03_polynomial",
    "exercises_ncu",
    "Evaluate a polynomial",
    HEADER,
    (
        _step(
            "baseline",
            "polynomial_baseline",
            lambda problem, gpu: Launch(-(-problem.elements // THREADS), THREADS),
            "Each power by powf: tens of instructions a term.",
        ),
        _step(
            "improved",
            "polynomial_improved",
            lambda problem, gpu: Launch(-(-problem.elements // (4 * THREADS)), THREADS),
            "Horner's rule, a multiply-add a term: left of the ridge, where DRAM is the roof.",
        ),
    ),
    inputs=lambda problem: (_same(problem), Array((TERMS,))),
    output=_same,
    scalars=lambda problem: (np.int32(problem.elements),),
    reference=polynomial,
    flops=lambda problem: 2 * (TERMS - 1) * problem.elements,
    tolerance={"float32": 1e-4},
    timed=(Problem((1 << 26,)),),
    checked=tuple(Problem((n,)) for n in (1, 255, 1025, 1_000_003)),
    values=("normal",),
)

BLUR = Kernel(
    "ex04_blur",
    "exercises_ncu",
    "Blur an image",
    HEADER,
    (
        _step("baseline", "blur_baseline", _pixels(8, 32), "The formula: 225 taps, an exponential each."),
        _step("improved", "blur_improved", _pixels(32, 32), "Rows, then columns, in shared memory: 30 taps."),
    ),
    inputs=lambda problem: (_same(problem),),
    output=_same,
    scalars=_sizes,
    reference=blur,
    flops=lambda problem: 2 * 2 * (2 * BLUR_RADIUS + 1) * problem.elements,
    tolerance={"float32": 1e-5},
    timed=(Problem((4096, 4096)),),
    checked=tuple(Problem(shape) for shape in ((1, 1), (1, 100), (100, 1), (33, 57), (300, 70))),
)

KERNELS = (COLUMN_SUMS, ROW_SCORES, POLYNOMIAL, BLUR)
