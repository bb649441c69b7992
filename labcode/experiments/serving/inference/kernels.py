"""Kernels of decoding in Triton: weights, one token's activations, a cache in; the next activations out.

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
def _start(early: tl.constexpr):  # type: ignore[no-untyped-def]
    """Wait for the kernel before; let the one behind start now (2: already before that wait)."""
    if early == 2:
        gdc_launch_dependents()
    if early > 0:
        gdc_wait()
    if early == 1:
        gdc_launch_dependents()


@triton.jit  # type: ignore[untyped-decorator]
def _product(  # type: ignore[no-untyped-def]
    weight,
    x,
    row_sums,
    shift,
    scale,
    out,
    depth: tl.constexpr,
    rows: tl.constexpr,
    step: tl.constexpr,
    norm: tl.constexpr,
    gelu: tl.constexpr,
    add: tl.constexpr,
    scaled: tl.constexpr,
    early: tl.constexpr,
    eps: tl.constexpr,
):
    """``rows`` elements of ``out``: products of rows of the weight with one vector.

    The first tiles of the weight are asked for before the kernel in front has ended. A normalization of the
    vector costs no pass of its own: with W its gain already in the weight, m and r the vector's mean and
    inverse deviation, W·((x − m)·r) is r·(W·x − m·ΣW).
    """
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, step)
    at = weight + row.to(tl.int64)[:, None] * depth + column[None, :]
    tile0 = tl.load(at)
    if depth > step:
        tile1 = tl.load(at + step)
    if depth > 2 * step:
        tile2 = tl.load(at + 2 * step)
    if depth > 3 * step:
        tile3 = tl.load(at + 3 * step)
    if depth > 4 * step:
        tile4 = tl.load(at + 4 * step)
    _start(early)
    part = tl.load(x + column).to(tl.float32)
    sums = tile0.to(tl.float32) * part[None, :]
    first = part
    second = part * part
    if depth > step:
        part = tl.load(x + step + column).to(tl.float32)
        sums += tile1.to(tl.float32) * part[None, :]
        first += part
        second += part * part
    if depth > 2 * step:
        part = tl.load(x + 2 * step + column).to(tl.float32)
        sums += tile2.to(tl.float32) * part[None, :]
        first += part
        second += part * part
    if depth > 3 * step:
        part = tl.load(x + 3 * step + column).to(tl.float32)
        sums += tile3.to(tl.float32) * part[None, :]
        first += part
        second += part * part
    if depth > 4 * step:
        part = tl.load(x + 4 * step + column).to(tl.float32)
        sums += tile4.to(tl.float32) * part[None, :]
        first += part
        second += part * part
    for done in tl.static_range(5 * step, depth, step):
        part = tl.load(x + done + column).to(tl.float32)
        sums += tl.load(at + done).to(tl.float32) * part[None, :]
        first += part
        second += part * part
    result = tl.sum(sums, 1)
    if scaled:
        result *= tl.load(scale + row)
    if norm:
        mean = tl.sum(first, 0) / depth
        inverse = tl.rsqrt(tl.sum(second, 0) / depth - mean * mean + eps)
        result = inverse * (result - mean * tl.load(row_sums + row)) + tl.load(shift + row)
    if gelu:
        result = 0.5 * result * (1.0 + tl.erf(result * 0.7071067811865476))
    if add:
        result += tl.load(out + row).to(tl.float32)
    tl.store(out + row, result.to(out.dtype.element_ty))


@triton.jit  # type: ignore[untyped-decorator]
def _places(  # type: ignore[no-untyped-def]
    table,
    place,
    known,
    head,
    column,
    count: tl.constexpr,
    width: tl.constexpr,
    page: tl.constexpr,
    whole: tl.constexpr,
):
    """Where the keys of so many places lie; ``whole``: one page has them all."""
    if whole:
        number = tl.load(table).to(tl.int64)
        return ((number * count + head) * page + place)[:, None] * width + column[None, :]
    else:
        numbers = tl.load(table + place // page, mask=known, other=0).to(tl.int64)
        return ((numbers * count + head) * page + place % page)[:, None] * width + column[None, :]


@triton.jit
def _mix(key, value, known, query, top, total, mixed):  # type: ignore[no-untyped-def]
    """Take a tile of keys and values into what was mixed so far, weighted by exp(score − top)."""
    score = tl.where(known, tl.sum(key.to(tl.float32) * query[None, :], 1), -1e30)
    higher = tl.maximum(top, tl.max(score, 0))
    weight = tl.where(known, tl.exp(score - higher), 0.0)
    shrink = tl.exp(top - higher)
    mixed = mixed * shrink + tl.sum(value.to(tl.float32) * weight[:, None], 0)
    return higher, total * shrink + tl.sum(weight, 0), mixed


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
    whole: tl.constexpr,
    early: tl.constexpr,
):
    """One head of one sequence over one part of its cache; the last part to end puts the parts together.

    The first part also takes in the new key and value, and writes them behind the others. What was cached
    before is asked for before the kernel in front has ended: that kernel does not write it.
    """
    which, split = tl.program_id(0), tl.program_id(1)
    sequence, head = which // count, which % count
    table += sequence * pages_a_row
    length = tl.load(lengths + sequence)
    column = tl.arange(0, wide)
    inside = column < width
    chunk = tl.cdiv(length, splits)
    begin = split * chunk
    end = tl.minimum(begin + chunk, length)
    place = begin + tl.arange(0, tile)
    known = place < end
    at = _places(table, place, known, head, column, count, width, page, whole)
    both = known[:, None] & inside[None, :]
    first_keys = tl.load(keys + at, mask=both, other=0.0)
    first_values = tl.load(values + at, mask=both, other=0.0)
    _start(early)
    mine = heads + sequence * (3 * count * width) + head * width + column
    query = tl.load(mine, mask=inside, other=0.0).to(tl.float32) * scale
    top = -1e30
    total = 0.0
    mixed = tl.zeros((wide,), dtype=tl.float32)
    if split == 0:
        key = tl.load(mine + count * width, mask=inside, other=0.0)
        value = tl.load(mine + 2 * count * width, mask=inside, other=0.0)
        last = tl.load(table + length // page).to(tl.int64)
        behind = ((last * count + head) * page + length % page) * width + column
        tl.store(keys + behind, key, mask=inside)
        tl.store(values + behind, value, mask=inside)
        top = tl.sum(query * key.to(tl.float32), 0)
        total = 1.0
        mixed = value.to(tl.float32)
    top, total, mixed = _mix(first_keys, first_values, known, query, top, total, mixed)
    for start in range(begin + tile, end, tile):
        place = start + tl.arange(0, tile)
        known = place < end
        at = _places(table, place, known, head, column, count, width, page, whole)
        both = known[:, None] & inside[None, :]
        key = tl.load(keys + at, mask=both, other=0.0)
        value = tl.load(values + at, mask=both, other=0.0)
        top, total, mixed = _mix(key, value, known, query, top, total, mixed)
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
def _read(x, out, tile: tl.constexpr, times: tl.constexpr):  # type: ignore[no-untyped-def]
    """Adds up ``times`` tiles; what it reads counts, not what comes out."""
    at = tl.program_id(0).to(tl.int64) * tile * times + tl.arange(0, tile)
    sums = tl.zeros((tile,), dtype=tl.int32)
    for number in tl.static_range(times):
        sums += tl.load(x + at + number * tile)
    total = tl.sum(sums, 0)
    if total != 0:
        tl.store(out, total)


@triton.jit  # type: ignore[untyped-decorator]
def _embed(  # type: ignore[no-untyped-def]
    tokens, lengths, table, places, x, width: tl.constexpr, wide: tl.constexpr
):
    """The residual stream of a sequence's newest token: its embedding and that of its position."""
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
    _start(early)
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


