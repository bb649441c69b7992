"""Kernels named after the innermost range around their launch: an export in, the same with such names out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labcode.analysis.stats.nsys.coverage import launching_calls, pairs
from labcode.analysis.stats.nsys.nvtx import read_ranges
from labcode.analysis.stats.nsys.tables import merged
from labcode.reports.columns import Column, Ints, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.names import pid_of
from labcode.reports.nsys.source import Source

_OWN = -2  # names of our own have the numbers from here downwards, which no text of an export has


class RangeNames(Source):
    """An export whose kernels are called ``range/kernel``, as nsys 2024.2 and 2025.3.1 have it.

    The range is the one that begins last among those around a call that launched the kernel, on its thread;
    of several that begin together, the one in the first row. Its domain is left away. A kernel without such a
    range, or whose range has no text, keeps its name.
    """

    def __init__(self, source: Source) -> None:
        self.__dict__.update(source.__dict__)
        self._plain = source
        self._codes: Ints | None = None  # of each kernel: a number of a name below
        self._texts: list[str] = []

    def ints(self, table: str, columns: Sequence[str], where: str = "") -> dict[str, Column]:
        """As `Source.ints`, with names of our own in place of the demangled ones."""
        found = self._plain.ints(table, columns, where)
        if table != schema.KERNEL or "demangledName" not in columns or where:
            return found
        if self._codes is None:
            self._codes = self._named()
        return {**found, "demangledName": Column(_OWN - self._codes)}

    def strings(self, ids: Column) -> tuple[Ints, list[str]]:
        """As `Source.strings`, also for names of our own."""
        if self._codes is None or len(ids.values) == 0 or int(ids.values.max()) > _OWN:
            return self._plain.strings(ids)
        return _OWN - ids.values, self._texts

    def _named(self) -> Ints:
        """Names for all kernels, as codes into texts."""
        raw = self._plain.ints(schema.KERNEL, ("globalPid", "correlationId", "demangledName"))
        ranges, elsewhere = read_ranges(self._plain, default_domain="", domains=False)
        ranges = ranges.take(~elsewhere)
        linked = raw["correlationId"].present
        rows = np.arange(len(raw["globalPid"].values)) if linked is None else np.flatnonzero(linked)
        key, calls = launching_calls(
            self._plain, pid_of(raw["globalPid"].values[rows]), raw["correlationId"].values[rows]
        )
        best = np.full(int(key.max(initial=-1)) + 1, -1, np.int64)  # the range of each launch
        for row, call in pairs(ranges, calls):
            launch = np.concatenate((calls.key[call], np.flatnonzero(best >= 0)))
            among = np.concatenate((row, best[best >= 0]))
            order = np.lexsort((-ranges.number[among], ranges.start[among], launch))
            last = order[np.flatnonzero(np.diff(launch[order], append=-1))]
            best[launch[last]] = among[last]
        around = np.full(len(raw["globalPid"].values), -1, np.int64)
        around[rows] = best[key]
        prefix = np.full(len(around), -1, np.int64)
        inside = np.flatnonzero(around >= 0)
        prefix[inside] = np.where(ranges.named[around[inside]], ranges.code[around[inside]], -1)
        code, names = self._plain.strings(raw["demangledName"])
        both, group = unique((prefix + 1) * len(names) + code)
        texts = []
        for pair in both.tolist():
            number, name = divmod(pair, len(names))
            texts.append(f"{ranges.names[number - 1]}/{names[name]}" if number else names[name])
        codes, self._texts = merged(group, texts)
        return codes
