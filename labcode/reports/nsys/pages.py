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
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labcode.reports.columns import Ints

Bytes = NDArray[np.uint8]
Types = Bytes | int  # one number where all rows have the same type
Only = tuple[int, Callable[[Ints, Types], NDArray[np.bool_]]]  # a column, and which of its values to take

_PAGES = 256  # read at once
_DEEPEST = 20  # levels of a B-tree; 2^32 pages need fewer
_LEAF, _INTERIOR = 13, 5  # kinds of pages of a table
_PAD = 64  # bytes before and behind the pages, so that eight can be read around any place

# The type of a value as the record's header has it: NULL, integers of 1, 2, 3, 4, 6, 8 bytes, a float, the
# integers 0 and 1. Texts and blobs have types from 12 on.
NULL, ONE = 0, 9
_INTEGERS = (1, 2, 3, 4, 5, 6)
_WIDTH = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((t - 12) // 2 for t in range(12, 128))], np.int64)
_SHIFT = np.array([64 - 8 * w if t in _INTEGERS else 0 for t, w in enumerate(_WIDTH.tolist())], np.int64)
_OTHER = np.array([t not in _INTEGERS for t in range(len(_WIDTH))], np.bool_)


class UnusualLayoutError(Exception):
    """The table can only be read by SQLite."""


class DamagedPagesError(Exception):
    """The file is damaged; the message says where."""


@dataclass(frozen=True)
class Decoded:
    """Columns of some rows: row numbers; for each column the integers (0 for anything else) and the types.

    For each column of texts the types, and where the values begin and end in ``buffer``.
    """

    rowid: Ints
    values: tuple[Ints, ...]
    types: tuple[Types, ...]
    texts: tuple[tuple[Types, Ints, Ints], ...]
    buffer: Bytes  # what the rows were decoded from
    read: float  # how much of the table is read with them


@dataclass(frozen=True)
class _Records:
    """Records in a buffer: row numbers, where each begins, how long its header is, where it ends."""

    rowid: Ints
    at: Ints
    head: Ints
    end: Ints

    def take(self, rows: Ints) -> _Records:
        """Some of them."""
        return _Records(self.rowid[rows], self.at[rows], self.head[rows], self.end[rows])


class PageFile:
    """An SQLite file read page by page, for as long as it is open."""

    def __init__(self, path: Path) -> None:
        self._handle = path.open("rb", buffering=0)
        head = self._handle.read(100)
        if len(head) < 100:  # it was whole when it was opened
            raise DamagedPagesError("cut off while it was read")
        size = int.from_bytes(head[16:18], "big")
        self.page_size = 65536 if size == 1 else size
        self.usable = self.page_size - head[20]
        self.utf8 = head[56:60] in (b"\0\0\0\0", b"\0\0\0\1")
        self.pages = os.fstat(self._handle.fileno()).st_size // max(self.page_size, 1)
        if self.page_size < 512 or self.usable < 480:
            raise DamagedPagesError("impossible page size")

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def read(
        self, root: int, columns: Sequence[int], only: Only | None = None, texts: Sequence[int] = ()
    ) -> Iterator[Decoded]:
        """The columns of these places (from 0) in the records of a table, some rows at a time.

        The buffer of what is yielded is overwritten by the next.

        ``root`` is the page that the table begins with, as sqlite_master names it; ``only`` chooses rows by
        the values and types of another column; ``texts`` are places from 1 on of columns of texts.
        """
        leaves = self._leaves(root)
        if len(leaves) == 1 and self._is_empty(int(leaves[0])):
            return
        # One buffer for all: it stays in the CPU's cache; what is yielded is used before more is read.
        room = np.empty(min(len(leaves), _PAGES) * self.page_size + 2 * _PAD, np.uint8)
        last = -(1 << 63) - 1
        for low in range(0, len(leaves), _PAGES):
            buffer = self._load(leaves[low : low + _PAGES], room)
            records = _records(buffer, self.page_size, self.usable)
            rowid = records.rowid
            if len(rowid) == 0:
                raise DamagedPagesError("an empty page in a table")
            if int(rowid[0]) <= last or (rowid[1:] <= rowid[:-1]).any():
                raise DamagedPagesError("row numbers out of order")
            last = int(rowid[-1])
            if only is not None:
                place, choose = only
                found = _decode(buffer, records, [place])
                rows = choose(found.values[0], found.types[0])
                if not rows.all():
                    records = records.take(np.flatnonzero(rows))
            if len(records.rowid):
                yield _decode(buffer, records, columns, texts, min(1.0, (low + _PAGES) / len(leaves)))

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

    def _is_empty(self, page: int) -> bool:
        return int(_big_endian(self._load(np.array([page], np.int64)), np.array([_PAD + 3]), 2)[0]) == 0

    def _children(self, pages: Ints) -> Ints:
        """The pages below interior ones, in order."""
        buffer = self._load(pages)
        base, count, at = _cells(buffer, len(pages), self.page_size, self.usable, _INTERIOR)
        # behind the children that its cells name, a page has a last one
        return _big_endian(buffer, np.insert(at, np.cumsum(count), base + 8), 4)

    def _load(self, pages: Ints, room: Bytes | None = None) -> Bytes:
        """Pages one behind the other, `_PAD` bytes before and behind, in ``room`` where that is given."""
        size = self.page_size
        needed = len(pages) * size + 2 * _PAD
        buffer = np.empty(needed, np.uint8) if room is None else room[:needed]
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


def _cells(buffer: Bytes, pages: int, size: int, usable: int, kind: int) -> tuple[Ints, Ints, Ints]:
    """Of pages of one kind: where each begins, its number of cells; where each cell begins, by page."""
    base = _PAD + np.arange(pages) * size
    if (buffer[base] != kind).any():
        raise DamagedPagesError("a page of another kind within a table")
    count = _big_endian(buffer, base + 3, 2)
    head = 8 if kind == _LEAF else 12
    if (head + 2 * count > usable).any():
        raise DamagedPagesError("a page with more cells than fit")
    most = int(count.max(initial=0))
    table = buffer[_PAD : _PAD + pages * size].reshape(pages, size)[:, head : head + 2 * most]
    pointer = table.view(">u2").astype(np.int32)
    there = None if int(count.min(initial=0)) == most else np.arange(most) < count[:, None]
    outside = (pointer < (head + 2 * count[:, None]).astype(np.int32)) | (pointer > usable - 4)
    if (outside if there is None else outside & there).any():
        raise DamagedPagesError("a cell outside its page")
    at = pointer + base[:, None]
    return base, count, at.ravel() if there is None else at[there]


def _records(buffer: Bytes, size: int, usable: int) -> _Records:
    """The records of leaf pages."""
    pages = (len(buffer) - 2 * _PAD) // size
    base, count, at = _cells(buffer, pages, size, usable, _LEAF)
    payload, at = _varint(buffer, at)
    rowid, at = _varint(buffer, at)
    head = buffer[at].astype(np.int64)
    if len(payload) and int(payload.max()) > usable - 35:
        raise UnusualLayoutError("a record that overflows its page")
    end = at + payload
    if (end > np.repeat(base + usable, count)).any() or (payload < 1).any():
        raise DamagedPagesError("a record outside its page")
    if (head > 127).any():
        raise UnusualLayoutError("a record with a long header")
    if (head > payload).any():
        raise DamagedPagesError("a record with a header longer than itself")
    return _Records(rowid, at, head, end)


def _decode(
    buffer: Bytes, records: _Records, columns: Sequence[int], texts: Sequence[int] = (), read: float = 1.0
) -> Decoded:
    """Columns of records."""
    wanted = {*columns, *texts, *(place - 1 for place in texts)}
    types, ends = _places(buffer, records, wanted) if wanted else ({}, {})
    return Decoded(
        records.rowid,
        tuple(_integers(buffer, types[c], *ends[c]) for c in columns),
        tuple(types[c] for c in columns),
        tuple((types[c], np.add(*ends[c - 1]), np.add(*ends[c])) for c in texts),
        buffer,
        read,
    )


def _places(
    buffer: Bytes, records: _Records, columns: Collection[int]
) -> tuple[dict[int, Types], dict[int, tuple[Ints, int]]]:
    """Types of columns, and where their values end, as a place for each row and how much further on.

    What is the same for all rows is kept apart from what is not: a buffer from its eighth byte on is quicker
    to have than all places plus eight.
    """
    at, width = records.at, max(columns) + 1
    if (records.head <= width).any():
        raise UnusualLayoutError("a record with fewer columns than the table")
    types: dict[int, Types] = {}
    ends: dict[int, tuple[Ints, int]] = {}
    # The type of a column is at place + skip, up to ``last`` in the header; its value ends at end + ahead.
    place, skip, last = at, 1, width + 1
    end, ahead = at + records.head - _PAD, _PAD
    for column in range(width):
        kind = buffer[skip:][place]
        most, least = int(kind.max()), int(kind.min())
        skip += 1
        if most > 127:
            long, place = _varint(buffer[skip - 1 :], place)
            place -= 1
            last = int((at + records.head - place).min())
            if int(long.min()) < 0 or int(long.max()) > 1 << 20:
                raise DamagedPagesError("a value of an impossible length")
            end = end + np.where(long < 12, _WIDTH.take(np.minimum(long, 12)), (long - 12) >> 1)
            kind = np.where(long < 128, long, 126 | long & 1).astype(np.uint8)  # texts stay texts
            least = most - 1
        elif least == most:
            ahead += int(_WIDTH[most])
        else:
            end = end + _WIDTH.take(kind)
        if skip > last:
            raise UnusualLayoutError("a record with fewer columns than the table")
        if column in columns:
            types[column] = most if least == most else kind
            ends[column] = end, ahead
    if (end + ahead > records.end).any():
        raise DamagedPagesError("a value outside its record")
    return types, ends


def _integers(buffer: Bytes, kind: Types, end: Ints, ahead: int) -> Ints:
    """The integers that end so far behind these places; 0 for anything else."""
    if isinstance(kind, int):
        if kind not in _INTEGERS:
            return np.broadcast_to(np.int64(kind == ONE), len(end))
        width = int(_WIDTH[kind])
        if width > 3:
            shift = 64 - 8 * width
            values = _eight(buffer, end, ahead)
            return values << shift >> shift if shift else values
        values = buffer[ahead - width :][end].view(np.int8).astype(np.int64)
        for byte in range(width - 1, 0, -1):  # bytes one by one are quicker to fetch than a few words
            values = values << 8 | buffer[ahead - byte :][end]
        return values
    shifts = _SHIFT.take(kind)
    values = _eight(buffer, end, ahead) << shifts >> shifts
    if int(kind.max()) > 6 or int(kind.min()) < 1:
        other = np.flatnonzero(_OTHER.take(kind))
        values[other] = kind[other] == ONE
    return values


def _eight(buffer: Bytes, end: Ints, ahead: int) -> Ints:
    """The eight bytes before each place as a signed big-endian integer."""
    first = ahead - 8
    words = np.ndarray((len(buffer) - ahead + 1,), ">i8", buffer, first, strides=(1,))
    return words[end].astype(np.int64)


def _big_endian(buffer: Bytes, at: Ints, width: int) -> Ints:
    """Unsigned big-endian integers of 2 or 4 bytes."""
    words = np.ndarray((len(buffer) - width + 1,), f">u{width}", buffer, strides=(1,))
    return words[at].astype(np.int64)


def _varint(buffer: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """SQLite's integers of variable length that begin at places; the places behind them."""
    byte = buffer[at]
    value, width = (byte & 0x7F).astype(np.int64), 1
    while width < 8 and int(byte.min(initial=0xFF)) > 0x7F:  # none of them ends here
        byte = buffer[width:][at]
        value, width = value << 7 | byte & 0x7F, width + 1
    following = at + width
    more = np.flatnonzero(byte & 0x80) if int(byte.max(initial=0)) > 0x7F else at[:0]
    for number in range(width, 9):
        if len(more) == 0:
            break
        byte = buffer[following[more]]
        last = number == 8
        value[more] = value[more] << (8 if last else 7) | (byte if last else byte & 0x7F)
        following[more] += 1
        more = more[(byte & 0x80) != 0]
    return value, following
