"""nsys' stats reports: an open capture and a name in, a table with nsys' own columns, units and values out.

Every report gives what ``nsys stats`` 2025.3 prints for the same export: integers exactly, decimals to the
printed digit, rows in the same order. Where that is a slip of nsys (a throughput that rounds the duration
down, two ranges that it loses because they begin and end together), the report's own docstring says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from labcode.analysis.stats.shelf import LackingError, Shelf
from labcode.analysis.stats.table import Table, from_frame, to_frame
from labcode.errors import LabError
from labcode.reports.columns import Column
from labcode.reports.nsys import schema
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.source import Source

if TYPE_CHECKING:
    import pandas as pd

    from labcode.reports.nsys.report import NsysReport


@dataclass(frozen=True)
class Need:
    """Data that a report is made of: what they are, the option that records them, and where they lie: in one
    of some tables (``NAME*``: of those that begin so), or in what the method ``rows`` of a report gives."""

    what: str
    tables: tuple[str, ...]
    option: str
    rows: str = ""


@dataclass(frozen=True)
class Declared:
    """All that there is to say of a report: the function that makes it, imported when it is asked for, with
    its columns in their order; ``whose`` it is; what it needs; whether it takes kernels' other names
    (``by_name``) and can be divided by range (``by_range``)."""

    function: str
    whose: Literal["nsys", "rule", "ours"]
    needs: tuple[Need, ...]
    by_name: bool = False
    by_range: bool = True


def _of_nsys(module: str, *needs: Need, by_name: bool = False, by_range: bool = True) -> Declared:
    return Declared(module, "nsys", needs, by_name, by_range)


def _of_a_rule(module: str, *needs: Need) -> Declared:
    """A table of nsys' rules, which `nsys stats` has not, but `nsys analyze`."""
    return Declared(module, "rule", needs)


def _of_ours(function: str, *needs: Need) -> Declared:
    """A report that nsys has not: made of an `NsysReport`, as a DataFrame."""
    return Declared(function, "ours", needs)


_KERNELS = Need("CUDA kernels", (schema.KERNEL,), "--trace=cuda")
_CALLS = Need("CUDA API calls", (schema.RUNTIME,), "--trace=cuda")
_COPIES = Need("copies or memsets", (schema.MEMCPY, schema.MEMSET), "--trace=cuda")
_MOVES = Need("copies", (schema.MEMCPY,), "--trace=cuda")
_SETS = Need("memsets", (schema.MEMSET,), "--trace=cuda")
_WORK = Need("GPU operations", (schema.KERNEL, schema.MEMCPY, schema.MEMSET), "--trace=cuda")
_GRAPHS = Need("GPU operations", (*_WORK.tables, schema.GRAPH), "--trace=cuda")
_EVENTS = Need("CUDA events", (*_WORK.tables, schema.RUNTIME), "--trace=cuda")
_RANGES = Need("NVTX ranges", (schema.NVTX,), "--trace=nvtx")
_MPI = Need("MPI events", tuple(schema.MPI), "--trace=mpi")
_OPENACC = Need("OpenACC events", (f"{schema.OPENACC}*",), "--trace=openacc")
_OPENMP = Need("OpenMP events", (f"{schema.OPENMP}*",), "--trace=openmp")
_OS_CALLS = Need("calls of the OS runtime", (schema.OSRT,), "--trace=osrt")
_CPU_FAULTS = Need("CPU page faults", (schema.CPU_FAULTS,), "--trace=cuda --cuda-um-cpu-page-faults=true")
_GPU_FAULTS = Need("GPU page faults", (schema.GPU_FAULTS,), "--trace=cuda --cuda-um-gpu-page-faults=true")
_SAMPLES = Need("CPU samples", (schema.SAMPLES,), "--sample=process-tree")
_SWITCHES = Need("context switches", (schema.SWITCHES,), "--cpuctxsw=process-tree")
_COUNTERS = Need("GPU metrics", (schema.COUNTERS,), "--gpu-metrics-devices=all")
_MEMORY = Need("allocations by CUDA", (schema.MEMORY_USAGE,), "--cuda-memory-usage=true")
_PYTHON = Need(
    "Python samples",
    (),
    "--python-sampling=true, and export with --include-blobs=true --include-json=true",
    rows="python_samples",
)
_BACKTRACES = Need(
    "Python backtraces of CUDA calls",
    (),
    "--python-backtrace=cuda --sample=process-tree --cudabacktrace=all:0",
    rows="python_backtraces",
)

