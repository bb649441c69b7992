"""The printed book: executed pages in; out, pages without the code that the web folds away, whose long tables
may go on on the next sheet, whose long names may break in the columns of tables, whose checklists have
boxes for bullets, and whose chapters stand in parts. What is only looked up or filled in stays on the web.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.texescape import escape

if TYPE_CHECKING:
    from sphinx.application import Sphinx


MOST_ROWS = 18  # of a table that stays on one sheet
WIDEST = 28  # letters that a column of a longer one has room for before its texts break
BOX = "☐ "  # of an item of a checklist
LONG_NAME = 16  # letters of a name that may break in a table
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[.:/=,])(?=\w)")
FOLDED = ("input", "input+output", "all")  # MyST-NB's modes in which the web folds a cell's code away
# Lists of all claims, files and functions would be a third of all sheets; predictions are filled in.
ON_THE_WEB = tuple(f"reference/{name}" for name in ("api/", "captures", "claims", "predictions", "status"))


def register(app: Sphinx) -> None:
    """Add the transforms to the application."""
    app.add_post_transform(LeaveOnTheWeb)
    app.connect("doctree-resolved", leave_links, priority=900)  # after roles have made their links
    app.add_post_transform(DropFoldedCode)
    app.add_post_transform(LetTablesBreak)
    app.add_post_transform(LetNamesBreak)
    app.add_post_transform(TargetsOfCards)
    app.add_post_transform(BoxesForBullets)
    app.add_post_transform(PartsBeforeChapters)


class LeaveOnTheWeb(SphinxPostTransform):
    """Pages that are only looked up are not printed."""

    default_priority = 4  # before links are looked up
    formats = ("latex",)

    def run(self, **kwargs: Any) -> None:
        """Take those pages out of the document."""
        for page in list(self.document.findall(addnodes.start_of_file)):
            if page["docname"].startswith(ON_THE_WEB):
                page.parent.remove(page)


def leave_links(app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """A link to what is not printed is its text; the builder begins an address with a percent sign."""
    for link in list(doctree.findall(nodes.reference)) if app.builder.format == "latex" else ():
        if link.get("refuri", "").removeprefix("%").startswith(ON_THE_WEB):
            link.replace_self(link.children)


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
            specs = list(table.findall(nodes.colspec))
            whole = [[entry.astext() for entry in row.children] for row in rows if len(row) == len(specs)]
            if len(rows) <= MOST_ROWS or not whole:  # other rows have a cell over several columns
                continue
            table["classes"] += ["longtable", "colwidths-given"]
            for spec, texts in zip(specs, zip(*whole, strict=True), strict=True):
                spec["colwidth"] = max(min(max(map(len, texts)), WIDEST), 4)


class LetNamesBreak(SphinxPostTransform):
    """A long name in a table may break before a capital letter and after a dot, as it may after ``_``."""

    default_priority = 199
    formats = ("latex",)

    def run(self, **kwargs: Any) -> None:
        """Put an invisible place to break into every such name."""
        for entry in self.document.findall(nodes.entry):
            for name in list(entry.findall(nodes.literal)):
                pieces = _HUMP.split(name.astext())
                if len(name.astext()) < LONG_NAME or len(pieces) == 1:
                    continue
                name.clear()
                for piece in pieces[:-1]:
                    name += [nodes.Text(piece), nodes.raw("", r"\labbreak{}", format="latex")]
                name += nodes.Text(pieces[-1])


class TargetsOfCards(SphinxPostTransform):
    """A link to the card of an exercise arrives: LaTeX' writer has no place for the name of a container."""

    default_priority = 199
    formats = ("latex",)

    def run(self, **kwargs: Any) -> None:
        """Begin every container that has names with a target that has them."""
        for card in list(self.document.findall(nodes.container)):
            if card["ids"]:
                card.insert(0, nodes.target(ids=card["ids"]))
                card["ids"] = []


class BoxesForBullets(SphinxPostTransform):
    """A list whose items all begin with a box has the box for its bullet."""

    default_priority = 199
    formats = ("latex",)

    def run(self, **kwargs: Any) -> None:
        """Take the box out of every such item and make it the list's bullet."""
        for found in list(self.document.findall(nodes.bullet_list)):
            texts = [item.next_node(nodes.Text) for item in found.children if isinstance(item, nodes.Element)]
            boxed = [text for text in texts if text is not None and text.startswith(BOX)]
            if not texts or len(boxed) < len(texts):
                continue
            for text in boxed:
                text.parent.replace(text, nodes.Text(text.removeprefix(BOX)))
            bullet = rf"\renewcommand{{\labelitemi}}{{{BOX.strip()}}}"
            found.insert(0, nodes.raw("", bullet, format="latex"))


class PartsBeforeChapters(SphinxPostTransform):
    """A part of the book has its name before its first chapter; Sphinx leaves captions of toctrees out."""

    default_priority = 199
    formats = ("latex",)

    def run(self, **kwargs: Any) -> None:
        """Begin a part where the first page of a toctree with a caption begins."""
        pages = {one["docname"]: one for one in self.document.findall(addnodes.start_of_file)}
        for toctree in self.env.get_doctree(self.config.root_doc).findall(addnodes.toctree):
            first = next((name for _, name in toctree["entries"] if name in pages), None)
            if toctree.get("caption") and first is not None:
                title = escape(toctree["caption"], self.config.latex_engine)
                pages[first].insert(0, nodes.raw("", rf"\part{{{title}}}", format="latex"))
