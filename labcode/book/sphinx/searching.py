"""What the search of the book reads: resolved doctrees in, one script with the prose of all pages out.

A page is its title and its sections: heading, anchor, prose; code, claims and computed tables are left out.
What other pages say where they link to it counts as well, and so do the words that readers
would type for what it answers (``book/search-words.toml``). Ranking is done in the browser
(``book/_static/search.js``), which loads the script when somebody searches: as a script, so that this also
works from disk.
"""

from __future__ import annotations

import json
import posixpath
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util import logging

from labcode.book.sphinx.directives import stamp_box
from labcode.book.sphinx.glossary import FOUND
from labcode.book.sphinx.render import claim_box
from labcode.outputs import whole

if TYPE_CHECKING:
    from sphinx.application import Sphinx

INDEX = "search-index.js"
WORDS = "search-words.toml"  # beside the pages: what is said for what
_CALL = "labSearchIndex("
_API = "reference/api/"
_LISTS = {  # of pages that list, teach or refer rather than explain; those not named count as 1
    "index": 0.5,
    "guides/teaching": 0.7,
    "guides/where-topics-live": 0.5,
    "lm/llama-one-gpu": 0.7,  # one case through many topics
    "lm/llama-two-gpus": 0.7,
    _API: 0.3,
    "reference/bibliography": 0.3,
    "reference/captures": 0.4,
    "reference/claims": 0.3,
    "reference/exercises": 0.5,
    "reference/glossary": 0.7,
    "reference/status": 0.2,
    "reference/two-gpus": 0.7,
    "reference/what-moved": 0.7,
    "reference/whats-new": 0.3,
    "serving/five-days": 0.6,
    "serving/prefill-decode": 0.7,
    "start/instructor": 0.7,
}
_TELLS = 0.5  # of the weight of pages whose links say something of where they lead
_SILENT = (
    nodes.literal_block,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.comment,
    nodes.image,
    nodes.system_message,
    addnodes.toctree,
    addnodes.index,
    claim_box,
    stamp_box,
)
_SILENT_CLASSES = {"lab-table", "lab-exercise", "lab-lacking", "lab-predict", "lab-calculator"}

Page = dict[str, Any]


def register(app: Sphinx) -> None:
    """Collect pages as they are resolved, and write them instead of the index that Sphinx would make."""
    app.connect("builder-inited", _begin)
    app.connect("doctree-resolved", _collect, priority=900)  # after claims and links are filled in
    app.connect("html-collect-pages", _search_page)
    app.connect("build-finished", _write)


def page_of(name: str, doctree: nodes.document) -> Page:
    """What is searched of a page: its title, its sections as [anchor, heading, prose], and of each page that
    it links to what it says of that one.
    """
    sections: list[list[str]] = []
    links: dict[str, dict[str, None]] = {}
    for section in doctree.findall(nodes.section):
        title = section.next_node(nodes.title)
        heading = _text(title) if title is not None else ""
        prose = " ".join(_prose(section))
        sections.append([_anchor(section), heading, _brief(prose) if name.startswith(_API) else prose])
        sections.extend(_entries(section))
    weight = next((weight for start, weight in _LISTS.items() if name.startswith(start)), 1.0)
    for link in doctree.findall(nodes.reference) if weight >= _TELLS else ():
        target = _target(name, link)
        if target not in ("", name) and not _of_term(link):
            links.setdefault(target, {})[_said(link)] = None
    if sections:
        sections[0][0] = ""
    return {
        "page": name,
        "title": sections[0][1] if sections else name,
        "weight": weight,
        "sections": sections,
        "links": {target: list(texts) for target, texts in links.items()},
    }


def index_script(pages: Iterable[Page], words: Path) -> str:
    """The script that hands all pages, and the synonyms and keywords of a file, to the search."""
    given = tomllib.loads(words.read_text(encoding="utf-8")) if words.is_file() else {}
    data = {
        "synonyms": given.get("synonyms", []),
        "keywords": given.get("keywords", {}),
        "pages": sorted(pages, key=lambda page: page["page"]),
    }
    return f"{_CALL}{json.dumps(data, ensure_ascii=False, separators=(',', ':'))});\n"


def pages_in(script: str) -> dict[str, Page]:
    """The pages that `index_script` wrote, by name."""
    data = json.loads(script.removeprefix(_CALL).rstrip().removesuffix(");"))
    return {page["page"]: page for page in data["pages"]}


def _anchor(node: nodes.Element) -> str:
    return str(node["ids"][0]) if node["ids"] else ""


def _brief(text: str) -> str:
    """The first sentence."""
    return text.partition(". ")[0]