READS = ((1024, 8, 4), (2048, 4, 4), (4096, 2, 4), (4096, 4, 4), (4096, 8, 8), (8192, 4, 8))


def read(x: Any, out: Any, cut: tuple[int, int, int]) -> None:
    """Read a tensor of 32-bit zeros whole; ``cut``: elements at a time, how many times, warps."""
    tile, times, warps = cut
    _read[(x.numel() // (tile * times),)](x, out, tile, times, num_warps=warps)


Cut = tuple[int, int, int]  # rows of the weight that a program takes, columns at a time, warps


def cuts(rows: int, depth: int) -> list[Cut]:
    """Ways to cut a product that are worth a try.

    A thread takes 8 columns of each row, of the weight as of the vector: then nothing has to change places
    between threads before it is multiplied.
    """
    steps = [(256 * warps, warps) for warps in (8, 4, 2, 1) if depth % (256 * warps) == 0][:2]
    if not steps:
        step = next((step for step in (128, 64, 32, 16, 8) if depth % step == 0), 1)
        return [(4 if rows % 4 == 0 else 1, step, 1)]
    asked = [*((tile, *steps[0]) for tile in (2, 4, 1)), *((2, *step) for step in steps[1:])]
    return [cut for cut in asked if rows % cut[0] == 0]


PARTS = ((16, 32), (8, 64), (16, 64), (8, 128))  # of a head's cache, and tokens a part takes at a time


def product(
    weight: Any,
    x: Any,
    out: Any,
    *,
    norm: tuple[Any, Any] | None = None,
    scale: Any = None,
    gelu: bool = False,
    add: bool = False,
    early: int = 2,
    cut: Cut | None = None,
) -> None:
    """``out`` = weight · x on the current stream, the vector first normalized, the result by GELU or added.

    weight [rows, depth], x [depth], out [rows]; ``norm``: sums of the weight's rows, and what the shift of
    the normalization adds, both [rows] in fp32 (``fused.folded``); ``scale``
    [rows]: of quantized weights. ``early`` as of `_start`; 0 waits as every kernel does.
    """
    count, depth = weight.shape
    rows, step, warps = cut or cuts(count, depth)[0]
    row_sums, shift = norm or (out, out)
    _product[(count // rows,)](
        *(weight, x, row_sums, shift, out if scale is None else scale, out),
        *(depth, rows, step, norm is not None, gelu, add, scale is not None, early, EPSILON),
        num_warps=warps,
        launch_pdl=early > 0,
    )


def attend(
    heads: Any,
    keys: Any,
    values: Any,
    table: Any,
    lengths: Any,
    room: tuple[Any, ...],
    out: Any,
    *,
    splits: int,
    early: int = 2,
    tile: int = 32,
) -> None:
    """Attention of each sequence's newest token over its cache, which takes in that token's key and value.

    heads [sequences, 3·heads·width] has query, key, value; keys and values [pages, heads, page, width];
    table [sequences, pages a sequence] and lengths [sequences] are 32-bit; ``room`` as of `room_for`.
    """
    _, count, page, width = keys.shape
    _attend[(heads.shape[0] * count, splits)](
        *(heads, keys, values, table, lengths, *room, out, table.shape[1], width**-0.5),
        *(count, width, triton.next_power_of_2(width), page, tile, splits, table.shape[1] == 1, early),
        num_warps=WARPS,
        launch_pdl=early > 0,
    )


def room_for(torch: Any, sequences: int, count: int, width: int, splits: int, device: Any) -> tuple[Any, ...]:
    """What `attend` needs to put parts together: the parts, their weights, how many have ended."""
    slots = sequences * count * splits
    return (
        torch.empty(slots * triton.next_power_of_2(width), dtype=torch.float32, device=device),
        torch.empty(2 * slots, dtype=torch.float32, device=device),
        torch.zeros(sequences * count, dtype=torch.int32, device=device),
    )


def embed(tokens: Any, lengths: Any, table: Any, places: Any, x: Any) -> None:
    """Fill x [sequences, width] with the embeddings of the newest tokens and of their positions.

    It waits as every kernel does: what the step before wrote (lengths, cache) is there for all that follow.
    """
    width = x.shape[-1]
    _embed[(tokens.shape[0],)](
        *(tokens, lengths, table, places, x, width, triton.next_power_of_2(width)),
        num_warps=WARPS,
    )


def greedy(logits: Any, tokens: Any, lengths: Any, said: Any, *, early: int = 2) -> None:
    """Take the likeliest tokens: into ``tokens``, into ``said`` at their positions; lengths grow by one."""
    vocabulary = logits.shape[-1]
    _greedy[(tokens.shape[0],)](
        *(logits, tokens, lengths, said, said.shape[1]),
        *(vocabulary, triton.next_power_of_2(vocabulary), early),
        num_warps=16,
        launch_pdl=early > 0,
    )
