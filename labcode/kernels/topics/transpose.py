"""Transpose (``cuda/transpose``): from one element a thread to 16-byte blocks turned in registers."""

from __future__ import annotations

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Mark, Problem, Step, numbers

HEADER = "transpose/transpose.cuh"
NAMESPACE = "lab::transpose"

_OF = numbers(HEADER)
TILE, THREAD_ROWS, WORDS = _OF["kTile"], _OF["kRows"], _OF["kWords"]
WINDOW_ROWS, WINDOW_LINE, WINDOW_THREADS = _OF["kWindowRows"], _OF["kWindowLine"], _OF["kWindowThreads"]
WINDOW_WORDS = {4: 128, 2: 64}  # kWindowWords, by bytes of an element
CHUNK_HIGH, CHUNK_WIDE, CHUNK_THREADS = _OF["kChunkHigh"], _OF["kChunkWide"], _OF["kChunkThreads"]
_MOST_BLOCKS_Y = 65535


def _tiles(side_rows: int, side_columns: int, block: tuple[int, ...], problem: Problem) -> Launch:
    rows, columns = problem.shape
    return Launch((-(-columns // side_columns), min(-(-rows // side_rows), _MOST_BLOCKS_Y)), block)


def _naive(problem: Problem, gpu: Gpu) -> Launch:
    return _tiles(THREAD_ROWS, TILE, (TILE, THREAD_ROWS), problem)


def _tiled(problem: Problem, gpu: Gpu) -> Launch:
    return _tiles(TILE, TILE, (TILE, THREAD_ROWS), problem)


def _count(problem: Problem, high: int, wide: int) -> int:
    rows, columns = problem.shape
    return -(-rows // high) * -(-columns // wide)


def _vectorized(problem: Problem, gpu: Gpu) -> Launch:
    side = WORDS * 16 // problem.item_bytes
    return Launch(_count(problem, side, side), WORDS * WORDS)


def _windowed(problem: Problem, gpu: Gpu) -> Launch:
    """A tile a block; of 2-byte elements two columns fewer than fit, as rows may start between two words."""
    words = WINDOW_WORDS[problem.item_bytes]
    wide = words if problem.item_bytes == 4 else 2 * words - 2
    shared_bytes = (WINDOW_ROWS + WINDOW_LINE // problem.item_bytes) * (words + 1) * 4
    return Launch(_count(problem, WINDOW_ROWS, wide), WINDOW_THREADS, shared_bytes)


def _chunks(problem: Problem, gpu: Gpu) -> Launch:
    """A tile a block: of each row all 16-byte chunks that it may touch; behind every few rows a free one."""
    each = 16 // problem.item_bytes  # elements a chunk
    of_row = (CHUNK_WIDE + 2 * (each - 1)) // each
    groups = (CHUNK_HIGH + WINDOW_LINE // problem.item_bytes) // each
    shared_bytes = groups * (each * of_row + 1) * 16
    return Launch(_count(problem, CHUNK_HIGH, CHUNK_WIDE), CHUNK_THREADS, shared_bytes)


_SQUARE = ((1, 1), (32, 32), (64, 64), (128, 256), (1024, 1024))
_ODD = ((1, 777), (777, 1), (31, 33), (33, 31), (65, 127), (100, 36), (129, 1000), (1023, 1025))

TRANSPOSE = Kernel(
    "transpose",
    "transpose",
    "Transpose a matrix",
    HEADER,
    (
        Step(
            "naive",
            "One element a thread. Reads are coalesced; the 32 lanes of a warp write to 32 rows, a sector "
            "each for one element.",
            f"{NAMESPACE}::naive<{{W}}>",
            _naive,
            predicted=0.3,
        ),
        Step(
            "shared tile",
            "A tile of 32 × 32 goes through shared memory, so that both sides are coalesced. A column of "
            "the tile lies in one bank (two for 2-byte types): its 32 lanes take turns.",
            f"{NAMESPACE}::tiled<{{W}}, {NAMESPACE}::Plain>",
            _tiled,
            predicted=0.42,
        ),
        Step(
            "padded",
            "Rows of the tile four bytes longer: a column goes through all 32 banks.",
            f"{NAMESPACE}::tiled<{{W}}, {NAMESPACE}::Padded<4 / sizeof({{W}})>>",
            _tiled,
            predicted=0.85,
        ),
        Step(
            "swizzled",
            "Columns exclusive-ored with the row instead of padding: no conflicts and no unused memory. It "
            "buys nothing over padding here.",
            f"{NAMESPACE}::tiled<{{W}}, {NAMESPACE}::Swizzled<{{W}}>>",
            _tiled,
            helped=False,
            predicted=0.85,
        ),
        Step(
            "vectorized",
            "Each thread reads a block of 16-byte rows, all loads under way at once, turns it in registers "
            "and passes 16-byte words through a swizzled tile; tiles are 256 bytes wide on both sides. "
            "Element by element where rows do not start on 16 bytes.",
            f"{NAMESPACE}::vectorized<{{W}}, {WORDS}, {WORDS}, 1>",
            _vectorized,
            predicted=0.95,
        ),
        Step(
            "patches",
            "The same kernel in another order: blocks take the tiles column by column, so that those which "
            "run at the same time write long pieces of few rows rather than short pieces of all.",
            f"{NAMESPACE}::vectorized<{{W}}, {WORDS}, {WORDS}, {NAMESPACE}::kGroup>",
            _vectorized,
            predicted=0.95,
        ),
        Step(
            "windowed",
            "For rows that start anywhere: a tile reads a few rows more than it writes, and each row of "
            "the output takes the window of them that starts on a sector, so that no sector is written in "
            "two parts.",
            f"{NAMESPACE}::windowed<{{W}}, {WINDOW_ROWS}, {WINDOW_LINE}, {NAMESPACE}::kWindowWords<{{W}}>, "
            f"{WINDOW_THREADS}, {NAMESPACE}::kWindowAcross<{{W}}>, {NAMESPACE}::kWindowGroup>",
            _windowed,
            min_cc=80,
            predicted=0.92,
        ),
        Step(
            "chunks",
            "The same windows; rows come in whole 16-byte chunks from the boundary before their first "
            "element, by asynchronous copies past registers and L1. Lanes find each element by arithmetic, "
            "in an order that keeps them out of each other's banks whatever the sides of the matrix. It "
            "removes what it was meant to and is slower: neither had been the limit.",
            f"{NAMESPACE}::chunks<{{W}}, {CHUNK_HIGH}, {CHUNK_WIDE}, {CHUNK_THREADS}, "
            f"{NAMESPACE}::kChunkGroup>",
            _chunks,
            min_cc=80,
            predicted=0.93,
            helped=False,
        ),
    ),
    inputs=lambda problem: (Array(problem.shape),),
    output=lambda problem: Array(problem.shape[::-1]),
    scalars=lambda problem: (np.int32(problem.shape[0]), np.int32(problem.shape[1])),
    reference=lambda x: x.T,
    flops=lambda problem: 0,
    tolerance={"float32": 0.0, "float16": 0.0},
    timed=(
        Problem((32768, 16384)),
        Problem((32749, 16381)),
        Problem((32768, 32768), "float16"),
        Problem((32749, 32719), "float16"),
    ),
    checked=tuple(Problem(shape, dtype) for shape in _SQUARE + _ODD for dtype in ("float32", "float16")),
    libraries={"torch copy_ of x.t()": lambda torch, cupy, x, out: lambda: out.copy_(x[0].t())},
    marks=(Mark("copy", 0.92, 0.97),),
)

KERNELS = (TRANSPOSE,)
