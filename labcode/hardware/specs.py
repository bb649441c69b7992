"""Published peaks of the GPUs the book names: a GPU's name in; rates, bandwidth and their source out.

Rates are dense (without structured sparsity) in TFLOP/s, tensor rates with fp32 accumulation; memory
bandwidth in GB/s. ``specs.csv`` has what vendors print, at a clock that a card under load may not reach: a
roof to compare with, not a measurement. What a device says of itself (SMs, L2, shared memory, clocks) is not
repeated here.
"""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Spec:
    """Peaks of one GPU; None where the vendor states none or the hardware lacks the feature."""

    name: str
    cc: str
    fp64: float
    fp64_tensor: float | None
    fp32: float
    tf32_tensor: float | None
    fp16_tensor: float | None
    fp8_tensor: float | None
    memory_gb_s: float
    watts: int
    source: str

    def peak(self, precision: str) -> float | None:
        """The peak in FLOP/s of a precision (one of `PRECISIONS`); None where there is none."""
        rate = getattr(self, precision)
        return None if rate is None else float(rate) * 1e12


PRECISIONS = ("fp64", "fp64_tensor", "fp32", "tf32_tensor", "fp16_tensor", "fp8_tensor")


def _specs() -> Iterator[Spec]:
    with Path(__file__).with_name("specs.csv").open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            values: dict[str, Any] = {**row}
            for key in row.keys() - {"name", "cc", "source"}:
                values[key] = json.loads(row[key]) if row[key] else None
            yield Spec(**values)


SPECS: tuple[Spec, ...] = tuple(_specs())


def find_spec(device: str) -> Spec | None:
    """The spec of a GPU by the name its driver gives (``NVIDIA H100 80GB HBM3``); None when it is not listed.

    Of the listed names whose words all occur in the device's name, in order, the longest counts.
    """
    matches = [one for one in SPECS if re.search(_words(one.name), device, re.IGNORECASE)]
    return max(matches, key=lambda one: len(one.name), default=None)


def _words(name: str) -> str:
    return r"(?<!\w)" + r"[\s\-]+".join(map(re.escape, re.split(r"[\s\-]+", name))) + r"(?!\w)"
