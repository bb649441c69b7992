"""Directives of the book: what a page asks for in, docutils nodes out.

``captures-used``, ``all-captures``, ``capture-times``, ``all-claims``, ``exercise-card``, ``all-exercises``,
``api-package``; the role ``spec``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from labcode import store
from labcode.book import durations, provenance
from labcode.book.provenance import CapturedFile, Stamp
from labcode.book.sphinx import api
from labcode.book.sphinx.render import inline_nodes, plain_table
from labcode.book.sphinx.roles import capture_anchor
from labcode.book.values import NARROW_SPACE
from labcode.errors import LabError
from labcode.grading.needs import in_words
from labcode.grading.records import KINDS, MAX_STARS, Exercise
from labcode.show import byte_text, html
from labcode.store import CaptureSet

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

LOGGER = logging.getLogger(__name__)


def exercise_card(exercise: Exercise) -> nodes.container:
    """Title, stars, time, needs, summary, parts and the command that grades it."""
    card = nodes.container(classes=["lab-exercise"])
    card["ids"].append(f"exercise-{exercise.id}")
    title = nodes.paragraph(classes=["lab-exercise-title"])
    title += nodes.strong(text=f"{KINDS[exercise.kind]}: {exercise.title}")
    card += title
    facts = nodes.paragraph(classes=["lab-exercise-facts"])
    stars = "★" * exercise.stars + "☆" * (MAX_STARS - exercise.stars)
    facts += nodes.inline(text=stars, classes=["lab-stars"])
    facts += nodes.Text(
        f" {exercise.stars} of {MAX_STARS} stars · about {exercise.minutes} minutes · {needs_text(exercise)}"
    )
    card += facts
    summary = nodes.paragraph()
    summary.extend(inline_nodes(exercise.summary))
    card += summary
    parts = nodes.bullet_list()
    for part in exercise.parts:
        line = nodes.paragraph()
        line += nodes.strong(text=part.letter)
        line.extend(inline_nodes(f": {part.title}, in `exercises/{exercise.path(part)}`"))
        if part.needs:
            line += nodes.Text(f" (needs {in_words(part.needs)})")
        parts += nodes.list_item("", line)
    card += parts
    card += nodes.literal_block("", f"nox -s exercises -- {exercise.short}", language="shell")
    return card


def exercises_table(exercises: Sequence[Exercise], pages: Collection[str], page: str) -> nodes.Node:
    """All exercises, for ``page``, with links to those of their chapters that are among ``pages`` (document
    names).
    """
    rows: list[list[list[nodes.Node]]] = []
    for exercise in exercises:
        title: list[nodes.Node] = (
            [_to_chapter(exercise, page)] if exercise.chapter in pages else [nodes.Text(exercise.title)]
        )
        needs = in_words(exercise.needs) if exercise.needs else "–"
        facts = KINDS[exercise.kind], "★" * exercise.stars, str(exercise.minutes), needs
        rows.append([[nodes.literal(text=exercise.short, classes=["lab-exercise-name"])], title])
        rows[-1] += [[nodes.Text(fact)] for fact in facts]
    header = ("Exercise", "Title", "Kind", "Stars", "Minutes", "Some parts need")
    return plain_table(header, (2, 5, 2, 2, 1, 3), rows)


def _to_chapter(exercise: Exercise, page: str) -> nodes.Node:
    target = f"/{exercise.chapter}"
    link = addnodes.pending_xref(
        "", reftype="doc", refdomain="std", reftarget=target, refexplicit=True, refwarn=True, refdoc=page
    )
    link += nodes.inline(text=exercise.title)
    return link


def needs_text(exercise: Exercise) -> str:
    """Whether an exercise, or some of its parts, needs something."""
    if not exercise.needs:
        return "needs no GPU"
    some = "some parts need" if exercise.needs_nothing else "needs"
    return f"{some} {in_words(exercise.needs)}"


def stamp_nodes(stamps: Sequence[Stamp], srcdir: Path) -> list[nodes.Node]:
    """What the box of one page holds; downloads are relative to ``srcdir``, the folder of the pages."""
    for_web = addnodes.only(expr="html")  # nobody downloads from paper
    for_web.extend(_details(stamps, srcdir))
    return [*_lines(stamps), for_web]


def set_nodes(captures: CaptureSet, stamps: Sequence[Stamp], srcdir: Path) -> list[nodes.Node]:
    """A whole set: a line a machine, and a table of all files."""
    return [*_machine_lines(captures), _files_table(captures.name, stamps, srcdir)]


def _lines(stamps: Sequence[Stamp]) -> list[nodes.Node]:
    """One line per machine, followed by one line per experiment measured on it."""
    lines: list[nodes.Node] = []
    for machine in dict.fromkeys(stamp.machine for stamp in stamps):
        line = nodes.paragraph(classes=["lab-stamp-machine"])
        line += nodes.strong(text="Measured on ")
        line += nodes.Text(" · ".join(machine))
        lines.append(line)
        lines.extend(_line(stamp) for stamp in stamps if stamp.machine == machine)
    return lines


def _line(stamp: Stamp) -> nodes.paragraph:
    line = nodes.paragraph()
    line.extend(inline_nodes(" · ".join((stamp.title, *stamp.how))))
    line += nodes.Text(" · ")
    if stamp.fresh:
        line += nodes.inline(text="fresh", classes=["lab-fresh"])
    else:
        line += nodes.inline(text="stale: the code changed since this was captured", classes=["lab-stale"])
    if stamp.timed:
        line += nodes.Text(f" · {stamp.timed}")
    return line


def _details(stamps: Sequence[Stamp], srcdir: Path) -> list[nodes.Node]:
    files = [file for stamp in stamps for file in stamp.files]
    total = byte_text(sum(file.size_bytes for file in files), space=NARROW_SPACE)
    summary = f"Captures of this page ({len(files)} files, {total})"
    found: list[nodes.Node] = [_html(f"<details><summary>{html(summary)}</summary>")]
    found += [_downloads(stamp, srcdir) for stamp in stamps]
    found.append(_how_to_open())
    warnings = [(stamp.experiment, text) for stamp in stamps for text in stamp.warnings]
    if warnings:
        found.append(nodes.paragraph(text="What was warned of when they were captured:"))
        listed = nodes.bullet_list()
        for experiment, text in warnings:
            listed += nodes.list_item("", nodes.paragraph(text=f"{experiment}: {text}"))
        found.append(listed)
    found.append(_html("</details>"))
    return found


def _downloads(stamp: Stamp, srcdir: Path) -> nodes.bullet_list:
    listed = nodes.bullet_list(classes=["lab-downloads"])
    for file in stamp.files:
        paragraph = nodes.paragraph()
        paragraph += _download(file, f"{stamp.experiment}/{file.path.name}", srcdir)
        paragraph += nodes.Text(f" {byte_text(file.size_bytes, space=NARROW_SPACE)}")
        listed += nodes.list_item("", paragraph)
    return listed


def _how_to_open() -> nodes.paragraph:
    parts = inline_nodes(
        "A `.nsys.xz` file is an Nsight Systems export, packed: `labcode stats FILE` prints its reports, and "
        "`labcode export FILE --format sqlite -o FOLDER` writes it for any SQLite program. A `.json` file "
        "is what the program measured itself; the one named `.clean.json` was measured without a profiler."
    )
    paragraph = nodes.paragraph()
    paragraph.extend(parts)
    return paragraph


def _download(file: CapturedFile, label: str, srcdir: Path) -> nodes.Element:
    if not file.here:
        return nodes.inline("", "", nodes.literal(text=label), nodes.Text(" (not in this thin set)"))
    target = "/" + Path(os.path.relpath(file.path, srcdir)).as_posix()
    reference = addnodes.download_reference(
        "", "", reftarget=target, refdoc="", reftype="download", refdomain=""
    )
    reference["refexplicit"] = True
    reference += nodes.literal(text=label, classes=["xref", "download"])
    return reference


def _machine_lines(captures: CaptureSet) -> list[nodes.Node]:
    lines: list[nodes.Node] = []
    for machine in captures.machines.values():
        facts = list(provenance.machine_facts(machine))
        facts += [f"{key} {machine[key]}" for key in ("python", "torch", "nsys", "ncu") if machine.get(key)]
        facts += [str(machine["os"])] if machine.get("os") else []
        lines.append(nodes.paragraph(text=" · ".join(facts)))
    return lines


def _files_table(held: str, stamps: Sequence[Stamp], srcdir: Path) -> nodes.table:
    rows: list[Sequence[list[nodes.Node]]] = []
    for stamp in stamps:
        state = "fresh" if stamp.fresh else "stale"
        title: list[nodes.Node] = [
            nodes.strong(text=stamp.experiment, ids=[capture_anchor(held, stamp.experiment)])
        ]
        title.extend(inline_nodes(f": {stamp.title} ({', '.join(stamp.how)}, {state})"))
        rows.append([title])
        for file in stamp.files:
            rows.append(
                [
                    [nodes.Text(file.run)],
                    [_download(file, file.path.name, srcdir)],
                    [nodes.Text(byte_text(file.size_bytes, space=NARROW_SPACE))],
                    [nodes.literal(text=provenance.short_hash(file.sha256))],
                ]
            )
    return plain_table(("Run", "File", "Size", "SHA-256"), (2, 4, 1, 2), rows)


def _html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def register(app: Sphinx) -> None:
    """Add the directives and the role to the application."""
    app.add_directive("captures-used", CapturesUsed)
    app.add_directive("all-captures", AllCaptures)
    app.add_directive("capture-times", CaptureTimes)
    app.add_directive("versions-read", VersionsRead)
    app.add_directive("all-claims", AllClaims)
    app.add_directive("exercise-card", ExerciseCard)
    app.add_directive("all-exercises", AllExercises)
    app.add_directive("api-package", ApiPackage)
    app.add_role("spec", Spec())
    app.add_node(all_claims)


class all_claims(nodes.General, nodes.Element):  # noqa: N801 (docutils names node classes in lower case)
    """Stands for the table of all claims until every page has been read."""


def note_sets(env: BuildEnvironment) -> None:
    """The page that is being read depends on every set and its recorded claims."""
    for name in store.list_sets():
        for path in (store.sets_root() / name / "manifest.json", store.claims_path(name)):
            env.note_dependency(str(path))


class AllClaims(SphinxDirective):
    """``{all-claims}``: a table of every claim of the book with its value on each set.

    With ``:only: turns over`` or ``:only: moved`` those alone that another set changes in this way.
    """

    option_spec: ClassVar[dict[str, Any]] = {"only": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """The placeholder."""
        note_sets(self.env)
        return [all_claims(only=self.options.get("only", ""))]


class Spec(SphinxRole):
    """``{spec}``: a number that was published, not measured; the check of hand-typed numbers lets it pass."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The text, with a class of its own."""
        return [nodes.inline(self.rawtext, self.text, classes=["lab-spec"])], []


