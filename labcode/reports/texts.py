"""Columns of texts and what they were made of: an array of texts in, a small number for each row out.

The readers make such arrays of numbers into a few texts. Comparing a million texts takes a hundred times as
long as comparing the numbers, so these are remembered as long as the array lives, for all that lies in it: a
slice of a table is found as well as the table. That is done only where somebody says that the tables will not
be changed in place (`remembering`).
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Objects = NDArray[np.object_]

LONGEST = (
    1 << 16
)  # characters that are kept of a text: no compiler makes longer names, and patterns take long
_FEWEST = 1024  # rows from which on it is worth it
_ONE_BY_ONE = 4  # texts that are compared, not looked up


def shortened(text: str) -> str:
    """At most `LONGEST` characters of a text, then how long it was and what tells it from others."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… ({len(text):,} characters, {zlib.crc32(text.encode(errors='replace')):08x})"


@dataclass(frozen=True)
class Known:
    """For each row its place in ``texts``, in small integers; several places may hold the same text."""

    codes: NDArray[Any]
    texts: Objects

    def matching(self, which: Callable[[str], bool]) -> Bools:
        """The rows whose text is such a one."""
        right = np.array([which(str(text)) for text in self.texts], np.bool_)
        places = np.flatnonzero(right)
        if len(places) > _ONE_BY_ONE:
            return np.asarray(right[self.codes], np.bool_)
        found = np.zeros(len(self.codes), np.bool_)
        for place in places.tolist():
            found |= self.codes == place
        return found


_remembering: ContextVar[bool] = ContextVar("remembering", default=False)
_known: dict[int, tuple[weakref.ref[Objects], Known]] = {}  # by the address of the array's memory


@contextmanager
def remembering() -> Iterator[None]:
    """Remember what arrays of texts are made of, from here on: nobody changes them in place."""
    token = _remembering.set(True)
    try:
        yield
    finally:
        _remembering.reset(token)


def is_remembering() -> bool:
    """Whether nobody changes what is made now in place."""
    return _remembering.get()


def made_of(codes: NDArray[Any], texts: Sequence[str], missing: str) -> Objects:
    """The text of each code, and ``missing`` for -1."""
    table = np.empty(len(texts) + 1, np.object_)
    table[:-1] = texts
    table[-1] = missing
    if is_remembering() and len(codes) >= _FEWEST and int(codes.min()) == int(codes.max()):
        return np.broadcast_to(table[codes[:1]], len(codes))  # in the memory of one
    made: Objects = table[codes]
    if is_remembering() and len(made) >= _FEWEST:
        size = np.int8 if len(table) < 128 else np.int16 if len(table) < 1 << 15 else np.int32
        small: NDArray[Any] = codes.astype(size)
        small[small < 0] = len(table) - 1
        _remember(made, Known(small, table))
    return made


def _remember(array: Objects, known: Known) -> None:
    address = _address(array)

    def forget(gone: weakref.ref[Objects]) -> None:
        if address in _known and _known[address][0] is gone:
            del _known[address]

    _known[address] = weakref.ref(array, forget), known


def known(texts: pd.Series | Objects) -> Known | None:
    """What an array was made of, or that of which it is a part; None where that is not known."""
    array = np.asarray(texts, object)
    if len(array) < 2 or array.strides not in ((8,), (0,)):
        return None
    if array.strides == (0,):
        return Known(np.broadcast_to(np.zeros(1, np.int8), len(array)), array[:1])
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    found = _known.get(_address(owner))
    if found is None or found[0]() is not owner:
        return None
    first = (_address(array) - _address(owner)) // 8
    return Known(found[1].codes[first : first + len(array)], found[1].texts)


def known_of_rows(before: pd.Series | Objects, after: pd.Series | Objects, rows: NDArray[Any]) -> None:
    """Remember rows of an array, where it is known what that was made of."""
    array = np.asarray(after, object)
    while isinstance(array.base, np.ndarray):
        array = array.base
    if len(array) == len(after) >= _FEWEST and (found := known(before)) is not None:
        _remember(array, Known(found.codes[rows], found.texts))


def _address(array: Objects) -> int:
    return int(array.__array_interface__["data"][0])
