"""`Slots` as they serve: making graphs moves no sequence, and pages that hold no numbers are wiped."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from labcode.workloads.inference.runners import Slots


class Server(Slots):
    """Slots for an `Engine`."""

    def step_of(self, rows: int) -> Callable[[], Tensor]:
        """As `Slots.step_of`; making the graph runs the step once, which counts for no sequence."""
        if rows in self.steps:
            return super().step_of(rows)
        before = self.lengths.clone()
        step = super().step_of(rows)
        self.lengths.copy_(before)
        return step

    def wipe(self, slot: int) -> None:
        """Take from a slot's pages what is no number: 0 times that is none either, behind every mask."""
        pages = self.mine[slot]
        self.pool.keys[:, pages] = 0
        self.pool.values[:, pages] = 0
