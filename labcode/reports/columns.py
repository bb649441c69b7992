"""Columns of integers as numpy arrays, and codes into texts: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode.reports.texts import made_of

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
        return self.values if self.present is None else np.where(self.present, self.values, missing)

    def there(self) -> Bools:
        """Which values are there."""
        return np.ones(len(self.values), np.bool_) if self.present is None else self.present

    def take(self, which: Bools | Ints) -> Column:
        """The same column with only some rows."""
        return Column(self.values[which], None if self.present is None else self.present[which])

    def without(self, rows: Ints) -> Column:
        """The same column without a few rows, which are in ascending order."""
        present = None if self.present is None else without(self.present, rows)
        if present is not None and present.all():
            present = None
        return Column(without(self.values, rows), present)


def without(values: NDArray[Any], rows: Ints) -> NDArray[Any]:
    """An array without a few rows, which are in ascending order: pieces are quicker to copy than rows."""
    bounds = [-1, *rows.tolist(), len(values)]
    return np.concatenate([values[low + 1 : high] for low, high in pairwise(bounds)])


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers; where all are the same number, in the memory of one."""
    if len(values) and (values == values[0]).all():
        return np.broadcast_to(values[:1].copy()[0], len(values))
    if len(values) and values.dtype.kind == "f" and np.isnan(values).all():
        return np.broadcast_to(np.float64("nan"), len(values))
    return values


def small(values: Ints) -> Ints:
    """The same numbers in half of the memory, where they fit."""
    fit = not len(values) or (int(values.max()) < 1 << 31 and int(values.min()) >= -1 << 31)
    return values.astype(np.int32) if fit else values


def is_narrow(values: NDArray[Any]) -> bool:
    """Whether all are the same number in the memory of one."""
    return len(values) > 0 and values.strides == (0,)


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
        there[values - low] = True
        place = np.cumsum(there) - 1
        return np.flatnonzero(there) + low, place[values - low]
    return sorted_unique(values)


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
    none: Ints = np.empty(0, np.int64)
    values = np.concatenate([none, *(part.values for part in parts)])
    if all(part.present is None for part in parts):
        return Column(values)
    present = np.concatenate([part.there() for part in parts])
    return Column(values, None if present.all() else present)


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
