"""Texts in the pages of an SQLite file: where they begin and end in; codes into the distinct ones out.

Making a Python object of each of a million texts takes long, and nearly all of them have been seen before. So
the bytes of many texts are compared at once with those of texts seen before that have the same hash; only
what is then left is looked up one by one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from labcode.reports.nsys.bytes import Bytes, Ints

Words = NDArray[np.uint64]

_ROWS = 4096  # at once
_BITS = 14
_MOST = 1 << _BITS  # texts of one width that are remembered as words
_WIDEST = 64  # words; longer texts are looked up one by one
_KEEP = np.array([(1 << 64) - 1, *((1 << 8 * n) - 1 for n in range(1, 8))], np.uint64)  # of a last word
_FACTORS = np.array([pow(0x9E3779B97F4A7C15, n, 1 << 64) for n in range(1, _WIDEST + 2)], np.uint64)  # odd


@dataclass
class _Known:
    """Texts of a number of words: at the place of a hash one of them, as words, with its length and code."""

    place: Ints  # of a hash in the arrays below; 0: none
    words: Words
    length: Ints
    code: Ints
    count: int = 1
    asked: int = 0
    missed: int = 0

    def helps(self) -> bool:
        """Whether texts come again often enough."""
        return self.asked < _MOST or 2 * self.missed < self.asked


@dataclass(frozen=True)
class _Missed:
    """Rows whose text was not among the known ones: their words, lengths and hashes."""

    known: _Known
    rows: Ints
    words: Words
    length: Ints
    hash: Ints

    def of(self, rows: Ints) -> _Missed:
        """The same, its rows being some of ``rows``."""
        return _Missed(self.known, rows[self.rows], self.words, self.length, self.hash)


@dataclass
class TextCodes:
    """Gives every distinct text a number, in the order in which they are first seen."""

    _seen: defaultdict[bytes, int] = field(default_factory=defaultdict)
    _known: dict[int, _Known] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._seen.default_factory = self._seen.__len__

    def texts(self) -> list[str]:
        """The distinct texts so far."""
        return [text.decode(errors="replace") for text in self._seen]

    def add(self, buffer: Bytes, start: Ints, end: Ints) -> Ints:
        """The codes of the texts at these places in ``buffer``, which goes on for 8 bytes behind them."""
        codes = [
            self._add(buffer, start[low : low + _ROWS], end[low : low + _ROWS])
            for low in range(0, len(start), _ROWS)
        ]
        return np.concatenate(codes) if codes else np.empty(0, np.int64)

    def _add(self, buffer: Bytes, start: Ints, end: Ints) -> Ints:
        length = end - start
        width = (length + 7) >> 3
        codes = np.full(len(start), -1, np.int64)
        missed = []
        for words in np.flatnonzero(np.bincount(width)).tolist():
            known = self._known.get(words) or self._known.setdefault(words, _known(words))
            if 0 < words <= _WIDEST and known.helps():
                rows = np.flatnonzero(width == words)
                found, unknown = _look_up(known, buffer, start[rows], length[rows])
                codes[rows] = found
                if unknown is not None:
                    missed.append(unknown.of(rows))
        left = np.flatnonzero(codes < 0)
        if len(left):
            first = int(start[left].min())
            data = buffer[first : int(end[left].max())].tobytes()
            low, high = (start[left] - first).tolist(), (end[left] - first).tolist()
            texts = [data[a:b] for a, b in zip(low, high, strict=True)]
            codes[left] = np.fromiter(map(self._seen.__getitem__, texts), np.int64, len(left))
        for part in missed:
            _remember(part, codes[part.rows])
        return codes


def _look_up(known: _Known, buffer: Bytes, start: Ints, length: Ints) -> tuple[Ints, _Missed | None]:
    """Codes of texts of so many words, -1 where unknown; and what those are."""
    width = known.words.shape[1]
    whole = np.ndarray((len(buffer) - 8 * width + 1,), f"V{8 * width}", buffer, strides=(1,))
    words = whole[start].view("<u8").reshape(-1, width)
    words[:, -1] &= _KEEP.take(length & 7)
    mixed = words >> np.uint64(32)
    mixed ^= words
    mixed = mixed @ _FACTORS[:width]
    mixed += length.view(np.uint64) * _FACTORS[-1]
    hashes = (mixed >> np.uint64(64 - _BITS)).view(np.int64)
    place = known.place.take(hashes)
    same = known.words.take(place, axis=0) == words
    wrong = known.length.take(place) != length
    for column in range(width):
        wrong |= ~same[:, column]
    codes = known.code.take(place)
    known.asked += len(codes)
    if not wrong.any():
        return codes, None
    rows = np.flatnonzero(wrong)
    known.missed += len(rows)
    codes[rows] = -1
    return codes, _Missed(known, rows, words[rows], length[rows], hashes[rows])


def _known(width: int) -> _Known:
    return _Known(
        place=np.zeros(_MOST, np.int64),
        words=np.zeros((2, width), np.uint64),
        length=np.full(2, -1),
        code=np.full(2, -1),
    )


def _remember(missed: _Missed, codes: Ints) -> None:
    """Note texts at the places of their hashes that are still free."""
    known = missed.known
    _, first = np.unique(missed.hash, return_index=True)
    first = first[known.place[missed.hash[first]] == 0]
    if len(first) == 0:
        return
    last = known.count + len(first)
    if last > len(known.code):
        more = max(last, 2 * len(known.code)) - len(known.code)
        known.words = np.concatenate((known.words, np.zeros((more, known.words.shape[1]), np.uint64)))
        known.length = np.concatenate((known.length, np.full(more, -1)))
        known.code = np.concatenate((known.code, np.full(more, -1)))
    known.words[known.count : last] = missed.words[first]
    known.length[known.count : last] = missed.length[first]
    known.code[known.count : last] = codes[first]
    known.place[missed.hash[first]] = np.arange(known.count, last)
    known.count = last
