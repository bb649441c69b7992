"""Questions before measurements: ``{predict}`` in; a question that keeps its reader's answer in the browser,
and a page of all of one's predictions out.

A question names a key, and a cell further down the page answers it with `labcode.book.answer`. Below the
question its answer is folded; ``book/_static/predict.js`` asks for a prediction in its place, and shows the
two side by side once it is given. ``{all-predictions}`` compares everything that this browser has kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from labcode import store
from labcode.book import provenance
from labcode.book.sphinx.collecting import reading_order
from labcode.book.sphinx.noted import Noted, NotingCollector, add_files
from labcode.book.sphinx.render import measured_answer
from labcode.show import html, page_data

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

LOGGER = logging.getLogger(__name__)
WITHIN = 1.5
WITHOUT_SCRIPTS = "Predictions are kept and compared by a script of this page, in your browser alone."
_NUMBERED = re.compile(r"\A\(\w\)\s+")


@dataclass(frozen=True)
class Question:
    """One question with what was measured; ``value`` is a number in ``unit``, or ``None`` for a choice, whose
    answer is ``shown``.
    """

    id: str
    text: str
    shown: str
    machine: str
    value: float | None
    unit: str
    within: float


class prediction(nodes.container):  # noqa: N801 (docutils names node classes in lower case)
    """A question; attributes: ``key``, ``within``, ``choices``, and once its page was read ``question``."""


class all_predictions(nodes.General, nodes.Element):  # noqa: N801
    """Stands for all predictions of a reader until every page has been read."""


class Predict(SphinxDirective):
    """``{predict} key``: one question, and the choices as a list below it, if it is not a number.

    A number is right when it is within a factor of ``:within:`` (1.5 unless given) of what was measured.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"within": float}

    def run(self) -> list[nodes.Node]:
        """The question, still without its answer."""
        within = self.options.get("within", WITHIN)
        if not within > 1:
            raise self.error(f"predict: within {within}: a factor is above 1")
        box = prediction(key=self.arguments[0], within=within, classes=["lab-predict"])
        box["ids"].append(f"predict-{self.arguments[0]}")
        box.extend(self.parse_content_to_nodes())
        lists = [child for child in box.children if isinstance(child, nodes.bullet_list)]
        box["choices"] = [" ".join(item.astext().split()) for one in lists for item in one.children]
        self.set_source_info(box)
        return [box]


class AllPredictions(SphinxDirective):
    """``{all-predictions}``: what the reader predicted, beside what was measured; every question's link."""

    def run(self) -> list[nodes.Node]:
        """The placeholder."""
        return [all_predictions()]


_by_page = Noted[list[Question]]("questions")
_listing = Noted[None]("prediction_pages")


