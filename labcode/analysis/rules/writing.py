"""Verdicts in, their text out: as a table, JSON or Markdown; on a capture, a trace, a log, a run."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, TextIO

import pandas as pd

from labcode.analysis.ledger.ledger import MOST_GPUS, devices_of
from labcode.analysis.ledger.view import OWNERS
from labcode.analysis.rules.facts import ID as GOOD
from labcode.analysis.rules.finding import CannotJudgeError, Verdict
from labcode.analysis.rules.tables import Tables
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.reports.report import PowerReport, TimelineReport
from labcode.show import jsonable, markdown, one_line, percent, time_text

if TYPE_CHECKING:
    from labcode.analysis.ranks.run import Run

NOT_ADDITIVE = (
    "Gains are predicted by a replay without the cause, “at most” are upper bounds. They overlap, for one "
    "nanosecond may have several causes: do not add them."
)
_ROWS_SHOWN = 5
_GPUS, _LEAST = 8, 0.005  # that are told; of an iteration that an owner has
_ROWS_JSON = 100
_WIDEST = 60


def write_verdicts(
    report: TimelineReport | PowerReport | Run,
    verdicts: list[Verdict],
    fmt: str,
    output: TextIO,
    tables: Tables | None = None,
    *,
    short: bool = False,
) -> None:
    """Write verdicts as 'table', 'json' or 'md'; of the report, its path and window are told.

    With the ``tables`` that were judged also what of the report that is, and the ledger of an iteration. A
    ``short`` table has no evidence, and of what was not found the names alone.
    """
    if fmt == "table":
        _table(report, verdicts, output, tables, short)
    else:
        {"json": _json, "md": _markdown}[fmt](report, verdicts, output, tables)


def _heading(report: TimelineReport | PowerReport | Run, tables: Tables | None) -> str:
    begin, end = report.window() if tables is None else tables.window
    told = f" ({one_line(tables.judged.told, 200)})" if tables is not None else ""
    return f"{one_line(str(report.path), 200)}: {time_text(end - begin)} judged{told}"


def ledger_lines(tables: Tables) -> list[str]:
    """The ledger of an iteration, a line for each owner; of several GPUs side by side."""
    try:
        tables.need_busy()
        ledgers = tables.beside[:_GPUS]
    except CannotJudgeError:
        return []
    if not ledgers:
        return []
    worst = ledgers[0]
    what = "the window" if not tables.count else "the only whole iteration"
    if tables.count > 1:
        what = f"one of {worst.count:,} iterations, in the mean"
    lines = [f"GPU {worst.device}, {time_text(worst.each_ns)}, {what}:"]
    if len(ledgers) > 1:
        lines = [f"{what}, by GPU (the one that others wait for first):"]
        lines.append("  " + "".join(f"{f'GPU {one.device}':>12}" for one in ledgers))
        lines.append("  " + "".join(f"{time_text(one.each_ns):>12}" for one in ledgers) + "  in all")
    if (ran := len(devices_of(tables.view, tables.judged.window))) > MOST_GPUS:
        lines[0] = f"{ran:,} GPUs, of which the {MOST_GPUS} busiest are judged; {lines[0]}"
    each = [dict(zip(one.table["owner"], one.table["each_ns"], strict=True)) for one in ledgers]
    for owner, title in ((one.id, one.title) for one in OWNERS if any(one.id in has for has in each)):
        cells = [float(has.get(owner, 0.0)) for has in each]
        if max(ns / max(one.each_ns, 1) for ns, one in zip(cells, ledgers, strict=True)) < _LEAST:
            continue
        times = "".join(f"{time_text(ns):>12}" for ns in cells)
        share = f"{percent(worst.share(owner)):>9}" if len(ledgers) == 1 else ""
        lines.append(f"  {times}{share}  {title}")
    return lines


def gain_text(verdict: Verdict, tables: Tables | None = None) -> str:
    """What mending can save, in words; of the ``tables`` that were judged in time, too."""
    if verdict.gain is None:
        return "nothing for the program"
    if verdict.low is None or verdict.high is None:
        return f"at most {percent(verdict.gain)} of the window"
    span = f"{percent(verdict.low)} to {percent(verdict.high)}"
    if tables is None:
        return f"{percent(verdict.gain)} of an iteration (predicted; {span})"
    about = time_text(verdict.gain * tables.ledger.each_ns)
    what = "an iteration" if tables.count else "the window"
    return f"about {about}, {percent(verdict.gain)} of {what} (predicted; {span})"


def _table(
    report: TimelineReport | PowerReport | Run,
    verdicts: list[Verdict],
    output: TextIO,
    tables: Tables | None,
    short: bool,
) -> None:
    from labcode.analysis.stats.writer import write

    output.write(_heading(report, tables) + "\n")
    lines = ledger_lines(tables) if tables is not None else []
    output.write("\n" * bool(lines))
    output.writelines(f"{line}\n" for line in lines)
    facts = [v for v in verdicts if v.status == "found" and v.severity == "info" and v.rule != GOOD]
    for verdict in verdicts:
        if verdict.status != "found" or (tables is not None and verdict in facts):
            continue
        output.write(f"\n[{verdict.severity}] {one_line(verdict.title)} ({one_line(verdict.rule)})\n")
        told = one_line(verdict.message, 600).replace(
            "; ", ";\n    "
        )  # how much, how often, where: a line each
        output.write(f"  {told}\n")
        output.write(
            f"  measured: {one_line(measured_text(verdict))}\n  to gain: {gain_text(verdict, tables)}\n"
        )
        output.write(f"  to try: {one_line(verdict.advice, 600)}\n" if verdict.advice else "")
        output.write(f"  in the book: {one_line(verdict.book)}\n" if verdict.book else "")
        if len(verdict.evidence) and not short:
            output.write(f"  evidence, {evidence_count(verdict)}:\n")
            rows = io.StringIO()
            write(shown_evidence(verdict.evidence), "table", rows)
            output.writelines(f"    {line}\n" for line in rows.getvalue().splitlines())
    if tables is not None and facts:
        output.write("\nfacts:\n")
        output.writelines(f"  {one_line(v.rule)}: {one_line(v.message, 600)}\n" for v in facts)
    if not any(verdict.status == "found" for verdict in verdicts):
        without = tables is not None and not len(tables.op_rows)
        told = "it holds no work of a GPU, which the rules judge" if without else ""
        output.write(f"\nNothing found{': ' * without}{told}.\n")
    elif any(verdict.status == "found" and verdict.gain is not None for verdict in verdicts):
        output.write(f"\n{NOT_ADDITIVE}\n")
    for status in ("failed", "not found", "could not judge"):
        rest = [verdict for verdict in verdicts if verdict.status == status]
        if rest and short and status == "not found":
            output.write(f"\nnot found: {', '.join(one_line(verdict.rule) for verdict in rest)}\n")
            continue
        if rest:
            output.write(f"\n{status}:\n" if status != "could not judge" else "\nnot judged:\n")
        alike: dict[str, list[str]] = {}  # several rules lack the same
        for verdict in rest:
            alike.setdefault(one_line(verdict.message, 600), []).append(one_line(verdict.rule))
        output.writelines(f"  {', '.join(rules)}: {message}\n" for message, rules in alike.items())
    if short:
        output.write("\n`labcode diagnose --all` shows evidence, and figures of what was not found.\n")


def _markdown(
    report: TimelineReport | PowerReport | Run,
    verdicts: list[Verdict],
    output: TextIO,
    tables: Tables | None,
) -> None:
    from labcode.analysis.stats.writer import write

    output.write(f"# {markdown(_heading(report, tables))}\n\n")
    lines = ledger_lines(tables) if tables is not None else []
    output.write("```text\n" + "\n".join(lines) + "\n```\n\n" if lines else "")
    summary = pd.DataFrame(
        {
            "rule": [v.rule for v in verdicts],
            "verdict": [v.status + (f" ({v.severity})" if v.severity else "") for v in verdicts],
            "gain": [
                ("" if v.predicted else "at most ") + percent(v.gain)
                if v.status == "found" and v.gain is not None
                else ""
                for v in verdicts
            ],
            "measured": [one_line(v.message, 600) for v in verdicts],
        }
    ).astype("str")
    write(summary, "md", output)
    output.write(f"\n{NOT_ADDITIVE}\n")
    for verdict in verdicts:
        if verdict.status != "found":
            continue
        output.write(f"\n## {markdown(verdict.title)}\n\n{markdown(verdict.message, 600)}.\n\n")
        output.write(
            f"- measured: {markdown(measured_text(verdict))}\n- to gain: {gain_text(verdict, tables)}\n"
        )
        output.write(f"- to try: {markdown(verdict.advice, 600)}\n" if verdict.advice else "")
        output.write(f"- in the book: {markdown(verdict.book)}\n" if verdict.book else "")
        if len(verdict.evidence):
            output.write(f"\nEvidence, {evidence_count(verdict)}:\n\n")
            write(shown_evidence(verdict.evidence), "md", output)


def _json(
    report: TimelineReport | PowerReport | Run,
    verdicts: list[Verdict],
    output: TextIO,
    tables: Tables | None,
) -> None:
    begin, end = report.window() if tables is None else tables.window
    whole = {
        "schema": DOCUMENT_SCHEMA,
        "file": str(report.path),
        "window": {"start_ns": begin, "end_ns": end},
        **({} if tables is None else {"judged": judged_record(tables)}),
        "note": NOT_ADDITIVE,
    }
    # a verdict a line: an encoder that indents is five times as slow
    told = ",\n".join(json.dumps(record(verdict), allow_nan=False) for verdict in verdicts)
    output.write(f'{json.dumps(whole, allow_nan=False)[:-1]}, "verdicts": [\n{told}\n]}}\n')


def judged_record(tables: Tables) -> dict[str, object]:
    """What of a timeline was judged, and the ledger of each GPU, as JSON has it."""
    judged = tables.judged
    try:
        tables.need_busy()
        ledgers = tables.beside
    except CannotJudgeError:
        ledgers = []
    told = {
        "told": judged.told,
        "notes": list(judged.notes),
        "iterations": judged.count,
        "each_ns": ledgers[0].each_ns if ledgers else None,
        "outside": [
            {"phase": phase, "start_ns": start, "duration_ns": spent}
            for phase, start, spent in tables.phases[["phase", "start_ns", "duration_ns"]].itertuples(
                index=False, name=None
            )
        ],
        "ledgers": [
            {
                "gpu": one.device,
                "each_ns": one.each_ns,
                "owners": [
                    {"owner": owner, "title": title, "each_ns": each, "share": share}
                    for owner, title, each, share in one.table[
                        ["owner", "title", "each_ns", "share"]
                    ].itertuples(index=False, name=None)
                ],
            }
            for one in ledgers
        ],
    }
    return dict(jsonable(told, whole=True))


def record(verdict: Verdict) -> dict[str, object]:
    """A verdict as JSON has it."""
    evidence = verdict.evidence.iloc[:_ROWS_JSON]
    rows = [
        dict(zip(map(str, evidence.columns), row, strict=True))
        for row in evidence.itertuples(index=False, name=None)
    ]
    told = {
        **verdict.record(),
        "gain": verdict.gain if verdict.predicted else None,
        "gain_at_least": verdict.low,
        "gain_at_most": verdict.high if verdict.predicted else verdict.gain,
        "book": verdict.book,
        "advice": verdict.advice,
        "evidence_rows": len(verdict.evidence),
        "evidence": rows,
    }
    return dict(jsonable(told, whole=True))


def measured_text(verdict: Verdict) -> str:
    """Numerator, denominator and share, in words."""
    above, below = (
        f"{time_text(value or 0.0)} {name.removeprefix('ns ')}"
        if name.startswith("ns ")
        else f"{value:,.0f} {name}"
        for value, name in (
            (verdict.numerator, verdict.numerator_name),
            (verdict.denominator, verdict.denominator_name),
        )
    )
    return f"{above} of {below}" + ("" if verdict.share is None else f" = {percent(verdict.share)}")


def evidence_count(verdict: Verdict) -> str:
    """How many rows of evidence are shown, of how many."""
    count = len(verdict.evidence)
    return f"{_ROWS_SHOWN} of {count:,} rows" if count > _ROWS_SHOWN else f"{count} row{'s' * (count != 1)}"


def shown_evidence(evidence: pd.DataFrame) -> pd.DataFrame:
    """The first rows, with shares as percentages and texts cut."""
    rows = evidence.iloc[:_ROWS_SHOWN].reset_index(drop=True)
    shown = {}
    for name in rows.columns:
        column = rows[name]
        if str(name).endswith("share") and pd.api.types.is_float_dtype(column.dtype):
            shown[name] = column.map(lambda share: "" if pd.isna(share) else percent(share)).astype("str")
        elif pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
            shown[name] = column
        else:
            shown[name] = column.map(lambda value: one_line(str(value), _WIDEST)).astype("str")
    return pd.DataFrame(shown)