DECLARED: Mapping[str, Declared] = {
    "cuda_api_gpu_sum": _of_nsys("tables", _EVENTS, by_name=True),
    "cuda_api_sum": _of_nsys("tables", _CALLS),
    "cuda_api_trace": _of_nsys("traces", _CALLS),
    "cuda_gpu_kern_gb_sum": _of_nsys("tables", _KERNELS, by_name=True),
    "cuda_gpu_kern_sum": _of_nsys("tables", _KERNELS, by_name=True),
    "cuda_gpu_mem_size_sum": _of_nsys("tables", _COPIES),
    "cuda_gpu_mem_time_sum": _of_nsys("tables", _COPIES),
    "cuda_gpu_sum": _of_nsys("tables", _WORK, by_name=True),
    "cuda_gpu_trace": _of_nsys("traces", _WORK, by_name=True),
    "cuda_kern_exec_sum": _of_nsys("launches", _KERNELS, _CALLS, by_name=True),
    "cuda_kern_exec_trace": _of_nsys("launches", _KERNELS, _CALLS, by_name=True),
    "mpi_event_sum": _of_nsys("programming_models", _MPI),
    "mpi_event_trace": _of_nsys("programming_models", _MPI),
    "nvtx_gpu_proj_sum": _of_nsys("ranges_on_gpu", _RANGES, _CALLS, _WORK),
    "nvtx_gpu_proj_trace": _of_nsys("ranges_on_gpu", _RANGES, _CALLS, _WORK),
    "nvtx_kern_sum": _of_nsys("ranges_on_gpu", _RANGES, _CALLS, _KERNELS, by_name=True, by_range=False),
    "nvtx_pushpop_sum": _of_nsys("nvtx", _RANGES),
    "nvtx_pushpop_trace": _of_nsys("nvtx", _RANGES),
    "nvtx_startend_sum": _of_nsys("nvtx", _RANGES),
    "nvtx_sum": _of_nsys("nvtx", _RANGES),
    "openacc_sum": _of_nsys("programming_models", _OPENACC),
    "openmp_sum": _of_nsys("programming_models", _OPENMP),
    "osrt_sum": _of_nsys("tables", _OS_CALLS),
    "um_cpu_page_faults_sum": _of_nsys("programming_models", _CPU_FAULTS),
    "um_sum": _of_nsys("programming_models", _MOVES, _CPU_FAULTS, _GPU_FAULTS),
    "um_total_sum": _of_nsys("programming_models", _MOVES, _CPU_FAULTS, _GPU_FAULTS),
    "cuda_api_sync": _of_a_rule("expert", _CALLS),
    "cuda_memcpy_async": _of_a_rule("expert", _MOVES, _CALLS),
    "cuda_memcpy_sync": _of_a_rule("expert", _MOVES, _CALLS),
    "cuda_memset_sync": _of_a_rule("expert", _SETS, _CALLS),
    "python_stacks": _of_ours("stacks:python_stacks", _PYTHON),
    "python_functions": _of_ours("stacks:python_functions", _PYTHON),
    "cpu_samples": _of_ours("stacks:cpu_samples", _SAMPLES),
    "thread_states": _of_ours("stacks:thread_states", _SWITCHES),
    "osrt_classes": _of_ours("stacks:osrt_classes", _OS_CALLS),
    "osrt_gaps": _of_ours("stacks:osrt_gaps", _OS_CALLS, _WORK),
    "launch_sites": _of_ours("stacks:launch_site_sum", _BACKTRACES),
    "iterations": _of_ours("stacks:iterations", _WORK),
    "lm_buckets": _of_ours("labcode.analysis.lm.parts:lm_buckets", _WORK, _RANGES),
    "lm_parts": _of_ours("labcode.analysis.lm.parts:lm_parts", _WORK, _RANGES),
    "lm_kernels": _of_ours("labcode.analysis.lm.parts:lm_kernels", _WORK, _RANGES),
    "sync_ranges": _of_ours("stacks:sync_ranges", _CALLS),
    "critical_path": _of_ours("path:critical_path", _GRAPHS, _CALLS),
    "critical_path_sum": _of_ours("path:critical_path_sum", _GRAPHS, _CALLS),
    "gpu_metrics_sum": _of_ours("counters:gpu_metrics_sum", _COUNTERS),
    "gpu_metrics_ranges": _of_ours("counters:gpu_metrics_ranges", _COUNTERS, _WORK, _RANGES),
    "cuda_memory_usage": _of_ours("memory:cuda_memory_usage", _MEMORY),
}
DEFAULT_REPORTS = (
    "nvtx_sum",
    "osrt_sum",
    "cuda_api_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
)


