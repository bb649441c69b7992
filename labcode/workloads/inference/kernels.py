"""Kernels of decoding in Triton: weights, one token's activations, a paged cache in; the next activations out.

Five kernels a layer: queries, keys and values (after a normalization); attention over the cache, which also
takes in the new key and value; its projection, added to the residual stream; the wide product (after a
normalization, with GELU); the narrow one, added too. Each is launched before the kernel in front of it has
ended (programmatic dependent launch): it loads its first weights, which nobody writes, and waits only then.
Importing this module imports Triton.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

EPSILON = 1e-5  # of the normalization, as in `torch.nn.LayerNorm`
WARPS = 4


@triton.jit  # type: ignore[untyped-decorator]
def _product(  # type: ignore[no-untyped-def]
    weight,
    x,
    gain,
    shift,
    scale,
    out,
    depth: tl.constexpr,
    wide: tl.constexpr,
    rows: tl.constexpr,
    step: tl.constexpr,
    norm: tl.constexpr,
    gelu: tl.constexpr,
    add: tl.constexpr,
    scaled: tl.constexpr,
    early: tl.constexpr,
    eps: tl.constexpr,
):
    """``rows`` elements of ``out``: products of rows of the weight with one vector."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, step)
    at = weight + row.to(tl.int64)[:, None] * depth + column[None, :]
    ahead = tl.load(at)
    if early:
        gdc_wait()
        gdc_launch_dependents()
    if norm:
        place = tl.arange(0, wide)
        inside = place < depth
        value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(value, 0) / depth
        off = tl.where(inside, value - mean, 0.0)
        inverse = tl.rsqrt(tl.sum(off * off, 0) / depth + eps)
    sums = tl.zeros((rows, step), dtype=tl.float32)
    for done in tl.static_range(0, depth, step):
        now = ahead
        if done + step < depth:
            ahead = tl.load(at + done + step)
        part = tl.load(x + done + column).to(tl.float32)
        if norm:
            part = (part - mean) * inverse * tl.load(gain + done + column).to(tl.float32)
            part += tl.load(shift + done + column).to(tl.float32)
        sums += now.to(tl.float32) * part[None, :]
    result = tl.sum(sums, 1)
    if scaled:
        result *= tl.load(scale + row)
    if gelu:
        result = 0.5 * result * (1.0 + tl.erf(result * 0.7071067811865476))
    if add:
        result += tl.load(out + row).to(tl.float32)
    tl.store(out + row, result.to(out.dtype.element_ty))


