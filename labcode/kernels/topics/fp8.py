"""Matmul of 8-bit floats (``cuda/fp8``): e4m3 with a scale a matrix, a row or a block; C in bf16.

A problem is (m, n, k): A is m × k, B n × k, C = A·Bᵀ; both operands lie along k, as ``wgmma`` wants them. A
step is held against ``torch._scaled_mm`` with the same scales. ``predicted`` is the share of its throughput
with a scale a matrix and sums left in the tensor cores, at n = 4096.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labcode.errors import LabError
from labcode.kernels.catalogue import Gpu, Launch, Problem, Step, numbers
from labcode.kernels.topics import gemm

HEADER = "fp8/fp8.cuh"
_OF = {**numbers("gemm/layout.cuh"), **numbers("gemm/bf16.cuh"), **numbers(HEADER)}
TILE_M, BOX_ROWS_B, BLOCK = _OF["kTileM"], _OF["kBoxRowsB"], _OF["kHalf"]
BOX_PAIRS, OUT_ROWS = _OF["kBox"], _OF["kGroupM"]
NARROW = 192  # columns of the narrower tile
CYCLE_FLOPS = 8192  # of a multiprocessor's tensor cores, at the published rate

TENSOR, SIDES, BLOCKS = "tensor", "row and column", "blocks of 128"
KINDS = (TENSOR, SIDES, BLOCKS)
_NUMBERS = {TENSOR: "kOneScale", SIDES: "kSides", BLOCKS: "kBlocksOf128"}


@dataclass(frozen=True)
class Rung:
    """A step with what it computes: which scales it takes, and whether sums are promoted every 128 of k.

    ``box_rows``: of B, in one of the copy engine's boxes.
    """

    step: Step
    scales: str
    promoted: bool
    box_rows: int = BOX_ROWS_B


def entry(scales: str, promoted: bool) -> str:
    """The C++ name of a variant of the pipeline."""
    flag = str(promoted).lower()
    blocks, band = (1, 16) if scales == BLOCKS else (2, "lab::gemm::kBand")
    return f"lab::fp8::specialized<lab::fp8::Full, {blocks}, {band}, lab::fp8::{_NUMBERS[scales]}, {flag}>"


def _pipeline(name: str, reason: str, scales: str, promoted: bool, predicted: float) -> Rung:
    step = Step(
        name,
        reason,
        entry(scales, promoted),
        gemm.ring(3, 4, 1 if scales == BLOCKS else 2, True),
        min_cc=90,
        predicted=predicted,
        unfit=unfit,
    )
    return Rung(step, scales, promoted)


def _narrow(name: str, reason: str, scales: str, beside: bool, predicted: float) -> Rung:
    """A step in tiles of `NARROW` columns, in clusters of two; ``beside``: room for scales of two tiles."""
    stages, scales_bytes = 4 * (TILE_M + NARROW) * BLOCK, beside * 8 * (TILE_M + NARROW)
    shared = gemm.ALIGNMENT + stages + 6 * gemm.BOX_BYTES + scales_bytes

    def launch(problem: Problem, gpu: Gpu) -> Launch:
        m, n, _ = problem.shape
        clusters = min(-(-m // (2 * TILE_M)) * -(-n // NARROW), gpu.sm_count // 2)
        return Launch(2 * clusters, gemm.WORK_THREADS, shared, 2)

    flags = f"lab::gemm::kBand, lab::fp8::{_NUMBERS[scales]}, true, {str(beside).lower()}"
    name_in_cpp = f"lab::fp8::specialized<lab::fp8::Narrow, 2, {flags}>"
    step = Step(name, reason, name_in_cpp, launch, min_cc=90, predicted=predicted, unfit=unfit)
    return Rung(step, scales, True, NARROW // 2)


def _simple(problem: Problem, gpu: Gpu) -> Launch:
    return gemm.tiles(
        TILE_M, gemm.SIMPLE_N, gemm.SIMPLE_THREADS, gemm.STAGE_BYTES[gemm.SIMPLE_N] + gemm.ALIGNMENT
    )(problem, gpu)


def unfit(problem: Problem) -> str | None:
    """Why a product is beyond the steps; None when it is not."""
    m, n, k = problem.shape
    if min(m, n, k) < 1:
        return f"{m} × {n} × {k} holds nothing to multiply"
    if k % 16 or n % 8:
        return f"takes k a multiple of 16 and n of 8, so that rows start on 16 bytes, not k = {k}, n = {n}"
    if max(m, n, k) >= 1 << 21:
        return f"takes sides below {1 << 21}, not {max(m, n, k)}"
    return None


LADDER = (
    Rung(
        Step(
            "simple",
            "The second step of bf16 with bytes for operands: a stage of the same size is twice as deep, and "
            "an instruction takes 32 along k. A block still waits for each stage.",
            "lab::fp8::simple",
            _simple,
            min_cc=90,
            predicted=0.5,
            unfit=unfit,
        ),
        TENSOR,
        False,
    ),
    _pipeline(
        "pipeline",
        "All of the bf16 ladder at once: a ring between a group that fetches and two that multiply, blocks "
        "that stay, clusters of two, bands, C by the copy engine. A stage's multiplications take as many "
        "cycles as in bf16, and a tile half as many stages: what is not multiplication weighs twice.",
        TENSOR,
        False,
        0.96,
    ),
    _pipeline(
        "promoted",
        "Every 128 of k the tensor cores' sums are added up in fp32, half of the columns at a time, as "
        "registers for twice all of them there are not. A group's additions hide behind the other's "
        "multiplications, but A is read from shared memory once for each half.",
        TENSOR,
        True,
        0.85,
    ),
    _narrow(
        "narrow",
        "Tiles of 192 columns: a thread has registers for two times their sums, so a group promotes a stage "
        "at once. A is read from shared memory once, and a group waits half as often. Where 256 columns "
        "fill whole turns of the GPU and these do not, they lose.",
        TENSOR,
        False,
        0.78,
    ),
    _pipeline(
        "row and column",
        "A scale for each row of A and of B: two multiplications a sum, once at the end of a tile; asked for "
        "at its beginning, and spread through shared memory.",
        SIDES,
        True,
        0.85,
    ),
    _narrow(
        "beside",
        "The same scales in tiles of 192 columns, brought into shared memory a tile ahead by a warp of the "
        "group that fetches. Whoever multiplies waits for no read of them.",
        SIDES,
        True,
        0.78,
    ),
    _pipeline(
        "blocks",
        "A scale for 1 × 128 of A and 128 × 128 of B: the addition in fp32 becomes a multiply-add. It costs "
        "what promotion costs, and three numbers per thread and stage. A block works alone, in bands of 16: "
        "a cluster of two waits for the later of both in every stage, and here the two rarely keep step.",
        BLOCKS,
        True,
        0.82,
    ),
)
STEPS: Mapping[str, Rung] = {rung.step.variant: rung for rung in LADDER}


def rung_of(name: str) -> Rung:
    """The rung of this name, as programs spell it; `LabError` lists them when there is none."""
    if name not in STEPS:
        raise LabError(f"{name}: no such step; there are {', '.join(STEPS)}")
    return STEPS[name]


def scale_shapes(scales: str, m: int, n: int, k: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of A's and of B's scales. Those of blocks: A's lie along m, B's along k."""
    if scales == TENSOR:
        return (1,), (1,)
    if scales == SIDES:
        return (m,), (n,)
    return (-(-k // BLOCK), m), (-(-n // BLOCK), -(-k // BLOCK))


def flops(m: int, n: int, k: int) -> int:
    """Of the product."""
    return 2 * m * n * k


def bytes_moved(scales: str, m: int, n: int, k: int) -> int:
    """The least that a product costs: operands and scales read once, C in bf16 written once."""
    of_a, of_b = (side[0] * (side[1] if len(side) > 1 else 1) for side in scale_shapes(scales, m, n, k))
    return m * k + n * k + 2 * m * n + 4 * (of_a + of_b)


def stage_cycles(rows: int = TILE_M, columns: int = gemm.RING_N, depth: int = BLOCK) -> float:
    """Cycles that a multiprocessor's tensor cores take for one stage at the published rate."""
    return 2 * rows * columns * depth / CYCLE_FLOPS


def product_cycles(m: int, n: int, k: int, columns: int, clusters: int) -> float:
    """Cycles of the tensor cores from the first tile to the last, for clusters of two blocks that stay.

    The last turn is as long as the others, however many of the ``clusters`` have a tile of ``columns`` in it.
    """
    turns = -(-(-(-m // (2 * TILE_M)) * -(-n // columns)) // clusters)
    return turns * -(-k // BLOCK) * stage_cycles(columns=columns)


def promotion_cycles(rows: int = TILE_M, columns: int = gemm.RING_N) -> float:
    """Cycles for which promoting one stage keeps the fp32 units busy: 128 additions a cycle."""
    return rows * columns / 128
