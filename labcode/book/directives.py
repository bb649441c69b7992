"""Directives of the book: what a page asks for in, docutils nodes out.

``captures-used``, ``all-captures``, ``all-claims``, ``exercise-card``, ``api-package`` and the role ``spec``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from labcode import store
from labcode.book import provenance
from labcode.book.provenance import CapturedFile, Stamp
from labcode.book.render import inline_nodes
from labcode.errors import LabError

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from labcode.exercises.records import Exercise

LOGGER = logging.getLogger(__name__)
_NEEDS = {"gpu": "a GPU", "2 gpus": "two GPUs", "nsys": "Nsight Systems", "ncu": "Nsight Compute", "nvcc": "nvcc"}
_STARS = 5


def register(app: Sphinx) -> None:
    """Add the directives and the role to the application."""
    app.add_directive("captures-used", CapturesUsed)
    app.add_directive("all-captures", AllCaptures)
    app.add_directive("all-claims", AllClaims)
    app.add_directive("exercise-card", ExerciseCard)
    app.add_directive("api-package", ApiPackage)
    app.add_role("spec", Spec())
    app.add_node(all_claims)


class all_claims(nodes.General, nodes.Element):  # noqa: N801 (docutils names node classes in lower case)
    """Stands for the table of all claims until every page has been read."""


class AllClaims(SphinxDirective):
    """``{all-claims}``: a table of every claim of the book with its value on each set."""

    def run(self) -> list[nodes.Node]:
        return [all_claims()]


class Spec(SphinxRole):
    """``{spec}`4.8 TB/s` ``: a number that was published, not measured; the check of hand-typed numbers lets it pass."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [nodes.inline(self.rawtext, self.text, classes=["lab-spec"])], []


class CapturesUsed(SphinxDirective):
    """``{captures-used} experiment …``: where this page's numbers come from, and the files to download."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        box = nodes.container(classes=["lab-stamp"])
        try:
            captures = store.load_set(self.config.labcode_set)
            stamps = [provenance.stamp(captures, name) for name in self.arguments[0].split()]
        except LabError as error:
            raise self.error(str(error)) from None
        for stamp in stamps:
            if not stamp.fresh and self.config.labcode_strict:
                LOGGER.warning(
                    "captures of %s in set %r are stale: their sources changed since; capture them again",
                    stamp.experiment,
                    captures.name,
                    location=self.get_location(),
                    type="labcode",
                    subtype="stale",
                )
        box.extend(_stamp_lines(stamps))
        box.extend(_stamp_details(stamps, Path(self.env.srcdir)))
        return [box]


class AllCaptures(SphinxDirective):
    """``{all-captures}``: every set with its machines, experiments, runs and files."""

    def run(self) -> list[nodes.Node]:
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
            found.extend(_machine_lines(captures))
            found.append(_files_table(stamps, Path(self.env.srcdir)))
        return found or [nodes.paragraph(text="There is no capture set in this checkout.")]


class ExerciseCard(SphinxDirective):
    """``{exercise-card} ID``: an exercise's title, stars, time, needs, parts and the command that grades it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from labcode.exercises import catalogue

        try:
            exercise = catalogue.get(self.arguments[0])
        except LabError as error:
            raise self.error(str(error)) from None
        return [_card(exercise)]


