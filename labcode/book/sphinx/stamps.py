"""Provenance on a page: stamps of experiments in, docutils nodes with lines, warnings and downloads out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

from labcode.book import provenance
from labcode.book.provenance import CapturedFile, Stamp
from labcode.book.sphinx.render import inline_nodes, plain_table
from labcode.store import CaptureSet


def stamp_nodes(stamps: Sequence[Stamp], srcdir: Path) -> list[nodes.Node]:
    """What the box of one page holds; downloads are relative to ``srcdir``, the folder of the pages."""
    for_web = addnodes.only(expr="html")  # nobody downloads from paper
    for_web.extend(_details(stamps, srcdir))
    return [*_lines(stamps), for_web]


def set_nodes(captures: CaptureSet, stamps: Sequence[Stamp], srcdir: Path) -> list[nodes.Node]:
    """A whole set: a line a machine, and a table of all files."""
    return [*_machine_lines(captures), _files_table(stamps, srcdir)]


def _lines(stamps: Sequence[Stamp]) -> list[nodes.Node]:
    """One line a machine, followed by one line an experiment measured on it."""
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
    return line


def _details(stamps: Sequence[Stamp], srcdir: Path) -> list[nodes.Node]:
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
        "A `.sqlite.xz` file is an Nsight Systems export, compressed: `labcode stats FILE` prints its "
        "reports, and after `xz -dk FILE` any SQLite program opens it. A `.json` file is what the program "
        "measured itself; the one named `.clean.json` was measured without a profiler."
    )
    paragraph = nodes.paragraph()
    paragraph.extend(parts)
    return paragraph


def _download(file: CapturedFile, label: str, srcdir: Path) -> addnodes.download_reference:
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
    return plain_table(("Run", "File", "Size", "SHA-256"), (2, 4, 1, 2), rows)


def _html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")
