"""Repeated times on several numbers of GPUs in; checked samples, and medians of what is drawn again, out."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from labcode.errors import InputError
from labcode.reports.columns import Floats

Times = Mapping[int, Sequence[float]]
"""Number of GPUs → repeated times of a step, in ascending order of the numbers; any one unit."""

DRAWS = 1000
LEVEL = 0.95


def of_cases(cases: Iterable[Mapping[str, Any]]) -> dict[int, list[float]]:
    """The ``step_ms`` of a record's cases by their number of GPUs, which ascends."""
    return {int(c["count"]): list(c["step_ms"]) for c in sorted(cases, key=lambda case: int(case["count"]))}


def checked(times: Times, least: int = 2) -> tuple[Floats, list[Floats]]:
    """The numbers of GPUs and the times of each; `InputError` for what no law can be fitted to."""
    counts = list(times)
    if len(counts) < least:
        known = ", ".join(map(str, counts)) or "no"
        raise InputError(f"times on {known} GPUs only; times on {least} numbers of GPUs are needed")
    if any(not isinstance(count, int | np.integer) or count < 1 for count in counts):
        raise InputError(f"numbers of GPUs are whole and from 1 on, not {', '.join(map(str, counts))}")
    if any(a >= b for a, b in pairwise(counts)):
        raise InputError(f"numbers of GPUs must ascend, not {', '.join(map(str, counts))}; sort the table")
    values = [np.asarray(times[count], np.float64) for count in counts]
    for count, own in zip(counts, values, strict=True):
        if own.size == 0 or not np.isfinite(own).all() or (own <= 0).any():
            raise InputError(f"a time on {count} GPUs is missing, zero or negative; measure it again")
    return np.asarray(counts, np.float64), values


def drawn_medians(values: Sequence[Floats], seed: int = 1) -> Floats:
    """[`DRAWS`, number of samples]: each sample's median when its values are drawn again with replacement."""
    rng = np.random.default_rng(seed)
    return np.stack([np.median(rng.choice(own, (DRAWS, own.size)), axis=1) for own in values], axis=1)


def drawn_slowest(own: Floats, ranks: int, seed: int = 1) -> Floats:
    """[`DRAWS`]: medians of the values drawn again, each the largest of some, as many as ranks are at most.

    A step waits for its slowest rank. Times of one GPU do not say whether ranks are late each on its own (the
    largest of all counts) or all at once (any one does): each drawing takes a number between.
    """
    rng = np.random.default_rng(seed)
    drawn = np.maximum.accumulate(rng.choice(own, (DRAWS, ranks, own.size)), axis=1)
    apart = rng.integers(0, ranks, DRAWS)
    return np.asarray(np.median(drawn[np.arange(DRAWS), apart], axis=1))


def interval(draws: Floats) -> tuple[Floats, Floats]:
    """The 95 % that lie in the middle of the draws (axis 0)."""
    edge = (1 - LEVEL) / 2
    low, high = np.quantile(draws, (edge, 1 - edge), axis=0)
    return low, high
