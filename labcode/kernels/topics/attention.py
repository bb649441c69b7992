"""Attention forward (``cuda/attention``): readable in fp32, then bf16 on tensor cores.

A problem is (heads, length, dim), heads counting those of all sequences of a batch; dim is 64 or 128. The
bf16 and fp16 steps take arrays that start on 16 bytes, and those behind the first two tensor maps:
``labcode.workloads.attention`` launches, checks and times them; ``predicted`` is the share of cuDNN's rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step

HEADER, TENSOR_HEADER = "attention/attention.cuh", "attention/tensor.cuh"
PROGRAM = "«python -m labcode.workloads.attention benchmark»"
NAMESPACE = "lab::attention"
DIMS = (64, 128)

# As in the header.
ROW_THREADS, ONLINE_THREADS, PART = 128, 128, 32
QUERIES, KEYS, THREADS = 128, 64, 128
MMA_QUERIES, MMA_KEYS, MMA_THREADS = 128, 64, 128
GROUP_THREADS, GROUP_QUERIES, TILE_KEYS, STAGES, ALIGNMENT = 128, 64, 128, 2, 1024
MOST_HEADS = 65535


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
    return f"takes at most {MOST_HEADS} heads, not {heads}" if heads > MOST_HEADS else None


def _entry(name: str) -> Callable[[Problem], str]:
    return lambda problem: f"{NAMESPACE}::{name}<{problem.shape[2]}>"


def _mma(stages: int) -> Callable[[Problem, Gpu], Launch]:
    def launch(problem: Problem, gpu: Gpu) -> Launch:
        shared_bytes = (MMA_QUERIES + stages * 2 * MMA_KEYS) * problem.shape[2] * 2
        return _blocks(problem, MMA_QUERIES, MMA_THREADS, shared_bytes)

    return launch


def groups_of(step: Step) -> int:
    """The groups of 64 queries a block of a step has; 0 for a step that takes no tensor maps."""
    return {"specialized": 2, "ping_pong": 2, "no_turns": 2, "three_groups": 3, "lazy": 3}.get(step.name, 0)


def _mapped(groups: int) -> Callable[[Problem, Gpu], Launch]:
    """So many groups of 64 queries, and one that asks for tiles."""

    def launch(problem: Problem, gpu: Gpu) -> Launch:
        queries = groups * GROUP_QUERIES
        shared_bytes = (queries + STAGES * 2 * TILE_KEYS) * problem.shape[2] * 2 + ALIGNMENT
        return _blocks(problem, queries, (groups + 1) * GROUP_THREADS, shared_bytes)

    return launch


def _mma_entry(stages: int) -> Callable[[Problem], str]:
    return lambda problem: f"{NAMESPACE}::mma_sync<{{T}}, {problem.shape[2]}, {stages}>"


def _mapped_entry(groups: int, overlap: bool | None, turns: bool, slack: int = 0) -> Callable[[Problem], str]:
    """``overlap``: two products under way; None: where the registers suffice, with dim 64."""

    def entry(problem: Problem) -> str:
        dim = problem.shape[2]
        flags = (f"{flag}".lower() for flag in (dim == 64 if overlap is None else overlap, turns))
        shape = f"{NAMESPACE}::Shape<{dim}, {groups}>"
        return f"{NAMESPACE}::specialized<{{T}}, {shape}, {', '.join(flags)}, {slack}>"

    return entry


def _elsewhere(problem: Problem) -> str:
    return f"takes arrays on 16 bytes or tensor maps; {PROGRAM} launches, checks and times this step"


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
        "mma_sync",
        "Both products on tensor cores from registers: sums of the first lie as operands of the second do, "
        "so scores and weights never leave them. A warp has 32 queries, so that what it reads of keys and "
        "values serves two products; it waits for each tile.",
        _mma_entry(1),
        _mma(1),
        min_cc=80,
        predicted=0.45,
        unfit=_elsewhere,
    ),
    Step(
        "double_buffer",
        "The next keys and values come by asynchronous copies while these are multiplied; one barrier a tile "
        "instead of two.",
        _mma_entry(2),
        _mma(2),
        min_cc=80,
        predicted=0.55,
        unfit=_elsewhere,
    ),
    Step(
        "specialized",
        "A group asks the copy engine for tiles, two multiply by wgmma, 64 queries each, keys and values "
        "straight from shared memory, weights from registers. A group's tensor cores idle during its "
        "softmax; the other group covers what it happens to.",
        _mapped_entry(2, False, False),
        _mapped(2),
        min_cc=90,
        predicted=0.75,
        unfit=_elsewhere,
    ),
    Step(
        "ping_pong",
        "While a group computes the softmax of one tile, its product of the weights before with their values "
        "runs; and groups take turns in asking for products, so that one multiplies while another computes.",
        _mapped_entry(2, True, True),
        _mapped(2),
        min_cc=90,
        predicted=0.92,
        unfit=_elsewhere,
    ),
    Step(
        "no_turns",
        "Two products under way keep the tensor cores fed by themselves: a group that waits for its turn "
        "only waits. Each asks when it has something to ask for.",
        _mapped_entry(2, True, False),
        _mapped(2),
        min_cc=90,
        unfit=_elsewhere,
    ),
    Step(
        "three_groups",
        "Three groups of 64 queries: more warps to fill each other's gaps, and each tile of keys and values "
        "serves half as many queries again. At 128 dimensions 160 registers a thread leave no room for two "
        "products under way, and the third group makes up for it.",
        _mapped_entry(3, None, False),
        _mapped(3),
        min_cc=90,
        unfit=_elsewhere,
    ),
    Step(
        "lazy",
        "Sums are multiplied by a correction only when a score has grown by more than 2⁸ over what the "
        "weights are relative to; otherwise the weights just grow beyond 1. It spares a multiplication an "
        "element of the result a tile, for a vote of the warp.",
        _mapped_entry(3, None, False, 8),
        _mapped(3),
        min_cc=90,
        predicted=1.08,
        unfit=_elsewhere,
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
