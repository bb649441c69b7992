"""Matmul and attention in cuTile: tensors and a configuration in; launches on the current stream out.

A kernel says which tiles it loads, multiplies, and stores; threads, shared memory, barriers, and stages do
not occur in it. Importing this module imports cuTile, which has NVIDIA's tileiras make machine code.
"""

import math
from typing import Any

import cuda.tile as ct

INT, FLAG = ct.Constant[int], ct.Constant[bool]
BAND = 8  # rows of tiles that are taken together


@ct.kernel
def _multiply(a, b, c, tile_m: INT, tile_n: INT, tile_k: INT):
    """One tile of C; tiles are taken in bands of rows: those computed together share what L2 holds."""
    tile, down, across = ct.bid(0), ct.cdiv(a.shape[0], tile_m), ct.cdiv(b.shape[1], tile_n)
    first = tile // (BAND * across) * BAND
    tall = min(down - first, BAND)
    within = tile % (BAND * across)
    row, column = first + within % tall, within // tall
    sums = ct.full((tile_m, tile_n), 0.0, dtype=ct.float32)
    for step in range(ct.cdiv(a.shape[1], tile_k)):
        of_a = ct.load(a, (row, step), (tile_m, tile_k), padding_mode=ct.PaddingMode.ZERO)
        of_b = ct.load(b, (step, column), (tile_k, tile_n), padding_mode=ct.PaddingMode.ZERO)
        sums = ct.mma(of_a, of_b, sums)
    ct.store(c, (row, column), ct.astype(sums, c.dtype))


@ct.kernel
def _attend(q, k, v, out, scale: float, dim: INT, queries: INT, keys: INT, causal: FLAG):
    """The result of one block of queries of a head, by an online softmax in powers of two."""
    head, length = ct.bid(1), q.shape[1]
    block = ct.num_blocks(0) - 1 - ct.bid(0) if causal else ct.bid(0)  # the longest rows first
    of_q = ct.reshape(ct.load(q, (head, block, 0), (1, queries, dim)), (queries, dim))
    rows = block * queries + ct.arange(queries, dtype=ct.int32)[:, None]
    places = ct.arange(keys, dtype=ct.int32)[None, :]
    largest = ct.full((queries, 1), -math.inf, dtype=ct.float32)
    total = ct.full((queries, 1), 0.0, dtype=ct.float32)
    sums = ct.full((queries, dim), 0.0, dtype=ct.float32)
    end = min((block + 1) * queries, length) if causal else length
    whole = block * queries // keys if causal else length // keys  # steps that every query sees whole
    for step in range(ct.cdiv(end, keys)):
        of_k = ct.reshape(ct.load(k, (head, 0, step), (1, dim, keys), order=(0, 2, 1)), (dim, keys))
        scores = ct.mma(of_q, of_k, ct.full((queries, keys), 0.0, dtype=ct.float32))
        if causal and step >= whole:
            scores = ct.where(rows >= step * keys + places, scores, -math.inf)
        found = ct.maximum(largest, ct.max(scores, axis=1, keepdims=True) * scale)
        weights = ct.exp2(scores * scale - found, flush_to_zero=True)
        smaller = ct.exp2(largest - found, flush_to_zero=True)
        total = total * smaller + ct.sum(weights, axis=1, keepdims=True)
        of_v = ct.reshape(ct.load(v, (head, step, 0), (1, keys, dim)), (keys, dim))
        sums = ct.mma(ct.astype(weights, q.dtype), of_v, sums * smaller)
        largest = found
    ct.store(out, (head, block, 0), ct.reshape(ct.astype(sums / total, out.dtype), (1, queries, dim)))


def product(stream: Any, a: Any, b: Any, out: Any, tile_m: int, tile_n: int, tile_k: int) -> None:
    """Fill ``out`` with a·b."""
    grid = (ct.cdiv(a.shape[0], tile_m) * ct.cdiv(b.shape[1], tile_n),)
    ct.launch(stream, grid, _multiply, (a, b, out, tile_m, tile_n, tile_k))


def attention(stream: Any, q: Any, k: Any, v: Any, out: Any, causal: bool, queries: int, keys: int) -> None:
    """Fill ``out`` with the attention of heads × length × dim."""
    heads, length, dim = q.shape
    scale = math.log2(math.e) / math.sqrt(dim)
    given = (q, k, v, out, scale, dim, queries, keys, causal)
    ct.launch(stream, (ct.cdiv(length, queries), heads), _attend, given)


# The language has annotations and decorators of its own.
# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