class ApiPackage(SphinxDirective):
    """``{api-package} labcode.analysis``: the reference of each module of a package, from its docstrings."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"modules": str}

    def run(self) -> list[nodes.Node]:
        package = self.arguments[0]
        names = [f"{package}.{name}" for name in self.options.get("modules", "").split()]
        text = "\n\n".join(_module_reference(name) for name in names or _modules(package))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def table(header: Sequence[str], widths: Sequence[int], rows: Iterable[Sequence[list[nodes.Node]]], *classes: str) -> nodes.table:
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


def _stamp_lines(stamps: Sequence[Stamp]) -> list[nodes.Node]:
    """One line a machine, followed by one line an experiment measured on it."""
    lines: list[nodes.Node] = []
    for machine in dict.fromkeys(stamp.machine for stamp in stamps):
        line = nodes.paragraph(classes=["lab-stamp-machine"])
        line += nodes.strong(text="Measured on ")
        line += nodes.Text(" · ".join(machine))
        lines.append(line)
        lines.extend(_stamp_line(stamp) for stamp in stamps if stamp.machine == machine)
    return lines


def _stamp_line(stamp: Stamp) -> nodes.paragraph:
    line = nodes.paragraph()
    line.extend(inline_nodes(" · ".join((stamp.title, *stamp.how))))
    line += nodes.Text(" · ")
    if stamp.fresh:
        line += nodes.inline(text="fresh", classes=["lab-fresh"])
    else:
        line += nodes.inline(text="stale: the code changed since this was captured", classes=["lab-stale"])
    return line


def _stamp_details(stamps: Sequence[Stamp], srcdir: Path) -> list[nodes.Node]:
    files = [file for stamp in stamps for file in stamp.files]
    total = provenance.size_text(sum(file.size_bytes for file in files))
    summary = f"Captures of this page ({len(files)} files, {total})"
    found: list[nodes.Node] = [_html(f"<details><summary>{escape(summary)}</summary>")]
    found += [_downloads(stamp, srcdir) for stamp in stamps]
    found.append(_how_to_open())
    warnings = [(stamp.experiment, text) for stamp in stamps for text in stamp.warnings]
    if warnings:
        found.append(nodes.paragraph(text="What the profiler warned of:"))
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
        paragraph += nodes.Text(f" {provenance.size_text(file.size_bytes)}")
        listed += nodes.list_item("", paragraph)
    return listed


def _how_to_open() -> nodes.paragraph:
    parts = inline_nodes(
        "A `.sqlite.xz` file is an Nsight Systems export, compressed: `labcode stats FILE` prints its reports, and "
        "after `xz -dk FILE` any SQLite program opens it. A `.json` file is what the program itself measured; the one named "
        "`.clean.json` was measured without a profiler."
    )
    paragraph = nodes.paragraph()
    paragraph.extend(parts)
    return paragraph


def _download(file: CapturedFile, label: str, srcdir: Path) -> addnodes.download_reference:
    target = "/" + Path(os.path.relpath(file.path, srcdir)).as_posix()
    reference = addnodes.download_reference("", "", reftarget=target, refdoc="", reftype="download", refdomain="")
    reference["refexplicit"] = True
    reference += nodes.literal(text=label, classes=["xref", "download"])
    return reference


def _machine_lines(captures: store.CaptureSet) -> list[nodes.Node]:
    lines: list[nodes.Node] = []
    for machine in captures.machines.values():
        facts = list(provenance.machine_facts(machine))
        facts += [f"{key} {machine[key]}" for key in ("python", "torch", "nsys", "ncu") if machine.get(key)]
        facts += [str(machine["os"])] if machine.get("os") else []
        lines.append(nodes.paragraph(text=" · ".join(facts)))
    return lines


def _files_table(stamps: Sequence[Stamp], srcdir: Path) -> nodes.table:
    rows: list[Sequence[list[nodes.Node]]] = []
    for stamp in stamps:
        state = "fresh" if stamp.fresh else "stale"
        title: list[nodes.Node] = [nodes.strong(text=stamp.experiment)]
        title.extend(inline_nodes(f": {stamp.title} ({', '.join(stamp.how)}, {state})"))
        rows.append([title])
        for file in stamp.files:
            rows.append(
                [
                    [nodes.Text(file.run)],
                    [_download(file, file.path.name, srcdir)],
                    [nodes.Text(provenance.size_text(file.size_bytes))],
                    [nodes.literal(text=provenance.short_hash(file.sha256))],
                ]
            )
    return table(("Run", "File", "Size", "SHA-256"), (2, 4, 1, 2), rows)


def _card(exercise: Exercise) -> nodes.container:
    card = nodes.container(classes=["lab-exercise"])
    card["ids"].append(f"exercise-{exercise.id}")
    title = nodes.paragraph(classes=["lab-exercise-title"])
    title += nodes.strong(text=f"Exercise: {exercise.title}")
    card += title
    facts = nodes.paragraph(classes=["lab-exercise-facts"])
    stars = "★" * exercise.stars + "☆" * (_STARS - exercise.stars)
    facts += nodes.inline(text=stars, classes=["lab-stars"])
    facts += nodes.Text(f" {exercise.stars} of {_STARS} stars · about {exercise.minutes} minutes · {_needs(exercise)}")
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
            line += nodes.Text(f" (needs {_listed(part.needs)})")
        parts += nodes.list_item("", line)
    card += parts
    card += nodes.literal_block("", f"nox -s exercises -- {exercise.short}", language="shell")
    return card


def _needs(exercise: Exercise) -> str:
    if not exercise.needs:
        return "needs no GPU"
    some = "some parts need" if exercise.needs_nothing else "needs"
    return f"{some} {_listed(exercise.needs)}"


def _listed(needs: Sequence[str]) -> str:
    words = [_NEEDS.get(need, need) for need in needs]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _modules(package: str) -> list[str]:
    folder = store.repository_root().joinpath(*package.split("."))
    files = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    return [package, *(f"{package}.{path.stem}" for path in files)]


def _module_reference(name: str) -> str:
    return f"## `{name}`\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n   :member-order: bysource\n```\n"


def _html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")
