"""Names in running text: an exercise or a capture named on a page in, a link to where the book shows it out.

``{exercise}`` around an exercise's name, or a part's; ``{capture}`` around an experiment, or one of its runs
as ``dataloader/workers``. A name that is not there fails the build. ``{seen}`` around a range or a kernel,
which the interactive timeline before it shows alone while a reader points at the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.errors import NoUri
from sphinx.util.docutils import SphinxRole

from labcode import store
from labcode.errors import InputError, LabError
from labcode.grading import catalogue
from labcode.show import html

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_CAPTURES = "reference/captures"


def register(app: Sphinx) -> None:
    """Add the roles and their node to the application."""
    app.add_role("exercise", ExerciseRole())
    app.add_role("capture", CaptureRole())
    app.add_role("seen", SeenRole())
    app.add_node(seen_name, html=(_visit_seen, _depart_seen))
    app.add_node(place_link)
    app.connect("doctree-resolved", _resolve)


class place_link(nodes.inline):  # noqa: N801 (docutils names node classes in lower case)
    """A link to a place of the book; its attributes are ``page`` and ``anchor``."""


class seen_name(nodes.inline):  # noqa: N801
    """Words that an interactive timeline of its page shows: ``find`` is what to look for, ``frame`` where."""


def _visit_seen(translator: Any, node: seen_name) -> None:
    frame = f' data-frame="{html(node["frame"])}"' if node["frame"] else ""
    translator.body.append(f'<span class="lab-seen" data-find="{html(node["find"])}"{frame}>')


def _depart_seen(translator: Any, node: seen_name) -> None:
    translator.body.append("</span>")


def exercise_link(text: str) -> place_link:
    """A link to the card of the exercise, or the part, that ``text`` names; `LabError` for none."""
    exercise, part = catalogue.find(text)
    made = place_link(page=exercise.chapter, anchor=f"exercise-{exercise.id}")
    name = exercise.short + (part.letter if part else "")
    made += nodes.literal(text=name, classes=["lab-exercise-name"])
    return made


def capture_link(text: str, set_name: str) -> place_link:
    """A link to the files of an experiment, in a set or where the set has none in the shipped one.

    `LabError` for an experiment or a run that neither has.
    """
    name, _, run = text.partition("/")
    captures = store.holder(set_name, name)
    runs = captures.experiment(name).runs
    if run and run not in runs:
        raise InputError(f"{text}: no such run; {name} has {', '.join(runs)}")
    made = place_link(page=_CAPTURES, anchor=capture_anchor(captures.name, name))
    made += nodes.literal(text=text)
    return made


def capture_anchor(set_name: str, experiment: str) -> str:
    """The anchor of an experiment of a set on the page of all captures."""
    return f"capture-{set_name}-{experiment}"


def _resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for one in list(doctree.findall(place_link)):
        made: nodes.inline | nodes.reference = nodes.inline()  # in an output without that page
        if one["page"] in app.env.found_docs:
            try:
                uri = f"{app.builder.get_relative_uri(docname, one['page'])}#{one['anchor']}"
                made = nodes.reference("", "", internal=True, refuri=uri)
            except NoUri:
                pass
        made.extend(one.children)
        one.replace_self(made)


class ExerciseRole(SphinxRole):
    """A link to an exercise's card on the page of its chapter."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The link; a warning where there is no such exercise."""
        try:
            return [exercise_link(self.text)], []
        except LabError as error:
            return [], [self.inliner.reporter.warning(str(error), line=self.lineno)]


class CaptureRole(SphinxRole):
    """A link to a capture's files on the page of all captures."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The link; a warning where there is no such capture."""
        try:
            return [capture_link(self.text, self.config.labcode_set)], []
        except LabError as error:
            return [], [self.inliner.reporter.warning(str(error), line=self.lineno)]


class SeenRole(SphinxRole):
    """A range or kernel in the interactive timeline before it; or words for it, as ``words <name>``.

    Where a page has several, ``words <name @ timeline>`` says in which one.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The name as code, or the words."""
        words, _, name = self.text.removesuffix(">").partition(" <")
        name, _, frame = name.partition(" @ ")
        made = seen_name(find=name or words, frame=frame)
        made += nodes.Text(words) if name else nodes.literal(text=words)
        return [made], []