class QuestionCollector(NotingCollector):
    """Brings each page's questions and answers together, and keeps them for the page of all of them."""

    notes = (_by_page, _listing)

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Give each question of a page its answer; a warning for one without, and the other way round."""
        found = list(_answered(doctree, app.env.current_document.docname, app.config.labcode_set))
        if found:
            _by_page(app.env)[app.env.current_document.docname] = found
        if any(True for _ in doctree.findall(all_predictions)):
            _listing(app.env)[app.env.current_document.docname] = None


def _answered(doctree: nodes.document, page: str, set_name: str) -> Iterator[Question]:
    asked: dict[str, prediction] = {}
    answered: set[str] = set()
    for one in list(doctree.findall(lambda node: isinstance(node, prediction | measured_answer))):
        if isinstance(one, prediction):
            if one["key"] in asked:
                _warn(one, f"two questions of this page have the key {one['key']!r}")
            asked[one["key"]] = one
            continue
        assert isinstance(one, measured_answer)
        content = one["content"]
        question = asked.get(content["key"])
        if question is None:
            _warn(one, f"book.answer({content['key']!r}): no question above asks it")
        elif "choice" in content and content["choice"] not in question["choices"]:
            _warn(one, f"book.answer({content['key']!r}): {content['choice']!r} is none of its choices")
        elif "choice" not in content and question["choices"]:
            _warn(one, f"book.answer({content['key']!r}): a number, and the question has choices")
        else:
            made = _question(question, content, page, set_name)
            question["question"] = asdict(made)
            answered.add(content["key"])
            yield made
        _take_out(one)
    for key, question in asked.items():
        if key not in answered:
            _warn(question, f"predict {key!r}: no cell below answers it with book.answer")


def _question(box: prediction, content: dict[str, Any], page: str, set_name: str) -> Question:
    lender = store.holder(set_name, content["borrowed"][0]).name if content["borrowed"] else set_name
    text = " ".join(
        " ".join(child.astext().split()) for child in box.children if not isinstance(child, nodes.bullet_list)
    )
    return Question(
        id=f"{page}#{box['key']}",
        text=_NUMBERED.sub("", text),
        shown=content["shown"],
        machine=provenance.set_labels().get(lender, lender),
        value=content.get("value"),
        unit=content.get("unit", ""),
        within=box["within"],
    )


def _take_out(node: nodes.Element) -> None:
    """Remove an answer, and what stood around it alone."""
    parent = node.parent
    parent.remove(node)
    if getattr(parent.parent, "attributes", {}).get("nb_element") == "mime_bundle":
        parent.parent.children = [parent]  # without the text for notebooks, which would be shown instead
    while isinstance(parent, nodes.container) and not parent.children and parent.parent is not None:
        parent, empty = parent.parent, parent
        parent.remove(empty)


def _warn(node: nodes.Element, message: str) -> None:
    LOGGER.warning(message, location=node, type="labcode", subtype="predict")


def _pages_to_rewrite(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """The page of all questions, whenever one of them differs from when it was last written."""
    return sorted(_listing(env)) if _by_page.changed(env, dict(_by_page(env))) else []


def _resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for placeholder in list(doctree.findall(all_predictions)):
        placeholder.replace_self(
            nodes.raw("", _all_html(app, docname), format="html")
            if app.builder.format == "html"
            else nodes.paragraph(text=WITHOUT_SCRIPTS)
        )


def _all_html(app: Sphinx, docname: str) -> str:
    """The data of the script, and a list of all questions for everybody."""
    from labcode.book.two_sets import PARTS  # and with it pandas, which other pages do without

    data, lines = list[dict[str, Any]](), list[str]()
    for page in filter(_by_page(app.env).get, reading_order(app.env)):
        title = app.env.titles[page].astext()
        for question in _by_page(app.env)[page]:
            anchor = f"predict-{question.id.split('#')[1]}"
            link = f"{app.builder.get_relative_uri(docname, page)}#{anchor}"
            part = PARTS.get(page.split("/")[0], "Start")
            data.append(asdict(question) | {"title": title, "part": part, "link": link})
            lines.append(f'<li><a href="{html(link)}">{html(title)}</a>: {html(question.text)}</li>')
    return (
        f'<div class="lab-predictions"><script type="application/json">{page_data(data)}</script>'
        f"<noscript><p>{WITHOUT_SCRIPTS}</p></noscript></div>"
        f"<details class='lab-questions'><summary>All {len(lines)} questions of the book</summary>"
        f"<ol>{''.join(lines)}</ol></details>"
    )


def _visit(translator: Any, node: prediction) -> None:
    data = page_data(node.get("question", {}) | {"choices": node["choices"]})
    translator.body.append(
        f'<div class="lab-predict" id="predict-{html(node["key"])}">'
        f'<script type="application/json">{data}</script>'
        '<p class="lab-predict-title">Predict</p><div class="lab-predict-question">'
    )


def _depart(translator: Any, node: prediction) -> None:
    question = node.get("question")
    told = f"<b>{html(question['shown'])}</b> ({html(question['machine'])})" if question else "not measured"
    translator.body.append(
        f"</div><details><summary>What was measured</summary><p>{told}</p></details></div>\n"
    )


def register(app: Sphinx) -> None:
    """Add directives, nodes and the collector, and script and style to the pages that use them."""
    app.add_directive("predict", Predict)
    app.add_directive("all-predictions", AllPredictions)
    app.add_node(prediction, html=(_visit, _depart))
    app.add_node(all_predictions)
    app.add_env_collector(QuestionCollector)
    app.connect("env-updated", _pages_to_rewrite)
    app.connect("doctree-resolved", _resolve)
    add_files(app, "lab-predict", "predict.js", "predict.css")
