"""nsys' stats reports: an open capture and a name in, a table with nsys' own columns, units and values out.

Every report gives what ``nsys stats`` 2025.3 prints for the same export: integers exactly, decimals to the
printed digit, rows in the same order. Where that is a slip of nsys (a throughput that rounds the duration
down, two ranges that it loses because they begin and end together), the report's own docstring says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from labcode.analysis.stats.shelf import LackingError, Shelf
from labcode.analysis.stats.table import Table, to_frame
from labcode.errors import LabError
from labcode.reports.columns import Column
from labcode.reports.nsys import schema
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.source import Source

if TYPE_CHECKING:
    import pandas as pd

    from labcode.reports.nsys.report import NsysReport

# Where each report is made; only what is asked for is imported.
_MODULES = {
    "cuda_api_gpu_sum": "sums",
    "cuda_api_sum": "sums",
    "cuda_api_trace": "traces",
    "cuda_gpu_kern_gb_sum": "sums",
    "cuda_gpu_kern_sum": "sums",
    "cuda_gpu_mem_size_sum": "sums",
    "cuda_gpu_mem_time_sum": "sums",
    "cuda_gpu_sum": "sums",
    "cuda_gpu_trace": "traces",
    "cuda_kern_exec_sum": "launches",
    "cuda_kern_exec_trace": "launches",
    "mpi_event_sum": "programming_models",
    "mpi_event_trace": "programming_models",
    "nvtx_gpu_proj_sum": "ranges_on_gpu",
    "nvtx_gpu_proj_trace": "ranges_on_gpu",
    "nvtx_kern_sum": "ranges_on_gpu",
    "nvtx_pushpop_sum": "nvtx",
    "nvtx_pushpop_trace": "nvtx",
    "nvtx_startend_sum": "nvtx",
    "nvtx_sum": "nvtx",
    "openacc_sum": "programming_models",
    "openmp_sum": "programming_models",
    "osrt_sum": "sums",
    "um_cpu_page_faults_sum": "programming_models",
    "um_sum": "programming_models",
    "um_total_sum": "programming_models",
}
# Tables of nsys' rules, which `nsys stats` has not, but `nsys analyze`.
_RULES = dict.fromkeys(
    ("cuda_api_sync", "cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync"), "expert"
)

REPORTS: dict[str, Callable[[NsysReport], pd.DataFrame]]  # each as a DataFrame, with its documentation


def _function(name: str) -> Callable[..., Table]:
    made: Callable[..., Table] = getattr(
        importlib.import_module(f"labcode.analysis.stats.nsys.{(_MODULES | _RULES)[name]}"), name
    )
    return made


def _later(name: str) -> Callable[..., Table]:
    return lambda source, **options: _function(name)(source, **options)


TABLES: dict[str, Callable[..., Table]] = {name: _later(name) for name in _MODULES}
RULE_TABLES: dict[str, Callable[..., Table]] = {name: _later(name) for name in _RULES}

# Reports that nsys has not, by `labcode.analysis.stats.nsys.stacks`, which is imported when one is asked for.
OWN_REPORTS = (
    "python_stacks",
    "python_functions",
    "cpu_samples",
    "thread_states",
    "osrt_classes",
    "osrt_gaps",
    "launch_sites",
    "iterations",
    "lm_buckets",
    "lm_parts",
    "lm_kernels",
    "sync_ranges",
    "critical_path",
    "critical_path_sum",
    "gpu_metrics_sum",
    "gpu_metrics_ranges",
    "cuda_memory_usage",
)
DEFAULT_REPORTS = (
    "nvtx_sum",
    "osrt_sum",
    "cuda_api_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
)


def _framed(table: Callable[[Source], Table]) -> Callable[[NsysReport], pd.DataFrame]:
    def report_frame(report: NsysReport) -> pd.DataFrame:
        return to_frame(table(report.source))

    report_frame.__doc__ = table.__doc__
    return report_frame


def __getattr__(name: str) -> object:
    """`REPORTS`, when it is first asked for: its documentation takes all modules of reports."""
    if name != "REPORTS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = {report: _framed(_function(report)) for report in _MODULES}
    globals()["REPORTS"] = made
    return made


_KERNELS = ("CUDA kernels", (schema.KERNEL,), "--trace=cuda")
_CALLS = ("CUDA API calls", (schema.RUNTIME,), "--trace=cuda")
_COPIES = ("copies or memsets", (schema.MEMCPY, schema.MEMSET), "--trace=cuda")
_WORK = ("GPU operations", (schema.KERNEL, schema.MEMCPY, schema.MEMSET), "--trace=cuda")
_RANGES = ("NVTX ranges", (schema.NVTX,), "--trace=nvtx")
_MPI = ("MPI events", tuple(schema.MPI), "--trace=mpi")
_CPU_FAULTS = ("CPU page faults", (schema.CPU_FAULTS,), "--trace=cuda --cuda-um-cpu-page-faults=true")
_GPU_FAULTS = ("GPU page faults", (schema.GPU_FAULTS,), "--trace=cuda --cuda-um-gpu-page-faults=true")
_UNIFIED = (("copies", (schema.MEMCPY,), "--trace=cuda"), _CPU_FAULTS, _GPU_FAULTS)
_NEEDS: dict[str, tuple[tuple[str, tuple[str, ...], str], ...]] = {
    "cuda_api_gpu_sum": (("CUDA events", (*_WORK[1], schema.RUNTIME), "--trace=cuda"),),
    "cuda_api_sum": (_CALLS,),
    "cuda_api_trace": (_CALLS,),
    "cuda_gpu_kern_gb_sum": (_KERNELS,),
    "cuda_gpu_kern_sum": (_KERNELS,),
    "cuda_gpu_mem_size_sum": (_COPIES,),
    "cuda_gpu_mem_time_sum": (_COPIES,),
    "cuda_gpu_sum": (_WORK,),
    "cuda_gpu_trace": (_WORK,),
    "cuda_kern_exec_sum": (_KERNELS, _CALLS),
    "cuda_kern_exec_trace": (_KERNELS, _CALLS),
    "mpi_event_sum": (_MPI,),
    "mpi_event_trace": (_MPI,),
    "openacc_sum": (("OpenACC events", (f"{schema.OPENACC}*",), "--trace=openacc"),),
    "openmp_sum": (("OpenMP events", (f"{schema.OPENMP}*",), "--trace=openmp"),),
    "um_cpu_page_faults_sum": (_CPU_FAULTS,),
    "um_sum": _UNIFIED,
    "um_total_sum": _UNIFIED,
    "nvtx_gpu_proj_sum": (_RANGES, _CALLS, _WORK),
    "nvtx_gpu_proj_trace": (_RANGES, _CALLS, _WORK),
    "nvtx_kern_sum": (_RANGES, _CALLS, _KERNELS),
    "nvtx_pushpop_sum": (_RANGES,),
    "nvtx_pushpop_trace": (_RANGES,),
    "nvtx_startend_sum": (_RANGES,),
    "nvtx_sum": (_RANGES,),
    "osrt_sum": (("calls of the OS runtime", (schema.OSRT,), "--trace=osrt"),),
    "cuda_api_sync": (_CALLS,),
    "cuda_memcpy_async": (("copies", (schema.MEMCPY,), "--trace=cuda"), _CALLS),
    "cuda_memcpy_sync": (("copies", (schema.MEMCPY,), "--trace=cuda"), _CALLS),
    "cuda_memset_sync": (("memsets", (schema.MEMSET,), "--trace=cuda"), _CALLS),
}


def table_of(name: str, source: Source) -> Table:
    """A report's table: one of nsys' (`TABLES`), with its arguments, of its rules (`RULE_TABLES`), or one of
    our own (`OWN_REPORTS`).
    """
    plain, arguments = split(name)
    if plain in TABLES:
        return TABLES[plain](with_arguments(source, arguments))
    if plain in RULE_TABLES:
        return RULE_TABLES[plain](source)
    from labcode.analysis.stats.nsys import stacks as stack_reports

    return stack_reports.table(name, source)


def missing_data(source: Source, name: str) -> str:
    """What the capture lacks for a report and how to record it; '' when it has all."""
    if name in OWN_REPORTS:
        from labcode.analysis.stats.nsys import stacks as stack_reports

        return stack_reports.missing(name, source)
    name, arguments = split(name)
    more = [need for need in (_RANGES, _CALLS) if BY_RANGE in arguments and need not in _NEEDS[name]]
    for what, tables, option in (*_NEEDS[name], *more):
        every = [one for table in tables for one in _tables(source, table)]
        if not any(source.has_rows(table) for table in every):
            if schema.KERNEL in tables and source.has_rows(schema.GRAPH):
                return (
                    f"the capture holds no {what} but only whole-graph launches, so there is no {name}; "
                    "record what runs inside them with nsys profile --cuda-graph-trace=node"
                )
            return (
                f"the capture holds no {what}, so there is no {name}; record them with nsys profile {option}"
            )
    return ""


def _tables(source: Source, table: str) -> list[str]:
    return source.tables(table[:-1]) if table.endswith("*") else [table]


def answer(source: Source, name: str) -> Table:
    """A report's table; `LackingError` where the capture lacks its data."""
    why = missing_data(source, name)
    if why:
        raise LackingError(source.path, why)
    return table_of(name, source)


