"""nsys' stats reports: a capture and report names in, tables with nsys' own columns, units and values out.

Every report gives what ``nsys stats`` 2025.3 prints for the same export: integers exactly, decimals to the
printed digit, rows in the same order. Where that is a slip of nsys (a throughput that rounds the duration
down, two ranges that it loses because they begin and end together), the report's own docstring says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from labcode.analysis.stats.nsys.arguments import BY_RANGE, split, with_arguments
from labcode.analysis.stats.table import Table, to_frame
from labcode.analysis.stats.writer import FORMATS, write
from labcode.errors import InputError, LabError
from labcode.reports.nsys import schema
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.source import Source

if TYPE_CHECKING:
    import pandas as pd

    from labcode.reports.nsys.report import NsysReport

__all__ = ["DEFAULT_REPORTS", "REPORTS", "TABLES", "missing_data", "stats", "write"]

# Where each report is made; only what is asked for is imported.
_MODULES = {
    "cuda_api_gpu_sum": "nsys_sums",
    "cuda_api_sum": "nsys_sums",
    "cuda_api_trace": "nsys_traces",
    "cuda_gpu_kern_gb_sum": "nsys_sums",
    "cuda_gpu_kern_sum": "nsys_sums",
    "cuda_gpu_mem_size_sum": "nsys_sums",
    "cuda_gpu_mem_time_sum": "nsys_sums",
    "cuda_gpu_sum": "nsys_sums",
    "cuda_gpu_trace": "nsys_traces",
    "cuda_kern_exec_sum": "nsys_launches",
    "cuda_kern_exec_trace": "nsys_launches",
    "nvtx_gpu_proj_sum": "nsys_projection",
    "nvtx_gpu_proj_trace": "nsys_projection",
    "nvtx_kern_sum": "nsys_range_kernels",
    "nvtx_pushpop_sum": "nsys_nvtx",
    "nvtx_pushpop_trace": "nsys_nvtx",
    "nvtx_startend_sum": "nsys_nvtx",
    "nvtx_sum": "nsys_nvtx",
    "osrt_sum": "nsys_sums",
}


REPORTS: dict[str, Callable[[NsysReport], pd.DataFrame]]  # each as a DataFrame, with its documentation


def _function(name: str) -> Callable[..., Table]:
    made: Callable[..., Table] = getattr(importlib.import_module(f"labcode.analysis.{_MODULES[name]}"), name)
    return made


def _later(name: str) -> Callable[..., Table]:
    return lambda source, **options: _function(name)(source, **options)


TABLES: dict[str, Callable[..., Table]] = {name: _later(name) for name in _MODULES}

# Reports that nsys has not, by `labcode.analysis.stats.nsys.stacks`, which is imported when one is asked for.
OWN_REPORTS = (
    "python_stacks",
    "python_functions",
    "cpu_samples",
    "thread_states",
    "osrt_classes",
    "osrt_gaps",
    "launch_sites",
    "lm_buckets",
    "lm_parts",
    "lm_kernels",
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
    "nvtx_gpu_proj_sum": (_RANGES, _CALLS, _WORK),
    "nvtx_gpu_proj_trace": (_RANGES, _CALLS, _WORK),
    "nvtx_kern_sum": (_RANGES, _CALLS, _KERNELS),
    "nvtx_pushpop_sum": (_RANGES,),
    "nvtx_pushpop_trace": (_RANGES,),
    "nvtx_startend_sum": (_RANGES,),
    "nvtx_sum": (_RANGES,),
    "osrt_sum": (("calls of the OS runtime", (schema.OSRT,), "--trace=osrt"),),
}


def stats(path: Path, reports: Sequence[str], fmt: str, output: TextIO) -> None:
    """Write reports of the capture at ``path`` to ``output``, by default nsys' usual ones.

    ``fmt`` is 'table', 'csv', 'json' or 'md'. A single report comes alone; of several, each follows its name
    (in JSON as a member of one object). A report whose data the capture lacks is skipped with one line that
    says what is missing. Raises `LabError` for an unknown report or format, and `InputError` for a file that
    cannot be read or that has no data for any of the reports.
    """
    names = list(dict.fromkeys(reports)) or list(DEFAULT_REPORTS)
    check_names(names)
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}")
    with closing(Source(open_export(path))) as source:
        lacking = {name: missing_data(source, name) for name in names}
        if all(lacking.values()):
            whats = "; ".join(dict.fromkeys(what for what in lacking.values() if what))
            raise InputError(f"{path}: {whats}")
        if fmt == "json" and len(names) > 1:
            _write_object(source, names, lacking, output)
            return
        for place, name in enumerate(names):
            if len(names) > 1:
                output.write("\n" * (place > 0) + {"md": "## ", "csv": "# "}.get(fmt, "") + name + "\n")
                output.write("\n" if fmt == "md" else "")
            if lacking[name]:
                output.write(f"{'# ' if fmt == 'csv' else ''}skipped: {lacking[name]}\n")
            else:
                write(table_of(name, source), fmt, output)


def table_of(name: str, source: Source) -> Table:
    """A report's table: one of nsys' (`TABLES`), with its arguments, or one of our own (`OWN_REPORTS`)."""
    plain, arguments = split(name)
    if plain in TABLES:
        return TABLES[plain](with_arguments(source, arguments))
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
        if not any(source.has_rows(table) for table in tables):
            if schema.KERNEL in tables and source.has_rows(schema.GRAPH):
                return (
                    f"the capture holds no {what} but only whole-graph launches, so there is no {name}; "
                    "record what runs inside them with nsys profile --cuda-graph-trace=node"
                )
            return (
                f"the capture holds no {what}, so there is no {name}; record them with nsys profile {option}"
            )
    return ""


def check_names(names: Sequence[str]) -> None:
    """`LabError` for a name that is no report, with the nearest one that is."""
    for name in names:
        if name.split(":")[0] in TABLES:
            split(name)
        elif name not in OWN_REPORTS:
            import difflib

            close = difflib.get_close_matches(name, [*TABLES, *OWN_REPORTS], n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise LabError(f"{name!r} is not a report; {hint}There are: {', '.join([*TABLES, *OWN_REPORTS])}")


def _write_object(source: Source, names: Sequence[str], lacking: dict[str, str], output: TextIO) -> None:
    output.write("{\n")
    for place, name in enumerate(names):
        output.write(f'"{name}": ')
        if lacking[name]:
            output.write("[]\n")
        else:
            write(table_of(name, source), "json", output)
        output.write("," * (place < len(names) - 1))
    output.write("}\n")
