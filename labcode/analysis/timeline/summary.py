"""Statistics by group and by name: rows with durations in, one row for each group or name out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.timeline.joins import duration_ns

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
STATISTICS = ("count", "total_ns", "share", "mean_ns", "median_ns", "min_ns", "max_ns", "std_ns")


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
        keys.sort()
        keys &= (1 << bits) - 1
        keys += low
        return keys
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


def kernel_summary(kernels: pd.DataFrame, by: str = "name") -> pd.DataFrame:
    """Kernels by name, the most total time first.

    ``by`` is 'name' (with template arguments) or 'short_name'. Columns: name; count; total_ns (durations
    summed: concurrent kernels count each); share (of the summed time of all kernels); mean_ns, median_ns,
    min_ns, max_ns, std_ns (of a sample; 0 for one kernel).
    """
    return _summary(kernels, by)


def api_summary(api: pd.DataFrame) -> pd.DataFrame:
    """CUDA API calls by name, the most total time first; columns as of `kernel_summary`.

    A driver call inside a runtime call counts in both rows; `api` tells them apart by event_class.
    """
    return _summary(api, "name")


def _summary(table: pd.DataFrame, by: str) -> pd.DataFrame:
    codes, names = pd.factorize(table[by])
    stats = group_stats(codes.astype(np.int64), duration_ns(table), len(names))
    whole = int(stats.total.sum())
    summary = pd.DataFrame(
        {
            "name": pd.Series(names, dtype="str"),
            "count": stats.count,
            "total_ns": stats.total,
            "share": stats.total / whole if whole else np.full(len(names), np.nan),
            "mean_ns": stats.mean,
            "median_ns": stats.median,
            "min_ns": stats.least,
            "max_ns": stats.greatest,
            "std_ns": stats.std,
        }
    )
    return summary.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)
