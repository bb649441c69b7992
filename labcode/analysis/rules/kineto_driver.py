"""`labcode diagnose` of traces of ``torch.profiler``: a file or folder in; verdicts as text out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO, cast

from labcode.analysis.rules import driver as rulebook
from labcode.analysis.rules.finding import Rule, Verdict
from labcode.analysis.rules.kineto import TRACE_RULES, TraceTables
from labcode.analysis.rules.registry import BrokenPlugin
from labcode.errors import LabError
from labcode.reports.kineto.report import KinetoReport, open_trace
from labcode.reports.nsys.report import NsysReport

# rules on what nsys alone records
NOT_OF_TRACES = ("untraced-graphs", "profiler-overhead", "dropped-events", "start-up")
STACKS_NOTE = (
    "{path}: recorded with stacks; each call of a Python function cost the CPU some time, so that the GPU "
    "waited longer than it does without (record without with_stack to judge idle time)"
)
_NSYS_ADVICE = re.compile(r"record with --[-\w=,]+")


def rules_of_traces(rule_files: Sequence[Path] = ()) -> tuple[list[Rule], list[BrokenPlugin]]:
    """The rules that judge traces: those on operations and calls, those on traces, those of files."""
    common, broken = rulebook.gather(rule_files)
    own = [one for one in common if one.id not in NOT_OF_TRACES]
    return [*TRACE_RULES, *own], broken


def diagnose(report: KinetoReport, rules: Sequence[Rule] | None = None) -> list[Verdict]:
    """What each rule says about a trace: found ones first, the largest bound first."""
    chosen, broken = rules_of_traces() if rules is None else (list(rules), [])
    return _told(rulebook.judge(TraceTables(report), chosen, broken))


def run(
    file: Path,
    *,
    fmt: str,
    only: Sequence[str],
    rule_files: Sequence[Path] = (),
    output: TextIO,
    notes: TextIO,
) -> int:
    """Write the verdicts on a trace to ``output``, what is odd about it to ``notes``; return 0.

    Raises `LabError` for a format or rule there is not, `InputError` for a file that is no trace.
    """
    if fmt not in rulebook.FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(rulebook.FORMATS)}")
    rules, broken = rules_of_traces(rule_files)
    if only:
        rules, broken = rulebook.select(only, rules), []
    with open_trace(file) as report:
        odd = [*report.warnings]
        if report.metadata().get("with_stack"):
            odd.append(STACKS_NOTE.format(path=report.path))
        verdicts = _told(rulebook.judge(TraceTables(report), rules, broken))
        notes.writelines(f"note: {line}\n" for line in odd)
        rulebook.write_verdicts(cast(NsysReport, report), verdicts, fmt, output)
    return 0


def list_rules(output: TextIO) -> None:
    """Write the rules on traces alone."""
    rulebook.list_rules(output, only=TRACE_RULES)


def _told(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts with nsys' options for what is missing replaced by torch.profiler's."""
    words = "record with ProfilerActivity.CUDA"
    return [replace(verdict, message=_NSYS_ADVICE.sub(words, verdict.message)) for verdict in verdicts]
