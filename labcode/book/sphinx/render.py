"""Outputs of executed pages: the book's own MIME types in, docutils nodes out (a plugin of MyST-NB).

The nodes are independent of the builder, so HTML, LaTeX and the search index get the same content.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx import addnodes

from labcode.book import display
from labcode.book.sphinx.framing import frame_nodes
from labcode.show import visible
from labcode.store import Claim

if TYPE_CHECKING:
    from myst_nb.core.render import MimeData, NbElementRenderer

DIFFERS = "labcode_differs"  # of a figure's node: how the picture differs from its source
_CODE_OR_TEXT = re.compile(r"`([^`]+)`")


class LabRenderer:
    """Renders what the book's own calls show; leaves every other MIME type to MyST-NB."""

    mime_priority_overrides: ClassVar[Sequence[tuple[str, str, int | None]]] = tuple(
        ("*", mime, 1)
        for mime in (
            display.CLAIM_MIME,
            display.TABLE_MIME,
            display.FIGURE_MIME,
            display.ANSWER_MIME,
            display.CALCULATOR_MIME,
            display.INTERACTIVE_MIME,
        )
    )

    @staticmethod
    def handle_mime(renderer: NbElementRenderer, data: MimeData, inline: bool) -> list[nodes.Element] | None:
        """The nodes of one output, or ``None`` when it is none of ours."""
        content: Any = data.content
        if data.mime_type == display.CLAIM_MIME:
            return [claim_node(content)]
        if data.mime_type == display.TABLE_MIME:
            return [table_node(content)]
        if data.mime_type == display.FIGURE_MIME:
            return figure_nodes(content, renderer)
        if data.mime_type == display.ANSWER_MIME:
            return [measured_answer(content=content)]
        if data.mime_type == display.CALCULATOR_MIME:
            return calculator_nodes(content)
        if data.mime_type == display.INTERACTIVE_MIME:
            return frame_nodes(content, figure_nodes(content["figure"], renderer))
        return None


class measured_answer(nodes.Invisible, nodes.Element):  # noqa: N801 (docutils names node classes in lower case)
    """What a cell answers to a question of its page; its attribute ``content`` holds what `answer` told.

    `labcode.book.sphinx.predicting` takes it out of the page.
    """


class claim_box(nodes.container):  # noqa: N801 (docutils names node classes in lower case)
    """The box of one claim: its attribute ``claim`` holds the claim's fields, ``borrowed`` the experiments of
    another set that its value rests on. What only the whole build knows is added at the end.
    """


def calculator_nodes(content: dict[str, Any]) -> list[nodes.Element]:
    """The container of a calculator for HTML, what it computes for every other builder."""
    web, paper = addnodes.only(expr="html"), addnodes.only(expr="not html")
    web += nodes.raw("", content["html"], format="html")
    paper += nodes.paragraph(text=content["plain"])
    return [web, paper]


def claim_node(content: dict[str, Any]) -> nodes.Element:
    """The box of a claim with its first line."""
    box = claim_box(classes=["lab-claim"], **content)
    box["ids"].append(f"claim-{content['claim']['key']}")
    fill_claim(box, Claim(**content["claim"]))
    return box


def fill_claim(box: nodes.Element, claim: Claim) -> None:
    """Put a claim into its box, in place of what is there: the sentence, the value and the bound."""
    box["classes"] = ["lab-claim", "lab-claim-holds" if claim.holds else "lab-claim-fails"]
    line = nodes.paragraph()
    line += nodes.inline(text=f"{claim.mark} ", classes=["lab-claim-mark"])
    line += inline_nodes(claim.text)
    line += nodes.Text(": ")
    line += nodes.strong(text=claim.shown, classes=["lab-claim-value"])
    if claim.bound:
        line += nodes.Text(" ")
        line += nodes.inline(text=f"({claim.bound})", classes=["lab-claim-bound"])
    box.children = []
    box += line


