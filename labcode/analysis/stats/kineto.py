"""The reports of `labcode stats` on traces of ``torch.profiler``: an open trace in; a table out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from labcode.analysis.lm import kineto as lm_kineto
from labcode.analysis.stats import kineto_gpu, kineto_time, ranks
from labcode.analysis.stats.kineto_ops import op_diff as difference
from labcode.analysis.stats.kineto_ops import op_summary
from labcode.analysis.stats.shelf import LackingError, Shelf
from labcode.analysis.timeline import links as kineto_links
from labcode.analysis.timeline.critical_path import by_kind
from labcode.analysis.timeline.critical_path import critical_path as path_of
from labcode.analysis.timeline.iterations import iterations as iterations_of
from labcode.analysis.timeline.summary import kernel_summary
from labcode.reports.kineto.report import KinetoReport, open_trace

CUDA = "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"


def _need(table: pd.DataFrame, report: KinetoReport, what: str, how: str) -> pd.DataFrame:
    """The table, or `LackingError` where it is empty."""
    if len(table) == 0:
        raise LackingError(report.path, f"the trace holds no {what}; record them with {how}")
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


def iterations(report: KinetoReport) -> pd.DataFrame:
    """Iterations, found from ranges, optimizer steps or the period of launches: time, busy time, warm-up.

    With tokens, floating-point operations, MFU and bytes of collectives an iteration where shapes tell them.
    """
    _need(report.gpu_ops(), report, "GPU operations", CUDA)
    found = iterations_of(report)
    if found is None:
        raise LackingError(report.path, "nothing in the trace repeats; call prof.step() after each step")
    return found.rows()


def arrivals(report: KinetoReport) -> pd.DataFrame:
    """When each rank began each collective, and how much later than the first."""
    return _need(kineto_gpu.arrivals(report), report, "collectives of several ranks", "a folder of ranks")


def op_diff(report: KinetoReport) -> pd.DataFrame:
    """How operators, calls and kernels of two traces (--with) differ in count, CPU and GPU time."""
    if report.beside is None:
        raise LackingError(report.path, "the difference to an earlier trace; name that: --with TRACE")
    with open_trace(report.beside) as before:
        return difference(before, report)


def critical_path(report: KinetoReport) -> pd.DataFrame:
    """What decides how long the run took, by kind of work, and what less of each gains at most."""
    return by_kind(_path(report))


def critical_path_sum(report: KinetoReport) -> pd.DataFrame:
    """The critical path by operator, call and kernel, and what less of each gains at most."""
    return by_kind(_path(report), names=True)


def critical_path_trace(report: KinetoReport) -> pd.DataFrame:
    """The critical path piece by piece, by time."""
    return _path(report)


def _path(report: KinetoReport) -> pd.DataFrame:
    _need(report.gpu_ops(), report, "GPU operations", CUDA)
    return _need(path_of(report), report, "calls of CUDA", CUDA)


def temporal_breakdown(report: KinetoReport) -> pd.DataFrame:
    """How much of its time each GPU computes, does other work, or is idle, and why."""
    _need(report.gpu_ops(), report, "GPU operations", CUDA)
    return kineto_time.temporal_breakdown(report)


def memory_bandwidth(report: KinetoReport) -> pd.DataFrame:
    """Bytes, time and bandwidth of copies and memsets by direction."""
    return _need(kineto_time.memory_bandwidth(report), report, "copies or memsets", CUDA)


def memory_bandwidth_trace(report: KinetoReport) -> pd.DataFrame:
    """Bandwidth of copies and memsets over time, a row for each change."""
    return _need(kineto_time.bandwidth_series(report), report, "copies or memsets", CUDA)


def queue_length_trace(report: KinetoReport) -> pd.DataFrame:
    """How many operations wait in each stream over time, a row for each change."""
    return _need(kineto_gpu.queue_series(report), report, "launches with their operations", CUDA)


def queue_full(report: KinetoReport) -> pd.DataFrame:
    """How long the launch queue of each stream was full, and what the CPU was blocked for."""
    return _need(kineto_time.queue_full(report), report, "launches with their operations", CUDA)


def kernel_sequences(report: KinetoReport) -> pd.DataFrame:
    """Sequences of kernels that operators launch, the most frequent first."""
    found = kineto_time.kernel_sequences(report)
    return _need(found, report, "operators with three or more kernels", CUDA)


def kernel_runs(report: KinetoReport) -> pd.DataFrame:
    """Kernels that come again in the same order on a stream, with the gaps between them."""
    return _need(kineto_time.kernel_runs(report), report, "kernels that come again in a row", CUDA)


def _compared(report: KinetoReport, before: Path) -> KinetoReport:
    report.beside = before
    return report


REPORTS: Mapping[str, Callable[[KinetoReport], pd.DataFrame]] = {
    "op_sum": op_sum,
    "kernel_sum": kernel_sum,
    "op_kernel_trace": op_kernel_trace,
    "module_sum": module_sum,
    "idle_breakdown": idle_breakdown,
    "comm_overlap": comm_overlap,
    "temporal_breakdown": temporal_breakdown,
    "critical_path": critical_path,
    "critical_path_sum": critical_path_sum,
    "critical_path_trace": critical_path_trace,
    "op_diff": op_diff,
    "kernel_sequences": kernel_sequences,
    "kernel_runs": kernel_runs,
    "memory_bandwidth": memory_bandwidth,
    "memory_bandwidth_trace": memory_bandwidth_trace,
    "queue_length": queue_length,
    "queue_length_trace": queue_length_trace,
    "queue_full": queue_full,
    "launch_stats": launch_stats,
    "memory_timeline": memory_timeline,
    "op_sum_python": op_sum_python,
    "steps": steps,
    "iterations": iterations,
    "arrivals": arrivals,
    "lm_buckets": lm_buckets,
    "lm_parts": lm_parts,
    "lm_kernels": lm_kernels,
}
SHELF = Shelf(
    of=" of traces",
    reports={**REPORTS, **{name: ranks.of_folder(name) for name in ranks.TIMELINE}},
    default=("op_sum", "kernel_sum"),
    every=tuple(REPORTS),
    open=open_trace,
    notes=lambda report: report.warnings,
    advice="record the trace again",
    beside=("kineto", _compared),
)
