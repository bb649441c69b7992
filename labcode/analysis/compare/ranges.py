"""Ranges of two captures in; families of numbered names, and the periods from start to start, out.

The length of a range says little where a program runs ahead: on the CPU a step ends when all is launched, and
its span on the GPU leaves out the idle time before its first operation. From the start of one step to the
start of the next, everything counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STARTS = ("label", "pid", "tid", "start_ns")


def family_of(names: Iterable[str]) -> Callable[[str], str]:
    """A function from a name to its family: of names that differ in their last number alone, "step #"."""
    members: dict[str, set[str]] = {}
    for name in names:
        members.setdefault(_unnumbered(name), set()).add(name)

    def family(name: str) -> str:
        common = _unnumbered(name)
        return common if len(members.get(common, ())) > 1 else name

    return family


def by_family(times: Mapping[str, Floats], family: Callable[[str], str]) -> dict[str, Floats]:
    """The values of all names of a family together."""
    parts: dict[str, list[Floats]] = {}
    for name, values in times.items():
        parts.setdefault(family(name), []).append(values)
    return {name: np.concatenate(values) for name, values in parts.items()}


def periods(starts: pd.DataFrame, family: Callable[[str], str]) -> dict[str, Floats]:
    """ns from the start of a range to that of the next of its family on the same thread, by family.

    ``starts`` has the columns `STARTS`. Families that come once on each thread have no period.
    """
    table = starts.assign(family=[family(name) for name in starts["label"]])
    table = table.sort_values("start_ns", kind="stable")
    table["period"] = table.groupby(["family", "pid", "tid"])["start_ns"].diff()
    table = table[table["period"].notna()]
    places = pd.Series(range(len(table))).groupby(table["family"].to_numpy()).indices
    values = table["period"].to_numpy(np.float64)
    return {str(name): values[rows] for name, rows in places.items()}


def both_periods(
    on_gpu: tuple[pd.DataFrame, pd.DataFrame],
    on_cpu: tuple[pd.DataFrame, pd.DataFrame],
    family: Callable[[str], str],
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The periods of both sides: between starts on the GPU where both have these, else on the CPU."""
    gpu = [periods(starts, family) for starts in on_gpu]
    cpu = [periods(starts, family) for starts in on_cpu]
    common = set(gpu[0]) & set(gpu[1])
    one, other = (
        {name: side_gpu[name] if name in common else values for name, values in side_cpu.items()}
        for side_gpu, side_cpu in zip(gpu, cpu, strict=True)
    )
    return one, other


def _unnumbered(name: str) -> str:
    return re.sub(r"\d+$", "#", name)