class stamp_box(nodes.container):  # noqa: N801 (docutils names node classes in lower case)
    """The box of a page's captures; its attribute ``lacking`` says what the current set does not have."""


class CapturesUsed(SphinxDirective):
    """``{captures-used} experiment …``: where this page's numbers come from, and the files to download.

    With ``:every-set:`` of a page that reads these experiments and the claims of all sets.
    """

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {"every-set": directives.flag}

    def run(self) -> list[nodes.Node]:
        """The stamp; in strict builds a warning for each stale capture."""
        box = stamp_box(classes=["lab-stamp"])
        try:
            names, current = self.arguments[0].split(), self.config.labcode_set
            if "every-set" in self.options:
                holders, wanted = self._everywhere(names), None
            else:
                holders, wanted = [(store.holder(current, name), name) for name in names], current
            box["lacking"] = provenance.lacking(current, names) if wanted else []
            found = [provenance.stamp(captures, name, wanted) for captures, name in holders]
            box["captured"] = sorted({provenance.captured(captures, name) for captures, name in holders})
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

    def _everywhere(self, names: Sequence[str]) -> list[tuple[CaptureSet, str]]:
        """The experiments in each set that has them."""
        note_sets(self.env)
        sets = [store.load_set(name) for name in store.list_sets()]
        return [(captures, name) for captures in sets for name in names if name in captures.experiments]


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