def _about(name: str) -> str:
    if name in TABLES or name in RULE_TABLES:
        return _function(name).__doc__ or ""
    from labcode.analysis.stats.nsys import stacks as stack_reports

    return stack_reports.REPORTS[name].__doc__ or ""


def _only(source: Source, text: str) -> list[str]:
    from labcode.analysis.ledger.judged import cut_to
    from labcode.reports.nsys.report import NsysReport

    return cut_to(NsysReport(source), text)


def _own(name: str) -> Callable[..., Table]:
    return lambda source: table_of(name, source)


SHELF = Shelf(
    of="",
    reports={**TABLES, **RULE_TABLES, **{name: _own(name) for name in OWN_REPORTS}},
    default=DEFAULT_REPORTS,
    every=tuple(TABLES),
    open=lambda path: closing(Source(open_export(path))),
    answer=answer,
    about=_about,
    plain=lambda name: split(name)[0],
    exact=False,
    tells=True,
    only=_only,
    advice="record some with nsys profile --trace=cuda,nvtx",
)


# ---- arguments, as in ``cuda_gpu_kern_sum:base``: a report's name in, what it asks for out
#
# ``base`` names kernels without their template and call arguments, ``mangled`` as the linker does. Where both
# are given, nsys goes by ``base``. ``nvtx-name`` puts the name of the innermost range around a kernel's
# launch before its name.


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
        from labcode.analysis.stats.nsys.ranges_on_gpu import RangeNames

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
