"""Roofline kernels (``cuda/roofline_kernels``): the roofs of this machine, read from the program's record.

The kernels there are measurements of the machine, not ladders toward a library: none is in the catalogue.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labcode.errors import LabError
from labcode.kernels.catalogue import Kernel

KERNELS: tuple[Kernel, ...] = ()


@dataclass(frozen=True)
class Ceiling:
    """A measured roof. ``kind``: "bandwidth" (``value`` in GB/s) or "compute" (TFLOP/s).

    ``spread``: the values at the quartiles of the times. ``published``: the card's datasheet, None where it
    says nothing. ``at_measured_clock``: what the units can do at ``sm_clock_mhz``, the clock during the run.
    """

    name: str
    kind: str
    level: str
    unit: str
    value: float
    spread: tuple[float, float]
    published: float | None
    source: str
    sm_clock_mhz: float | None
    at_measured_clock: float | None


def ceilings(record: Mapping[str, Any]) -> tuple[Ceiling, ...]:
    """The roofs in a record of ``roofline_kernels``; `LabError` when it has none."""
    entries = record.get("results", {}).get("ceilings")
    if record.get("program") != "roofline_kernels" or not entries:
        raise LabError(
            "this record holds no measured roofs; make one with "
            "«python -m labcode.workloads.cuda roofline_kernels --variant ceilings --json FILE»"
        )
    return tuple(
        Ceiling(
            entry["name"],
            entry["kind"],
            entry["level"],
            entry["unit"],
            entry["value"],
            (entry["spread"][0], entry["spread"][1]),
            entry["published"],
            entry["source"],
            entry["sm_clock_mhz"],
            entry["at_measured_clock"],
        )
        for entry in entries.values()
    )
