"""An opened report in; what a notebook shows of it where it is the last line of a cell, as HTML, out."""

from importlib import import_module


class Shown:
    """What a notebook shows as a card: its file and what is said of it first (`labcode.reports.facts`)."""

    def _repr_html_(self) -> str:
        card: str = import_module("labcode.reports.facts").card(self)
        return card
