"""Attention forward in Triton: heads × length × dim of bf16 or fp16 in, softmax(Q·Kᵀ / √dim)·V out.

The tiles of ``cuda/attention``'s last steps and their online softmax; copies, warps and registers are left to
Triton. Importing this module imports Triton.
"""

from __future__ import annotations

import math
from typing import Any

import triton
import triton.language as tl

from labcode.errors import LabError

TYPES = ("torch.bfloat16", "torch.float16")
DIMS = (64, 128)
QUERIES, KEYS = 128, 128
WARPS, STAGES = 8, 2


@triton.jit  # type: ignore[untyped-decorator]
def _block(  # type: ignore[no-untyped-def]
    q,
    k,
    v,
    out,
    length,
    scale,
    causal: tl.constexpr,
    dim: tl.constexpr,
    queries: tl.constexpr,
    keys: tl.constexpr,
):
    """The result of one block of queries of a head."""
    block = tl.num_programs(0) - 1 - tl.program_id(0) if causal else tl.program_id(0)
    start = tl.program_id(1).to(tl.int64) * length * dim
    rows, columns, depth = block * queries + tl.arange(0, queries), tl.arange(0, keys), tl.arange(0, dim)
    of_q = tl.load(q + start + rows[:, None] * dim + depth[None, :], mask=rows[:, None] < length, other=0.0)
    from_k = k + start + columns[None, :] * dim + depth[:, None]
    from_v = v + start + columns[:, None] * dim + depth[None, :]
    largest = tl.full((queries,), float("-inf"), tl.float32)
    total, sums = tl.zeros((queries,), tl.float32), tl.zeros((queries, dim), tl.float32)
    end = tl.minimum((block + 1) * queries, length) if causal else length
    whole = (block * queries if causal else length) // keys * keys  # tiles that every query sees whole
    for first in range(0, whole, keys):
        scores = tl.dot(of_q, tl.load(from_k + first * dim)) * scale
        found = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - found[:, None])
        smaller = tl.exp2(largest - found)
        total = total * smaller + tl.sum(weights, 1)
        sums = tl.dot(weights.to(q.dtype.element_ty), tl.load(from_v + first * dim), sums * smaller[:, None])
        largest = found
    for first in range(whole, end, keys):
        key = first + columns
        of_k = tl.load(from_k + first * dim, mask=key[None, :] < length, other=0.0)
        of_v = tl.load(from_v + first * dim, mask=key[:, None] < length, other=0.0)
        scores = tl.dot(of_q, of_k) * scale
        seen = key[None, :] < length
        if causal:
            seen = seen & (key[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        found = tl.maximum(largest, tl.max(scores, 1))
        base = tl.where(found == float("-inf"), 0.0, found)
        weights = tl.exp2(scores - base[:, None])
        smaller = tl.exp2(largest - base)
        total = total * smaller + tl.sum(weights, 1)
        sums = tl.dot(weights.to(q.dtype.element_ty), of_v, sums * smaller[:, None])
        largest = found
    result = (sums / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + start + rows[:, None] * dim + depth[None, :], result, mask=rows[:, None] < length)


def attention(q: Any, k: Any, v: Any, out: Any, causal: bool = False) -> None:
    """Fill ``out`` on the current stream; `LabError` for tensors that do not fit together."""
    shapes = {tuple(x.shape) for x in (q, k, v, out)}
    if len(shapes) > 1 or q.ndim != 3 or 0 in q.shape:
        raise LabError(
            f"attention: shapes {sorted(shapes)}; give four tensors heads × length × dim, none empty"
        )
    heads, length, dim = q.shape
    if dim not in DIMS:
        raise LabError(f"attention: takes heads of 64 or 128 dimensions, not {dim}")
    types = {str(x.dtype) for x in (q, k, v, out)}
    if len(types) > 1 or not types <= set(TYPES):
        raise LabError(f"attention: takes four tensors of one type, bfloat16 or float16, not {sorted(types)}")
    if not all(x.is_contiguous() for x in (q, k, v, out)):
        raise LabError("attention: the elements must lie without gaps; call .contiguous()")
    if not (q.is_cuda and q.device == k.device == v.device == out.device):
        raise LabError("attention: the tensors must lie on one GPU; move them with .cuda()")
    _block[(triton.cdiv(length, QUERIES), heads)](
        *(q, k, v, out, length, math.log2(math.e) / math.sqrt(dim)),
        *(causal, dim, QUERIES, KEYS),
        num_warps=WARPS,
        num_stages=STAGES,
    )
