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
    """What the model asks of a cache; tensors are [batch, heads, tokens, width of a head]."""

    def positions(self, count: int) -> Tensor:
        """Positions of the next ``count`` tokens: [batch or 1, count]."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Take in keys and values of new tokens; mix the values of all tokens that each may see."""

    def advance(self, count: int) -> None:
        """The new tokens of all layers are in."""


class Growing:
    """Keys and values of all layers, made longer by a copy with each token."""

    def __init__(self, layers: int, device: torch.device) -> None:
        self.length, self.device = 0, device
        self.held: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def positions(self, count: int) -> Tensor:
        """As `Cache.positions`."""
        return torch.arange(self.length, self.length + count, device=self.device)[None]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As `Cache.attend`."""
        before = self.held[layer]
        if before is not None:
            key, value = torch.cat([before[0], key], 2), torch.cat([before[1], value], 2)
        self.held[layer] = key, value
        count = query.shape[2]
        if count == 1 or before is None:
            return functional.scaled_dot_product_attention(query, key, value, is_causal=count > 1)
        places = torch.arange(key.shape[2], device=self.device)
        seen = places[None, :] <= places[self.length : self.length + count, None]
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)

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
        self.places = torch.arange(capacity, device=device)

    def positions(self, count: int) -> Tensor:
        """As `Cache.positions`; beyond the end the last place is given."""
        return (self.lengths[:, None] + self.places[:count]).clamp_max(len(self.places) - 1)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As `Cache.attend`."""
        positions = self.positions(query.shape[2])
        keys, values = self.keys[layer], self.values[layer]
        to = positions[:, None, :, None].expand_as(key)
        keys.scatter_(2, to, key)
        values.scatter_(2, to, value)
        seen = self.places <= positions[:, None, :, None]
        return functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)

    def advance(self, count: int) -> None:
        """As `Cache.advance`."""
        self.lengths += count


class Pool:
    """Pages of keys and values, and which are free; page `TRASH` belongs to nobody.

    ``keys`` and ``values`` are [layers, pages, heads, page, width of a head].
    """

    def __init__(
        self, size: Size, pages: int, page: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        if pages < 2:
            raise LabError(f"a cache of {pages} pages holds nothing; give it 2 or more")
        self.keys = torch.zeros(
            size.layers, pages, size.heads, page, size.d_head, device=device, dtype=dtype
        )
        self.values = torch.zeros_like(self.keys)
        self.page, self.pages = page, pages
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
    """Sequences whose pages lie anywhere in a pool: ``table`` [batch, pages a sequence], ``lengths`` [batch]."""

    def __init__(self, pool: Pool, table: Tensor, lengths: Tensor) -> None:
        self.pool, self.table, self.lengths = pool, table, lengths
        self.places = torch.arange(table.shape[1] * pool.page, device=table.device)

    def positions(self, count: int) -> Tensor:
        """As `Cache.positions`; beyond the end the last place is given."""
        return (self.lengths[:, None] + self.places[:count]).clamp_max(len(self.places) - 1)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As `Cache.attend`."""
        page = self.pool.page
        positions = self.positions(query.shape[2])
        pages = self.table.gather(1, positions // page)
        all_keys, all_values = self.pool.keys[layer], self.pool.values[layer]
        all_keys[pages, :, positions % page] = key.transpose(1, 2)
        all_values[pages, :, positions % page] = value.transpose(1, 2)
        keys, values = (
            pool[self.table].transpose(1, 2).flatten(2, 3) for pool in (all_keys, all_values)
        )
        seen = self.places <= positions[:, None, :, None]
        return functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)

    def advance(self, count: int) -> None:
        """As `Cache.advance`."""
        self.lengths += count
