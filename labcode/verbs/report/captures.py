"""What a capture of Nsight Systems says in a report."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

import numpy as np

from labcode.analysis.lm import parts as lm_parts
from labcode.analysis.stats.nsys import path as nsys_path
from labcode.analysis.stats.shelf import LackingError
from labcode.analysis.timeline.overlap import communication_overlap, is_communication
from labcode.reports.common import MOST_WALKED
from labcode.reports.frames import is_any, rows_of
from labcode.reports.nsys import schema
from labcode.reports.nsys.report import NsysReport
from labcode.verbs.report import together
from labcode.verbs.report.document import Chart, Found, Part, Shown, whole


def _more(report: NsysReport, told: Sequence[Found]) -> Iterator[tuple[str, Shown]]:
    yield from together.ranges(report)
    ops = report.gpu_ops()
    kernels = is_any(ops["kind"], "kernel")
    if (kernels & is_communication(ops).to_numpy()).any():
        talk = communication_overlap(rows_of(ops, kernels), report.window())
        talk = talk[talk["comm_count"] > 0]
        if len(talk):
            yield "communication", whole("Communication behind computing", talk, report)
    yield from _counters(report, told)
    yield from together.model(report, lm_parts.operations)
    yield from _path(report)


def _counters(report: NsysReport, told: Sequence[Found]) -> Iterator[tuple[str, Shown]]:
    """The GPU's own counters that verdicts lean on, then those that tell much; none that is always 0."""
    if not report.source.has_rows(schema.COUNTERS):
        return
    from labcode.analysis.rules.counters import LEANS
    from labcode.analysis.timeline import counters

    found = [one.verdict.rule for one in told if one.verdict.status == "found"]
    every = counters.summary(report)
    names = every["metric"].str.replace(r"\s*\[[^\[]*%\]$", "", regex=True)
    place, leaning = np.full(len(every), len(counters.SHOWN)), np.full(len(every), "", object)
    for number, pattern in enumerate(counters.SHOWN):
        mine = (names.str.fullmatch(pattern) & (every["max"] > 0)).to_numpy()
        lean = [rule for rule in found if pattern in LEANS.get(rule, ())]
        place[mine], leaning[mine] = number, ", ".join(lean)
    order = np.lexsort((place, leaning == ""))
    order = order[place[order] < len(counters.SHOWN)]
    columns = ["device", "metric", "samples", "mean", "min", "p25", "median", "p75", "max", "busy_mean"]
    table = every[columns].assign(verdicts=leaning).iloc[order]
    if len(table):
        title = "The GPU's own counters, in the measured part"
        yield "counters", whole(title, table, report, "gpu_metrics_sum")


def _path(report: NsysReport) -> Iterator[tuple[str, Shown]]:
    """Of an export with very many operations it is left to `labcode stats`, for it takes seconds."""
    if 0 < len(report.gpu_ops()) <= MOST_WALKED and len(report.api()):
        try:
            tables = nsys_path.summed(report)
        except LackingError:
            return
        yield from together.path(tables, report)


def _charts(report: NsysReport) -> Iterator[Chart]:
    if len(report.memory_usage()):
        told = "Memory that CUDA handed out and that is in use, over time"
        yield Chart("memory", "labcode.figures.charts.memory:memory_usage", report, told)


PART = Part(
    judged=together.judged,
    reports={
        "kernels": (("cuda_gpu_kern_sum", "Kernels by name, the most time first"),),
        "copies": (
            ("cuda_gpu_mem_time_sum", "Copies and memsets by time"),
            ("cuda_gpu_mem_size_sum", "Copies and memsets by size"),
        ),
        "calls": (
            ("cuda_api_sum", "Calls of the runtime and the driver"),
            ("osrt_sum", "Calls of the OS runtime"),
        ),
        "memory": (("cuda_memory_usage", "Memory that CUDA handed out"),),
    },
    source=attrgetter("source"),
    more=_more,
    changed="labcode.verbs.report.changed:timelines",
    charts=_charts,
)
