"""Matmul (``cuda/gemm``): fp32 from a thread an element to pipelined tiles, bf16 on tensor cores.

A problem is (m, n, k): A is m × k, B k × n, C = A·B. What a step is held against is cuBLAS, by the program
``cuda/gemm``, which times both in turns; ``predicted`` is the share of cuBLAS's throughput. The bf16 steps
behind the first take tensor maps, which that program makes; here they are described and not launched.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step, numbers

NAMESPACE = "lab::gemm"
PROGRAM = "«python -m labcode.workloads.cuda gemm»"

_OF = {**numbers("gemm/layout.cuh"), **numbers("gemm/fp32.cuh"), **numbers("gemm/bf16.cuh")}
SIDE = _OF["kSide"]
STRIP_TILE, STRIP_THREADS = _OF["kStripTile"], _OF["kStripThreads"]
SQUARE_TILE, SQUARE_THREADS = _OF["kSquareTile"], _OF["kSquareThreads"]
MMA_TILE, MMA_THREADS = _OF["kMmaM"], _OF["kMmaThreads"]
MMA_BYTES = _OF["kMmaStages"] * (MMA_TILE + _OF["kMmaN"]) * _OF["kMmaK"] * 2
TILE_M, RING_N, SIMPLE_N, STAGE_BYTES = _OF["kTileM"], 256, 128, {128: 32 << 10, 256: 48 << 10}
SIMPLE_THREADS, WORK_THREADS = 2 * _OF["kGroupThreads"], 3 * _OF["kGroupThreads"]
BOX_BYTES, ALIGNMENT = 8 << 10, 1024

_Launcher = Callable[[Problem, Gpu], Launch]


def tiles(rows: int, columns: int, block: int | tuple[int, int], shared_bytes: int = 0) -> _Launcher:
    """A block for each tile of so many rows and columns of C."""

    def launch(problem: Problem, gpu: Gpu) -> Launch:
        m, n, _ = problem.shape
        return Launch((-(-n // columns), -(-m // rows)), block, shared_bytes)

    return launch


def ring(stages: int, boxes: int, cluster: int, persistent: bool) -> _Launcher:
    """A block for each tile, or one a multiprocessor; the blocks of a cluster lie side by side in m."""

    def launch(problem: Problem, gpu: Gpu) -> Launch:
        m, n, _ = problem.shape
        clusters = -(-m // (cluster * TILE_M)) * -(-n // RING_N)
        if persistent:
            clusters = min(clusters, gpu.sm_count // cluster)
        shared_bytes = stages * STAGE_BYTES[RING_N] + 2 * boxes * BOX_BYTES + ALIGNMENT
        return Launch(clusters * cluster, WORK_THREADS, shared_bytes, cluster)

    return launch


def pipeline_bytes(m: int, n: int, depth: int, stages: int) -> int:
    """Shared memory of a tiling: A's rows are four floats longer, so that columns meet no bank twice."""
    return stages * depth * (m + 4 + n) * 4


def _mapped(
    name: str, reason: str, entry: str, launch: _Launcher, predicted: float, helped: bool = True
) -> Step:
    return Step(
        name,
        reason,
        f"{NAMESPACE}::{entry}",
        launch,
        min_cc=90,
        predicted=predicted,
        helped=helped,
        unfit=lambda problem: f"takes tensor maps; {PROGRAM} makes them, checks and times this step",
    )


def _sizes(problem: Problem) -> tuple[np.generic, ...]:
    m, n, k = problem.shape
    return tuple(np.int32(value) for value in (m, n, k, k, n, n))


def _product(
    name: str, title: str, header: str, dtype: str, tolerance: float, steps: tuple[Step, ...]
) -> Kernel:
    sizes = ((1, 1, 1), (33, 65, 17), (257, 129, 131), (128, 640, 16), (300, 500, 701), (1000, 1100, 900))
    return Kernel(
        name,
        "gemm",
        title,
        header,
        steps,
        inputs=lambda problem: (
            Array((problem.shape[0], problem.shape[2])),
            Array((problem.shape[2], problem.shape[1])),
        ),
        output=lambda problem: Array(problem.shape[:2]),
        scalars=_sizes,
        reference=lambda a, b: a @ b,
        flops=lambda problem: 2 * problem.elements,
        tolerance={dtype: tolerance},
        timed=(Problem((4096, 4096, 4096), dtype), Problem((8192, 8192, 8192), dtype)),
        checked=tuple(Problem(shape, dtype) for shape in sizes),
        ceiling="cuBLAS",
        values=("normal",),
    )


