"""The reports of `labcode stats` on traces of ``torch.profiler``: an open trace in; a table out."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from labcode.analysis.lm import kineto as lm
from labcode.analysis.stats import kineto_gpu, kineto_time, ranks
from labcode.analysis.stats.kineto_ops import op_diff, op_summary
from labcode.analysis.stats.shelf import NOTES, LackingError, Shelf
from labcode.analysis.timeline import links
from labcode.analysis.timeline.critical_path import by_kind, contradictions, critical_path
from labcode.analysis.timeline.host import host_lines
from labcode.analysis.timeline.iterations import iterations
from labcode.analysis.timeline.summary import kernel_summary
from labcode.reports import FORMATS, imported, kind_of
from labcode.reports.kineto.report import KinetoReport, open_trace

Report = Callable[[KinetoReport], pd.DataFrame]
CUDA = "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"


def _need(table: pd.DataFrame, report: KinetoReport, what: str, how: str) -> pd.DataFrame:
    """The table, or `LackingError` where it is empty."""
    if len(table) == 0:
        raise LackingError(report.path, f"the trace holds no {what}; record them with {how}")
    return table


def _report(make: Report, tells: str, what: str = "", how: str = CUDA, *, of_gpu: bool = False) -> Report:
    """A report that ``tells`` documents: what ``make`` gives, or `LackingError`.

    It is raised where the table has no rows for want of ``what``, which is recorded with ``how``, and with
    ``of_gpu`` for a trace without GPU operations.
    """

    def asked(report: KinetoReport) -> pd.DataFrame:
        if of_gpu:
            _need(report.gpu_ops(), report, "GPU operations", CUDA)
        table = make(report)
        return _need(table, report, what, how) if what else table

    asked.__doc__ = tells
    return asked


def _operators(report: KinetoReport) -> pd.DataFrame:
    """Without columns of memory where the trace holds no allocations."""
    table = op_summary(report)
    return table if len(report.memory()) else table.loc[:, ~table.columns.str.endswith("_bytes")]


def _with_python(report: KinetoReport) -> pd.DataFrame:
    _need(report.python_functions(), report, "functions of Python", "with_stack=True")
    return op_summary(report, python=True)


def _iterations(report: KinetoReport) -> pd.DataFrame:
    found = iterations(report)
    if found is None:
        raise LackingError(report.path, "nothing in the trace repeats; call prof.step() after each step")
    return found.rows()


def _difference(report: KinetoReport) -> pd.DataFrame:
    if report.beside is None:
        raise LackingError(report.path, "the difference to an earlier trace; name that: --with TRACE")
    with open_trace(report.beside) as before:
        return op_diff(before, report)


def _path(report: KinetoReport) -> pd.DataFrame:
    return _need(critical_path(report), report, "calls of CUDA", CUDA)


def _by_kind(report: KinetoReport, *, names: bool = False) -> pd.DataFrame:
    path = _path(report)
    table = by_kind(path, names=names)
    table.attrs[NOTES] = contradictions(path, report.gpu_ops())
    return table


def _compared(report: KinetoReport, before: Path) -> KinetoReport:
    report.beside = before
    return report


_LAUNCHES = "launches with their operations"
REPORTS: Mapping[str, Report] = {
    "op_sum": _report(
        _operators,
        "Operators, annotations, calls and kernels by name, as in ``prof.key_averages()``, in nanoseconds.",
        "operators or calls",
        "activities=[ProfilerActivity.CPU]",
    ),
    "kernel_sum": _report(
        lambda report: kernel_summary(report.kernels()),
        "Kernels by name: count, time in all, share, mean, median, least, most, scatter.",
        "kernels",
    ),
    "op_kernel_trace": _report(
        links.op_kernel_trace,
        "Every operation of a GPU with operator, annotation, module, line of Python and call.",
        of_gpu=True,
    ),
    "module_sum": _report(
        links.module_sum,
        "Time by nn.Module, on the CPU and, in both passes, on the GPU.",
        "modules",
        "with_stack=True, with_modules=True",
    ),
    "idle_breakdown": _report(
        kineto_gpu.idle_breakdown,
        "Idle time of each stream: the host was late, between kernels, other.",
        of_gpu=True,
    ),
    "comm_overlap": _report(
        kineto_gpu.comm_overlap,
        "Communication of each GPU and how much of it hides behind computing.",
        "kernels of NCCL",
        "a run on several GPUs (torchrun)",
        of_gpu=True,
    ),
    "temporal_breakdown": _report(
        kineto_time.temporal_breakdown,
        "How much of its time each GPU computes, does other work, or is idle, and why.",
        of_gpu=True,
    ),
    "critical_path": _report(
        _by_kind,
        "What decides how long the run took, by kind of work, and what less of each gains at most.",
        of_gpu=True,
    ),
    "critical_path_sum": _report(
        lambda report: _by_kind(report, names=True),
        "The critical path by operator, call and kernel, and what less of each gains at most.",
        of_gpu=True,
    ),
    "critical_path_trace": _report(_path, "The critical path piece by piece, by time.", of_gpu=True),
    "op_diff": _report(
        _difference,
        "How operators, calls and kernels of two traces (--with) differ in count, CPU and GPU time.",
    ),
    "kernel_sequences": _report(
        kineto_time.kernel_sequences,
        "Sequences of kernels that operators launch, the most frequent first.",
        "operators with three or more kernels",
    ),
    "kernel_runs": _report(
        kineto_time.kernel_runs,
        "Kernels that come again in the same order on a stream, with the gaps between them.",
        "kernels that come again in a row",
    ),
    "memory_bandwidth": _report(
        kineto_time.memory_bandwidth,
        "Bytes, time and bandwidth of copies and memsets by direction.",
        "copies or memsets",
    ),
    "memory_bandwidth_trace": _report(
        kineto_time.bandwidth_series,
        "Bandwidth of copies and memsets over time, a row for each change.",
        "copies or memsets",
    ),
    "queue_length": _report(kineto_gpu.queue_length, "How many operations waited in each stream.", _LAUNCHES),
    "queue_length_trace": _report(
        kineto_gpu.queue_series,
        "How many operations wait in each stream over time, a row for each change.",
        _LAUNCHES,
    ),
    "queue_full": _report(
        kineto_time.queue_full,
        "How long the launch queue of each stream was full, and what the CPU was blocked for.",
        _LAUNCHES,
    ),
    "launch_stats": _report(
        kineto_gpu.launch_stats,
        "What launching cost on the CPU, and how long until the operation began.",
        _LAUNCHES,
    ),
    "memory_timeline": _report(
        links.memory_timeline,
        "Every allocation and free with what is allocated afterwards and the operator that made it.",
        "allocations",
        "profile_memory=True",
    ),
    "op_sum_python": _report(
        _with_python,
        "The same with Python's functions as events, as newer versions of PyTorch (2.13) have it.",
    ),
    "host_lines": _report(
        host_lines,
        "Where the time of the threads that ran Python went, by function of the program and what it calls.",
        "functions of Python",
        "with_stack=True",
    ),
    "steps": _report(
        kineto_gpu.steps,
        "The profiler's steps with the busy and idle time of each GPU.",
        "profiler steps",
        "prof.step() after each step",
        of_gpu=True,
    ),
    "iterations": _report(
        _iterations,
        "Iterations, found from ranges, optimizer steps or the period of launches: time, busy time, warm-up. "
        "With tokens, operations, MFU and bytes of collectives an iteration where shapes tell them.",
        of_gpu=True,
    ),
    "arrivals": _report(
        kineto_gpu.arrivals,
        "When each rank began each collective, and how much later than the first.",
        "collectives of several ranks",
        "a folder of ranks",
    ),
    "lm_buckets": _report(lm.lm_buckets, "GPU time by pass and kind of work.", of_gpu=True),
    "lm_parts": _report(
        lm.lm_parts,
        "GPU time by pass, part of the model (as the program's ranges name it) and kind of work.",
        of_gpu=True,
    ),
    "lm_kernels": _report(lm.lm_kernels, "Kernels by pass, each with its kind of work.", of_gpu=True),
}


def _only(report: KinetoReport, text: str) -> list[str]:
    from labcode.analysis.ledger.steady import cut_to

    return cut_to(report, text)


SHELF = Shelf(
    of=" of traces",
    reports={**REPORTS, **{name: ranks.of_folder(name) for name in ranks.TIMELINE}},
    default=("op_sum", "kernel_sum"),
    every=tuple(REPORTS),
    open=open_trace,
    notes=lambda report: report.warnings,
    advice="record the trace again",
    beside=("kineto", _compared),
    only=_only,
    uncut=("op_diff", *ranks.TIMELINE),
)

_WITHOUT = "op_diff"  # which needs a second trace of torch.profiler
OTHERS = replace(  # of any other format whose reader gives the tables of a trace: what looks at one
    SHELF,
    of=" of such timelines",
    reports={name: made for name, made in REPORTS.items() if name != _WITHOUT},
    every=tuple(name for name in REPORTS if name != _WITHOUT),
    open=lambda path: imported(FORMATS[kind_of(path)].opens)(path),
    beside=None,
    uncut=(),
)
