"""Reads integer columns straight from the pages of an SQLite file: a file and a table in, numpy arrays out.

Asking SQLite for a million rows costs a call of its virtual machine for each value. The pages themselves are
simple (https://www.sqlite.org/fileformat2.html): a table is a B-tree whose leaves hold records, a record a
header of types and the values, big-endian. All records of some pages are decoded at once by numpy, five times
as fast, and everything that reading relies on is checked on the way: that the tree is one, that pages and
records lie where they may, that row numbers rise. What nsys does not write (records that overflow their page,
columns added later, tables without row numbers) raises `UnusualLayoutError`: then SQLite itself has to read
the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Types = Bytes | int  # one number where all rows have the same type

_PAGES = 256  # read at once
_DEEPEST = 20  # levels of a B-tree; 2^32 pages need fewer
_LEAF, _INTERIOR = 13, 5  # kinds of pages of a table
_PAD = 64  # bytes before and behind the pages, so that eight can be read around any place

# The type of a value as the record's header has it: NULL, integers of 1, 2, 3, 4, 6, 8 bytes, a float, the
# integers 0 and 1. Texts and blobs have types from 12 on.
NULL, ZERO, ONE = 0, 8, 9
_INTEGERS = (1, 2, 3, 4, 5, 6)
_WIDTH = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((t - 12) // 2 for t in range(12, 128))], np.int64)
_SHIFT = np.array([64 - 8 * w if t in _INTEGERS else 0 for t, w in enumerate(_WIDTH.tolist())], np.int64)


class UnusualLayoutError(Exception):
    """The table can only be read by SQLite."""


class DamagedPagesError(Exception):
    """The file is damaged; the message says where."""


@dataclass(frozen=True)
class Decoded:
    """Columns of some rows: row numbers; for each column the integers (0 for anything else) and the types."""

    rowid: Ints
    values: tuple[Ints, ...]
    types: tuple[Types, ...]
    ends: tuple[Ints, ...]  # where each value ends in `buffer`
    buffer: Bytes  # what the rows were decoded from; valid until the next rows are


class PageFile:
    """An SQLite file read page by page, for as long as it is open."""

    def __init__(self, path: Path) -> None:
        self._handle = path.open("rb", buffering=0)
        head = self._handle.read(100)
        size = int.from_bytes(head[16:18], "big")
        self.page_size = 65536 if size == 1 else size
        self.usable = self.page_size - head[20]
        self.utf8 = head[56:60] in (b"\0\0\0\0", b"\0\0\0\1")
        self.pages = os.fstat(self._handle.fileno()).st_size // max(self.page_size, 1)
        if self.page_size < 512 or self.usable < 480:
            raise DamagedPagesError("impossible page size")
        self._buffer = np.zeros(0, np.uint8)  # what was read last

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def read(self, root: int, columns: Sequence[int]) -> Iterator[Decoded]:
        """The columns of these places (from 0) in the records of a table, some rows at a time.

        ``root`` is the page that the table begins with, as sqlite_master names it.
        """
        last = -(1 << 63) - 1
        leaves = self._leaves(root)
        for low in range(0, len(leaves), _PAGES):
            buffer = self._load(leaves[low : low + _PAGES])
            decoded = _decode(buffer, self.page_size, self.usable, columns)
            if len(decoded.rowid) == 0:
                if len(leaves) > 1:
                    raise DamagedPagesError("an empty page in a table")
                continue
            if int(decoded.rowid[0]) <= last or (decoded.rowid[1:] <= decoded.rowid[:-1]).any():
                raise DamagedPagesError("row numbers out of order")
            last = int(decoded.rowid[-1])
            yield decoded

    def _leaves(self, root: int) -> Ints:
        """The numbers of the pages that hold the rows, in order."""
        level = np.array([root], np.int64)
        seen = 1
        for _ in range(_DEEPEST):
            if level.min() < 1 or level.max() > self.pages:
                raise DamagedPagesError("a page beyond the end of the file")
            kind = self._kind(int(level[0]))
            if kind == _LEAF:
                return level
            if kind != _INTERIOR:
                raise UnusualLayoutError("not a table with row numbers")
            level = np.concatenate(
                [self._children(level[low : low + _PAGES]) for low in range(0, len(level), _PAGES)]
            )
            seen += len(level)
            ordered = np.sort(level)
            if seen > self.pages or (ordered[1:] == ordered[:-1]).any():
                raise DamagedPagesError("a page that belongs to a table twice")
        raise DamagedPagesError("a table without end")

    def _kind(self, page: int) -> int:
        return int(self._load(np.array([page], np.int64))[_PAD])

    def _children(self, pages: Ints) -> Ints:
        """The pages below interior ones, in order."""
        buffer = self._load(pages)
        base, _, pointer, owner = _cells(buffer, len(pages), self.page_size, self.usable, _INTERIOR)
        order = np.argsort(np.concatenate((owner, np.arange(len(pages)))), kind="stable")
        at = np.concatenate((base[owner] + pointer, base + 8))[order]
        return _big_endian(buffer, at, 4)

    def _load(self, pages: Ints) -> Bytes:
        """Pages one behind the other, `_PAD` bytes before and behind; valid until the next are loaded."""
        size = self.page_size
        if len(self._buffer) < len(pages) * size + 2 * _PAD:
            self._buffer = np.zeros(len(pages) * size + 2 * _PAD, np.uint8)
        buffer = self._buffer[: len(pages) * size + 2 * _PAD]
        view = buffer.data
        bounds = np.flatnonzero(np.diff(pages) != 1) + 1
        runs = np.concatenate(([0], bounds, [len(pages)])).tolist()
        for low, high in pairwise(runs):
            part = view[_PAD + low * size : _PAD + high * size]
            at = (int(pages[low]) - 1) * size
            while len(part):
                got = os.preadv(self._handle.fileno(), [part], at)
                if got == 0:
                    raise DamagedPagesError("a page beyond the end of the file")
                part, at = part[got:], at + got
        return buffer


def _cells(buffer: Bytes, pages: int, size: int, usable: int, kind: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Of pages of one kind: where each begins, its number of cells; of each cell its place and its page."""
    base = _PAD + np.arange(pages) * size
    if (buffer[base] != kind).any():
        raise DamagedPagesError("a page of another kind within a table")
    count = _big_endian(buffer, base + 3, 2)
    head = 8 if kind == _LEAF else 12
    if (head + 2 * count > usable).any():
        raise DamagedPagesError("a page with more cells than fit")
    owner = np.repeat(np.arange(pages), count)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    pointer = _big_endian(buffer, base[owner] + head + 2 * number, 2)
    if ((pointer < head + 2 * count[owner]) | (pointer > usable - 4)).any():
        raise DamagedPagesError("a cell outside its page")
    return base, count, pointer, owner