FP32 = _product(
    "gemm_fp32",
    "Multiply two matrices in fp32",
    "gemm/fp32.cuh",
    "float32",
    1e-5,
    (
        Step(
            "naive",
            "A thread an element of C, rows of C along the lanes: each of a warp's reads of A goes to a row "
            "of its own, 32 sectors for 4 bytes of use each.",
            f"{NAMESPACE}::naive",
            tiles(SIDE, SIDE, (SIDE, SIDE)),
            predicted=0.012,
        ),
        Step(
            "coalesced",
            "Columns of C along the lanes: one element of A for all, a whole line of B. Two loads still "
            "stand behind every multiply-add, now in the L1 cache.",
            f"{NAMESPACE}::coalesced",
            tiles(SIDE, SIDE, (SIDE, SIDE)),
            predicted=0.09,
        ),
        Step(
            "shared tile",
            "Tiles of 32 × 32 in shared memory: each element is fetched once for 32 uses. Two shared loads "
            "a multiply-add take over as the limit.",
            f"{NAMESPACE}::shared_tile",
            tiles(SIDE, SIDE, (SIDE, SIDE)),
            predicted=0.13,
        ),
        Step(
            "strips",
            "A thread 8 elements down a column: an element of B in a register serves 8 multiply-adds, so 9 "
            "shared loads for 8.",
            f"{NAMESPACE}::strips",
            tiles(STRIP_TILE, STRIP_TILE, STRIP_THREADS),
            predicted=0.35,
        ),
        Step(
            "squares",
            "A thread 8 × 8 elements: 16 shared loads for 64 multiply-adds, a fifth of the instructions. "
            "What the prediction overlooked is the waiting for memory at both barriers of each tile, only 8 "
            "deep.",
            f"{NAMESPACE}::squares",
            tiles(SQUARE_TILE, SQUARE_TILE, SQUARE_THREADS),
            predicted=0.65,
        ),
        Step(
            "vectorized",
            "Loads of 16 bytes from memory and from shared memory, for which A is turned on its way: 4 "
            "shared loads for 64 multiply-adds.",
            f"{NAMESPACE}::staged<{NAMESPACE}::ByBlock>",
            tiles(128, 128, 256, pipeline_bytes(128, 128, 8, 1)),
            predicted=0.78,
        ),
        Step(
            "warp tiles",
            "The lanes of a warp on a tile of 64 × 32 instead of 16 × 128: they ask for 8 + 4 different "
            "words rather than 2 + 16. Both steps wait for their next tile at two barriers, and that is "
            "their limit; the next step removes it and keeps these tiles.",
            f"{NAMESPACE}::staged<{NAMESPACE}::ByWarp>",
            tiles(128, 128, 256, pipeline_bytes(128, 128, 8, 1)),
            predicted=0.82,
            helped=False,
        ),
        Step(
            "double buffer",
            "The next tile comes by asynchronous copies while this one is multiplied, one barrier a tile "
            "instead of two; fragments are fetched one row ahead.",
            f"{NAMESPACE}::pipelined<{NAMESPACE}::TwoStages>",
            tiles(128, 128, 256, pipeline_bytes(128, 128, 8, 2)),
            predicted=0.93,
        ),
        Step(
            "autotuned",
            "The same code, the tiling that measured fastest of a dozen: 8 × 16 elements a thread read 6 "
            "words for 128 multiply-adds instead of 8; deeper tiles halve the barriers, a third stage "
            "covers what latency is left. One block of 256 threads has nearly all registers.",
            f"{NAMESPACE}::pipelined<{NAMESPACE}::Tuned>",
            tiles(128, 256, 256, pipeline_bytes(128, 256, 16, 3)),
            min_cc=80,
            predicted=0.97,
        ),
    ),
)

BF16 = _product(
    "gemm_bf16",
    "Multiply two matrices of bf16, sums in fp32",
    "gemm/bf16.cuh",
    "bfloat16",
    4e-3,
    (
        Step(
            "mma.sync",
            "Tensor cores from registers: ldmatrix from swizzled tiles, three stages by asynchronous "
            "copies. Registers and shared memory each carry every operand once more than wgmma needs.",
            f"{NAMESPACE}::mma_sync",
            tiles(MMA_TILE, MMA_TILE, MMA_THREADS, MMA_BYTES),
            min_cc=80,
            predicted=0.55,
        ),
        _mapped(
            "wgmma and TMA",
            "Four warps multiply 64 × 128 × 16 an instruction straight from shared memory; one thread asks "
            "the copy engine for tiles. One stage only, so a block waits for each: two blocks take turns.",
            "wgmma_tma",
            tiles(TILE_M, SIMPLE_N, SIMPLE_THREADS, STAGE_BYTES[SIMPLE_N] + ALIGNMENT),
            0.55,
        ),
        _mapped(
            "specialized",
            "A group asks for tiles, two multiply, a ring of four stages and barriers between them; "
            "registers move from the one to the others, so that tiles grow to 128 × 256.",
            f"specialized<{NAMESPACE}::Deep, false, 1, 1, false>",
            ring(4, 0, 1, False),
            0.82,
        ),
        _mapped(
            "persistent",
            "A block a multiprocessor stays: while it writes a tile of C, the next one's first stages come.",
            f"specialized<{NAMESPACE}::Deep, true, 1, 1, false>",
            ring(4, 0, 1, True),
            0.85,
        ),
        _mapped(
            "cluster",
            "Two blocks with the same columns fetch half of B each and send it to both: L2 delivers 32 KiB "
            "a stage and block instead of 48. That helps as far as L2 is the limit: see the last step.",
            f"specialized<{NAMESPACE}::Deep, true, 2, 1, false>",
            ring(4, 0, 2, True),
            0.93,
        ),
        _mapped(
            "order",
            "Tiles in bands of 8 clusters' rows: the blocks at work together need a square of the matrices, "
            "not a strip, so that L2 holds what they share. It held it before, at these sizes.",
            f"specialized<{NAMESPACE}::Deep, true, 2, {NAMESPACE}::kBand, false>",
            ring(4, 0, 2, True),
            0.95,
            helped=False,
        ),
        _mapped(
            "store",
            "C goes through shared memory in swizzled boxes and leaves by the copy engine in whole lines, "
            "while the group already multiplies its next tile. Written two by two, the sums had kept a group "
            "from multiplying.",
            f"specialized<{NAMESPACE}::Wide, true, 2, {NAMESPACE}::kBand, true>",
            ring(4, 2, 2, True),
            0.98,
        ),
        _mapped(
            "alone",
            "The cluster taken back: a block waits for its own readers alone, and L2 delivers a half more. "
            "Bands twice as tall keep the square. If L2 is not the limit, as fast and simpler.",
            f"specialized<{NAMESPACE}::Wide, true, 1, 2 * {NAMESPACE}::kBand, true>",
            ring(4, 2, 1, True),
            0.98,
            helped=False,
        ),
    ),
)

KERNELS = (FP32, BF16)
