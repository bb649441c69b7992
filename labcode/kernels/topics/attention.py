"""Attention forward (``cuda/attention``), readable, in fp32: scores in memory, in registers, in tiles.

A problem is (heads, length, dim), heads counting those of all sequences of a batch; dim is 64 or 128.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step

HEADER = "attention/attention.cuh"
NAMESPACE = "lab::attention"
DIMS = (64, 128)

# As in the header.
ROW_THREADS, ONLINE_THREADS, PART = 128, 128, 32
QUERIES, KEYS, THREADS = 128, 64, 128
_MOST_BLOCKS_Y = 65535


def _blocks(problem: Problem, queries: int, threads: int, shared_bytes: int = 0) -> Launch:
    heads, length, _ = problem.shape
    return Launch((-(-length // queries), heads), threads, shared_bytes)


def _online(problem: Problem, gpu: Gpu) -> Launch:
    return _blocks(problem, ONLINE_THREADS * PART // problem.shape[2], ONLINE_THREADS)


def _tiled(problem: Problem, gpu: Gpu) -> Launch:
    dim = problem.shape[2]
    floats = dim * (QUERIES + 4) + dim * (KEYS + 4) + KEYS * (QUERIES + 4)
    return _blocks(problem, QUERIES, THREADS, 4 * floats)


def _unfit(problem: Problem) -> str | None:
    heads, _, dim = problem.shape
    if dim not in DIMS:
        return f"takes heads of 64 or 128 dimensions, not {dim}"
    return f"takes at most {_MOST_BLOCKS_Y} heads, not {heads}" if heads > _MOST_BLOCKS_Y else None


def _entry(name: str) -> Callable[[Problem], str]:
    return lambda problem: f"{NAMESPACE}::{name}<{problem.shape[2]}>"


STEPS = (
    Step(
        "materialized",
        "A block a query writes its scores to memory and reads them back for the largest, the sum and the "
        "weighted sum of the values: length² · 4 bytes, four times, beside two products without reuse.",
        _entry("materialized"),
        lambda problem, gpu: _blocks(problem, 1, ROW_THREADS),
        predicted=0.02,
        scratch_bytes=lambda problem, gpu: 4 * problem.shape[0] * problem.shape[1] ** 2,
        unfit=_unfit,
    ),
    Step(
        "online",
        "Two to four lanes a query hold it and its result in registers; keys and values pass by in tiles, "
        "and the softmax is corrected when a larger score comes. No score reaches memory. A word of shared "
        "memory serves four multiply-adds, so that its loads are the limit.",
        _entry("online"),
        _online,
        predicted=0.25,
        unfit=_unfit,
    ),
    Step(
        "tiled",
        "Tiles of 128 queries and 64 keys: squares of 8 × 8 scores a thread, and 8 × 8 or 8 × 16 of the "
        "result: four to six shared loads for 64 to 128 multiply-adds, as in the fp32 product.",
        _entry("tiled"),
        _tiled,
        predicted=0.6,
        unfit=_unfit,
    ),
)


def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """softmax(Q·Kᵀ / √dim)·V of arrays (heads, length, dim), of NumPy or CuPy."""
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[2])
    if causal:
        scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -math.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return weights @ v / weights.sum(axis=2, keepdims=True)


def _kernel(name: str, title: str, causal: bool) -> Kernel:
    lengths = (1, 33, 64, 129, 500)
    return Kernel(
        name,
        "attention",
        title,
        HEADER,
        STEPS,
        inputs=lambda problem: (Array(problem.shape),) * 3,
        output=lambda problem: Array(problem.shape),
        scalars=lambda problem: (np.int32(problem.shape[1]), np.int32(causal)),
        reference=lambda q, k, v: attention(q, k, v, causal),
        bytes_moved=lambda problem: 4 * problem.elements * problem.item_bytes,
        flops=lambda problem: 4 * problem.elements * problem.shape[1] // (2 if causal else 1),
        tolerance={"float32": 1e-5},
        timed=tuple(Problem((16, 4096, dim)) for dim in DIMS),
        checked=tuple(Problem((3, length, dim)) for length in lengths for dim in DIMS),
        ceiling="fp32 multiply-adds",
        values=("normal",),
    )


ATTENTION = _kernel("attention", "Attention forward in fp32", causal=False)
CAUSAL = _kernel("attention_causal", "Attention forward in fp32, queries see no key behind them", causal=True)
KERNELS = (ATTENTION, CAUSAL)