class CaptureTimes(SphinxDirective):
    """``{capture-times}``: how long capturing each set took, by tool; with ``:each:`` by experiment."""

    option_spec: ClassVar[dict[str, Any]] = {"each": directives.flag}

    def run(self) -> list[nodes.Node]:
        """A table with a column for each set."""
        names = store.list_sets()
        for name in names:
            self.env.note_dependency(str(store.sets_root() / name / "manifest.json"))
        try:
            sets = [store.load_set(name) for name in names]
        except LabError as error:
            raise self.error(str(error)) from None
        each = "each" in self.options
        header = ("Experiment", *(f"{name}, s" for name in names)) if each else ("Recorded by", *names)
        rows = durations.by_experiment(sets) if each else durations.by_tool(sets)
        cells: list[list[list[nodes.Node]]] = [[[nodes.Text(text)] for text in row] for row in rows]
        return [plain_table(header, (2, *(1 for _ in names)), cells)]


class VersionsRead(SphinxDirective):
    """``{versions-read}``: which versions of each format the readers read, as they know them themselves."""

    def run(self) -> list[nodes.Node]:
        """A row for each format."""
        from labcode.reports.versions import VERSIONS

        header = ("Format", "Read", "Version is told by", "A newer one")
        rows = [(one.what, one.versions, one.told_by, one.newer) for one in VERSIONS]
        cells: list[list[list[nodes.Node]]] = [[[nodes.Text(text)] for text in row] for row in rows]
        return [plain_table(header, (3, 4, 3, 4), cells)]


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
    """``{api-package} labcode.analysis``: the reference of each module in a package, from its docstrings."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"modules": str}

    def run(self) -> list[nodes.Node]:
        """One section per module."""
        package = self.arguments[0]
        given = self.options.get("modules", "").split()
        names = [f"{package}.{name}" for name in given] or _modules(package)
        text = "\n\n".join(_module_reference(name, package=name == package) for name in names)
        with api.without_lines():
            return self.parse_text_to_nodes(text, allow_section_headings=True)


def _modules(package: str) -> list[str]:
    """A package, its modules, and then the same of each package in it."""
    folder = store.repository_root().joinpath(*package.split("."))
    files = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    inner = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    within = [name for one in inner for name in _modules(f"{package}.{one}")]
    return [package, *(f"{package}.{path.stem}" for path in files), *within]


def _module_reference(name: str, *, package: bool) -> str:
    """The reference of one module; of a package only what it says about itself."""
    options = "" if package else "   :members:\n   :member-order: bysource\n"
    return f"## `{name}`\n\n```{{eval-rst}}\n.. automodule:: {name}\n{options}```\n"