def _prose(section: nodes.Element) -> Iterator[str]:
    """The text of a section, in pieces, without its heading, its subsections, and what is an entry."""
    for child in section.children:
        if isinstance(child, (nodes.section, nodes.title, addnodes.desc, addnodes.glossary)):
            continue
        if isinstance(child, nodes.Element):
            yield from _pieces(child)


def _pieces(node: nodes.Element) -> Iterator[str]:
    if isinstance(node, nodes.title) and isinstance(node.parent, nodes.Admonition):
        return
    if isinstance(node, _SILENT) or _SILENT_CLASSES.intersection(node.get("classes", ())):
        return
    if isinstance(node, nodes.row):
        cells = (" ".join(_pieces(cell)) for cell in node.children if isinstance(cell, nodes.Element))
        yield " · ".join(filter(None, cells)).rstrip(".") + "."
    elif isinstance(node, nodes.TextElement):
        if text := _text(node):
            yield text
    else:
        for child in node.children:
            if isinstance(child, nodes.Element):
                yield from _pieces(child)


def _text(node: nodes.Element) -> str:
    """The words of a paragraph, without formulas."""
    found = (
        str(text)
        for text in node.findall(nodes.Text)
        if not isinstance(text.parent, (nodes.math, nodes.raw, nodes.image))
    )
    return " ".join("".join(found).split())


def _entries(section: nodes.Element) -> Iterator[list[str]]:
    """Terms of a glossary, and names of the API, which are found by name."""
    for child in section.children:
        if isinstance(child, addnodes.glossary):
            for item in child.findall(nodes.definition_list_item):
                terms = list(item.findall(nodes.term))
                anchor = next((_anchor(term) for term in terms if term["ids"]), "")
                texts = [" ".join(_pieces(part)) for part in item.findall(nodes.definition)]
                yield [anchor, ", ".join(map(_text, terms)), " ".join(texts)]
        elif isinstance(child, addnodes.desc):
            signature = child.next_node(addnodes.desc_signature)
            if signature is not None:
                name = signature.next_node(addnodes.desc_name)
                yield [_anchor(signature), _text(name if name is not None else signature), ""]


def _target(page: str, link: nodes.reference) -> str:
    """The page that a link within the book leads to, or nothing."""
    address = str(link.get("refuri", ""))
    if not link.get("internal") or not address or "://" in address:
        return ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), address.partition("#")[0]))
    return path.removesuffix(".html") if path.endswith(".html") else ""


def _of_term(link: nodes.reference) -> bool:
    """Whether the book itself put the link there, at a term of the glossary."""
    return any(FOUND in part["classes"] for part in link.findall(nodes.inline))


def _said(link: nodes.reference) -> str:
    """What a page says of the one that it links to: the link's text, and before it the first cell of its row
    or the term that it explains.
    """
    before: nodes.Node | None = None
    node: nodes.Node = link
    while node.parent is not None:
        if isinstance(node.parent, nodes.row) and node is not node.parent[0]:
            before = node.parent[0]
            break
        if isinstance(node.parent, nodes.definition_list_item):
            before = node.parent.next_node(nodes.term)
            break
        node = node.parent
    return " · ".join(
        filter(None, (" ".join(_pieces(before)) if isinstance(before, nodes.Element) else "", _text(link)))
    )


def _begin(app: Sphinx) -> None:
    if isinstance(app.builder, StandaloneHTMLBuilder):
        app.builder.search = False  # no index by Sphinx, and none of its scripts


def _collect(app: Sphinx, doctree: nodes.document, name: str) -> None:
    if app.builder.format == "html":
        _collected(app)[name] = page_of(name, doctree)


def _search_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    yield "search", {}, "search.html"


def _write(app: Sphinx, exception: Exception | None) -> None:
    """Write the index: pages that were not written in this build are as they were in the last one."""
    if exception is not None or app.builder.format != "html":
        return
    path = Path(app.outdir) / INDEX
    last = pages_in(path.read_text(encoding="utf-8")) if path.is_file() else {}
    pages = {**last, **_collected(app)}
    kept = [page for name, page in pages.items() if name in app.env.found_docs]
    script = index_script(kept, Path(app.srcdir) / WORDS)
    with whole(path) as part:
        part.write_text(script, encoding="utf-8")
    logging.getLogger(__name__).info("search: %d pages, %d kB", len(kept), len(script.encode()) // 1000)


def _collected(app: Sphinx) -> dict[str, Page]:
    found: dict[str, Page] = vars(app).setdefault("labcode_search_pages", {})
    return found