@triton.jit  # type: ignore[untyped-decorator]
def _attend(  # type: ignore[no-untyped-def]
    heads,
    keys,
    values,
    table,
    lengths,
    parts,
    weights,
    done,
    out,
    pages_a_row,
    scale,
    count: tl.constexpr,
    width: tl.constexpr,
    wide: tl.constexpr,
    page: tl.constexpr,
    tile: tl.constexpr,
    splits: tl.constexpr,
    early: tl.constexpr,
):
    """One head of one sequence over one part of its cache; the last part to end puts the parts together.

    The first part also takes in the new key and value, and writes them behind the others.
    """
    which, split = tl.program_id(0), tl.program_id(1)
    sequence, head = which // count, which % count
    length = tl.load(lengths + sequence)
    column = tl.arange(0, wide)
    inside = column < width
    chunk = tl.cdiv(tl.cdiv(length, splits), tile) * tile
    begin = split * chunk
    end = tl.minimum(begin + chunk, length)
    if early:
        gdc_wait()
        gdc_launch_dependents()
    mine = heads + sequence * (3 * count * width) + head * width + column
    query = tl.load(mine, mask=inside, other=0.0).to(tl.float32) * scale
    top = -1e30
    total = 0.0
    mixed = tl.zeros((wide,), dtype=tl.float32)
    if split == 0:
        key = tl.load(mine + count * width, mask=inside, other=0.0)
        value = tl.load(mine + 2 * count * width, mask=inside, other=0.0)
        last = tl.load(table + sequence * pages_a_row + length // page).to(tl.int64)
        behind = (last * count + head) * (page * width) + (length % page) * width + column
        tl.store(keys + behind, key, mask=inside)
        tl.store(values + behind, value, mask=inside)
        top = tl.sum(query * key.to(tl.float32), 0)
        total = 1.0
        mixed = value.to(tl.float32)
    for start in range(begin, end, tile):
        place = start + tl.arange(0, tile)
        known = place < end
        number = tl.load(table + sequence * pages_a_row + place // page, mask=known, other=0).to(tl.int64)
        at = ((number * count + head) * (page * width) + (place % page) * width)[:, None] + column[None, :]
        both = known[:, None] & inside[None, :]
        key = tl.load(keys + at, mask=both, other=0.0).to(tl.float32)
        value = tl.load(values + at, mask=both, other=0.0).to(tl.float32)
        score = tl.where(known, tl.sum(key * query[None, :], 1), -1e30)
        higher = tl.maximum(top, tl.max(score, 0))
        weight = tl.where(known, tl.exp(score - higher), 0.0)
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(weight, 0)
        mixed = mixed * shrink + tl.sum(value * weight[:, None], 0)
        top = higher
    to = out + sequence * (count * width) + head * width + column
    if splits == 1:
        tl.store(to, (mixed / total).to(out.dtype.element_ty), mask=inside)
    else:
        slot = which * splits + split
        tl.store(parts + slot * wide + column, mixed)
        tl.store(weights + 2 * slot, top)
        tl.store(weights + 2 * slot + 1, total)
        tl.debug_barrier()
        before = tl.atomic_add(done + which, 1, sem="acq_rel", scope="gpu")
        if before == splits - 1:
            slots = which * splits + tl.arange(0, splits)
            tops = tl.load(weights + 2 * slots, cache_modifier=".cg")
            totals = tl.load(weights + 2 * slots + 1, cache_modifier=".cg")
            pieces = tl.load(parts + slots[:, None] * wide + column[None, :], cache_modifier=".cg")
            share = tl.exp(tops - tl.max(tops, 0))
            summed = tl.sum(pieces * share[:, None], 0) / tl.sum(totals * share, 0)
            tl.store(to, summed.to(out.dtype.element_ty), mask=inside)
            tl.store(done + which, 0)


@triton.jit  # type: ignore[untyped-decorator]
def _embed(  # type: ignore[no-untyped-def]
    tokens, lengths, table, places, x, width: tl.constexpr, wide: tl.constexpr, early: tl.constexpr
):
    """The residual stream of a sequence's newest token: its embedding and that of its position."""
    if early:
        gdc_wait()
        gdc_launch_dependents()
    sequence = tl.program_id(0)
    column = tl.arange(0, wide)
    inside = column < width
    token = tl.load(tokens + sequence).to(tl.int64)
    position = tl.load(lengths + sequence).to(tl.int64)
    both = tl.load(table + token * width + column, mask=inside, other=0.0).to(tl.float32)
    both += tl.load(places + position * width + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(x + sequence * width + column, both.to(x.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _greedy(  # type: ignore[no-untyped-def]
    logits, tokens, lengths, said, most, vocabulary: tl.constexpr, wide: tl.constexpr, early: tl.constexpr
):
    """The likeliest token becomes the newest one, is written down, and the cache counts one more.

    A logit that is no number is written down as token -1.
    """
    if early:
        gdc_wait()
        gdc_launch_dependents()
    sequence = tl.program_id(0)
    column = tl.arange(0, wide)
    inside = column < vocabulary
    value = tl.load(logits + sequence * vocabulary + column, mask=inside, other=-float("inf")).to(tl.float32)
    wrong = tl.max((value != value).to(tl.int32), 0)
    chosen = tl.argmax(value, 0)
    length = tl.load(lengths + sequence)
    tl.store(said + sequence * most + length, tl.where(wrong > 0, -1, chosen))
    tl.store(tokens + sequence, tl.where(wrong > 0, 0, chosen))
    tl.store(lengths + sequence, length + 1)


def shape_of(rows: int, depth: int) -> tuple[int, int]:
    """How a product is cut: rows of the weight a program takes, and columns at a time."""
    step = 1024 if depth % 1024 == 0 else 512 if depth % 512 == 0 else 256 if depth % 256 == 0 else 32
    tile = 8 if rows % 8 == 0 and rows * depth >= 1 << 24 else 4
    return tile, step


def product(
    weight: Any,
    x: Any,
    out: Any,
    *,
    norm: tuple[Any, Any] | None = None,
    scale: Any = None,
    gelu: bool = False,
    add: bool = False,
    early: bool = True,
    cut: tuple[int, int] | None = None,
    warps: int = WARPS,
) -> None:
    """``out`` = weight · x on the current stream, the vector first normalized, the result by GELU or added.

    weight [rows, depth], x [depth], out [rows]; ``norm``: gain and shift; ``scale`` [rows]: of quantized
    weights.
    """
    count, depth = weight.shape
    rows, step = cut or shape_of(count, depth)
    gain, shift = norm or (x, x)
    _product[(count // rows,)](
        *(weight, x, gain, shift, x if scale is None else scale, out),
        *(depth, triton.next_power_of_2(depth), rows, step),
        *(norm is not None, gelu, add, scale is not None, early, EPSILON),
        num_warps=warps,
        launch_pdl=early,
    )


def attend(
    heads: Any,
    keys: Any,
    values: Any,
    table: Any,
    lengths: Any,
    room: tuple[Any, Any, Any],
    out: Any,
    *,
    splits: int,
    early: bool = True,
    tile: int = 64,
) -> None:
    """Attention of each sequence's newest token over its cache, which takes in that token's key and value.

    heads [sequences, 3·heads·width] has query, key, value; keys and values [pages, heads, page, width];
    table [sequences, pages a sequence] and lengths [sequences] are 32-bit; ``room`` as of `room_for`.
    """
    _, count, page, width = keys.shape
    _attend[(heads.shape[0] * count, splits)](
        *(heads, keys, values, table, lengths, *room, out, table.shape[1], width**-0.5),
        *(count, width, triton.next_power_of_2(width), page, tile, splits, early),
        num_warps=WARPS,
        launch_pdl=early,
    )


def room_for(torch: Any, sequences: int, count: int, width: int, splits: int, device: Any) -> tuple[Any, ...]:
    """What `attend` needs to put parts together: the parts, their weights, how many have ended."""
    slots = sequences * count * splits
    return (
        torch.empty(slots * triton.next_power_of_2(width), dtype=torch.float32, device=device),
        torch.empty(2 * slots, dtype=torch.float32, device=device),
        torch.zeros(sequences * count, dtype=torch.int32, device=device),
    )


def embed(tokens: Any, lengths: Any, table: Any, places: Any, x: Any, *, early: bool = True) -> None:
    """Fill x [sequences, width] with the embeddings of the newest tokens and of their positions."""
    width = x.shape[-1]
    _embed[(tokens.shape[0],)](
        *(tokens, lengths, table, places, x, width, triton.next_power_of_2(width), early),
        num_warps=WARPS,
        launch_pdl=early,
    )


def greedy(logits: Any, tokens: Any, lengths: Any, said: Any, *, early: bool = True) -> None:
    """Take the likeliest tokens: into ``tokens``, into ``said`` at their positions; lengths grow by one."""
    vocabulary = logits.shape[-1]
    _greedy[(tokens.shape[0],)](
        *(logits, tokens, lengths, said, said.shape[1]),
        *(vocabulary, triton.next_power_of_2(vocabulary), early),
        num_warps=16,
        launch_pdl=early,
    )
