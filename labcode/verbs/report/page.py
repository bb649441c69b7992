"""`labcode report`: files of one run and a file name in; one page (or Markdown, or JSON) about them out.

The page holds all that it shows: tables and verdicts as HTML, charts as SVG for light and dark, the timeline
as `labcode.figures.pages.interactive` makes it. Jinja escapes what comes out of files, wherever it stands.
"""

import base64
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import pandas as pd

from labcode import __version__, figures
from labcode.analysis.rules.writing import NOT_ADDITIVE, evidence_count, shown_evidence
from labcode.errors import LabError, ToolError
from labcode.figures.pages.interactive import interactive_page
from labcode.figures.style import render
from labcode.figures.timeline.picture import timeline
from labcode.outputs import repository_root, whole
from labcode.reports import files_of, imported, is_timeline
from labcode.show import one_line
from labcode.verbs.report.document import TOP, Document, Found, Shown, part_of, readable
from labcode.verbs.report.gather import gather

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

FORMATS = ("html", "md", "json")
MOST_EVENTS = 120_000  # of the timeline; a page of so many has about five megabytes
_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}
_GROUPS = {
    **dict.fromkeys(
        (
            *("no-tensor-cores", "matmul", "attention", "reduction", "elementwise", "layout", "indexing"),
            *("optimizer", "kernel"),
        ),
        "computing",
    ),
    **dict.fromkeys(("late-rank", "communication"), "communication"),
    **dict.fromkeys(("copy-in", "copy-out", "copy"), "copies"),
    **dict.fromkeys(("data-loading", "host-code"), "idle: the program's code"),
    "launch": "idle: launches",
    **dict.fromkeys(("sync", "copy-call"), "idle: a synchronization or a copy's call"),
}
_ROLES_OF_GROUPS = {
    "computing": "kernel",
    "communication": "nccl",
    "copies": "h2d",
    "idle: the program's code": "cpu",
    "idle: launches": "launch",
    "idle: a synchronization or a copy's call": "sync",
    "idle: other": "idle",
}


def write_report(
    files: Sequence[Path],
    output: Path | None,
    *,
    before: Sequence[Path] = (),
    fmt: str | None = None,
    title: str = "",
    book: str | None = None,
    stream: TextIO | None = None,
    linked_from: Path | None = None,
    window: str | None = None,
    told: Callable[[Document], None] | None = None,
) -> Path | None:
    """Write the report on ``files`` to ``output``, or without one to ``stream``; the path.

    ``fmt`` is 'html', 'md' or 'json', by default what the output's suffix says. ``before`` are files of an
    earlier run to compare with; ``book`` is where the book's pages lie, by default the one that was built
    here, as seen from ``linked_from``, where the page will lie; ``told`` gets what was written. Raises
    `LabError` for bad use and files that do not belong together, `InputError` for one that cannot be read;
    nothing is left half-written.
    """
    chosen = format_of(output, fmt)
    if output is None:
        if chosen == "html" or stream is None:
            raise LabError("report: name the page to write with -o report.html")
        with gather(files, before=before, title=title, window=window) as document:
            _write(document, chosen, stream, book_pages(book, Path.cwd()))
        return None
    reads = [one for file in (*files, *before) for one in files_of(file)]
    with (
        whole(output, reads=reads) as part,
        gather(files, before=before, title=title, window=window) as document,
    ):
        pages = book_pages(book, (linked_from or output.parent).absolute())
        with part.open("w", encoding="utf-8") as opened:
            _write(document, chosen, opened, pages)
        if told is not None:
            told(document)
    return output


def format_of(output: Path | None, fmt: str | None) -> str:
    """'html', 'md' or 'json'; `LabError` where neither the format nor the suffix says so."""
    chosen = fmt or (_SUFFIXES.get(output.suffix.lower(), "") if output is not None else "md")
    if chosen not in FORMATS:
        name = f"--format {fmt}" if fmt else f"{output}"
        raise LabError(f"{name}: no kind of report; choose html, md or json, or a file that ends so (.html)")
    return chosen


