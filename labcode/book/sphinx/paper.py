"""The printed book: executed pages in; out, pages without the code that the web folds away, whose long tables
may go on on the next sheet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx


MOST_ROWS = 18  # of a table that stays on one sheet
WIDEST = 28  # letters that a column of a longer one has room for before its texts break
FOLDED = ("input", "input+output", "all")  # MyST-NB's modes in which the web folds a cell's code away


def register(app: Sphinx) -> None:
    """Add the transforms to the application."""
    app.add_post_transform(DropFoldedCode)
    app.add_post_transform(LetTablesBreak)


class DropFoldedCode(SphinxPostTransform):
    """On paper nothing unfolds, so the code of cells tagged ``hide-input`` or ``hide-cell`` is left out."""

    default_priority = 198
    formats = ("latex",)

    def run(self, **kwargs: Any) -> None:
        """Remove the source of every folded cell."""
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code" and cell.get("hide_mode") in FOLDED:
                for part in list(cell.children):
                    if isinstance(part, nodes.container) and part.get("nb_element") == "cell_code_source":
                        cell.remove(part)


class LetTablesBreak(SphinxPostTransform):
    """A table of many rows may break between two of them; its columns are as wide as their texts want."""

    default_priority = 199
    formats = ("latex",)

    def run(self, **kwargs: Any) -> None:
        """Mark every such table, and give its columns widths."""
        for table in self.document.findall(nodes.table):
            rows = list(table.findall(nodes.row))
            if len(rows) <= MOST_ROWS or any("morecols" in entry for entry in table.findall(nodes.entry)):
                continue
            table["classes"] += ["longtable", "colwidths-given"]
            columns = zip(*([entry.astext() for entry in row.children] for row in rows), strict=True)
            for spec, texts in zip(table.findall(nodes.colspec), columns, strict=True):
                spec["colwidth"] = max(min(max(map(len, texts)), WIDEST), 4)
