"""Samples of one GPU over hours in bounded memory: readings in; columns, neighbors merged where many, out."""

from array import array

from labcode.meter.gpus import Reading
from labcode.reports.power.schema import COLUMNS, Values

MOST = 1 << 19  # samples of a GPU, in 36 MiB; at 100 ms, 14 hours
_MISSING = -1
Call = tuple[int, int]  # when it began and when it was answered, in ns


class Columns:
    """Columns of integers, 72 bytes per sample: when its call began and ended, and what was read.

    At ``most`` samples, neighbors are merged in pairs: powers, clocks and temperature are averaged, which
    preserves the integral of the power; times and counter are the later sample's, which keeps the counter
    exact; reasons are combined. ``merged`` is the number of samples that one now stands for, ``peak_mw`` the
    highest power before any merging.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.merged = 1
        self.peak_mw: int | None = None
        self.before_ns, self.after_ns = array("q"), array("q")
        self._values = {name: array("q") for name in COLUMNS}
        self._pending: list[tuple[Call, Reading]] = []

    def __len__(self) -> int:
        return len(self.before_ns)

    def last(self, name: str) -> int | None:
        """The latest value of a column that is not missing; None without one."""
        return next((value for value in reversed(self._values[name]) if value != _MISSING), None)

    def add(self, call: Call, reading: Reading) -> None:
        """Append a sample; where earlier ones were merged, only once it completes as large a group."""
        if reading[0] is not None:
            self.peak_mw = max(self.peak_mw or 0, reading[0])
        if self.merged > 1:
            self._pending.append((call, reading))
            if len(self._pending) < self.merged:
                return
            call, reading = self._average(self._pending)
            self._pending = []
        self._append(call, reading)
        if len(self) >= self.most:
            self._halve()

    def values(self, name: str) -> Values | None:
        """A column, with None for each missing reading; None where all of them are missing."""
        found = [None if value == _MISSING else value for value in self._values[name]]
        return found if any(value is not None for value in found) else None

    def _append(self, call: Call, reading: Reading) -> None:
        self.before_ns.append(call[0])
        self.after_ns.append(call[1])
        for column, value in zip(self._values.values(), reading, strict=True):
            column.append(_MISSING if value is None else value)

    def _halve(self) -> None:
        before, after, rows = self.before_ns, self.after_ns, list(self._values.values())
        self.before_ns, self.after_ns = array("q"), array("q")
        self._values = {name: array("q") for name in COLUMNS}
        for place in range(0, len(before) - 1, 2):
            pair = [
                ((before[p], after[p]), tuple(None if row[p] == _MISSING else row[p] for row in rows))
                for p in (place, place + 1)
            ]
            self._append(*self._average(pair))
        self.merged *= 2

    @staticmethod
    def _average(samples: list[tuple[Call, Reading]]) -> tuple[Call, Reading]:
        made: list[int | None] = []
        for name, values in zip(COLUMNS, zip(*(reading for _, reading in samples), strict=True), strict=True):
            there = [value for value in values if value is not None]
            if not there:
                made.append(None)
            elif name == "energy_mj":
                made.append(values[-1])
            elif name == "reasons":
                bits = 0
                for value in there:
                    bits |= value
                made.append(bits)
            else:
                made.append(round(sum(there) / len(there)))
        return samples[-1][0], tuple(made)
