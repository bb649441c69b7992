"""Directives of the book: what a page asks for in, docutils nodes out.

``captures-used``, ``all-captures``, ``all-claims``, ``exercise-card``, ``all-exercises``, ``api-package``;
the role ``spec``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from labcode import store
from labcode.book import provenance
from labcode.book.sphinx.cards import exercise_card, exercises_table
from labcode.book.sphinx.stamps import set_nodes, stamp_nodes
from labcode.errors import LabError

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LOGGER = logging.getLogger(__name__)


def register(app: Sphinx) -> None:
    """Add the directives and the role to the application."""
    app.add_directive("captures-used", CapturesUsed)
    app.add_directive("all-captures", AllCaptures)
    app.add_directive("all-claims", AllClaims)
    app.add_directive("exercise-card", ExerciseCard)
    app.add_directive("all-exercises", AllExercises)
    app.add_directive("api-package", ApiPackage)
    app.add_role("spec", Spec())
    app.add_node(all_claims)


class all_claims(nodes.General, nodes.Element):  # noqa: N801 (docutils names node classes in lower case)
    """Stands for the table of all claims until every page has been read."""


class AllClaims(SphinxDirective):
    """``{all-claims}``: a table of every claim of the book with its value on each set."""

    def run(self) -> list[nodes.Node]:
        """The placeholder."""
        return [all_claims()]


class Spec(SphinxRole):
    """``{spec}``: a number that was published, not measured; the check of hand-typed numbers lets it pass."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The text, with a class of its own."""
        return [nodes.inline(self.rawtext, self.text, classes=["lab-spec"])], []


class CapturesUsed(SphinxDirective):
    """``{captures-used} experiment …``: where this page's numbers come from, and the files to download."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """The stamp; in strict builds a warning for each stale capture."""
        box = nodes.container(classes=["lab-stamp"])
        try:
            current = self.config.labcode_set
            holders = [(store.holder(current, name), name) for name in self.arguments[0].split()]
            found = [provenance.stamp(captures, name, current) for captures, name in holders]
        except LabError as error:
            raise self.error(str(error)) from None
        for (captures, _), stamp in zip(holders, found, strict=True):
            if not stamp.fresh and self.config.labcode_strict:
                LOGGER.warning(
                    "captures of %s in set %r are stale: their sources changed since; capture them again",
                    stamp.experiment,
                    captures.name,
                    location=self.get_location(),
                    type="labcode",
                    subtype="stale",
                )
        box.extend(stamp_nodes(found, Path(self.env.srcdir)))
        return [box]


class AllCaptures(SphinxDirective):
    """``{all-captures}``: every set with its machines, experiments, runs and files."""

    def run(self) -> list[nodes.Node]:
        """Machines and files, set by set."""
        found: list[nodes.Node] = []
        for name in store.list_sets():
            self.env.note_dependency(str(store.sets_root() / name / "manifest.json"))
            try:
                captures = store.load_set(name)
                stamps = [provenance.stamp(captures, key) for key in captures.experiments]
            except LabError as error:
                raise self.error(str(error)) from None
            around = " (the one this book was built around)" if name == self.config.labcode_set else ""
            found.append(nodes.rubric(text=f"Set {name}{around}", classes=["lab-set"]))
            found.extend(set_nodes(captures, stamps, Path(self.env.srcdir)))
        return found or [nodes.paragraph(text="There is no capture set in this checkout.")]


class ExerciseCard(SphinxDirective):
    """``{exercise-card} ID``: an exercise's title, stars, time, needs, parts, and the command to grade it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The card of the exercise."""
        from labcode.grading import catalogue

        try:
            exercise = catalogue.get(self.arguments[0])
        except LabError as error:
            raise self.error(str(error)) from None
        return [exercise_card(exercise)]


class AllExercises(SphinxDirective):
    """``{all-exercises}``: a table of every exercise, with links to the pages they belong to."""

    def run(self) -> list[nodes.Node]:
        """The table; a book without exercises says so."""
        from labcode.grading import catalogue

        if not catalogue.EXERCISES:
            return [nodes.paragraph(text="There are no exercises yet.")]
        return [exercises_table(catalogue.EXERCISES, self.env.found_docs, self.env.docname)]


class ApiPackage(SphinxDirective):
    """``{api-package} labcode.analysis``: the reference of each module of a package, from its docstrings."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"modules": str}

    def run(self) -> list[nodes.Node]:
        """One section a module."""
        package = self.arguments[0]
        given = self.options.get("modules", "").split()
        names = [f"{package}.{name}" for name in given] or _modules(package)
        text = "\n\n".join(_module_reference(name, package=name == package) for name in names)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _modules(package: str) -> list[str]:
    folder = store.repository_root().joinpath(*package.split("."))
    files = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    return [package, *(f"{package}.{path.stem}" for path in files)]


def _module_reference(name: str, *, package: bool) -> str:
    """The reference of one module; of a package only what it says about itself."""
    options = "" if package else "   :members:\n   :member-order: bysource\n"
    return f"## `{name}`\n\n```{{eval-rst}}\n.. automodule:: {name}\n{options}```\n"
