"""Expert rules on a capture: a report in, verdicts out, or a text of them.

for verdict in diagnose(open_report("capture.sqlite")):
    print(verdict.rule, verdict.status, verdict.message)
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from labcode.analysis.rules.finding import CannotJudgeError, Rule, Verdict, verdict_of
from labcode.analysis.rules.registry import BrokenPlugin, all_rules
from labcode.analysis.rules.rule_file import line_of, load_rules
from labcode.analysis.rules.tables import Tables, one_line, percent, time_text
from labcode.analysis.stats.writer import write
from labcode.errors import InputError, LabError
from labcode.reports.nsys.report import NsysReport, open_report

FORMATS = ("table", "json", "md")
NOT_ADDITIVE = (
    "Gains are upper bounds as shares of the window. They overlap, for one nanosecond may have several "
    "causes: do not "
    "add them."
)
_ORDER = {"found": 0, "failed": 1, "not found": 2, "could not judge": 3}
_ROWS_SHOWN = 5
_ROWS_JSON = 100
_WIDEST = 60


def diagnose(
    report: NsysReport, rules: Sequence[Rule] | None = None, broken: Sequence[BrokenPlugin] = ()
) -> list[Verdict]:
    """What each rule (by default every rule there is) says about a capture.

    Found ones first, the largest bound first; then failed ones, those not found, those that could not be
    judged. A rule that raises becomes a verdict with the status 'failed', as does each of ``broken``. Raises
    `InputError` when a table of the capture is damaged.
    """
    if rules is None:
        rules, broken = all_rules()
    return judge(Tables(report), rules, broken)


def judge(tables: Tables, rules: Sequence[Rule], broken: Sequence[BrokenPlugin] = ()) -> list[Verdict]:
    """What rules say about tables; see `diagnose`."""
    verdicts = [_judged(one, tables) for one in rules]
    verdicts += [
        Verdict(b.name, "a plug-in", "failed", f"rule {b.name} failed: {one_line(b.reason, 200)}")
        for b in broken
    ]
    return sorted(verdicts, key=_rank)


def run(file: Path, *, fmt: str, only: Sequence[str], rule_files: Sequence[Path] = (), output: TextIO) -> int:
    """Write the verdicts on the capture at ``file`` to ``output`` and return 0.

    ``fmt`` is 'table', 'json' or 'md'; ``only`` names the rules to apply, all of them when it is empty;
    ``rule_files`` are Python files with more rules. Raises `LabError` for a format or a rule that there is
    not or a file without rules, and what `open_report` raises.
    """
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}")
    rules, broken = gather(rule_files)
    if only:
        rules, broken = select(only, rules), []
    with open_report(file) as report:
        write_verdicts(report, diagnose(report, rules, broken), fmt, output)
    return 0


def write_verdicts(report: NsysReport, verdicts: list[Verdict], fmt: str, output: TextIO) -> None:
    """Write verdicts as 'table', 'json' or 'md'; of the report, its path and window are told."""
    {"table": _table, "json": _json, "md": _markdown}[fmt](report, verdicts, output)


def gather(rule_files: Sequence[Path] = ()) -> tuple[list[Rule], list[BrokenPlugin]]:
    """Every rule there is, with those of ``rule_files``; one whose id is taken is among the broken."""
    rules, broken = all_rules()
    known = {one.id: one for one in rules}
    for file in dict.fromkeys(rule_files):
        for one in load_rules(file):
            if known.setdefault(one.id, one) is not one:
                broken.append(
                    BrokenPlugin(one.id, f"{file}: there is a rule named {one.id} already; rename it")
                )
    return list(known.values()), broken


def select(ids: Sequence[str], rules: Sequence[Rule] | None = None) -> list[Rule]:
    """The rules of these ids; `LabError` names the nearest one for an id there is not."""
    known = {one.id: one for one in (all_rules()[0] if rules is None else rules)}
    for name in ids:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise LabError(f"{name!r} is not a rule; {hint}There are: {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(ids)]


def list_rules(output: TextIO, rule_files: Sequence[Path] = (), only: Sequence[Rule] | None = None) -> None:
    """Write every rule there is (or ``only`` these): its id, its title, where the book explains it."""
    rules, broken = gather(rule_files) if only is None else (list(only), [])
    table = pd.DataFrame(
        [(one_line(one.id), one_line(one.title), one_line(one.book)) for one in rules],
        columns=["rule", "title", "in the book"],
    )
    write(table.astype("str"), "table", output)
    output.writelines(f"left out: {one_line(one.name)}: {one_line(one.reason, 200)}\n" for one in broken)


def _judged(which: Rule, tables: Tables) -> Verdict:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a rule prints is no part of the report
            return verdict_of(which, which(tables))
    except CannotJudgeError as missing:
        status, message = "could not judge", f"could not judge: {missing}"
    except (Exception, SystemExit) as error:
        if isinstance(error, InputError) and str(error).startswith(str(tables.report.path)):
            raise  # the capture is at fault, not the rule
        status, message = (
            "failed",
            f"rule {which.id} failed: {type(error).__name__}: {error}{_where(which, error)}",
        )
    return Verdict(
        which.id,
        which.title,
        status,  # type: ignore[arg-type]
        one_line(message, 400),
        book=which.book,
        advice=which.advice,
    )


def _where(which: Rule, error: BaseException) -> str:
    """The line of the rule's own file that failed."""
    file = getattr(getattr(which.judge, "__code__", None), "co_filename", "")
    line = line_of(error, file)
    return f" ({Path(file).name}, line {line})" if line else ""


