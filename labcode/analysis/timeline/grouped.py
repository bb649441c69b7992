"""Statistics by group: a group number and an integer for each row in, statistics of each group out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode.reports.columns import Floats, Ints


@dataclass(frozen=True)
class GroupStats:
    """For each group: how many values, their exact sum, mean, median, least, greatest, sample standard
    deviation.

    A group without values has count 0, total 0 and nan elsewhere (0 for least and greatest); the standard
    deviation of a single value is 0, as nsys prints it. ``total`` holds Python integers when a sum leaves 64
    bits.
    """

    count: Ints
    total: NDArray[Any]
    mean: Floats
    median: Floats
    least: Ints
    greatest: Ints
    std: Floats


def group_stats(group: Ints, values: Ints, groups: int) -> GroupStats:
    """Statistics of ``values`` for the groups 0 … ``groups`` - 1."""
    count = np.bincount(group, minlength=groups).astype(np.int64)
    values = _sorted(group, values, groups)
    first = np.cumsum(count) - count
    some = count > 0
    starts = first[some]
    last = first + count - 1
    least, greatest = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    least[some], greatest[some] = values[starts], values[last[some]]
    total = _totals(values, starts, count[some])
    totals: NDArray[Any] = np.zeros(groups, total.dtype)
    totals[some] = total
    mean, median, std = (np.full(groups, np.nan) for _ in range(3))
    mean[some] = (total / count[some]).astype(np.float64)
    low, high = values[first[some] + (count[some] - 1) // 2], values[first[some] + count[some] // 2]
    median[some] = low + (high - low) / 2
    std[some] = _deviations(values, low, starts, count[some])
    return GroupStats(count, totals, mean, median, least, greatest, std)


def _sorted(group: Ints, values: Ints, groups: int) -> Ints:
    """The values by group and value; in one sort of single integers where both fit into one."""
    if len(values) == 0:
        return values
    low, high = int(values.min()), int(values.max())
    bits = (high - low).bit_length()
    if groups << bits < 1 << 62:
        keys = group << bits
        keys += values - low
        if groups << bits <= len(values):  # few enough to count how often each comes
            often = np.bincount(keys)
            keys = np.repeat(np.arange(len(often)), often) & ((1 << bits) - 1)
            keys += low
            return keys
        if groups << bits <= 1 << 32:  # half as wide: sorted in half the time
            keys = keys.astype(np.uint32)
        keys.sort()
        keys &= keys.dtype.type((1 << bits) - 1)
        return keys + np.int64(low)
    return values[np.lexsort((values, group))]


def _totals(values: Ints, starts: Ints, count: Ints) -> NDArray[Any]:
    if len(values) == 0:
        return np.empty(0, np.int64)
    widest = max(abs(int(values.min())), abs(int(values.max())))
    if widest * int(count.max()) < 1 << 63:
        return np.add.reduceat(values, starts)
    return np.add.reduceat(values.astype(object), starts)


def _deviations(values: Ints, middle: Ints, starts: Ints, count: Ints) -> Floats:
    """Sample standard deviation, from distances to a value in the middle, so that nothing large cancels."""
    if len(values) == 0:
        return np.empty(0)
    center = np.repeat(middle, count)
    if int(values.max()) - int(values.min()) < 1 << 63:
        distance = (values - center).astype(np.float64)
    else:
        distance = values.astype(np.float64) - center
    sums = np.add.reduceat(distance, starts)
    squares = np.add.reduceat(distance * distance, starts)
    variance = np.maximum(squares - sums * sums / count, 0) / np.maximum(count - 1, 1)
    return np.asarray(np.sqrt(variance), np.float64)
