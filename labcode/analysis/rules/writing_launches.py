"""Verdicts on single launches in, their text out: as a table, JSON or Markdown."""

from collections.abc import Sequence
from typing import TextIO

from labcode.analysis.rules.finding import Verdict
from labcode.analysis.rules.ncu import ESTIMATES
from labcode.analysis.stats.writer import records
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.reports.ncu.launch import Launch, RuleResult
from labcode.reports.report import LaunchesReport
from labcode.show import CELLS, jsonable, one_line, time_text, write_json

LAUNCHES_NOT_ADDITIVE = (
    "Gains are shares of the launch's time; they overlap, so do not add them. “At most” is a bound for as "
    "long as the busiest unit keeps its work. “About” is an estimate: what need not be done, as if all of "
    "it cost the same. NVIDIA's estimates are theirs: “global” of the time, “local” of the efficiency of "
    "one unit."
)
_KEPT = {"memory-bound": " with the same accesses", "compute-bound": " with the same instructions"}


def write_launches(
    report: LaunchesReport,
    judged: Sequence[tuple[Launch, list[Verdict]]],
    fmt: str,
    output: TextIO,
    *,
    nvidia: bool = True,
) -> None:
    """Write the verdicts on each launch as 'table', 'json' or 'md'; with ``nvidia``, its rules', too."""
    if fmt == "json":
        launches = [launch_record(launch, verdicts) for launch, verdicts in judged]
        document = {
            "schema": DOCUMENT_SCHEMA,
            "file": str(report.path),
            "note": LAUNCHES_NOT_ADDITIVE,
            "launches": launches,
        }
        write_json(document, output)
        return
    for place, (launch, verdicts) in enumerate(judged):
        output.write("\n" * (place > 0))
        _launch(launch, verdicts, fmt, output, nvidia=nvidia)
    output.write(f"\n{LAUNCHES_NOT_ADDITIVE}\n")


def _launch(launch: Launch, verdicts: Sequence[Verdict], fmt: str, output: TextIO, *, nvidia: bool) -> None:
    grid, block = ("×".join(map(str, size)) for size in (launch.grid, launch.block))
    duration = launch.number_or("duration_ns")
    text, bullet = CELLS[fmt], "- " if fmt == "md" else "  "
    head = text(f"launch {launch.id}: {launch.function} <<<{grid}, {block}>>>, {time_text(duration)}")
    output.write(f"## {head}\n\n" if fmt == "md" else f"{head}\n")
    for one in verdicts:
        if one.status != "found":
            continue
        output.write(f"{bullet}{text(f'[{one.severity}] {one.title} ({one.rule}): {one.message}')}\n")
        output.write(f"    measured: {text(f'{launch_measured_text(one)}; {launch_gain_text(one)}')}\n")
        output.write(f"    to try: {text(one.advice)}\n")
        output.write(f"    in the book: {text(one.book)}\n" if one.book else "")
    names = [one.rule for one in verdicts if one.status == "not found"]
    if names:
        output.write(f"{bullet}not found: {text(', '.join(names))}\n")
    unjudged = [one for one in verdicts if one.status == "could not judge"]
    if unjudged:
        output.write(f"{bullet}could not judge:\n")
        start = f"could not judge: launch {launch.id} ({launch.function}) has "
        reasons: dict[str, list[str]] = {}
        for one in unjudged:
            reasons.setdefault(one.message.removeprefix(start), []).append(one.rule)
        for reason, rules in reasons.items():
            output.write(f"    {text(', '.join(rules))}: {text(reason)}\n")
    theirs = [one for one in launch.rules if one.kind in ("OPT", "WRN") and one.message]
    if theirs and nvidia:
        output.write(f"{bullet}NVIDIA's rules:\n")
        output.writelines(f"    {text(_theirs(one))}\n" for one in _by_estimate(theirs))


def launch_gain_text(verdict: Verdict) -> str:
    """What mending can save of a launch's time, in words."""
    if verdict.gain is None:
        return "to gain: nothing for the program"
    word = "about" if verdict.rule in ESTIMATES else "at most"
    return f"to gain{_KEPT.get(verdict.rule, '')}: {word} {100 * verdict.gain:.0f} % of its time"


def launch_measured_text(verdict: Verdict) -> str:
    """Numerator, denominator and share of a launch, in words."""
    share = "" if verdict.share is None else f" = {100 * verdict.share:.1f} %"
    above, below = (f"{value:,.4g}" for value in (verdict.numerator or 0.0, verdict.denominator or 0.0))
    return f"{above} {verdict.numerator_name} of {below} {verdict.denominator_name}{share}"


def _by_estimate(results: Sequence[RuleResult]) -> list[RuleResult]:
    return sorted(results, key=lambda one: -(one.speedup_pct if one.speedup_pct == one.speedup_pct else -1.0))


def _theirs(one: RuleResult) -> str:
    estimate = f", {one.speedup_pct:.1f} % {one.speedup_kind}" if one.speedup_kind else ""
    title = f"{one.title}: " if one.title else ""
    return f"{one.name} ({one.rule}{estimate}): {title}{one_line(one.message, 160)}"


def launch_record(launch: Launch, verdicts: Sequence[Verdict]) -> dict[str, object]:
    """A launch with its verdicts and NVIDIA's as JSON has them."""

    def gain(one: Verdict, *, estimate: bool) -> float | None:
        return one.gain if (one.rule in ESTIMATES) == estimate else None

    told = {
        "launch": launch.id,
        "kernel": launch.function,
        "duration_ns": launch.number_or("duration_ns"),
        "verdicts": [
            {
                **one.record(),
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
                "speedup_pct": one.speedup_pct,
                "speedup_kind": one.speedup_kind,
                "title": one.title,
                "message": one.message,
            }
            for one in launch.rules
            if one.message
        ],
    }
    return dict(jsonable(told))