def _rank(verdict: Verdict) -> tuple[int, float]:
    gain = verdict.gain if verdict.gain is not None else 1.0 if verdict.severity == "high" else 0.0
    return _ORDER[verdict.status], -gain if verdict.status == "found" else 0.0


def _heading(report: NsysReport) -> str:
    begin, end = report.window()
    return f"{one_line(str(report.path), 200)}: {time_text(end - begin)} judged"


def _gain(verdict: Verdict) -> str:
    return (
        "nothing for the program"
        if verdict.gain is None
        else f"at most {percent(verdict.gain)} of the window"
    )


def _table(report: NsysReport, verdicts: list[Verdict], output: TextIO) -> None:
    output.write(_heading(report) + "\n")
    for verdict in verdicts:
        if verdict.status != "found":
            continue
        output.write(f"\n[{verdict.severity}] {one_line(verdict.title)} ({one_line(verdict.rule)})\n")
        output.write(f"  {one_line(verdict.message, 600)}\n")
        output.write(f"  measured: {_measured(verdict)}\n  to gain: {_gain(verdict)}\n")
        output.write(f"  to try: {one_line(verdict.advice, 600)}\n" if verdict.advice else "")
        output.write(f"  in the book: {verdict.book}\n" if verdict.book else "")
        if len(verdict.evidence):
            output.write(f"  evidence, {_shown_rows(verdict)}:\n")
            rows = io.StringIO()
            write(_shown(verdict.evidence), "table", rows)
            output.writelines(f"    {line}\n" for line in rows.getvalue().splitlines())
    if not any(verdict.status == "found" for verdict in verdicts):
        output.write("\nNothing found.\n")
    elif any(verdict.status == "found" and verdict.gain is not None for verdict in verdicts):
        output.write(f"\n{NOT_ADDITIVE}\n")
    for status in ("failed", "not found", "could not judge"):
        rest = [verdict for verdict in verdicts if verdict.status == status]
        if rest:
            output.write(f"\n{status}:\n" if status != "could not judge" else "\nnot judged:\n")
        for verdict in rest:
            output.write(f"  {one_line(verdict.rule)}: {one_line(verdict.message, 600)}\n")


