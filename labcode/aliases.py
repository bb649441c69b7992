"""Modules by the names that they had: what an older notebook or script imports, and what it gets.

A line here is all that a module needs that moves. The lab's own code uses the new names.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "labcode.analysis.compare.baselines": "labcode.verbs.compare.baselines",
    "labcode.analysis.compare.driver": "labcode.verbs.compare.pairs",
    "labcode.analysis.compare.many": "labcode.verbs.compare.many",
    "labcode.analysis.kernel.buckets": "labcode.analysis.buckets",
    "labcode.analysis.ledger.changes": "labcode.analysis.ledger.replay",
    "labcode.analysis.ledger.meetings": "labcode.analysis.timeline.overlap",
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
    "labcode.analysis.timeline.transfers": "labcode.analysis.timeline.summary",
    "labcode.figures.pages.report": "labcode.verbs.report.page",
    "labcode.figures.pages.timeline_export": "labcode.verbs.timeline",
    "labcode.reports.marks": "labcode.reports.common",
}


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


def install() -> None:
    """Let import know the old names; once."""
    if _Moved not in sys.meta_path:
        sys.meta_path.insert(0, _Moved)