def _function(name: str) -> Callable[..., Any]:
    module, _, function = DECLARED[name].function.partition(":")
    path = module if "." in module else f"labcode.analysis.stats.nsys.{module}"
    made: Callable[..., Any] = getattr(importlib.import_module(path), function or name)
    return made


def _later(name: str) -> Callable[..., Table]:
    def table(source: Source) -> Table:
        if DECLARED[name].whose != "ours":
            made: Table = _function(name)(source)
            return made
        from labcode.reports.nsys.report import NsysReport

        return from_frame(_function(name)(NsysReport(source)))

    return table


def _those(whose: str) -> dict[str, Callable[..., Table]]:
    return {name: _later(name) for name, one in DECLARED.items() if one.whose == whose}


TABLES = _those("nsys")
RULE_TABLES = _those("rule")  # of nsys' rules
OWN_TABLES = _those("ours")

REPORTS: dict[str, Callable[[NsysReport], pd.DataFrame]]  # each as a DataFrame, with its documentation


def _framed(table: Callable[[Source], Table]) -> Callable[[NsysReport], pd.DataFrame]:
    def report_frame(report: NsysReport) -> pd.DataFrame:
        return to_frame(table(report.source))

    report_frame.__doc__ = table.__doc__
    return report_frame


def __getattr__(name: str) -> object:
    """`REPORTS`, when it is first asked for: its documentation takes all modules of reports."""
    if name != "REPORTS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = {report: _framed(_function(report)) for report in TABLES}
    globals()["REPORTS"] = made
    return made


def table_of(name: str, source: Source) -> Table:
    """A report's table, with the report's arguments."""
    plain, arguments = split(name)
    of = source if DECLARED[plain].whose != "nsys" else with_arguments(source, arguments)
    return _later(plain)(of)


def missing_data(source: Source, name: str) -> str:
    """What the capture lacks for a report and how to record it; '' when it has all."""
    name, arguments = split(name)
    needs = DECLARED[name].needs
    more = [need for need in (_RANGES, _CALLS) if BY_RANGE in arguments and need not in needs]
    for need in (*needs, *more):
        if _there(source, need):
            continue
        of_kernels = schema.KERNEL in need.tables and DECLARED[name].whose != "ours"
        if of_kernels and source.has_rows(schema.GRAPH):
            return (
                f"the capture holds no {need.what} but only whole-graph launches, so there is no {name}; "
                "record what runs inside them with nsys profile --cuda-graph-trace=node"
            )
        return (
            f"the capture holds no {need.what}, so there is no {name}; record them with nsys profile "
            f"{need.option}"
        )
    return ""


def _there(source: Source, need: Need) -> bool:
    if need.rows:
        from labcode.reports.nsys.report import NsysReport

        return len(getattr(NsysReport(source), need.rows)()) > 0
    return any(source.has_rows(one) for table in need.tables for one in _tables(source, table))


def _tables(source: Source, table: str) -> list[str]:
    return source.tables(table[:-1]) if table.endswith("*") else [table]


def answer(source: Source, name: str) -> Table:
    """A report's table; `LackingError` where the capture lacks its data."""
    why = missing_data(source, name)
    if why:
        raise LackingError(source.path, why)
    return table_of(name, source)


def _about(name: str) -> str:
    return _function(name).__doc__ or ""


def _only(source: Source, text: str) -> list[str]:
    from labcode.analysis.ledger.steady import cut_to
    from labcode.reports.nsys.report import NsysReport

    return cut_to(NsysReport(source), text)


SHELF = Shelf(
    of="",
    reports={**TABLES, **RULE_TABLES, **OWN_TABLES},
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


def split(report: str) -> tuple[str, tuple[str, ...]]:
    """``cuda_gpu_kern_sum:base`` as name and arguments; `LabError` for an argument it does not take."""
    name, *arguments = report.split(":")
    one = DECLARED[name]
    known = (*NAMES, *((BY_RANGE,) if one.by_range else ())) if one.by_name else ()
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