def book_pages(base: str | None, folder: Path) -> Callable[[str], str]:
    """What gives the address of a page of the book, '' where there is none.

    ``base`` is an address or a folder with the built book. Without one it is the book that was built here,
    else the sources of its pages, seen from ``folder``; without a checkout there is none.
    """
    if base is not None:
        return lambda page: f"{base.rstrip('/')}/{page}.html"
    root = repository_root()
    for place, suffix in ((root / "_build" / "html", ".html"), (root / "book", ".md")):
        if (place / f"index{suffix}").is_file():
            return lambda page, place=place, suffix=suffix: (  # type: ignore[misc]
                Path(os.path.relpath(place / f"{page}{suffix}", folder)).as_posix()
                if (place / f"{page}{suffix}").is_file()
                else ""
            )
    return lambda page: ""


def _write(document: Document, fmt: str, stream: TextIO, pages: Callable[[str], str]) -> None:
    if fmt == "html":
        stream.writelines(html_parts(document, pages))
        return
    from labcode.verbs.report.writing import write_json, write_md

    if fmt == "json":
        write_json(document, stream)
    else:
        write_md(document, stream, book=pages)


def html_parts(document: Document, pages: Callable[[str], str]) -> Iterator[str]:
    """The page, in parts."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, finalize=_seen)
    environment.filters["coded"] = _coded
    template = environment.from_string(_own_file("report.html"))
    timeline_page, missing = _timeline(document)
    sections = [
        {
            "id": one.id,
            "title": one.title,
            "tables": [_table(table) for table in one.tables],
            "book": one.book,
            "address": pages(one.book) if one.book else "",
        }
        for one in document.sections
    ]
    pictures = {name: list(some) for name, some in _pictures(document, still=not timeline_page).items()}
    steps = None
    if document.iterations is not None:
        found = document.iterations.rows()
        steps = _table(Shown(f"Found by {document.iterations.how}", found.head(TOP), len(found)))
    contents = [("files", "Files")]
    contents += [("changes", "Before and after")] if document.changes else []
    contents += [("verdicts", "Where the time goes")]
    contents += [("steps", "Iterations")] if steps else []
    contents += [("timeline", "Timeline")] if timeline_page or pictures.get("timeline") else []
    contents += [(section.id, section.title.partition(":")[0]) for section in document.sections]
    yield from template.generate(
        document=document,
        contents=contents,
        found=[_verdict(one, pages) for one in document.found],
        others=[
            {"of": one.of, "rule": one.verdict.rule, "message": one.verdict.message}
            for one in document.others
        ],
        changes=[
            {
                "before": one.before,
                "after": one.after,
                "lines": one.lines,
                "tables": [_table(table) for table in one.tables],
            }
            for one in document.changes
        ],
        sections=sections,
        ledger=_table(document.ledger) if document.ledger is not None else None,
        steps=steps,
        pictures=pictures,
        timeline=_Whole(timeline_page),
        missing=missing,
        not_additive=NOT_ADDITIVE,
        style=_own_file("report.css"),
        version=__version__,
    )


class _Whole(str):
    """A text that is shown as it is."""


def _seen(value: object) -> object:
    """What the template prints of a value: of a text from a file one line that nothing steers."""
    return one_line(value) if type(value) is str else value


def _coded(told: str) -> "Markup":
    """A message as HTML: what stands between backticks as code."""
    from markupsafe import Markup

    parts = one_line(told).split("`")
    if len(parts) % 2 == 0:  # one backtick alone
        return Markup("{}").format("`".join(parts))
    whole = [Markup("<code>{}</code>" if at % 2 else "{}").format(part) for at, part in enumerate(parts)]
    return Markup("").join(whole)


def _own_file(name: str) -> str:
    return resources.files("labcode.verbs.report").joinpath(name).read_text(encoding="utf-8")


def _table(one: Shown) -> dict[str, Any]:
    heads, numeric, cells = readable(one.rows)
    more = f"{len(cells):,} of {one.count:,} rows" if one.count > len(cells) else ""
    return {
        "title": one.title,
        "file": one.file,
        "more": more,
        "note": one.note,
        "heads": heads,
        "numeric": numeric,
        "cells": cells,
    }


def _verdict(one: Found, pages: Callable[[str], str]) -> dict[str, Any]:
    verdict = one.verdict
    evidence = None
    if len(verdict.evidence):
        heads, numeric, cells = readable(shown_evidence(verdict.evidence))
        count = evidence_count(verdict)
        evidence = {"count": count, "heads": heads, "numeric": numeric, "cells": cells}
    return {
        "of": one.of,
        "file": one.file,
        "rule": verdict.rule,
        "title": verdict.title,
        "severity": verdict.severity,
        "message": verdict.message,
        "measured": one.measured,
        "gain": one.gain.removeprefix("to gain").removeprefix(":").strip(),
        "advice": verdict.advice,
        "book": verdict.book,
        "address": pages(verdict.book) if verdict.book else "",
        "evidence": evidence,
    }


# ---- pictures


def _timeline(document: Document) -> tuple[str, str]:
    """The page of the interactive timeline, and what there is to say where there is none."""
    report = _timeline_of(document)
    if report is None or report.window()[0] >= report.window()[1]:
        return "", ""
    around = None
    if document.iterations is not None:
        steady = document.iterations.steady
        middle = int((steady["duration_ns"] - document.iterations.median_ns).abs().to_numpy().argmin())
        around = int(steady["start_ns"].iloc[middle])
    try:
        return interactive_page(report, title="Timeline", most=MOST_EVENTS, around=around), ""
    except ToolError as error:
        return "", f"A still picture: {error}"
    except LabError:  # no event in the window
        return "", ""


def _timeline_of(document: Document) -> Any:
    return next((some[0] for kind, some in document.opened.items() if some and is_timeline(kind)), None)


def _pictures(document: Document, *, still: bool) -> dict[str, Iterator[dict[str, str]]]:
    """Charts by section."""
    return {
        "verdicts": _drawn(_time_chart(document)),
        "steps": _drawn(_steps_chart(document)),
        "timeline": _drawn(_still_timeline(document)) if still else iter(()),
        **{section: _drawn(iter(charts)) for section, charts in _own_charts(document).items()},
    }


_Chart = tuple[Callable[[], "Figure"], str]


def _drawn(charts: Iterator[_Chart]) -> Iterator[dict[str, str]]:
    for draw, alt in charts:
        light, dark = (
            _Whole("data:image/svg+xml;base64," + base64.b64encode(render(draw, mode)).decode())
            for mode in ("light", "dark")
        )
        yield {"light": light, "dark": dark, "alt": alt}


def _time_chart(document: Document) -> Iterator[_Chart]:
    """An iteration of each GPU as a stacked bar: what owns its time, a few owners together."""
    table = document.shares
    if len(table):
        groups = [_GROUPS.get(str(owner), "idle: other") for owner in table.index]
        frame = table.groupby(groups, sort=False).sum().T / 1e6
        frame = frame[[name for name in dict.fromkeys(_GROUPS.values()) if name in frame] + _rest(frame)]
        roles = {name: _ROLES_OF_GROUPS.get(name, "idle") for name in map(str, frame)}
        told = "; ".join(
            f"{name}: " + ", ".join(f"{what} {ms:.3g} ms" for what, ms in row.items() if ms)
            for name, row in frame.iterrows()
        )
        yield (
            lambda: figures.shares(
                frame, roles=roles, unit="ms", quantity="time of an iteration", normalize=False
            ),
            told,
        )


def _rest(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in frame if str(name) not in set(_GROUPS.values())]


def _steps_chart(document: Document) -> Iterator[_Chart]:
    found = document.iterations
    if found is not None and len(found.table) > 1:
        pid = found.table["pid"].iloc[0]
        table = found.table[found.table["pid"] == pid]
        rows = np.linspace(0, len(table) - 1, min(len(table), 2000)).astype(np.int64)
        times = {
            "whole": table["duration_ns"].to_numpy()[rows] / 1e6,
            "GPU busy": table["busy_ns"].to_numpy()[rows] / 1e6,
        }
        yield (
            lambda: figures.lines(rows, times, x_label="iteration", y_label="time (ms)"),
            f"Time of {len(table):,} iterations, and the part of it in which the GPU is busy",
        )


def _still_timeline(document: Document) -> Iterator[_Chart]:
    report = _timeline_of(document)
    if report is not None and report.window()[0] < report.window()[1]:
        yield lambda: timeline(report), "Timeline of the measured part"


def _own_charts(document: Document) -> dict[str, list[_Chart]]:
    """What the format of each file declares, by section."""
    found: dict[str, list[_Chart]] = {}
    for kind, reports in reversed(tuple(document.opened.items())):  # what knows memory alone comes first
        for report in reports:
            for one in part_of(kind).charts(report):
                found.setdefault(one.section, []).append((partial(imported(one.draw), one.of), one.alt))
    return found
