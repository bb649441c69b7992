"""Attention of the newest token over a paged cache (``cuda/paged_decode``): a block a head to equal shares.

A problem is (batch, tokens): so many sequences of so many tokens each in the cache, 32 heads of queries
over 8 of keys and values, 128 dimensions, pages of 16 tokens. ``labcode.workloads.paged_decode`` launches,
checks and times the steps, on uneven lengths and other pages, too; ``predicted`` is the share of the rate of
a plain read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step, numbers

HEADER, RING_HEADER = "paged_decode/paged_decode.cuh", "paged_decode/ring.cuh"
PROGRAM = "«python -m labcode.workloads.paged_decode benchmark»"
NAMESPACE = "lab::paged_decode"
GROUPS = (1, 2, 4, 8)
PAGES = (16, 32, 64, 128, 256)
HEADS, KV_HEADS, PAGE = 32, 8, 16
MOST_PAIRS = 65535
ROUNDS = 2  # of blocks that the GPU holds at once, over which tokens are split

_OF = numbers(HEADER)
DIM, THREADS, MOST_GROUP = _OF["kDim"], _OF["kThreads"], _OF["kMostGroup"]
UNIT, BLOCKS_AN_SM, PIECES = _OF["kUnit"], _OF["kBlocksPerSm"], _OF["kPieces"]
_OF_RING = numbers(RING_HEADER)
RING_THREADS, RING_BYTES, RANGES = THREADS + 32, _OF_RING["kRingBytes"], _OF_RING["kRanges"]
MOST_UNITS = 2**31 - 1  # of all sequences and heads, for `ring`


def cache_bytes(tokens: int, kv_heads: int = KV_HEADS) -> int:
    """Of keys and values in bf16, so many tokens of all sequences together."""
    return 2 * tokens * kv_heads * DIM * 2


def bytes_read(batch: int, tokens: int, heads: int = HEADS, kv_heads: int = KV_HEADS) -> int:
    """The least that moves: ``tokens`` of all sequences together once for all heads, queries and result."""
    return cache_bytes(tokens, kv_heads) + 2 * batch * heads * DIM * 2


def chunk(longest: int, pairs: int, gpu: Gpu) -> int:
    """Units of 64 tokens a part has, so that there are about `ROUNDS` times the blocks that the GPU holds.

    ``longest`` sequence of the batch; ``pairs`` of a sequence and a head of the cache.
    """
    units = math.ceil(longest / UNIT)
    return math.ceil(units / min(units, math.ceil(ROUNDS * BLOCKS_AN_SM * gpu.sm_count / pairs)))


def parts(longest: int, pairs: int, gpu: Gpu) -> int:
    """Parts of the longest sequence."""
    return math.ceil(math.ceil(longest / UNIT) / chunk(longest, pairs, gpu))


def _a_head(heads: int) -> Callable[[Problem, Gpu], Launch]:
    return lambda problem, gpu: Launch((heads, problem.shape[0]), THREADS)


def _split(problem: Problem, gpu: Gpu) -> Launch:
    batch, tokens = problem.shape
    return Launch((parts(tokens, batch * KV_HEADS, gpu), batch * KV_HEADS), THREADS)


def _balanced(problem: Problem, gpu: Gpu) -> Launch:
    return Launch(gpu.sm_count * BLOCKS_AN_SM, THREADS)


def _ring(problem: Problem, gpu: Gpu) -> Launch:
    return Launch(gpu.sm_count, RING_THREADS, RING_BYTES)


def _elsewhere(problem: Problem) -> str:
    return f"takes arrays on 16 bytes; {PROGRAM} launches, checks and times this step"


def _step(
    name: str,
    reason: str,
    launch: Callable[[Problem, Gpu], Launch],
    predicted: float,
    grouped: bool = False,
    min_cc: int = 80,
) -> Step:
    group = f"<{HEADS // KV_HEADS}>" if grouped else ""
    return Step(
        name,
        reason,
        f"{NAMESPACE}::{name}{group}",
        launch,
        min_cc=min_cc,
        predicted=predicted,
        unfit=_elsewhere,
    )


STEPS = (
    _step(
        "heads",
        "A block a sequence and query head, a warp a token. The four heads of a group read the same keys and "
        "values; what L2 does not hold any more comes from memory again.",
        _a_head(HEADS),
        0.3,
        min_cc=75,
    ),
    _step(
        "groups",
        "A block a sequence and head of the cache: a row is read once and serves the group's four queries. A "
        "quarter of the bytes, and a quarter of the blocks to ask for them.",
        _a_head(KV_HEADS),
        0.25,
        grouped=True,
        min_cc=75,
    ),
    _step(
        "pages",
        "The cache in pages that lie anywhere: one look at the table a tile of 16 tokens. 16 bytes a load, "
        "half a warp a token, eight tokens a warp under way.",
        _a_head(KV_HEADS),
        0.35,
        grouped=True,
        min_cc=75,
    ),
    _step(
        "tensor",
        "Both products on tensor cores, from registers as they were loaded: no reduction over lanes is left, "
        "and the next 16 tokens of a warp are under way while these are multiplied.",
        _a_head(KV_HEADS),
        0.7,
    ),
    _step(
        "split",
        "Several blocks a sequence and head, each a part of the tokens, so that small batches fill the GPU; "
        "a second launch joins their results by the softmax's own rule.",
        _split,
        0.88,
    ),
    _step(
        "one_launch",
        "The last block of a sequence and head, found by an atomic counter, joins the parts; nobody waits, "
        "and the second launch is gone.",
        _split,
        0.9,
    ),
    _step(
        "balanced",
        "As many blocks as the GPU holds, each with an equal share of all tokens, across the ends of "
        "sequences; no last round of few blocks, whatever the lengths.",
        _balanced,
        0.93,
    ),
    _step(
        "stealing",
        "Blocks with equal shares end up to six percent apart, for SMs are not equally fast: the end of each "
        "share waits in four pieces for whoever is done.",
        _balanced,
        0.96,
    ),
    _step(
        "ring",
        "One block an SM. A warp has the copy engine fetch pages into a ring of six units of 64 tokens, four "
        "warps multiply out of it; equal shares are rounded up so that they often end where sequences do.",
        _ring,
        0.98,
        min_cc=90,
    ),
)


def attend(q: Any, keys: Any, values: Any, table: Any, lengths: Any) -> Any:
    """The result of NumPy or CuPy arrays.

    q [batch, heads, dim], pools [pages, heads of the cache, page, dim], table [batch, pages a sequence].
    """
    out = q * 0
    group = q.shape[1] // keys.shape[1]
    for sequence, length in enumerate(int(n) for n in lengths):
        if length == 0:
            continue
        mine = [
            pool[table[sequence][: -(-length // pool.shape[2])]]
            .transpose(1, 0, 2, 3)
            .reshape(pool.shape[1], -1, pool.shape[3])[:, :length]
            for pool in (keys, values)
        ]
        queries = q[sequence].reshape(keys.shape[1], group, -1)
        scores = queries @ mine[0].transpose(0, 2, 1) / math.sqrt(q.shape[2])
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        out[sequence] = (weights @ mine[1] / weights.sum(axis=2, keepdims=True)).reshape(q.shape[1], -1)
    return out


def shuffled(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """A table in which no page comes twice, in random order."""
    order = np.random.default_rng(seed).permutation(math.prod(shape))
    return order.astype(np.int32).reshape(shape)


def _arrays(problem: Problem) -> tuple[Array, ...]:
    batch, tokens = problem.shape
    row_pages = -(-tokens // PAGE)
    pool = Array((batch * row_pages, KV_HEADS, PAGE, DIM))
    return (
        Array((batch, HEADS, DIM)),
        pool,
        pool,
        Array((batch, row_pages), "int32", shuffled),
        Array((batch,), "int32", lambda shape, seed: np.full(shape, tokens, np.int32)),
    )


PAGED_DECODE = Kernel(
    "paged_decode",
    "paged_decode",
    "Attention of the newest token over a paged cache",
    RING_HEADER,
    STEPS,
    inputs=_arrays,
    output=lambda problem: Array((problem.shape[0], HEADS, DIM)),
    scalars=lambda problem: (),
    reference=attend,
    bytes_moved=lambda problem: bytes_read(problem.shape[0], math.prod(problem.shape)),
    flops=lambda problem: 4 * math.prod(problem.shape) * HEADS * DIM,
    tolerance={"bfloat16": 6e-3},
    timed=(Problem((16, 16384), "bfloat16"),),
    checked=tuple(Problem((3, tokens), "bfloat16") for tokens in (1, 17, 64, 333)),
    ceiling="a plain read",
    values=("normal",),
)

KERNELS = (PAGED_DECODE,)
