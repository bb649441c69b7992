"""`labcode diagnose X.ncu-rep`: a report in; for each launch the verdicts of our rules, beside NVIDIA's,
out.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO, cast

import pandas as pd

from labcode.analysis.rules.finding import CannotJudgeError, Rule, Verdict, verdict_of
from labcode.analysis.rules.ncu_work import ESTIMATES, RULES
from labcode.analysis.stats.writer import records, write
from labcode.errors import LabError
from labcode.reports.ncu.report import Launch, NcuReport, RuleResult, open_report

FORMATS = ("table", "json", "md")
NOT_ADDITIVE = (
    "Gains are shares of the launch's time; they overlap, so do not add them. «At most» is a bound for as "
    "long as the busiest unit keeps its work. «About» is an estimate: what need not be done, as if all of "
    "it cost the same. NVIDIA's estimates are theirs: «global» of the time, «local» of the efficiency of "
    "one unit."
)
_KEPT = {"memory-bound": " with the same accesses", "compute-bound": " with the same instructions"}
_ORDER = {"found": 0, "not found": 1, "could not judge": 2}


def diagnose(launch: Launch, rules: Sequence[Rule] = RULES) -> list[Verdict]:
    """What each rule says about a launch: found ones first, the largest bound first."""
    verdicts = []
    for one in rules:
        try:
            verdicts.append(verdict_of(one, one(cast(Any, launch))))
        except CannotJudgeError as missing:
            message = f"could not judge: {missing}"
            verdicts.append(
                Verdict(one.id, one.title, "could not judge", message, book=one.book, advice=one.advice)
            )
    return sorted(
        verdicts, key=lambda v: (_ORDER[v.status], -(v.gain or 0.0) if v.status == "found" else 0.0)
    )


def run(
    file: Path,
    *,
    fmt: str,
    only: Sequence[str],
    output: TextIO,
    kernel: str | None = None,
    launch: int | None = None,
) -> int:
    """Write the verdicts on the launches of a report to ``output`` and return 0.

    With ``only`` the text holds these rules' verdicts alone, without NVIDIA's.
    Raises `LabError` for a format or rule there is not, or a selection that matches nothing.
    """
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}")
    rules = select(only)
    report = open_report(file).select(kernel, launch)
    if fmt == "json":
        launches = [_as_json(one, diagnose(one, rules)) for one in report.list]
        document = {"file": str(file), "note": NOT_ADDITIVE, "launches": launches}
        output.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return 0
    for place, one in enumerate(report.list):
        output.write("\n" * (place > 0))
        _write(one, diagnose(one, rules), fmt, output, nvidia=not only)
    output.write(f"\n{NOT_ADDITIVE}\n")
    return 0


def select(ids: Sequence[str]) -> Sequence[Rule]:
    """The rules of these ids, all when there are none; `LabError` names the nearest for one there is not."""
    known = {one.id: one for one in RULES}
    for name in ids:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise LabError(f"{name!r} is not a rule of .ncu-rep files; {hint}there are: {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(ids)] if ids else RULES


def list_rules(output: TextIO) -> None:
    """Write every rule on launches: its id and title."""
    write(
        pd.DataFrame([(one.id, one.title) for one in RULES], columns=["rule", "title"]),
        "table",
        output,
        exact=True,
    )


def _write(launch: Launch, verdicts: Sequence[Verdict], fmt: str, output: TextIO, *, nvidia: bool) -> None:
    grid, block = ("×".join(map(str, size)) for size in (launch.grid, launch.block))
    duration = launch.number_or("duration_ns")
    head = f"launch {launch.id}: {launch.function} <<<{grid}, {block}>>>, {duration / 1000:.1f} µs"
    bullet = "- " if fmt == "md" else "  "
    output.write(f"## {head}\n\n" if fmt == "md" else f"{head}\n")
    for one in verdicts:
        if one.status != "found":
            continue
        output.write(f"{bullet}[{one.severity}] {one.title} ({one.rule}): {one.message}\n")
        output.write(f"    measured: {_measured(one)}; {_gain(one)}\n    to try: {one.advice}\n")
        output.write(f"    in the book: {one.book}\n" if one.book else "")
    names = [one.rule for one in verdicts if one.status == "not found"]
    if names:
        output.write(f"{bullet}not found: {', '.join(names)}\n")
    unjudged = [one for one in verdicts if one.status == "could not judge"]
    if unjudged:
        output.write(f"{bullet}could not judge:\n")
        start = f"could not judge: launch {launch.id} ({launch.function}) has "
        reasons: dict[str, list[str]] = {}
        for one in unjudged:
            reasons.setdefault(one.message.removeprefix(start), []).append(one.rule)
        output.writelines(f"    {', '.join(rules)}: {reason}\n" for reason, rules in reasons.items())
    theirs = [one for one in launch.rules if one.kind in ("OPT", "WRN") and one.message]
    if theirs and nvidia:
        output.write(f"{bullet}NVIDIA's rules:\n")
        output.writelines(f"    {_theirs(one)}\n" for one in _by_estimate(theirs))


def _gain(verdict: Verdict) -> str:
    if verdict.gain is None:
        return "to gain: nothing for the program"
    word = "about" if verdict.rule in ESTIMATES else "at most"
    return f"to gain{_KEPT.get(verdict.rule, '')}: {word} {100 * verdict.gain:.0f} % of its time"


def _measured(verdict: Verdict) -> str:
    share = "" if verdict.share is None else f" = {100 * verdict.share:.1f} %"
    above, below = (f"{value:,.4g}" for value in (verdict.numerator or 0.0, verdict.denominator or 0.0))
    return f"{above} {verdict.numerator_name} of {below} {verdict.denominator_name}{share}"


def _by_estimate(results: Sequence[RuleResult]) -> list[RuleResult]:
    return sorted(results, key=lambda one: -(one.speedup_pct if one.speedup_pct == one.speedup_pct else -1.0))


def _theirs(one: RuleResult) -> str:
    estimate = f", {one.speedup_pct:.1f} % {one.speedup_kind}" if one.speedup_kind else ""
    text = one.message if len(one.message) <= 160 else one.message[:159] + "…"
    return f"{one.name} ({one.rule}{estimate}): {one.title + ': ' if one.title else ''}{text}"


def _as_json(launch: Launch, verdicts: Sequence[Verdict]) -> dict[str, object]:
    def clean(value: float | None) -> float | None:
        return None if value is None or value != value or value in (float("inf"), float("-inf")) else value

    def gain(one: Verdict, *, estimate: bool) -> float | None:
        return clean(one.gain) if (one.rule in ESTIMATES) == estimate else None

    return {
        "launch": launch.id,
        "kernel": launch.function,
        "duration_ns": clean(launch.number_or("duration_ns")),
        "verdicts": [
            {
                "rule": one.rule,
                "title": one.title,
                "status": one.status,
                "severity": one.severity,
                "message": one.message,
                "numerator": clean(one.numerator),
                "numerator_name": one.numerator_name,
                "denominator": clean(one.denominator),
                "denominator_name": one.denominator_name,
                "share": clean(one.share),
                "gain_at_most": gain(one, estimate=False),
                "gain_about": gain(one, estimate=True),
                "advice": one.advice,
                "book": one.book,
                "evidence": records(one.evidence),
            }
            for one in verdicts
        ],
        "nvidia": [
            {
                "rule": one.rule,
                "name": one.name,
                "kind": one.kind,
                "speedup_pct": clean(one.speedup_pct),
                "speedup_kind": one.speedup_kind,
                "title": one.title,
                "message": one.message,
            }
            for one in launch.rules
            if one.message
        ],
    }


def verdict_table(report: NcuReport) -> pd.DataFrame:
    """Every verdict of a report: launch, kernel, rule, status, gain (nan where there is none), message."""
    rows = [
        (one.id, one.function, verdict.rule, verdict.status, verdict.gain, verdict.message)
        for one in report.list
        for verdict in diagnose(one)
    ]
    columns = {
        "launch": "int64",
        "kernel": "str",
        "rule": "str",
        "status": "str",
        "gain": "float64",
        "message": "str",
    }
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)
