"""How sure a ratio is: durations before and after in, the ratio of medians (or totals) with an interval out.

The interval is the percentile bootstrap, seeded, so that the same files give the same answer. BCa is not
used: its jackknife degenerates on medians of tied values, and the timer of a GPU ticks coarsely enough for
durations to tie. The interval covers the scatter of the instances within the two captures. What differs from
run to run as a whole (clocks, temperature, another machine) it cannot see: repeat the captures to learn that.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np
import pandas as pd

from labcode.errors import LabError
from labcode.reports.columns import Floats

CONFIDENCE = 0.95
THRESHOLD = 0.05  # a smaller change is not called one, however sure it is
SAME, UNDECIDED = "no change", "undecided"
# Of fewer than six values not even the whole range holds the true median with 95 %: 1 - 2 · 0.5⁵ is 94 %.
FEWEST = 6
RESAMPLES = 1999
MOST = (
    1000  # values of a sample that are resampled; fewer than there are make the interval wider, not narrower
)
_SEED = 20250101


@dataclass(frozen=True)
class Wishes:
    """How two files are compared: the percentage above which something fails, the form and where it is
    written, the exit code for what is undecided, which launches, where reports of folders are read.
    """

    fail_above: float | None
    fmt: str
    output: TextIO
    undecided_exit: int | None = None
    kernel: str | None = None
    scheduler: str | None = None


@dataclass(frozen=True)
class Interval:
    """A ratio, after ÷ before, and its interval; nan where it cannot be had."""

    ratio: float
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True)
class Limits:
    """From which share on a change is called one, and how far from 1 the interval of no change may reach.

    The second is what --fail-above names, by default 5 %: “no change” has to exclude what would fail.
    """

    changed: float = THRESHOLD
    same: float = THRESHOLD

    def verdict(self, found: Interval, more: str, less: str) -> str:
        """``more`` or ``less`` where the interval leaves out 1 and the ratio is beyond `changed`.

        `SAME` where the whole interval lies within `same`, else `UNDECIDED`: as much as matters can be
        neither shown nor excluded.
        """
        if found.low > 1 and found.ratio > 1 + self.changed:
            return more
        if found.high < 1 and found.ratio < 1 / (1 + self.changed):
            return less
        inside = found.low >= 1 / (1 + self.same) and found.high <= 1 + self.same
        return SAME if inside else UNDECIDED


def limits_of(fail_above: float | None) -> Limits:
    """The limits that ``--fail-above`` (in percent) sets: what would fail is called a change."""
    same = THRESHOLD if fail_above is None else fail_above / 100
    return Limits(min(THRESHOLD, same), same)


def undecided(table: pd.DataFrame, limit: float) -> pd.DataFrame:
    """The rows of which the interval neither shows nor excludes that they grew by more than ``limit``."""
    return table[(table["ratio_low"] <= 1 + limit) & (table["ratio_high"] > 1 + limit)]


def exit_code(failed: int, unsure: int, undecided_exit: int | None) -> int:
    """1 where something failed; else what was asked for where something is undecided; else 0."""
    return 1 if failed else undecided_exit if unsure and undecided_exit is not None else 0


def check_exit(code: int | None) -> None:
    """`LabError` for an exit code that there is not."""
    if code is not None and not 1 <= code <= 255:
        raise LabError(f"--undecided-exit {code}: give an exit code from 1 to 255, such as 3")


def median_ratio(before: Floats, after: Floats) -> Interval:
    """The ratio of medians; without an interval when either side has fewer than `FEWEST` values."""
    if not len(before) or not len(after):
        return Interval(float("nan"))
    one, other = median(before), median(after)
    ratio = other / one if one > 0 else float("nan")
    if min(len(before), len(after)) < FEWEST or not np.isfinite(ratio):
        return Interval(ratio)

    def statistic(one: Floats, other: Floats, axis: int = -1) -> Floats:
        return _divided(_median(other, axis), _median(one, axis))

    return _bootstrapped(ratio, (_thinned(before), _thinned(after)), statistic)


def median(values: Floats) -> float:
    """The median, nan of none; of few values without NumPy's, which takes ten times as long to begin."""
    if len(values) >= FEWEST:
        return float(np.median(values))
    few = values.tolist()
    return float(statistics.median(few)) if few and not any(map(math.isnan, few)) else float("nan")


def total_ratio(before: Sequence[Floats], after: Sequence[Floats]) -> Interval:
    """The ratio of sums over several groups, each resampled for itself.

    Without an interval when most of either side's time lies in groups of fewer than `FEWEST` values.
    """
    sums = [sum(float(values.sum()) for values in side) for side in (before, after)]
    ratio = float(_divided(np.asarray(sums[1]), np.asarray(sums[0])))
    judged = [
        sum(float(values.sum()) for values in side if len(values) >= FEWEST) for side in (before, after)
    ]
    if not np.isfinite(ratio) or any(2 * a <= b for a, b in zip(judged, sums, strict=True)):
        return Interval(ratio)
    groups = [(1, values) for values in after if len(values)] + [(0, v) for v in before if len(v)]
    sides = np.array([side for side, _ in groups])
    counts = np.array([len(values) for _, values in groups])

    def statistic(*samples: Floats, axis: int = -1) -> Floats:
        means = [np.mean(sample, axis=axis) * count for sample, count in zip(samples, counts, strict=True)]
        top = sum(mean for mean, side in zip(means, sides, strict=True) if side == 1)
        bottom = sum(mean for mean, side in zip(means, sides, strict=True) if side == 0)
        return _divided(np.asarray(top), np.asarray(bottom))

    return _bootstrapped(ratio, [_thinned(values) for _, values in groups], statistic)


def _bootstrapped(ratio: float, samples: Sequence[Floats], statistic: Any) -> Interval:
    if all(values.min() == values.max() for values in samples):  # nothing scatters: nothing to resample
        return Interval(ratio, ratio, ratio)
    rng = np.random.default_rng(_SEED)
    batch = max(1, 1_000_000 // max(len(values) for values in samples))
    ratios = []
    for first in range(0, RESAMPLES, batch):
        times = min(batch, RESAMPLES - first)
        drawn = [values[rng.integers(0, len(values), (times, len(values)))] for values in samples]
        ratios.append(statistic(*drawn, axis=-1))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(ratios), (tail, 1 - tail))  # nan where some ratio is
    # Of thinned samples the ratio may lie outside of the interval of what was kept.
    return Interval(ratio, min(float(low), ratio), max(float(high), ratio))


def _thinned(values: Floats) -> Floats:
    """At most `MOST` of the values: evenly over their order, so that no quantile shifts."""
    if len(values) <= MOST:
        return values
    place = (np.arange(MOST) + 0.5) * len(values) / MOST
    return np.asarray(np.sort(values)[place.astype(np.int64)], np.float64)


def _median(values: Floats, axis: int) -> Floats:
    """NumPy's median of finite values, several times sooner: it partitions fast at a single place."""
    last = np.moveaxis(values, axis, -1)
    middle = last.shape[-1] // 2
    parted = np.partition(last, middle, axis=-1)
    upper = parted[..., middle]
    return upper if last.shape[-1] % 2 else (parted[..., :middle].max(axis=-1) + upper) / 2


def _divided(top: Floats, bottom: Floats) -> Floats:
    ratio = np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > 0)
    return np.asarray(ratio, np.float64)
