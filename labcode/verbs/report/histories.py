"""What a history of PyTorch's allocator says in a report."""

from collections.abc import Iterator

from labcode.reports.memory.history import MemoryHistory
from labcode.verbs.report.document import Chart, Part


def _charts(history: MemoryHistory) -> Iterator[Chart]:
    if len(history.events) or len(history.live_before):
        told = "Memory in use over time, by what allocated it"
        yield Chart("memory", "labcode.figures.charts.memory:memory_timeline", history, told)


PART = Part(
    reports={
        "memory": (
            ("peak", "What was in use at the peak"),
            ("sites", "What allocated the most"),
            ("leaks", "What grows and is never freed"),
        )
    },
    charts=_charts,
)
