"""The printed book: executed pages in, pages without the code that the web folds away out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx


FOLDED = ("input", "input+output", "all")  # MyST-NB's modes in which the web folds a cell's code away


def register(app: Sphinx) -> None:
    """Add the transform to the application."""
    app.add_post_transform(DropFoldedCode)


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
