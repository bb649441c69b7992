"""Periods of steps, for advanced-ex07: a table of ranges in, times from start to start out."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def step_periods(
    ranges: pd.DataFrame, *, pattern: str = r"step \d+", threads: Sequence[str] = ("pid", "tid")
) -> list[float]:
    """ns from the start of each step to the next on its thread, the shortest first.

    Other patterns and other keys of threads are typical mistakes.
    """
    steps = ranges[ranges["name"].str.fullmatch(pattern)].sort_values("start_ns", kind="stable")
    starts = steps["start_ns"].astype("float64")
    times = starts.groupby([steps[key] for key in threads]).diff() if threads else starts.diff()
    return sorted(float(ns) for ns in times.dropna())


def step_lengths(ranges: pd.DataFrame) -> list[float]:
    """The lengths of the steps' own ranges in ns: a typical mistake."""
    steps = ranges[ranges["name"].str.fullmatch(r"step \d+") & ranges["end_ns"].notna()]
    return sorted(float(ns) for ns in (steps["end_ns"] - steps["start_ns"]))
