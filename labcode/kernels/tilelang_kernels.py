"""Matmul and attention in TileLang: sizes and a configuration in; programs for `tilelang.compile` out.

TileLang places the shared memory, cuts the copies for the copy engine, and splits the threads of a block into
those that fetch and those that multiply; loops, tiles, and the number of stages are written here. Importing
this module imports TileLang.
"""

import math
from typing import Any

import tilelang
import tilelang.language as T  # noqa: N812

TYPE, SUM = "bfloat16", "float32"
PANEL = 8  # tiles of a column that follow each other


def product(m: int, n: int, k: int, tile_m: int, tile_n: int, tile_k: int, stages: int, threads: int) -> Any:
    """A (m × k) times B (k × n), sums in fp32."""

    @T.prim_func
    def multiply(a: T.Tensor((m, k), TYPE), b: T.Tensor((k, n), TYPE), c: T.Tensor((m, n), TYPE)):
        with T.Kernel(T.ceildiv(n, tile_n), T.ceildiv(m, tile_m), threads=threads) as (across, down):
            of_a = T.alloc_shared((tile_m, tile_k), TYPE)
            of_b = T.alloc_shared((tile_k, tile_n), TYPE)
            of_c = T.alloc_shared((tile_m, tile_n), TYPE)
            sums = T.alloc_fragment((tile_m, tile_n), SUM)
            T.use_swizzle(panel_size=PANEL)
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(k, tile_k), num_stages=stages):
                T.copy(a[down * tile_m, step * tile_k], of_a)
                T.copy(b[step * tile_k, across * tile_n], of_b)
                T.gemm(of_a, of_b, sums)
            T.copy(sums, of_c)
            T.copy(of_c, c[down * tile_m, across * tile_n])

    return multiply


def attention(
    heads: int, length: int, dim: int, causal: bool, queries: int, keys: int, stages: int, threads: int
) -> Any:
    """softmax(Q·Kᵀ / √dim)·V of heads × length × dim, by an online softmax in powers of two."""
    shape = (heads, length, dim)
    scale = math.log2(math.e) / math.sqrt(dim)
    blocks = length // queries

    @T.prim_func
    def attend(
        q: T.Tensor(shape, TYPE),
        k: T.Tensor(shape, TYPE),
        v: T.Tensor(shape, TYPE),
        out: T.Tensor(shape, TYPE),
    ):
        with T.Kernel(blocks, heads, threads=threads) as (turn, head):
            of_q = T.alloc_shared((queries, dim), TYPE)
            of_k = T.alloc_shared((keys, dim), TYPE)
            of_v = T.alloc_shared((keys, dim), TYPE)
            scores = T.alloc_fragment((queries, keys), SUM)
            weights = T.alloc_fragment((queries, keys), TYPE)
            sums = T.alloc_fragment((queries, dim), SUM)
            largest = T.alloc_fragment((queries,), SUM)
            before = T.alloc_fragment((queries,), SUM)
            smaller = T.alloc_fragment((queries,), SUM)
            added = T.alloc_fragment((queries,), SUM)
            total = T.alloc_fragment((queries,), SUM)
            block = blocks - 1 - turn if causal else turn  # the longest rows first
            T.copy(q[head, block * queries : (block + 1) * queries, :], of_q)
            T.fill(sums, 0)
            T.fill(total, 0)
            T.fill(largest, -T.infinity(SUM))
            steps = T.ceildiv((block + 1) * queries, keys) if causal else T.ceildiv(length, keys)
            for step in T.Pipelined(steps, num_stages=stages):
                T.copy(k[head, step * keys : (step + 1) * keys, :], of_k)
                if causal:
                    for i, j in T.Parallel(queries, keys):
                        scores[i, j] = T.if_then_else(
                            block * queries + i >= step * keys + j, 0, -T.infinity(SUM)
                        )
                else:
                    T.clear(scores)
                T.gemm(of_q, of_k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(largest, before)
                T.reduce_max(scores, largest, dim=1, clear=False)
                for i in T.Parallel(queries):
                    smaller[i] = T.exp2((before[i] - largest[i]) * scale)
                for i, j in T.Parallel(queries, keys):
                    scores[i, j] = T.exp2(scores[i, j] * scale - largest[i] * scale)
                T.reduce_sum(scores, added, dim=1)
                for i in T.Parallel(queries):
                    total[i] = total[i] * smaller[i] + added[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(queries, dim):
                    sums[i, j] *= smaller[i]
                T.copy(v[head, step * keys : (step + 1) * keys, :], of_v)
                T.gemm(weights, of_v, sums, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(queries, dim):
                sums[i, j] /= total[i]
            T.copy(sums, of_q)
            T.copy(of_q, out[head, block * queries : (block + 1) * queries, :])

    return attend


def build(program: Any) -> Any:
    """A program, compiled for the GPU at hand; called with its tensors, it starts."""
    return tilelang.compile(program, target="cuda", pass_configs={"tl.enable_fast_math": True})


# The language has annotations and decorators of its own.
# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
