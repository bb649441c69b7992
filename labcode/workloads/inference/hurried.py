"""The ladder where time is short: rungs to skip in; the others, and which were skipped, out."""

from __future__ import annotations

from collections.abc import Callable

from labcode.workloads.inference.fused import Plan
from labcode.workloads.inference.ladder import Ladder, Rung
from labcode.workloads.inference.model import Weights

TUNED = "bf16"  # the kind of weights whose products are worth the time of trying; others take the first cut


class Hurried(Ladder):
    """`Ladder` without the rungs ``skipped``, and with one kind of weights tuned."""

    skipped: frozenset[str] = frozenset()

    def climb(self, name: str, make: Callable[[], Rung]) -> None:
        """As `Ladder.climb`, if the rung is not skipped."""
        if name in self.skipped:
            self.left_out[name] = "left out: asked for by --skip"
        else:
            super().climb(name, make)

    def tune(self, kind: str, weights: Weights) -> Plan:
        """As `Ladder.tune`, for one kind."""
        return super().tune(kind, weights) if kind == TUNED else {}