def table_node(content: dict[str, Any]) -> nodes.Element:
    """A table with its caption, units in the header and numbers aligned right."""
    columns = content["columns"]
    table = nodes.table(classes=["lab-table"])
    if content["caption"]:
        title = nodes.title()
        title += inline_nodes(content["caption"])
        table += title
    group = nodes.tgroup(cols=len(columns))
    table += group
    for position, column in enumerate(columns):
        widest = max([len(column["label"]), *(len(row[position]) for row in content["rows"])])
        group += nodes.colspec(colwidth=max(widest, 1))
    header = nodes.row()
    for column in columns:
        entry = nodes.entry(classes=["text-right"] if column["numeric"] else ["text-left"])
        paragraph = nodes.paragraph()
        paragraph += inline_nodes(column["label"])
        if column["unit"]:
            paragraph += nodes.Text(" ")
            paragraph += nodes.inline(text=f"({column['unit']})", classes=["lab-unit"])
        entry += paragraph
        header += entry
    head = nodes.thead()
    head += header
    body = nodes.tbody()
    for cells in content["rows"]:
        row = nodes.row()
        for cell, column in zip(cells, columns, strict=True):
            entry = nodes.entry(classes=["text-right"] if column["numeric"] else ["text-left"])
            paragraph = nodes.paragraph()
            paragraph += inline_nodes(cell)
            entry += paragraph
            row += entry
        body += row
    group += head
    group += body
    return table


def plain_table(
    header: Sequence[str], widths: Sequence[int], rows: Iterable[Sequence[list[nodes.Node]]], *classes: str
) -> nodes.table:
    """A docutils table of header texts and cells of inline nodes; a row of one cell spans the table."""
    found = nodes.table(classes=["lab-table", *classes])
    group = nodes.tgroup(cols=len(header))
    group.extend(nodes.colspec(colwidth=width) for width in widths)
    head = nodes.thead()
    head += _row([[nodes.Text(text)] for text in header], len(header))
    body = nodes.tbody()
    body.extend(_row(cells, len(header)) for cells in rows)
    group += head
    group += body
    found += group
    return found


def _row(cells: Sequence[list[nodes.Node]], columns: int) -> nodes.row:
    row = nodes.row()
    if len(cells) == 1 and columns > 1:
        row["classes"].append("lab-table-group")
    for cell in cells:
        entry = nodes.entry()
        if len(cells) == 1 and columns > 1:
            entry["morecols"] = columns - 1
        paragraph = nodes.paragraph()
        paragraph.extend(cell)
        entry += paragraph
        row += entry
    return row


def figure_nodes(content: dict[str, Any], renderer: NbElementRenderer) -> list[nodes.Element]:
    """The figure for HTML (a light and a dark SVG in a frame that scrolls sideways) and, where one was drawn,
    for every other builder (PNG).
    """
    light = _image(renderer, content["light"].encode(), "svg", content["alt"])
    images = [light]
    if content["dark"] is not None:
        light["classes"].append("only-light")
        images.append(_image(renderer, content["dark"].encode(), "svg", content["alt"], "only-dark"))
    else:
        light["classes"].append("lab-figure-on-white")
    if content.get("narrow"):
        for image in images:
            image["classes"].append("lab-wide")
        themes = ["only-light", "only-dark"] if content["dark"] is not None else ["lab-figure-on-white"]
        for drawn_narrow, theme in zip(content["narrow"], themes, strict=True):
            image = _image(renderer, drawn_narrow.encode(), "svg", content["alt"], theme, "lab-narrow")
            images.append(image)
    frame = nodes.container(classes=["lab-figure-frame"])
    frame.extend(images)
    web = nodes.figure(classes=["lab-figure"])
    web[DIFFERS] = content.get("differs", [])
    web += frame
    drawn = {"html": web}
    if content["png"]:
        drawn["not html"] = nodes.figure()
        drawn["not html"] += _image(renderer, base64.b64decode(content["png"]), "png", content["alt"])
    for figure in drawn.values():
        if content["caption"]:
            caption = nodes.caption()
            caption += inline_nodes(content["caption"])
            figure += caption
    return [addnodes.only("", figure, expr=builder) for builder, figure in drawn.items()]


def inline_nodes(text: str) -> list[nodes.Node]:
    """Text with `` `code` `` in back quotes as inline nodes."""
    parts = _CODE_OR_TEXT.split(text)
    return [
        nodes.literal(text=visible(part)) if position % 2 else nodes.Text(visible(part))
        for position, part in enumerate(parts)
        if part
    ]


def _image(renderer: NbElementRenderer, content: bytes, suffix: str, alt: str, *classes: str) -> nodes.image:
    name = f"{hashlib.sha256(content).hexdigest()}.{suffix}"
    uri = renderer.write_file([name], content, overwrite=False, exists_ok=True)
    return nodes.image(uri=uri, alt=alt, classes=list(classes))
