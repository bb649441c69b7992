"""The GPU's own counters over time (``nsys profile --gpu-metrics-devices``): an open export in, series out.

nsys gives each counter a number of the capture's own, so they go by their names. Only numpy is needed: a
million samples are read in a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from labcode.reports.columns import Ints, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.source import Source

_GPU = 0xFF  # of typeId: the number of the GPU
_MHZ, _FASTEST_MHZ = "[MHz]", 100_000
_NAME = re.compile(r"(?P<name>.*?)\s*\[(?P<unit>[^\[\]]*)\]")


@dataclass(frozen=True, eq=False)
class Counter:
    """One counter of one GPU: its name as nsys writes it, its samples by time.

    A sample that nsys stamps ``time_ns`` tells of the time from then until ``until_ns``: so recorded on both
    GPUs of the book, where counters rise and fall with kernels and copies, and documented nowhere.
    """

    device: int
    metric: str  # 'SMs Active [Throughput %]'
    time_ns: Ints
    until_ns: Ints
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

    def within(self, window: tuple[int, int]) -> Counter:
        """The samples that tell of some of a window of time."""
        first, last = (
            np.searchsorted(self.until_ns, window[0], "right"),
            np.searchsorted(self.time_ns, window[1]),
        )
        cut = (times[first:last] for times in (self.time_ns, self.until_ns, self.values))
        return Counter(self.device, self.metric, *cut)


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
        if name.endswith(_MHZ) and int(value[rows].max()) > _FASTEST_MHZ:
            name = name.replace(_MHZ, "[Hz]")  # clocks are called so and stored in Hz
        when = time[rows]
        found.append(Counter(owner & _GPU, name, when, _until(when), value[rows]))
    return sorted(found, key=lambda counter: counter.device)


def _until(time: Ints) -> Ints:
    """When the time of each sample ends: at the next one; the last has the usual length."""
    usual = int(np.median(np.diff(time))) if len(time) > 1 else 0
    return np.append(time[1:], time[-1:] + usual)


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
