"""`labcode stats` of traces of ``torch.profiler``: files and report names in; tables as text out."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import pandas as pd

from labcode.analysis.lm import kineto as lm_kineto
from labcode.analysis.stats import kineto_gpu
from labcode.analysis.stats.kineto_ops import op_summary
from labcode.analysis.stats.text import records, write
from labcode.analysis.stats.writer import FORMATS
from labcode.analysis.timeline import links as kineto_links
from labcode.analysis.timeline.summary import kernel_summary
from labcode.errors import InputError, LabError
from labcode.outputs import base_names, staged
from labcode.reports.kineto.open import is_trace, trace_files
from labcode.reports.kineto.report import KinetoReport, open_trace

ENDINGS = {"csv": ".csv", "json": ".json", "md": ".md", "table": ".txt"}
CUDA = "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"


def _need(table: pd.DataFrame, report: KinetoReport, what: str, how: str) -> pd.DataFrame:
    """The table, or `InputError` where it is empty."""
    if len(table) == 0:
        raise InputError(f"{report.path}: the trace holds no {what}; record them with {how}")
    return table


def op_sum(report: KinetoReport) -> pd.DataFrame:
    """Operators, annotations, calls and kernels by name, as in ``prof.key_averages()``, in nanoseconds.

    With columns of memory where the trace holds allocations.
    """
    table = _need(op_summary(report), report, "operators or calls", "activities=[ProfilerActivity.CPU]")
    return table if len(report.memory()) else table.loc[:, ~table.columns.str.endswith("_bytes")]


def kernel_sum(report: KinetoReport) -> pd.DataFrame:
    """Kernels by name: count, time in all, share, mean, median, least, most, scatter."""
    return kernel_summary(_need(report.kernels(), report, "kernels", CUDA))


def op_kernel_trace(report: KinetoReport) -> pd.DataFrame:
    """Every operation of a GPU with operator, annotation, module, line of Python and call."""
    _need(report.gpu_ops(), report, "GPU operations", CUDA)
    return kineto_links.op_kernel_trace(report)


def module_sum(report: KinetoReport) -> pd.DataFrame:
    """Time by nn.Module, on the CPU and, in both passes, on the GPU."""
    return _need(kineto_links.module_sum(report), report, "modules", "with_stack=True, with_modules=True")


def idle_breakdown(report: KinetoReport) -> pd.DataFrame:
    """Idle time of each stream: the host was late, between kernels, other."""
    _need(report.gpu_ops(), report, "GPU operations", CUDA)
    return kineto_gpu.idle_breakdown(report)


def comm_overlap(report: KinetoReport) -> pd.DataFrame:
    """Communication of each GPU and how much of it hides behind computing."""
    _need(report.gpu_ops(), report, "GPU operations", CUDA)
    found = kineto_gpu.comm_overlap(report)
    return _need(found, report, "kernels of NCCL", "a run on several GPUs (torchrun)")


def queue_length(report: KinetoReport) -> pd.DataFrame:
    """How many operations waited in each stream."""
    return _need(kineto_gpu.queue_length(report), report, "launches with their operations", CUDA)


def launch_stats(report: KinetoReport) -> pd.DataFrame:
    """What launching cost on the CPU, and how long until the operation began."""
    return _need(kineto_gpu.launch_stats(report), report, "launches with their operations", CUDA)


def memory_timeline(report: KinetoReport) -> pd.DataFrame:
    """Every allocation and free with what is allocated afterwards and the operator that made it."""
    return _need(kineto_links.memory_timeline(report), report, "allocations", "profile_memory=True")


def lm_buckets(report: KinetoReport) -> pd.DataFrame:
    """GPU time by pass and kind of work."""
    return lm_kineto.lm_buckets(_with_gpu(report))


def lm_parts(report: KinetoReport) -> pd.DataFrame:
    """GPU time by pass, part of the model (as the program's ranges name it) and kind of work."""
    return lm_kineto.lm_parts(_with_gpu(report))


def lm_kernels(report: KinetoReport) -> pd.DataFrame:
    """Kernels by pass, each with its kind of work."""
    return lm_kineto.lm_kernels(_with_gpu(report))


def _with_gpu(report: KinetoReport) -> KinetoReport:
    _need(report.gpu_ops(), report, "GPU operations", CUDA)
    return report


def op_sum_python(report: KinetoReport) -> pd.DataFrame:
    """The same with Python's functions as events, as newer versions of PyTorch (2.13) have it."""
    _need(report.python_functions(), report, "functions of Python", "with_stack=True")
    return op_summary(report, python=True)


def steps(report: KinetoReport) -> pd.DataFrame:
    """The profiler's steps with the busy and idle time of each GPU."""
    _need(report.gpu_ops(), report, "GPU operations", CUDA)
    return _need(kineto_gpu.steps(report), report, "profiler steps", "prof.step() after each step")


def arrivals(report: KinetoReport) -> pd.DataFrame:
    """When each rank began each collective, and how much later than the first."""
    return _need(kineto_gpu.arrivals(report), report, "collectives of several ranks", "a folder of ranks")


REPORTS: Mapping[str, Callable[[KinetoReport], pd.DataFrame]] = {
    "op_sum": op_sum,
    "kernel_sum": kernel_sum,
    "op_kernel_trace": op_kernel_trace,
    "module_sum": module_sum,
    "idle_breakdown": idle_breakdown,
    "comm_overlap": comm_overlap,
    "queue_length": queue_length,
    "launch_stats": launch_stats,
    "memory_timeline": memory_timeline,
    "op_sum_python": op_sum_python,
    "steps": steps,
    "arrivals": arrivals,
    "lm_buckets": lm_buckets,
    "lm_parts": lm_parts,
    "lm_kernels": lm_kernels,
}
DEFAULT_REPORTS = ("op_sum", "kernel_sum")


def check_names(names: Sequence[str]) -> None:
    """`LabError` for a name that is no report of traces, with the nearest one that is."""
    for name in names:
        if name not in REPORTS:
            close = difflib.get_close_matches(name, REPORTS, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise LabError(f"{name!r} is not a report of traces; {hint}There are: {', '.join(REPORTS)}")


def table_of(report: KinetoReport, name: str) -> pd.DataFrame:
    """One report of an open trace; `InputError` where the trace lacks what it needs."""
    check_names([name])
    return REPORTS[name](report)


def run(
    files: Sequence[Path],
    reports: Sequence[str],
    fmt: str,
    output: TextIO,
    *,
    every: bool = False,
    folder: Path | None = None,
    force: bool = False,
    notes: TextIO | None = None,
) -> list[Path]:
    """Write reports of traces to ``output``, or into ``folder`` as ``<file>_<report>.csv``: all or none.

    Without names: of `DEFAULT_REPORTS` those that the trace has data for; ``every`` takes all of them. What
    is odd about a trace goes to ``notes`` (stderr), a line each. Returns the files written. Raises `LabError`
    for a report or format there is not, `InputError` for a file that is no trace or lacks a named report's
    data.
    """
    for file in files:
        if ".averages.json" in file.name:
            raise LabError(f"{file}: averages of a trace, not the trace; name the .trace.json.gz beside it")
        if not is_trace(file):
            raise LabError(
                f"{file}: name reports of one kind at once; the others are traces of torch.profiler"
            )
    check_names(reports)
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}")
    if every and reports:
        raise LabError("stats: --all takes every report that has data; leave out --report or --all")
    wanted = tuple(dict.fromkeys(reports)) or (tuple(REPORTS) if every else DEFAULT_REPORTS)
    stream = sys.stderr if notes is None else notes
    if folder is None:
        for place, file in enumerate(files):
            tables = _tables(file, wanted, strict=bool(reports), notes=stream)
            if len(files) > 1:
                output.write("\n" * (place > 0) + f"{'# ' if fmt in ('csv', 'md') else ''}{file}\n")
            write_tables(tables, fmt, output)
        return []
    written = []
    reads = [one for file in files for one in (trace_files(file) if file.is_dir() else [file])]
    with staged(folder, force=force, reads=reads) as work:
        for file, base in base_names(files).items():
            tables = _tables(file, wanted, strict=bool(reports), notes=stream)
            for name, table in tables.items():
                target = f"{base}_{name}{ENDINGS[fmt]}"
                with (work / target).open("w", encoding="utf-8", newline="") as handle:
                    write(table, fmt, handle)
                written.append(folder / target)
    return written


def _tables(file: Path, names: Sequence[str], *, strict: bool, notes: TextIO) -> dict[str, pd.DataFrame]:
    """The reports of one trace; without ``strict``, those that it has data for."""
    with open_trace(file) as report:
        tables = {}
        for name in names:
            try:
                tables[name] = REPORTS[name](report)
            except InputError:
                if strict:
                    raise
    if not tables:
        why = "".join(f"; {line.removeprefix(f'{file}: ')}" for line in report.warnings)
        raise InputError(
            f"{file}: the trace holds no events that any report is made of{why}; record it again"
        )
    notes.writelines(f"note: {line}\n" for line in report.warnings)
    return tables


def write_tables(tables: Mapping[str, pd.DataFrame], fmt: str, output: TextIO) -> None:
    """Write several tables, each with its name above; as JSON they are one object."""
    if fmt == "json" and len(tables) > 1:
        everything = {name: records(table) for name, table in tables.items()}
        output.write(json.dumps(everything, indent=2, ensure_ascii=False) + "\n")
        return
    for place, (name, table) in enumerate(tables.items()):
        if len(tables) > 1:
            heading = {"md": f"## {name}\n\n", "csv": f"# {name}\n"}.get(fmt, f"{name}\n")
            output.write("\n" * (place > 0) + heading)
        write(table, fmt, output)
