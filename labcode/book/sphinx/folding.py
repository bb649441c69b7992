"""What a web page folds away: executed cells and completed claims in; one switch for the page's code, one for
other GPUs' values, and checks under a line that says whether they hold out.

The markup shows everything; `book/_static/switches.css` folds what a script in the page's head says is off.
So pages without scripts lack nothing, and nothing moves when a page appears.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.errors import NoUri
from sphinx.transforms.post_transforms import SphinxPostTransform

from labcode.book import provenance
from labcode.book.sphinx.paper import FOLDED
from labcode.book.sphinx.render import claim_box
from labcode.show import html
from labcode.store import RECORD

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MOST_SHOWN = 8  # boxes of claims that a page shows without being asked
CODE = "lab-code"  # class of code behind the page's switch
OTHER_GPU = "lab-other-gpu"  # class of what another GPU's set says
_EXPLAINED = "start/how-to-use", "what-the-marks-on-a-page-mean"


class checks_below(nodes.General, nodes.Element):  # noqa: N801 (docutils names node classes in lower case)
    """Claims under one line: its attribute ``summary`` is the line, ``opened`` says that they are shown."""


def register(app: Sphinx) -> None:
    """Add node and transform; fold claims once they are complete, and tell templates what there is to
    switch.
    """
    passing = (_pass, _pass)
    app.add_node(checks_below, html=(_visit, _depart), latex=passing, text=passing)
    app.add_post_transform(FoldCode)
    app.connect("doctree-resolved", _fold, priority=600)  # claims are complete, and not searched yet
    app.connect("html-page-context", _tell)


class FoldCode(SphinxPostTransform):
    """Code of cells tagged ``hide-input`` or ``hide-cell`` goes behind the page's switch.

    What such a cell shows stays; claims of a ``hide-cell`` are put aside. A cell that shows something else is
    left as it is.
    """

    default_priority = 198  # before MyST-NB folds each cell by itself
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Mark the code, and take the mode from the cell."""
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") != "cell_code" or cell.get("hide_mode") not in FOLDED:
                continue
            claims = list(cell.findall(claim_box))
            if cell["hide_mode"] != "input" and not (claims and len(claims) == _shown(cell)):
                continue
            if cell["hide_mode"] != "input":
                for claim in claims:
                    claim["aside"] = True
            cell["hide_mode"] = ""
            for part in cell.children:
                if isinstance(part, nodes.Element) and part.get("nb_element") == "cell_code_source":
                    part["classes"].append(CODE)


def choose(sections: Sequence[object], most: int = MOST_SHOWN) -> set[int]:
    """Which of a page's claims are shown, by their places: ``sections`` says in which section each stands.

    The first of every section, then the second of every one, and so on, until ``most`` are shown.
    """
    nth: dict[object, int] = {}
    ranks = []
    for place, section in enumerate(sections):
        nth[section] = nth.get(section, -1) + 1
        ranks.append((nth[section], place))
    return {place for _, place in sorted(ranks)[:most]}


def summary(boxes: Iterable[claim_box]) -> tuple[str, bool]:
    """The line above folded claims, and whether one of them does not hold."""
    counts = dict.fromkeys(("check", "record", "elsewhere", "fails"), 0)
    for box in boxes:
        if "lab-claim-borrowed" in box["classes"]:
            counts["elsewhere"] += 1
        elif box["claim"]["bound"] == RECORD:
            counts["record"] += 1
        else:
            counts["check"] += 1
            counts["fails"] += "lab-claim-fails" in box["classes"]
    parts = []
    if checks := counts["check"]:
        fails = counts["fails"]
        verdict = f"{fails} {'does' if fails == 1 else 'do'} not hold" if fails else _all_hold(checks)
        parts.append(f"{_many(checks, 'check')}, {verdict}")
    if counts["record"]:
        parts.append(_many(counts["record"], "record"))
    if counts["elsewhere"]:
        parts.append(f"{counts['elsewhere']} measured on another GPU")
    return "; ".join(parts), counts["fails"] > 0


def _many(count: int, word: str) -> str:
    return f"{count} {word}" + ("s" if count > 1 else "")


def _all_hold(count: int) -> str:
    return {1: "it holds", 2: "both hold"}.get(count, "all hold")


def _shown(cell: nodes.Element) -> int:
    """How many things the outputs of a cell are, whatever containers they lie in."""

    def things(element: nodes.Element) -> int:
        inner = [child for child in element.children if not isinstance(child, nodes.Invisible)]
        if type(element) is not nodes.container:
            return 1
        return sum(things(child) if isinstance(child, nodes.Element) else 1 for child in inner)

    parts = (part for part in cell.children if isinstance(part, nodes.Element))
    return sum(things(part) for part in parts if part.get("nb_element") == "cell_code_output")


def _fold(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":
        return
    boxes = list(doctree.findall(claim_box))
    candidates = [box for box in boxes if not box.get("aside")]
    chosen = choose([id(_section(box)) for box in candidates])
    shown = {id(box) for place, box in enumerate(candidates) if place in chosen}
    for parent, children in _runs(boxes, shown):
        line, fails = summary(children)
        below = checks_below(summary=line, opened=fails)
        parent.insert(parent.index(children[0]), below)
        for child in children:
            parent.remove(child)
            below += child
    if candidates:
        _explain(app, next(box for box in candidates if id(box) in shown), docname)


def _runs(boxes: Sequence[claim_box], shown: set[int]) -> Iterator[tuple[nodes.Element, list[claim_box]]]:
    """Claims to be folded that stand next to one another, with what they stand in."""
    hidden = [box for box in boxes if id(box) not in shown]

    def place(box: claim_box) -> tuple[int, int]:
        parent = box.parent
        at = parent.index(box)
        before = sum(id(other) in shown or not isinstance(other, claim_box) for other in parent.children[:at])
        return id(parent), before

    for _, run in groupby(hidden, place):
        found = list(run)
        yield found[0].parent, found


def _section(box: nodes.Node) -> nodes.Node | None:
    found = box.parent
    while found is not None and not isinstance(found, nodes.section):
        found = found.parent
    return found


def _explain(app: Sphinx, box: claim_box, docname: str) -> None:
    """The first claim of a page leads to what its parts mean."""
    page, anchor = _EXPLAINED
    try:
        address = f"{app.builder.get_relative_uri(docname, page)}#{anchor}"
    except NoUri:
        return
    if page not in app.env.found_docs:
        return
    link = nodes.reference("", "What is this?", internal=True, refuri=address, classes=["lab-claim-what"])
    line = box.children[0]
    if isinstance(line, nodes.Element):
        line += nodes.Text(" ")
        line += link


def _visit(translator: Any, node: checks_below) -> None:
    opened = " open" if node["opened"] else ""
    translator.body.append(
        f'<details class="lab-checks"{opened}>\n<summary>{html(node["summary"])}</summary>\n'
    )


def _depart(translator: Any, node: checks_below) -> None:
    translator.body.append("</details>\n")


def _pass(translator: Any, node: checks_below) -> None:
    """The claims alone."""


def _tell(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Name for `book/_templates` the switches of a page."""
    body = str(context.get("body", ""))
    context["lab_code"] = _in_classes(CODE, body)
    context["lab_other_gpu"] = ""
    if _in_classes(OTHER_GPU, body):
        labels = provenance.set_labels()
        others = [label for name, label in labels.items() if name != app.config.labcode_set]
        context["lab_other_gpu"] = others[0] if len(others) == 1 else "Other GPUs"


def _in_classes(name: str, markup: str) -> bool:
    return re.search(rf'class="[^"]*\b{name}[" ]', markup) is not None
