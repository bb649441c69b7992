"""What a trace of torch.profiler says in a report."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from labcode.analysis.lm import kineto
from labcode.analysis.rules.without_gpu import host_sentences
from labcode.analysis.stats.shelf import NOTES
from labcode.analysis.timeline.critical_path import by_kind, contradictions, critical_path, kinds_of
from labcode.reports.kineto.report import KinetoReport
from labcode.verbs.report import together
from labcode.verbs.report.document import Found, Part, Shown, whole


def _idle(report: KinetoReport) -> Iterator[str]:
    """Where the time of a program without a GPU went."""
    lines = list(host_sentences(report))
    if lines:
        yield f"No GPU in use. {lines[0]}"
        yield from lines[1:]


def _more(report: KinetoReport, told: Sequence[Found]) -> Iterator[tuple[str, Shown]]:
    yield from together.ranges(report)
    yield from together.model(report, kineto.operations)
    if len(report.gpu_ops()) and len(report.api()):
        path = critical_path(report)
        named = by_kind(path, names=True)
        tables = kinds_of(named), named
        tables[0].attrs[NOTES] = contradictions(path, report.gpu_ops())
        yield from together.path(tables, report)
    if len(memory := report.memory()):
        yield "memory", whole("Memory by the trace", _peaks(memory), report)


def _peaks(memory: pd.DataFrame) -> pd.DataFrame:
    """Of each device of a trace's allocations: allocations, the most allocated and reserved."""
    grouped = memory.groupby(["rank", "device_type", "device"])
    return grouped.agg(
        events=("allocated_bytes", "size"),
        most_allocated_bytes=("allocated_bytes", "max"),
        most_reserved_bytes=("reserved_bytes", "max"),
    ).reset_index()


PART = Part(
    judged=together.judged,
    reports={
        "operators": (
            ("op_sum", "Operators, calls and kernels by name"),
            ("host_lines", "Where the time of the host went, by function of the program"),
        ),
        "kernels": (("kernel_sum", "Kernels by name, the most time first"),),
        "modules": (("module_sum", "Time by nn.Module, in both passes"),),
        "calls": (
            ("launch_stats", "What launching cost"),
            ("idle_breakdown", "Idle time of streams by cause"),
        ),
        "counters": (
            ("memory_bandwidth", "Bandwidth of copies and memsets over time, by direction"),
            ("queue_length", "How many operations wait in each stream"),
        ),
        "communication": (("comm_overlap", "Communication behind computing"),),
    },
    more=_more,
    idle=_idle,
    changed="labcode.verbs.report.changed:timelines",
)
OTHERS = replace(  # of any other format with the tables of a trace, but without operators and modules
    PART, reports={name: PART.reports[name] for name in ("kernels", "calls", "counters")}
)
