"""Decimal texts of microseconds in, whole nanoseconds out, without a floating-point number in between.

A trace writes ``1712195495519689.047``; the nearest double is a quarter of a microsecond away from its
neighbors, so reading it as one would move events by up to 125 ns.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FURTHEST_NS = 4_000_000_000_000_000_000  # times beyond are none; sums of two still fit 63 bits
_LONGEST = 19  # digits of nanoseconds; those beyond 63 bits are read as the largest number there is
_PLAIN = np.zeros(256, np.bool_)
_PLAIN[list(b"0123456789.-\n")] = True


def nanoseconds(texts: Sequence[Any]) -> tuple[Ints, Bools]:
    """Each text (bytes of a JSON number, in µs) as nanoseconds, and which of them are times at all.

    More than three decimals are rounded to the nearest nanosecond, half to even. What is no number, or more
    than 126 years from 0, is no time: its value is 0.
    """
    if not texts:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    joined = b"\n".join(texts) + b"\n"
    marks = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(marks == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))
    dots = np.flatnonzero(marks == ord("."))
    owner = np.searchsorted(ends, dots)
    minus = np.flatnonzero(marks == ord("-"))
    plain = (
        len(ends) == len(texts)
        and bool(_PLAIN[marks].all())
        and bool((owner[1:] != owner[:-1]).all())
        and bool((marks[minus[minus > 0] - 1] == ord("\n")).all())
        and bool((ends > starts).all())
    )
    if not plain:
        return _one_by_one(texts)
    decimals = np.zeros(len(texts), np.int64)
    decimals[owner] = ends[owner] - dots - 1
    pointed = np.zeros(len(texts), np.int64)
    pointed[owner] = 1
    odd = (decimals > 3) | (ends - starts - pointed + 3 - decimals > _LONGEST)
    if odd.any():
        kept: list[Any] = list(texts)
        for row in np.flatnonzero(odd):
            kept[row] = b"0"
        joined = b"\n".join(kept)
    values = _parse(joined.replace(b".", b""))
    if len(values) != len(texts):
        return _one_by_one(texts)
    values *= np.array([1000, 100, 10, 1], np.int64)[np.where(odd, 0, decimals)]
    known = np.ones(len(texts), np.bool_)
    for row in np.flatnonzero(odd):
        values[row], known[row] = _exact(bytes(texts[int(row)]))
    far = np.abs(values) > FURTHEST_NS
    values[far], known[far] = 0, False
    return values, known


def _parse(text: bytes) -> Ints:
    """Whole numbers, one a line; fewer than there are lines when one of them is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.fromstring(text.decode("ascii"), dtype=np.int64, sep="\n")
    except (ValueError, DeprecationWarning):
        return np.empty(0, np.int64)


def _one_by_one(texts: Sequence[Any]) -> tuple[Ints, Bools]:
    pairs = [_exact(bytes(text)) for text in texts]
    return np.array([value for value, _ in pairs], np.int64), np.array([ok for _, ok in pairs], np.bool_)


def _exact(text: bytes) -> tuple[int, bool]:
    text = text.strip(b'" \t\r\n')
    if not text or len(text) > 64:
        return 0, False
    try:
        number = Decimal(text.decode("ascii"))
        if not number.is_finite() or abs(number) > FURTHEST_NS // 1000:
            return 0, False
        return int((number * 1000).to_integral_value(ROUND_HALF_EVEN)), True
    except (InvalidOperation, UnicodeDecodeError):
        return 0, False
