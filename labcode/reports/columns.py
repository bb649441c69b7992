"""Columns of integers as numpy arrays, and codes into texts: arrays in, arrays out.

Comparing a million texts takes a hundred times as long as comparing numbers, so what an array of texts was
made of is remembered as long as the array lives, for all that lies in it: a slice of a table is found as
well as the table. That is done only where somebody says that the tables will not be changed in place
(`remembering`).
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


Ints = NDArray[np.int64]
AnyInts = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Objects = NDArray[np.object_]


@dataclass(frozen=True)
class Column:
    """A column of integers: the values (0 where missing) and which ones are there; ``None``: all of them."""

    values: Ints
    present: Bools | None = None

    def filled(self, missing: int) -> Ints:
        """The values with ``missing`` where there is none."""
        if self.present is None:
            return self.values
        if is_narrow(self.present):
            return self.values if self.present[0] else np.broadcast_to(np.int64(missing), len(self.values))
        return np.where(self.present, self.values, missing)

    def there(self) -> Bools:
        """Which values are there."""
        return np.broadcast_to(np.True_, len(self.values)) if self.present is None else self.present

    def take(self, which: Bools | Ints) -> Column:
        """The same column with only some rows."""
        return Column(taken(self.values, which), None if self.present is None else taken(self.present, which))

    def without(self, rows: Ints) -> Column:
        """The same column without a few rows, which are in ascending order."""
        present = None if self.present is None else without(self.present, rows)
        if present is not None and present.all():
            present = None
        return Column(without(self.values, rows), present)


def taken(values: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """``values[rows]``, of one number in the memory of one."""
    if not is_narrow(values):
        found: NDArray[Any] = values[rows]
        return found
    count = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
    return np.broadcast_to(values[0], count)


def without(values: NDArray[Any], rows: Ints) -> NDArray[Any]:
    """An array without a few rows, which are in ascending order: pieces are quicker to copy than rows."""
    if is_narrow(values) or (len(rows) and int(rows[-1]) == len(rows) - 1):  # the first ones
        return values[len(rows) :]
    bounds = [-1, *rows.tolist(), len(values)]
    return np.concatenate([values[low + 1 : high] for low, high in pairwise(bounds)])


def is_same(values: NDArray[Any]) -> bool:
    """Whether all are the same number; of none no."""
    if not len(values) or is_narrow(values):
        return len(values) > 0
    return bool(values[0] == values[-1]) and bool((values == values[0]).all())


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers; where all are the same number, in the memory of one."""
    if is_narrow(values):
        return values
    if is_same(values):
        return np.broadcast_to(values[:1].copy()[0], len(values))
    if len(values) and values.dtype.kind == "f" and np.isnan(values).all():
        return np.broadcast_to(np.float64("nan"), len(values))
    return values


def at_rows(values: NDArray[Any], rows: Ints) -> NDArray[Any]:
    """``values[rows]``, of rows in ascending order; without a copy where they follow each other."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool((rows[1:] > rows[:-1]).all()):
        return values[int(rows[0]) : int(rows[-1]) + 1]
    return values[rows]


def small(values: Ints) -> Ints:
    """The same numbers in half of the memory, where they fit."""
    fit = not len(values) or (int(values.max()) < 1 << 31 and int(values.min()) >= -1 << 31)
    return values.astype(np.int32) if fit else values


def is_narrow(values: NDArray[Any]) -> bool:
    """Whether all are the same number in the memory of one."""
    return len(values) > 0 and values.strides == (0,)


def of_each(function: Callable[[Any], NDArray[Any]], values: NDArray[Any]) -> NDArray[Any]:
    """What a function gives for each number; it is asked once where all are the same in the memory of one."""
    if not is_narrow(values):
        return function(values)
    return np.broadcast_to(function(values[:1])[0], len(values))


def whole(column: Column) -> Column:
    """A column in memory of its own, which may be written to."""
    values, present = column.values, column.present
    if not is_narrow(values) and (present is None or not is_narrow(present)):
        return column
    return Column(values.copy(), None if present is None else present.copy())


def packed(values: NDArray[Any]) -> NDArray[Any]:
    """Of a column that is one number the first row, else all of it: what `spread` makes a column of again."""
    return values[:1] if is_narrow(values) else values


def spread(values: NDArray[Any], length: int) -> NDArray[Any]:
    """The column of so many rows that was `packed`, in the memory of one number where it was that."""
    return values if len(values) == length > 1 else np.broadcast_to(values[0], length)


def unique(values: Ints) -> tuple[Ints, Ints]:
    """Distinct values in ascending order, and each value's place among them; fast where they are dense."""
    if len(values) == 0:
        return values, np.empty(0, np.int64)
    low, high = (int(values[0]),) * 2 if is_narrow(values) else (int(values.min()), int(values.max()))
    if low == high:
        return values[:1], np.zeros(len(values), np.int64)
    if high - low < 4 * len(values) + 1024:
        there = np.zeros(high - low + 1, np.bool_)
        above = np.subtract(values, low, dtype=np.int64)
        there[above] = True
        if there.all():
            return np.arange(low, high + 1), above
        place = np.cumsum(there) - 1
        return np.flatnonzero(there) + low, place[above]
    return sorted_unique(values)


