"""The reports of `labcode stats` on histories of the allocator: a history in; a table out."""

from contextlib import nullcontext

from labcode.analysis.memory import history as memory_history
from labcode.analysis.stats.shelf import Shelf
from labcode.reports.memory.history import open_history

SHELF = Shelf(
    of=" of memory histories",
    reports={
        "peak": memory_history.peak,
        "sites": memory_history.sites,
        "leaks": memory_history.leaks,
        "allocations": memory_history.allocations,
        "live_bytes": memory_history.live_bytes,
    },
    default=("peak", "sites", "leaks"),
    open=lambda path: nullcontext(open_history(path)),
    notes=lambda history: history.warnings,
    advice="record some steps",
)
