"""Caches of keys and values: those of new tokens in; attention over all tokens so far out.

Three that hold the same: `Growing` is copied into longer tensors at every step; `Contiguous` has room for the
longest sequence from the start; `Paged` takes pages of a pool as sequences grow.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from labcode.analysis.lm.decoder import Size
from labcode.errors import LabError

TRASH = 0  # the page that rows without a sequence write to


class Cache(Protocol):
    """What the model asks of a cache."""

    def positions(self, count: int) -> Tensor:
        """Positions of the next ``count`` tokens: [batch or 1, count]."""

    def attend(self, layer: int, three: Tensor) -> Tensor:
        """Take in keys and values of new tokens; mix the values of all tokens that each may see.

        ``three`` [batch, count, 3·d_model] has queries, keys, values; the answer is [batch, count, d_model].
        """

    def advance(self, count: int) -> None:
        """The new tokens of all layers are in."""


def parts(three: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys, values, each [batch, heads, count, width of a head], of [batch, count, 3·d_model]."""
    query, key, value = three.unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return query, key, value


def mixed(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None = None, **options: bool) -> Tensor:
    """Attention: [batch, heads, count, width] in, [batch, count, d_model] out."""
    found = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, **options)
    return found.transpose(1, 2).flatten(2)


class Growing:
    """Keys and values of all layers, made longer by a copy with each token."""

    def __init__(self, size: Size, device: torch.device) -> None:
        self.length, self.device, self.heads = 0, device, size.heads
        self.held: list[tuple[Tensor, Tensor] | None] = [None] * size.layers

    def positions(self, count: int) -> Tensor:
        """As `Cache.positions`."""
        return torch.arange(self.length, self.length + count, device=self.device)[None]

    def attend(self, layer: int, three: Tensor) -> Tensor:
        """As `Cache.attend`."""
        query, key, value = parts(three, self.heads)
        before = self.held[layer]
        if before is not None:
            key, value = torch.cat([before[0], key], 2), torch.cat([before[1], value], 2)
        self.held[layer] = key, value
        count = query.shape[2]
        if count == 1 or before is None:
            return mixed(query, key, value, is_causal=count > 1)
        places = torch.arange(key.shape[2], device=self.device)
        seen = places[None, :] <= places[self.length : self.length + count, None]
        return mixed(query, key, value, seen)

    def advance(self, count: int) -> None:
        """As `Cache.advance`."""
        self.length += count


class Contiguous:
    """Room for ``capacity`` tokens of each of ``batch`` sequences; how many are in is known to the device."""

    def __init__(
        self, size: Size, batch: int, capacity: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        shape = (size.layers, batch, size.heads, capacity, size.d_head)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros_like(self.keys)
        self.lengths = torch.zeros(batch, dtype=torch.int32, device=device)
        self.places, self.heads = torch.arange(capacity, device=device), size.heads

    def positions(self, count: int) -> Tensor:
        """As `Cache.positions`; beyond the end the last place is given."""
        return (self.lengths[:, None] + self.places[:count]).clamp_max(len(self.places) - 1)

    def attend(self, layer: int, three: Tensor) -> Tensor:
        """As `Cache.attend`."""
        query, key, value = parts(three, self.heads)
        positions = self.positions(query.shape[2])
        keys, values = self.keys[layer], self.values[layer]
        to = positions[:, None, :, None].expand_as(key)
        keys.scatter_(2, to, key)
        values.scatter_(2, to, value)
        seen = self.places <= positions[:, None, :, None]
        return mixed(query, keys, values, seen)

    def advance(self, count: int) -> None:
        """As `Cache.advance`."""
        self.lengths += count


class Pool:
    """Pages of keys and values, and which are free; page `TRASH` belongs to nobody.

    ``keys`` and ``values`` are [layers, pages, heads, page, width of a head].
    """

    def __init__(self, size: Size, pages: int, page: int, device: torch.device, dtype: torch.dtype) -> None:
        if pages < 2:
            raise LabError(f"a cache of {pages} pages holds nothing; give it 2 or more")
        self.keys = torch.zeros(size.layers, pages, size.heads, page, size.d_head, device=device, dtype=dtype)
        self.values = torch.zeros_like(self.keys)
        self.page, self.pages, self.heads = page, pages, size.heads
        self.free = list(range(pages - 1, TRASH, -1))

    def need(self, tokens: int) -> int:
        """Pages that so many tokens take."""
        return -(-tokens // self.page)

    def take(self, count: int) -> list[int] | None:
        """So many pages, or none at all where there are not enough."""
        if count > len(self.free):
            return None
        return [self.free.pop() for _ in range(count)]

    def give_back(self, pages: list[int]) -> None:
        """Pages that a sequence needs no more."""
        self.free.extend(pages)


class Paged:
    """Sequences whose pages lie anywhere in a pool.

    ``table`` [batch, pages a sequence] and ``lengths`` [batch] are 32-bit.
    """

    def __init__(self, pool: Pool, table: Tensor, lengths: Tensor) -> None:
        self.pool, self.table, self.lengths, self.heads = pool, table, lengths, pool.heads
        self.places = torch.arange(table.shape[1] * pool.page, device=table.device)

    def positions(self, count: int) -> Tensor:
        """As `Cache.positions`; beyond the end the last place is given."""
        return (self.lengths[:, None] + self.places[:count]).clamp_max(len(self.places) - 1)

    def take_in(self, layer: int, positions: Tensor, key: Tensor, value: Tensor) -> None:
        """Write keys and values [batch, heads, count, width] to their positions [batch, count]."""
        pages, places = self.table.gather(1, positions // self.pool.page), positions % self.pool.page
        self.pool.keys[layer][pages, :, places] = key.transpose(1, 2)
        self.pool.values[layer][pages, :, places] = value.transpose(1, 2)

    def attend(self, layer: int, three: Tensor) -> Tensor:
        """As `Cache.attend`."""
        query, key, value = parts(three, self.heads)
        positions = self.positions(query.shape[2])
        self.take_in(layer, positions, key, value)
        keys, values = (
            pool[layer][self.table].transpose(1, 2).flatten(2, 3)
            for pool in (self.pool.keys, self.pool.values)
        )
        seen = self.places <= positions[:, None, :, None]
        return mixed(query, keys, values, seen)

    def advance(self, count: int) -> None:
        """As `Cache.advance`."""
        self.lengths += count


class Fresh(Paged):
    """`Paged` for first tokens: there is nothing before them, so they look at each other alone."""

    def attend(self, layer: int, three: Tensor) -> Tensor:
        """As `Cache.attend`."""
        query, key, value = parts(three, self.heads)
        self.take_in(layer, self.positions(query.shape[2]), key, value)
        return mixed(query, key, value, is_causal=True)