def _decode(buffer: Bytes, size: int, usable: int, columns: Sequence[int]) -> Decoded:
    """The rows of leaf pages."""
    pages = (len(buffer) - 2 * _PAD) // size
    base, _, pointer, owner = _cells(buffer, pages, size, usable, _LEAF)
    at = base[owner] + pointer
    end = (base + usable)[owner]
    payload, at = _varint(buffer, at)
    if (payload > usable - 35).any():
        raise UnusualLayoutError("a record that overflows its page")
    rowid, at = _varint(buffer, at)
    if (at + payload > end).any() or (payload < 1).any():
        raise DamagedPagesError("a record outside its page")
    if not columns or len(at) == 0:
        nothing = tuple(np.zeros(len(at), np.int64) for _ in columns)
        return Decoded(rowid, nothing, (ZERO,) * len(columns), nothing, buffer)
    width = max(columns) + 1
    head = buffer[at].astype(np.int64)
    if (head > 127).any() or (head <= width).any():
        raise UnusualLayoutError("a record with a long header or fewer columns than the table")
    if (head > payload).any():
        raise DamagedPagesError("a record with a header longer than itself")
    records = np.ndarray((len(buffer) - width,), f"V{width}", buffer, strides=(1,))
    kinds = records[at + 1].view(np.uint8).reshape(len(at), width).T.copy()
    if int(kinds.max()) > 127:
        types, places, done = _walk(buffer, at, head, columns)
    else:
        types, places, done = _fixed(kinds, at + head, columns)
    if (done > at + payload).any():
        raise DamagedPagesError("a value outside its record")
    found = [_integers(buffer, types[c], places[c]) for c in columns]
    return Decoded(
        rowid, tuple(found), tuple(types[c] for c in columns), tuple(places[c] for c in columns), buffer
    )


