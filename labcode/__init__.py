"""The Profiling Lab: capture, read, analyze and draw GPU profiles, and grade the book's exercises.

`labcode.open` reads what any of the tools recorded. `MOVED` has modules by the names that they had: what an
older notebook or script imports, and what it gets. A line there is all that a module needs that moves; the
lab's own code uses the new names.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from os import PathLike
from types import ModuleType
from typing import Any

__version__ = "1.0.0"
MOVED = {
    "labcode.analysis.compare.baselines": "labcode.verbs.compare.baselines",
    "labcode.analysis.compare.driver": "labcode.verbs.compare.pairs",
    "labcode.analysis.compare.many": "labcode.verbs.compare.many",
    "labcode.analysis.kernel.buckets": "labcode.analysis.buckets",
    "labcode.analysis.ledger.changes": "labcode.analysis.ledger.replay",
    "labcode.analysis.ledger.meetings": "labcode.analysis.timeline.overlap",
    "labcode.analysis.ledger.owners": "labcode.analysis.ledger.view",
    "labcode.analysis.report": "labcode.verbs.report",
    "labcode.analysis.report.document": "labcode.verbs.report.document",
    "labcode.analysis.report.gather": "labcode.verbs.report.gather",
    "labcode.analysis.report.writing": "labcode.verbs.report.writing",
    "labcode.analysis.rules.driver": "labcode.verbs.diagnose.verdicts",
    "labcode.analysis.rules.good": "labcode.analysis.rules.facts",
    "labcode.analysis.rules.profile": "labcode.analysis.rules.facts",
    "labcode.analysis.rules.small_work": "labcode.analysis.rules.facts",
    "labcode.analysis.rules.steady": "labcode.analysis.rules.facts",
    "labcode.analysis.stats.driver": "labcode.verbs.stats",
    "labcode.analysis.stats.nsys.sums": "labcode.analysis.stats.nsys.tables",
    "labcode.analysis.timeline.own": "labcode.analysis.buckets",
    "labcode.analysis.timeline.transfers": "labcode.analysis.timeline.summary",
    "labcode.analysis.timeline.windows": "labcode.analysis.ledger.steady",
    "labcode.database": "labcode.inputs",
    "labcode.figures.pages.report": "labcode.verbs.report.page",
    "labcode.figures.pages.timeline_export": "labcode.verbs.timeline",
    "labcode.figures.timeline.condense": "labcode.figures.timeline.rows",
    "labcode.figures.timeline.groups": "labcode.figures.timeline.rows",
    "labcode.reports.marks": "labcode.reports.common",
}


def open(path: str | PathLike[str]) -> Any:
    """Open a recording of nsys, ncu, torch.profiler, PyTorch's allocator, or the power meter by its name.

    Returns what `labcode.reports.open` returns, which is imported on the first call, so that ``import
    labcode`` alone stays quick. Raises `labcode.errors.InputError` for a file that is missing, damaged or of
    a kind that is not read, and `labcode.errors.ToolError` where a tool is needed to read it and missing.
    """
    return import_module("labcode.reports").open(path)


class _Moved:
    """Finds modules by old names; before others, which would load a second one from a package's folder."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """What import asks: how to load the module of a name, None for a name that is not in the table."""
        return ModuleSpec(name, _Moved) if name in MOVED else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """A fresh module, in whose place the moved one comes."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Put the module of the new name in its place."""
        sys.modules[module.__name__] = import_module(MOVED[module.__name__])


if _Moved not in sys.meta_path:
    sys.meta_path.insert(0, _Moved)