def by_code(codes: AnyInts, count: int) -> list[Ints]:
    """For each of ``count`` codes from 0 on the rows that have it, in ascending order."""
    size = np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.int64
    order = np.argsort(codes.astype(size), kind="stable")  # small numbers are sorted in a pass or two
    return np.split(order, np.cumsum(np.bincount(codes, minlength=count))[:-1])[:count]


def sorted_unique(values: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The same by sorting, for numbers of any kind."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(values)]
    codes = np.empty(len(values), np.int64)
    codes[order] = np.cumsum(first) - 1
    return ordered[first], codes


def objects(codes: AnyInts, texts: Sequence[str], missing: str = "") -> Objects:
    """Codes into texts as an array of Python strings; code -1 reads as ``missing``."""
    return made_of(codes, texts, missing)


def numbered(values: Ints, names: Mapping[int, str], missing: str = "unknown") -> tuple[Ints, list[str]]:
    """Numbers of an enumeration as codes into their names."""
    distinct, codes = unique(values)
    return codes, [names.get(int(number), missing) for number in distinct]


def named(values: Ints, names: Mapping[int, str], missing: str = "unknown") -> Objects:
    """Numbers of an enumeration as their names."""
    return objects(*numbered(values, names, missing))


def joined(parts: Sequence[Column]) -> Column:
    """Parts of a column as one."""
    values = together([part.values for part in parts])
    if all(part.present is None for part in parts):
        return Column(values)
    present = together([part.there() for part in parts])
    return Column(values, None if present.all() else present)


def together(parts: Sequence[NDArray[Any]], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Parts one after the other (in ``out``); where all are the same number, in the memory of one."""
    some = [part for part in parts if len(part)]
    if some and all(is_narrow(part) and part[0] == some[0][0] for part in some):
        return np.broadcast_to(some[0][0], sum(map(len, some)))
    return np.concatenate(some or list(parts) or [np.empty(0, np.int64)], out=out)


def process_keys(pid: Ints, number: Ints, other_pid: Ints, other_number: Ints) -> tuple[Ints, Ints]:
    """One integer for each (process, number), the same in both tables."""
    pids, process = unique(np.concatenate((pid, other_pid)))
    numbers = np.concatenate((number, other_number))
    low = int(numbers.min()) if len(numbers) else 0
    width = int(numbers.max()) - low + 1 if len(numbers) else 1
    if len(pids) * width < 1 << 62:
        keys = process * width + (numbers - low)
    else:
        numbers = unique(numbers)[1]
        keys = process * (len(numbers) + 1) + numbers
    keys = np.asarray(keys, np.int64)
    return keys[: len(pid)], keys[len(pid) :]


_FEWEST = 1024  # rows from which on it is worth it
_ONE_BY_ONE = 4  # texts that are compared, not looked up
LONGEST = (
    1 << 16
)  # characters that are kept of a text: no compiler makes longer names, and patterns take long


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
