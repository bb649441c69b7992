"""Arguments of nsys' reports, as in ``cuda_gpu_kern_sum:base``: a report's name in, what it asks for out.

``base`` names kernels without their template and call arguments, ``mangled`` as the linker does. Where both
are given, nsys goes by ``base``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labcode.errors import LabError
from labcode.reports import nsys_schema as schema
from labcode.reports.nsys_columns import Column
from labcode.reports.nsys_source import Source

NAMES = {"base": "shortName", "mangled": "mangledName"}
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


def split(report: str) -> tuple[str, tuple[str, ...]]:
    """``cuda_gpu_kern_sum:base`` as name and arguments; `LabError` for an argument it does not take."""
    name, *arguments = report.split(":")
    known = tuple(NAMES) if name in WITH_KERNEL_NAMES else ()
    for argument in arguments:
        if argument not in known:
            takes = f"it takes {' or '.join(known)}" if known else "it takes none"
            raise LabError(f"{report}: {argument!r} is not an argument of the report {name}; {takes}")
    return name, tuple(arguments)


def with_arguments(source: Source, arguments: Sequence[str]) -> Source:
    """The export as a report with these arguments sees it."""
    for argument in NAMES:
        if argument in arguments:
            return _OtherNames(source, NAMES[argument])
    return source


class _OtherNames(Source):
    """An export whose kernels go by another of their names, where it recorded that."""

    def __init__(self, source: Source, column: str) -> None:
        self.__dict__.update(source.__dict__)
        self._name = column

    def ints(self, table: str, columns: Sequence[str], where: str = "") -> dict[str, Column]:
        """As `Source.ints`, the other name in place of the demangled one."""
        if table != schema.KERNEL or "demangledName" not in columns:
            return super().ints(table, columns, where)
        found = super().ints(table, (*columns, self._name), where)
        other, usual = found.pop(self._name), found["demangledName"]
        if other.present is not None:
            present = None if usual.present is None else other.present | usual.present
            other = Column(np.where(other.present, other.values, usual.values), present)
        return {**found, "demangledName": other}
