"""Numbers in the bytes of an SQLite file: a buffer and places in it in, numpy arrays of integers out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_SHAPES = 4  # combinations of lengths that are looked for before cells are read byte by byte


def heads(buffer: Bytes, at: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """What cells begin with: the payload's length, the row number; where the record begins, its first byte.

    Of cells in a row nearly all have lengths and numbers of as many bytes: then these are in one word.
    """
    result = [np.empty(len(at), np.int64) for _ in range(4)]
    rest: Ints | None = None  # None: all
    for _ in range(_SHAPES):
        cells = at if rest is None else at[rest]
        if len(cells) == 0:
            return result[0], result[1], result[2], result[3]
        word = eight(buffer, cells + 8)
        long, number = _bytes_of_varints(int(word[0]))
        if long + number > 7:
            break
        ends, last = 0x80 << 8 * (8 - long), 0x80 << 8 * (8 - long - number)
        mask = sum(0x80 << 8 * (7 - byte) for byte in range(long + number))
        fits = word & _signed(mask) == _signed(mask - ends - last)
        whole = bool(fits.all())
        if not whole:
            word, cells = word[fits], cells[fits]
        parts = (
            _seven_bits(word, 0, long),
            _seven_bits(word, long, number),
            cells + (long + number),
            word >> 8 * (7 - long - number) & 0xFF,
        )
        if rest is None and whole:
            return parts
        rows = np.flatnonzero(fits) if rest is None else rest[fits]
        for values, part in zip(result, parts, strict=True):
            values[rows] = part
        rest = np.flatnonzero(~fits) if rest is None else rest[~fits]
    rest = np.arange(len(at)) if rest is None else rest
    payload, following = varint(buffer, at[rest])
    rowid, following = varint(buffer, following)
    for values, part in zip(
        result, (payload, rowid, following, buffer[following].astype(np.int64)), strict=True
    ):
        values[rest] = part
    return result[0], result[1], result[2], result[3]


def _bytes_of_varints(word: int) -> tuple[int, int]:
    """How many bytes the two numbers take that a word begins with (9: more than there are)."""
    high = [byte for byte in range(8) if not word >> 8 * (7 - byte) & 0x80]
    return (high[0] + 1, high[1] - high[0]) if len(high) > 1 else (9, 9)


def _seven_bits(word: Ints, first: int, count: int) -> Ints:
    """The number in some bytes of big-endian words, seven bits of each."""
    value = word >> 8 * (7 - first) & 0x7F
    for byte in range(first + 1, first + count):
        value = value << 7 | word >> 8 * (7 - byte) & 0x7F
    return value


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def eight(buffer: Bytes, end: Ints) -> Ints:
    """The eight bytes before each place as a signed big-endian integer."""
    words = np.ndarray((len(buffer) - 7,), ">i8", buffer, strides=(1,))
    return words[end - 8].astype(np.int64)


def big_endian(buffer: Bytes, at: Ints, width: int) -> Ints:
    """Unsigned big-endian integers of 2 or 4 bytes."""
    words = np.ndarray((len(buffer) - width + 1,), f">u{width}", buffer, strides=(1,))
    return words[at].astype(np.int64)


def varint(buffer: Bytes, at: Ints) -> tuple[Ints, Ints]:
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