def _fixed(
    kinds: Bytes, begin: Ints, columns: Sequence[int]
) -> tuple[dict[int, Types], dict[int, Ints], Ints]:
    """Types and ends of columns whose types take one byte, ``kinds[column, row]``; the last end."""
    types: dict[int, Types] = {}
    ends: dict[int, Ints] = {}
    end, ahead = begin, 0  # of the last column: end + ahead
    for column, kind in enumerate(kinds):
        least = int(kind.min())
        same = least == int(kind.max())
        if same:
            ahead += int(_WIDTH[least])
        else:
            end = end + _WIDTH.take(kind)
        if column in columns:
            types[column] = least if same else kind
            ends[column] = end + ahead
    return types, ends, end + ahead


def _walk(
    buffer: Bytes, at: Ints, head: Ints, columns: Sequence[int]
) -> tuple[dict[int, Types], dict[int, Ints], Ints]:
    """Types and ends of columns where types may take several bytes (texts of more than 57); the last end."""
    types: dict[int, Types] = {}
    ends: dict[int, Ints] = {}
    place, value_end = at + 1, at + head
    for column in range(max(columns) + 1):
        if (place >= at + head).any():
            raise UnusualLayoutError("a record with fewer columns than the table")
        kind, place = _varint(buffer, place)
        if (kind < 0).any() or (kind > 1 << 20).any():
            raise DamagedPagesError("a value of an impossible length")
        value_end = value_end + np.where(kind < 128, _WIDTH[np.minimum(kind, 127)], (kind - 12) // 2)
        if column in columns:
            short = np.where(kind < 128, kind, 126 | kind & 1)  # a blob or a text, as the last that fit
            types[column], ends[column] = short.astype(np.uint8), value_end
    return types, ends, value_end


def _integers(buffer: Bytes, kind: Types, end: Ints) -> Ints:
    """The integers that end at these places; 0 for anything else."""
    if isinstance(kind, int):
        if kind not in _INTEGERS:
            return np.full(len(end), int(kind == ONE), np.int64)
        shift = 64 - 8 * int(_WIDTH[kind])
        values = _eight(buffer, end)
        return values << shift >> shift if shift else values
    shifts = _SHIFT.take(kind)
    values = _eight(buffer, end) << shifts >> shifts
    other = ~np.isin(kind, _INTEGERS) if int(kind.max()) > 6 or int(kind.min()) < 1 else None
    if other is not None:
        values[other] = kind[other] == ONE
    return values


def _eight(buffer: Bytes, end: Ints) -> Ints:
    """The eight bytes before each place as a signed big-endian integer."""
    words = np.ndarray((len(buffer) - 7,), ">i8", buffer, strides=(1,))
    return words[end - 8].astype(np.int64)


def _big_endian(buffer: Bytes, at: Ints, width: int) -> Ints:
    """Unsigned big-endian integers of 2 or 4 bytes."""
    words = np.ndarray((len(buffer) - width + 1,), f">u{width}", buffer, strides=(1,))
    return words[at].astype(np.int64)


def _varint(buffer: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """SQLite's integers of variable length that begin at places; the places behind them."""
    byte = buffer[at]
    value = (byte & 0x7F).astype(np.int64)
    following = at + 1
    more = np.flatnonzero(byte & 0x80)
    for number in range(1, 9):
        if len(more) == 0:
            break
        whole = len(more) == len(at)
        byte = buffer[following] if whole else buffer[following[more]]
        rest = byte.astype(np.int64) if number == 8 else (byte & 0x7F).astype(np.int64)
        shift = 8 if number == 8 else 7
        if whole:
            value, following = value << shift | rest, following + 1
        else:
            value[more] = value[more] << shift | rest
            following[more] += 1
        more = more[(byte & 0x80) != 0]
    return value, following
