"""What formats have in common: the names of ranges that tell what is what, and what a notebook shows."""

from importlib import import_module

STEP = "ProfilerStep#"  # what torch.profiler calls its steps
MEASURED = "lab:measured"  # the part that counts; `labcode.experiments.shared.common` opens it


class Shown:
    """What a notebook shows as a card: its file and what is said of it first (`labcode.reports.facts`)."""

    def _repr_html_(self) -> str:
        card: str = import_module("labcode.reports.facts").card(self)
        return card
