"""Terms of the glossary: its doctree in, entries with drawings out; pages in, links at first uses out.

A link to an entry shows the entry beside it where a reader points at it (``book/_static/terms.js``). The
entries come in one script, which a page loads when somebody asks for one: as a script, so that this also
works from disk.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from docutils import nodes
from myst_nb.sphinx_ext import OUTPUT_FOLDER
from sphinx import addnodes

from labcode.book import display
from labcode.book.sphinx.render import figure_nodes
from labcode.figures.diagrams.terms import DRAWINGS, term_drawing
from labcode.figures.style import blank, colored, figure_bytes, render
from labcode.outputs import whole

if TYPE_CHECKING:
    from myst_nb.core.render import NbElementRenderer
    from sphinx.application import Sphinx

PAGE = "reference/glossary"
CARDS = "glossary-cards.js"
FOUND = "lab-term"  # class of a term that the book itself found in a page's text
_CALL = "labGlossary("
_BEFORE_IMAGES = 400  # of listeners: Sphinx collects a page's images at 500
_RUNNING_TEXT = (nodes.section, nodes.bullet_list, nodes.enumerated_list, nodes.list_item, nodes.document)
_UNLINKED = ("index", "reference/", "start/how-to-use")  # pages that point elsewhere as it is
# Drawn terms whose word, or another word for them, means nothing else in this book.
_OWN_WORD = (
    "all-gather", "all-reduce", "arithmetic intensity", "bank conflict", "busy time", "coalesced",
    "continuous batching", "critical path", "CUDA event", "CUDA graph", "data parallelism", "divergence",
    "exposed communication", "flame graph", "FSDP", "key-value cache", "launch queue", "launch-bound",
    "NVLink", "occupancy", "pageable memory", "ping-pong", "pinned memory", "prefill", "projected range",
    "reduce-scatter", "roofline", "self time", "speculative decoding", "straggler", "swizzle",
    "tensor parallelism", "TMA", "warp", "warp specialization", "warpgroup", "ZeRO",
)  # fmt: skip
_WORDS = {
    **{term: term for term in _OWN_WORD},
    "KV cache": "key-value cache",
    "sectors per request": "sector",
}
_ANY = re.compile(
    rf"(?<![\w./-])(?:{'|'.join(map(re.escape, sorted(_WORDS, key=len, reverse=True)))})(s?)(?![\w/-])"
)


class _Files:
    """Writes pictures where those of executed pages are."""

    def __init__(self, folder: Path, pages: Path) -> None:
        self._folder, self._pages = folder, pages

    def write_file(self, path: list[str], content: bytes, **_: bool) -> str:
        """Write a file whose name follows from its content; gives its address for a page."""
        target = self._folder.joinpath(*path)
        self._folder.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            with whole(target) as part:
                part.write_bytes(content)
        return "/" + Path(os.path.relpath(target.resolve(), self._pages)).as_posix()


def register(app: Sphinx) -> None:
    """Draw and link as pages are read; write the entries for the cards as the glossary is written."""
    app.connect("doctree-read", _read, priority=_BEFORE_IMAGES)
    app.connect("doctree-resolved", _write_cards, priority=900)  # after links are filled in


def draw_terms(doctree: nodes.document, files: _Files) -> None:
    """Put its drawing below each entry that has one."""
    for item in doctree.findall(nodes.definition_list_item):
        term, definition = item.next_node(nodes.term), item.next_node(nodes.definition)
        if term is not None and definition is not None and (name := term.astext()) in DRAWINGS:
            found = figure_nodes(_content(name), cast("NbElementRenderer", files))
            for figure in (figure for one in found for figure in one.findall(nodes.figure)):
                figure["classes"].append("lab-term-drawing")
            definition += found


def link_terms(doctree: nodes.document, page: str) -> None:
    """Make the first use of each drawn term in a page's running text a link to its entry.

    Not of a term in the page's title, which the page itself explains, nor of one that it links already.
    """
    title = doctree.next_node(nodes.title)
    about = title.astext().casefold() if title is not None else ""
    linked = {
        str(link["reftarget"]) for link in doctree.findall(addnodes.pending_xref) if link["reftype"] == "term"
    }
    linked |= {term for word, term in _WORDS.items() if word.casefold() in about}
    for text in list(_running_text(doctree)):
        parts, end = list[nodes.Node](), 0
        for found in _ANY.finditer(text):
            term = _WORDS.get(found.group()) or _WORDS[found.group().removesuffix("s")]
            if term in linked:
                continue
            linked.add(term)
            parts += [nodes.Text(text[end : found.start()]), _link(term, found.group(), page)]
            end = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(text[end:])])


def cards(doctree: nodes.document) -> dict[str, list[str]]:
    """What a card shows, by the entry's anchor: the term, its text, its drawing for light and dark pages, and
    what that shows in words.
    """
    found = {}
    for item in doctree.findall(nodes.definition_list_item):
        term, definition = item.next_node(nodes.term), item.next_node(nodes.definition)
        if term is None or definition is None or not term["ids"]:
            continue
        texts = [
            " ".join(one.astext().split()) for one in definition.children if isinstance(one, nodes.paragraph)
        ]
        pictures = {
            theme: picture
            for picture in definition.findall(nodes.image)
            for theme in ("only-light", "only-dark")
            if theme in picture["classes"]
        }
        drawn = [
            Path(pictures[theme]["uri"]).name for theme in ("only-light", "only-dark") if theme in pictures
        ]
        told = [str(pictures["only-light"]["alt"])] if drawn else []
        found[str(term["ids"][0])] = [term.astext(), " ".join(texts), *drawn, *told]
    return found


def _content(term: str) -> dict[str, Any]:
    """What a figure of a page would have shown."""
    with blank():
        drawn = figure_bytes(term_drawing(term)).decode()
    light, dark = (colored(drawn, mode) for mode in ("light", "dark"))
    assert light and dark, f"{term}: drawn in other colors than the palette's"
    png = b"" if os.environ.get(display.WEB_ALONE) else render(lambda: term_drawing(term), "print", "png")
    return {
        "light": light,
        "dark": dark,
        "png": base64.b64encode(png).decode() if png else None,
        "alt": DRAWINGS[term].alt,
        "caption": "",
    }


def _running_text(doctree: nodes.document) -> Iterator[nodes.Text]:
    """Text that stands in paragraphs of a page's sections and lists, not in boxes, tables or captions."""
    for paragraph in doctree.findall(nodes.paragraph):
        above = paragraph.parent
        while isinstance(above, _RUNNING_TEXT) and not isinstance(above, nodes.document):
            above = above.parent
        if isinstance(above, nodes.document):
            yield from (one for one in paragraph.children if isinstance(one, nodes.Text))


def _link(term: str, words: str, page: str) -> addnodes.pending_xref:
    shown = nodes.inline("", words, classes=["xref", "std", "std-term", FOUND])
    return addnodes.pending_xref(
        "",
        shown,
        refdomain="std",
        reftype="term",
        reftarget=term,
        refexplicit=True,
        refwarn=True,
        refdoc=page,
    )


def _read(app: Sphinx, doctree: nodes.document) -> None:
    page = app.env.current_document.docname
    if page == PAGE:
        draw_terms(doctree, _Files(Path(app.outdir).parent / OUTPUT_FOLDER, Path(app.srcdir)))
    elif PAGE in app.env.found_docs and not page.startswith(_UNLINKED):
        link_terms(doctree, page)


def _write_cards(app: Sphinx, doctree: nodes.document, page: str) -> None:
    if page == PAGE and app.builder.format == "html":
        text = json.dumps(cards(doctree), ensure_ascii=False, separators=(",", ":"))
        with whole(Path(app.outdir) / CARDS) as part:
            part.write_text(f"{_CALL}{text});\n", encoding="utf-8")
