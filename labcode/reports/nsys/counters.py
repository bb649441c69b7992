"""The GPU's own counters over time (``nsys profile --gpu-metrics-devices``): an open export in, series out.

A sample of a counter tells of the time since the sample before it. nsys gives each counter a number of the
capture's own, so they go by their names. Only numpy is needed: a million samples are read in a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from labcode.reports.columns import Ints, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.source import Source

_GPU = 0xFF  # of typeId: the number of the GPU
_NAME = re.compile(r"(?P<name>.*?)\s*\[(?P<unit>[^\[\]]*)\]")


@dataclass(frozen=True, eq=False)
class Counter:
    """One counter of one GPU: its name as nsys writes it, its samples by time."""

    device: int
    metric: str  # 'SMs Active [Throughput %]'
    time_ns: Ints
    values: Ints

    @property
    def name(self) -> str:
        """The name without the unit: 'SMs Active'."""
        found = _NAME.fullmatch(self.metric)
        return found["name"] if found else self.metric

    @property
    def unit(self) -> str:
        """'%' for shares of what is possible; else as nsys says: 'MHz', 'Avg', or ''."""
        found = _NAME.fullmatch(self.metric)
        unit = found["unit"] if found else ""
        return "%" if unit.endswith("%") else unit

    @cached_property
    def since_ns(self) -> Ints:
        """When the time that each sample tells of begins: at the sample before it."""
        if len(self.time_ns) < 2:
            return self.time_ns.copy()
        typical = int(np.median(np.diff(self.time_ns)))
        return np.append(self.time_ns[0] - typical, self.time_ns[:-1])

    def within(self, window: tuple[int, int]) -> Counter:
        """The samples taken in a window of time, its ends included."""
        low, high = (
            int(np.searchsorted(self.time_ns, window[0], "left")),
            int(np.searchsorted(self.time_ns, window[1], "right")),
        )
        return Counter(self.device, self.metric, self.time_ns[low:high], self.values[low:high])


def read_counters(source: Source) -> list[Counter]:
    """Every counter with samples, by GPU and in the order in which nsys numbers them.

    Raises `labcode.errors.InputError` when the file is damaged.
    """
    raw = source.ints(schema.COUNTERS, ("timestamp", "typeId", "metricId", "value"))
    there = raw["timestamp"].there()
    time, kind, number, value = (
        raw[name].values[there] for name in ("timestamp", "typeId", "metricId", "value")
    )
    numbers, metric = unique(number)
    kinds, whose = unique(kind)
    pairs, series = unique(whose * max(len(numbers), 1) + metric)
    names = _names(source)
    order = np.argsort(series.astype(np.int16) if len(pairs) < 1 << 15 else series, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(series, minlength=len(pairs)))[:-1])
    found = []
    for pair, rows in zip(pairs.tolist(), parts, strict=False):
        owner, own = int(kinds[pair // len(numbers)]), int(numbers[pair % len(numbers)])
        when = time[rows]
        if (when[1:] < when[:-1]).any():
            rows = rows[np.argsort(when, kind="stable")]
        name = names.get((owner, own), f"metric {own}")
        found.append(Counter(owner & _GPU, name, time[rows], value[rows]))
    return sorted(found, key=lambda counter: counter.device)


def _names(source: Source) -> dict[tuple[int, int], str]:
    raw, texts = source.rows(schema.COUNTER_NAMES, ("typeId", "metricId"), ("metricName",))
    codes, known = texts["metricName"]
    return {
        (kind, number): known[code]
        for kind, number, code in zip(
            raw["typeId"].values.tolist(), raw["metricId"].values.tolist(), codes.tolist(), strict=True
        )
        if code >= 0
    }