def _markdown(report: NsysReport, verdicts: list[Verdict], output: TextIO) -> None:
    output.write(f"# {_safe(_heading(report))}\n\n")
    summary = pd.DataFrame(
        {
            "rule": [_safe(v.rule) for v in verdicts],
            "verdict": [v.status + (f" ({v.severity})" if v.severity else "") for v in verdicts],
            "gain at most": [
                percent(v.gain) if v.status == "found" and v.gain is not None else "" for v in verdicts
            ],
            "measured": [_safe(v.message) for v in verdicts],
        }
    ).astype("str")
    write(summary, "md", output)
    output.write(f"\n{NOT_ADDITIVE}\n")
    for verdict in verdicts:
        if verdict.status != "found":
            continue
        output.write(f"\n## {_safe(verdict.title)}\n\n{_safe(verdict.message)}.\n\n")
        output.write(f"- measured: {_measured(verdict)}\n- to gain: {_gain(verdict)}\n")
        output.write(f"- to try: {_safe(verdict.advice)}\n" if verdict.advice else "")
        output.write(f"- in the book: `{verdict.book}`\n" if verdict.book else "")
        if len(verdict.evidence):
            output.write(f"\nEvidence, {_shown_rows(verdict)}:\n\n")
            write(_shown(verdict.evidence, _safe), "md", output)


def _json(report: NsysReport, verdicts: list[Verdict], output: TextIO) -> None:
    begin, end = report.window()
    whole = {
        "file": str(report.path),
        "window": {"start_ns": begin, "end_ns": end},
        "note": NOT_ADDITIVE,
        "verdicts": [_record(verdict) for verdict in verdicts],
    }
    json.dump(whole, output, indent=1, allow_nan=False)
    output.write("\n")


def _record(verdict: Verdict) -> dict[str, object]:
    evidence = verdict.evidence.iloc[:_ROWS_JSON]
    rows = [
        {str(name): _plain(value) for name, value in zip(evidence.columns, row, strict=True)}
        for row in evidence.itertuples(index=False, name=None)
    ]
    return {
        "rule": verdict.rule,
        "title": verdict.title,
        "status": verdict.status,
        "severity": verdict.severity,
        "message": verdict.message,
        "numerator": _plain(verdict.numerator),
        "numerator_name": verdict.numerator_name,
        "denominator": _plain(verdict.denominator),
        "denominator_name": verdict.denominator_name,
        "share": _plain(verdict.share),
        "gain_at_most": _plain(verdict.gain),
        "book": verdict.book,
        "advice": verdict.advice,
        "evidence_rows": len(verdict.evidence),
        "evidence": rows,
    }


def _plain(value: object) -> object:
    """A value that JSON knows; missing and infinite numbers are null."""
    if value is None or value is pd.NA:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        if not np.isfinite(number):
            return None
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return str(value)


def _measured(verdict: Verdict) -> str:
    above = f"{verdict.numerator:,.0f} {verdict.numerator_name}"
    below = f"{verdict.denominator:,.0f} {verdict.denominator_name}"
    return f"{above} of {below}" + ("" if verdict.share is None else f" = {percent(verdict.share)}")


def _shown_rows(verdict: Verdict) -> str:
    count = len(verdict.evidence)
    return f"{_ROWS_SHOWN} of {count:,} rows" if count > _ROWS_SHOWN else f"{count} row{'s' * (count != 1)}"


def _shown(evidence: pd.DataFrame, clean: Callable[[str, int], str] = one_line) -> pd.DataFrame:
    """The first rows, with shares as percentages and texts safe to print."""
    rows = evidence.iloc[:_ROWS_SHOWN].reset_index(drop=True)
    shown = {}
    for name in rows.columns:
        column = rows[name]
        if str(name).endswith("share") and pd.api.types.is_float_dtype(column.dtype):
            shown[name] = column.map(lambda share: "" if pd.isna(share) else percent(share)).astype("str")
        elif pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
            shown[name] = column
        else:
            shown[name] = column.map(lambda value: clean(str(value), _WIDEST)).astype("str")
    return pd.DataFrame(shown)


def _safe(text: str, most: int = 600) -> str:
    """A text that Markdown leaves as it is."""
    clean = one_line(text, most)
    for mark in "\\`*_[]<>":
        clean = clean.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return clean
