"""A document in; a few lines for a terminal, Markdown for a pull request, or JSON for machines out."""

import json
from collections.abc import Callable
from typing import TextIO

from labcode import __version__
from labcode.analysis.rules.writing import NOT_ADDITIVE, record
from labcode.analysis.stats.writer import records
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.show import grid, jsonable, markdown, one_line, percent, time_text
from labcode.verbs.report.document import Changes, Document, Found, Shown, readable

ROWS_MD = 5  # of a table, in Markdown
BRIEF = 10  # lines


def brief(document: Document) -> list[str]:
    """A report in at most `BRIEF` lines: what was judged, where an iteration goes, the first verdict.

    Without work of a GPU: what the program's host did.
    """
    told = document.headline[: 1 if document.ledger is not None else BRIEF - 2]
    lines = [one_line(line, 300) for line in told]
    last = []
    for found in document.found:
        one = found.verdict
        if one.gain or one.rule == "good":
            last = [f"[{one.severity}] {one.title}: {one_line(one.message, 300)}", f"  to gain: {found.gain}"]
            break
    if document.ledger is not None:
        rows = document.ledger.rows
        rows = rows.sort_values("share", ascending=False, kind="stable").head(BRIEF - len(lines) - len(last))
        gpu = next(str(name) for name in rows if str(name).endswith("_ns"))
        lines += [
            f"  {time_text(ns):>10}  {percent(share):>7}  {title}"
            for title, ns, share in zip(rows["time of an iteration"], rows[gpu], rows["share"], strict=True)
        ]
    return [*lines, *last]


def write_json(document: Document, output: TextIO) -> None:
    """The document as JSON: every number as it was computed."""
    found = document.iterations
    whole = {
        "schema": DOCUMENT_SCHEMA,
        "labcode": __version__,
        "title": document.title,
        "files": [
            {"file": one.name, "what": one.what, **one.facts, "notes": list(one.notes)}
            for one in document.files
        ],
        "headline": list(document.headline),
        "gpu_time": records(document.gpu_time),
        "ledger": records(document.ledger.rows) if document.ledger is not None else [],
        "note": NOT_ADDITIVE,
        "verdicts": [
            {"file": one.file, "of": one.of, **record(one.verdict)}
            for one in (*document.found, *document.others)
        ],
        "iterations": None
        if found is None
        else {
            "how": found.how,
            "median_ns": found.median_ns,
            "spread": found.spread,
            "rows": records(found.rows()),
        },
        "sections": {section.id: [_table(one) for one in section.tables] for section in document.sections},
        "changes": [
            {
                "before": one.before,
                "after": one.after,
                "lines": list(one.lines),
                "tables": [_table(table) for table in one.tables],
            }
            for one in document.changes
        ],
    }
    json.dump(jsonable(whole), output, indent=1, ensure_ascii=False, allow_nan=False)
    output.write("\n")


def _table(one: Shown) -> dict[str, object]:
    return {"title": one.title, "file": one.file, "rows_in_all": one.count, "rows": records(one.rows)}


def write_md(document: Document, output: TextIO, *, book: Callable[[str], str]) -> None:
    """The document as Markdown; ``book`` gives the address of a page of the book, '' where there is none.

    What changed comes first, then verdicts, then the first rows of each table, folded.
    """
    output.write(f"# {markdown(document.title)}\n\n")
    for one in document.files:
        facts = ", ".join(f"{name} {markdown(text)}" for name, text in one.facts.items())
        output.write(f"- {markdown(one.name)}: {markdown(one.what)}; {facts}\n")
        output.writelines(f"  - note: {markdown(note)}\n" for note in one.notes)
    output.write("\n")
    output.writelines(f"{markdown(line)}\n\n" for line in document.headline)
    for change in document.changes:
        _changes(change, output)
    output.write("## Where the time goes\n\n")
    if document.ledger is not None:
        _rows(document.ledger, output, len(document.ledger.rows))
    if not document.found:
        output.write("Nothing found.\n\n")
    for found in document.found:
        _found(found, output, book)
    if document.found:
        output.write(f"\n{NOT_ADDITIVE}\n\n")
    for section in document.sections:
        output.write(f"<details><summary>{section.title}</summary>\n\n")
        if section.book:
            output.write(f"In the book: {_link(section.book, book)}.\n\n")
        for table in section.tables:
            _rows(table, output)
        output.write("</details>\n\n")


def _found(one: Found, output: TextIO, book: Callable[[str], str]) -> None:
    verdict = one.verdict
    link = f" ({_link(verdict.book, book)})" if verdict.book else ""
    of = f"{markdown(one.of)}: " if one.of else ""
    output.write(
        f"- **{markdown(verdict.title)}** [{verdict.severity}]: {of}{markdown(verdict.message)}. "
        f"To gain: {one.gain.removeprefix('to gain')}. {markdown(verdict.advice)}{link}\n".replace(": :", ":")
    )


def _link(page: str, book: Callable[[str], str]) -> str:
    """The name of a page of the book, with its address where there is one."""
    address = book(page)
    return f"[{markdown(page)}]({address})" if address else markdown(page)


def _changes(change: Changes, output: TextIO) -> None:
    output.write(f"## {markdown(change.after)} after {markdown(change.before)}\n\n")
    output.writelines(f"- {markdown(line)}\n" for line in change.lines)
    output.write("\n")
    for table in change.tables:
        _rows(table, output)


def _rows(table: Shown, output: TextIO, most: int | None = None) -> None:
    heads, numeric, cells = readable(table.rows.head(ROWS_MD if most is None else most))
    more = f", {len(cells)} of {table.count:,} rows" if table.count > len(cells) else ""
    output.write(f"**{markdown(table.title)}**{f' ({markdown(table.file)})' if table.file else ''}{more}\n\n")
    output.writelines(grid("md", heads, numeric, lambda: (list(map(markdown, row)) for row in cells)))
    output.write("\n")
