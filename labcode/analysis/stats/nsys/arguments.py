"""Arguments of nsys' reports, as in ``cuda_gpu_kern_sum:base``: a report's name in, what it asks for out.

``base`` names kernels without their template and call arguments, ``mangled`` as the linker does. Where both
are given, nsys goes by ``base``. ``nvtx-name`` puts the name of the innermost range around a kernel's launch
before its name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labcode.errors import LabError
from labcode.reports.columns import Column
from labcode.reports.nsys import schema
from labcode.reports.nsys.source import Source

NAMES = {"base": "shortName", "mangled": "mangledName"}
BY_RANGE = "nvtx-name"
WITH_KERNEL_NAMES = (
    "cuda_api_gpu_sum",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_sum",
    "cuda_gpu_trace",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
    "nvtx_kern_sum",
)
WITHOUT_RANGES = ("nvtx_kern_sum",)  # has the ranges in a column of their own


def split(report: str) -> tuple[str, tuple[str, ...]]:
    """``cuda_gpu_kern_sum:base`` as name and arguments; `LabError` for an argument it does not take."""
    name, *arguments = report.split(":")
    known = tuple(NAMES) if name in WITH_KERNEL_NAMES else ()
    if known and name not in WITHOUT_RANGES:
        known = (*known, BY_RANGE)
    for argument in arguments:
        if argument not in known:
            takes = f"it takes {', '.join(known[:-1])} or {known[-1]}" if known else "it takes none"
            raise LabError(f"{report}: {argument!r} is not an argument of the report {name}; {takes}")
    return name, tuple(arguments)


def with_arguments(source: Source, arguments: Sequence[str]) -> Source:
    """The export as a report with these arguments sees it."""
    column = next((NAMES[argument] for argument in NAMES if argument in arguments), "demangledName")
    if BY_RANGE in arguments:
        from labcode.analysis.stats.nsys.range_names import RangeNames

        return RangeNames(OtherNames(source, column))
    return source if column == "demangledName" else OtherNames(source, column)


class OtherNames(Source):
    """An export whose kernels go by another of their names, where it recorded that."""

    def __init__(self, source: Source, column: str) -> None:
        self.__dict__.update(source.__dict__)
        self._name = column

    def ints(self, table: str, columns: Sequence[str], where: str = "") -> dict[str, Column]:
        """As `Source.ints`, the other name in place of the demangled one."""
        if table != schema.KERNEL or not {"demangledName"} <= {*columns} - {self._name}:
            return super().ints(table, columns, where)
        found = super().ints(table, (*columns, self._name), where)
        other, usual = found.pop(self._name), found["demangledName"]
        if other.present is not None:
            present = None if usual.present is None else other.present | usual.present
            other = Column(np.where(other.present, other.values, usual.values), present)
        return {**found, "demangledName": other}
