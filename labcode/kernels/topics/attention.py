"""Attention forward (``cuda/attention``): readable in fp32, then bf16 on tensor cores.

A problem is (heads, length, dim), heads counting those of all sequences of a batch; dim is 64 or 128. The
bf16 steps are held against cuDNN's attention; those behind the first two take tensor maps, which the program
``cuda/attention`` makes; here they are described and not launched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step

HEADER, TENSOR_HEADER = "attention/attention.cuh", "attention/tensor.cuh"
PROGRAM = "«python -m labcode.workloads.cuda attention»"
NAMESPACE = "lab::attention"
DIMS = (64, 128)

# As in the header.
ROW_THREADS, ONLINE_THREADS, PART = 128, 128, 32
QUERIES, KEYS, THREADS = 128, 64, 128
MMA_QUERIES, MMA_KEYS, MMA_THREADS = 128, 64, 128
GROUP_THREADS, GROUP_QUERIES, TILE_KEYS, STAGES, ALIGNMENT = 128, 64, 128, 2, 1024
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


def _mma(stages: int) -> Callable[[Problem, Gpu], Launch]:
    def launch(problem: Problem, gpu: Gpu) -> Launch:
        shared_bytes = (MMA_QUERIES + stages * 2 * MMA_KEYS) * problem.shape[2] * 2
        return _blocks(problem, MMA_QUERIES, MMA_THREADS, shared_bytes)

    return launch


def _specialized(problem: Problem, gpu: Gpu) -> Launch:
    """Two groups of 64 queries, with few dimensions three, and one that asks for tiles."""
    dim = problem.shape[2]
    groups = 3 if dim == 64 else 2
    shared_bytes = (groups * GROUP_QUERIES + STAGES * 2 * TILE_KEYS) * dim * 2 + ALIGNMENT
    return _blocks(problem, groups * GROUP_QUERIES, (groups + 1) * GROUP_THREADS, shared_bytes)


def _tensor_entry(name: str, after: str) -> Callable[[Problem], str]:
    shape = f"{NAMESPACE}::Shape<" if name == "specialized" else ""
    return lambda problem: (
        f"{NAMESPACE}::{name}<__nv_bfloat16, {shape}{problem.shape[2]}{'>' if shape else ''}, {after}>"
    )


def _takes_maps(problem: Problem) -> str:
    return f"takes tensor maps; {PROGRAM} makes them, checks and times this step"


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

TENSOR_STEPS = (
    Step(
        "mma.sync",
        "Both products on tensor cores from registers: sums of the first lie as operands of the second do, "
        "so scores and weights never leave them. A warp has 32 queries, so that what it reads of keys and "
        "values serves two products; it waits for each tile.",
        _tensor_entry("mma_sync", "1"),
        _mma(1),
        min_cc=80,
        predicted=0.45,
        unfit=_unfit,
    ),
    Step(
        "double buffer",
        "The next keys and values come by asynchronous copies while these are multiplied; one barrier a tile "
        "instead of two.",
        _tensor_entry("mma_sync", "2"),
        _mma(2),
        min_cc=80,
        predicted=0.55,
        unfit=_unfit,
    ),
    Step(
        "specialized",
        "A group asks the copy engine for tiles, two or three multiply by wgmma, 64 queries each, keys and "
        "values straight from shared memory, weights from registers. A group's tensor cores idle during its "
        "softmax; the other group covers what it happens to.",
        _tensor_entry("specialized", "false, false"),
        _specialized,
        min_cc=90,
        predicted=0.75,
        unfit=_takes_maps,
    ),
    Step(
        "ping-pong",
        "While a group computes the softmax of one tile, its product of the weights before with their values "
        "runs; and groups take turns in asking for products, so that one multiplies while another computes.",
        _tensor_entry("specialized", "true, true"),
        _specialized,
        min_cc=90,
        predicted=0.92,
        unfit=_takes_maps,
    ),
)


def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """softmax(Q·Kᵀ / √dim)·V of arrays (heads, length, dim), of NumPy or CuPy."""
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[2])
    if causal:
        scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -math.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return weights @ v / weights.sum(axis=2, keepdims=True)


def _kernel(name: str, title: str, causal: bool, tensor: bool = False) -> Kernel:
    lengths = (1, 33, 64, 129, 500)
    dtype, tolerance = ("bfloat16", 5e-3) if tensor else ("float32", 1e-5)
    return Kernel(
        name,
        "attention",
        title,
        TENSOR_HEADER if tensor else HEADER,
        TENSOR_STEPS if tensor else STEPS,
        inputs=lambda problem: (Array(problem.shape),) * 3,
        output=lambda problem: Array(problem.shape),
        scalars=lambda problem: (np.int32(problem.shape[1]), np.int32(causal)),
        reference=lambda q, k, v: attention(q, k, v, causal),
        bytes_moved=lambda problem: 4 * problem.elements * problem.item_bytes,
        flops=lambda problem: 4 * problem.elements * problem.shape[1] // (2 if causal else 1),
        tolerance={dtype: tolerance},
        timed=tuple(Problem((64, 8192, dim) if tensor else (16, 4096, dim), dtype) for dim in DIMS),
        checked=tuple(Problem((3, length, dim), dtype) for length in lengths for dim in DIMS),
        ceiling="cuDNN's attention" if tensor else "fp32 multiply-adds",
        values=("normal",),
    )


ATTENTION = _kernel("attention", "Attention forward in fp32", causal=False)
CAUSAL = _kernel("attention_causal", "Attention forward in fp32, queries see no key behind them", causal=True)
BF16 = _kernel("attention_bf16", "Attention forward of bf16, sums in fp32", causal=False, tensor=True)
BF16_CAUSAL = _kernel(
    "attention_bf16_causal", "Attention forward of bf16, queries see no key behind them", True, tensor=True
)
KERNELS = (ATTENTION, CAUSAL, BF16, BF16_CAUSAL)
