"""What is to be judged in, opened or not; what expert rules say about it, as verdicts or as text, out::

    for verdict in diagnose(open_report("capture.sqlite")):
        print(verdict.rule, verdict.status, verdict.message)

Captures of nsys and traces of torch.profiler are judged by their tables, reports of Nsight Compute launch by
launch, power logs as they are, folders with a report for each rank as one run.
"""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

import pandas as pd

from labcode import reports
from labcode.analysis.rules.facts import good, ranking, unnamed
from labcode.analysis.rules.finding import CannotJudgeError, Rule, Verdict, Verdicts, verdict_of
from labcode.analysis.rules.registry import (
    ANY,
    COUNTERS,
    GROUPS,
    TOGETHER,
    BrokenPlugin,
    all_rules,
    judges,
    line_of,
    load_rules,
    own_rules,
)
from labcode.analysis.rules.tables import Tables
from labcode.analysis.rules.writing import NOT_ADDITIVE
from labcode.errors import InputError, LabError, nearest
from labcode.reports import FOLDERS, FORMATS, Kind, imported
from labcode.reports.report import LaunchesReport, TimelineReport
from labcode.show import check_format, one_line

__all__ = ["NOT_ADDITIVE", "TEXTS", "diagnose", "gather", "judge", "list_rules", "run", "select"]

TEXTS = ("table", "json", "md")
S = TypeVar("S")


def diagnose(
    subject: Any,
    rules: Sequence[Rule[Any]] | None = None,
    broken: Sequence[BrokenPlugin] = (),
    *,
    window: str | None = None,
) -> Verdicts:
    """What each rule (by default every rule there is) says about a capture, a trace, a launch, a log, a run.

    Found ones first, as `labcode.analysis.rules.facts.ranking` orders them; then failed ones, those not
    found, those that could not be judged. Whether all is good stands before them where it is. A rule that
    raises becomes a verdict with the status 'failed', as does each of ``broken``. ``window`` says what of a
    timeline is judged (`labcode.analysis.ledger.steady`), by default the steady state. Raises `InputError`
    when a table of the capture is damaged.
    """
    kind: Kind = subject.format
    judged = imported(path)(subject, window) if (path := FORMATS[kind].tables) else subject
    if rules is None:
        rules, broken = rules_on(kind, tables=judged)
        if kind in FOLDERS:
            rules = rules_of(subject)
        if isinstance(judged, Tables):
            return judge_all(judged, rules, broken)
    return judge(judged, rules, broken)


def judge_all(tables: Tables, rules: Sequence[Rule[Any]], broken: Sequence[BrokenPlugin] = ()) -> Verdicts:
    """What rules say about a timeline, and whether its steady state is good."""
    verdicts = judge(tables, rules, broken)
    told = [*verdicts, *unnamed(tables, verdicts)]
    return ranked([*told, good(tables, told)])


def tables_of(report: TimelineReport, window: str | None = None) -> Tables:
    """What rules look at, of a timeline."""
    made: Tables = imported(str(FORMATS[report.format].tables))(report, window)
    return made


def applying(rules: Sequence[Rule[Any]], tables: Tables) -> list[Rule[Any]]:
    """The rules without those on the GPU's own counters, where a capture has none of these."""
    own = () if tables.has_counters else own_rules(COUNTERS)
    return [one for one in rules if one not in own]


def judge(subject: S, rules: Sequence[Rule[S]], broken: Sequence[BrokenPlugin] = ()) -> Verdicts:
    """What rules say about tables or a launch; see `diagnose`."""
    verdicts = [_judged(one, subject) for one in rules]
    verdicts += [
        Verdict(b.name, "a plug-in", "failed", f"rule {b.name} failed: {one_line(b.reason, 200)}")
        for b in broken
    ]
    return ranked(verdicts)


def rules_on(
    kind: Kind, rule_files: Sequence[Path] = (), tables: object = None
) -> tuple[list[Rule[Any]], list[BrokenPlugin]]:
    """The rules that judge files of a kind, with those of ``rule_files``, and what could not be loaded.

    Those on the GPU's own counters are left out, and not imported, where ``tables`` have none of these.
    """
    rules: list[Rule[Any]] = []
    broken: list[BrokenPlugin] = []
    for group in FORMATS[kind].rules:
        if group == ANY:
            common, broken = gather(rule_files)
            rules += [one for one in common if judges(one, kind)]
        elif group != COUNTERS or not isinstance(tables, Tables) or tables.has_counters:
            rules += own_rules(group)
    return rules, broken


def rules_of(run: Any) -> list[Rule[Any]]:
    """The rules that judge a folder of reports, by their kind."""
    return own_rules("ranks", run.kind)


def together() -> list[Rule[Any]]:
    """The rules that judge a folder of few traces besides those on its report."""
    return own_rules("ranks", TOGETHER)


def run(
    file: Path,
    *,
    fmt: str,
    only: Sequence[str],
    rule_files: Sequence[Path] = (),
    kernel: str | None = None,
    launch: int | None = None,
    scheduler: str | None = None,
    window: str | None = None,
    everything: bool = False,
    output: TextIO,
    notes: TextIO | None = None,
) -> int:
    """Write the verdicts on a file to ``output``, what is odd about it to ``notes``, and return 0.

    ``fmt`` is 'table', 'json' or 'md'; ``only`` names the rules to apply, all of them when it is empty;
    ``rule_files`` are Python files with more rules; ``kernel`` and ``launch`` choose launches; ``scheduler``
    says where the reports of a folder are read. A table has the evidence, and the figures of what was not
    found, with ``everything`` or ``only``. Raises `LabError` for a format or a rule that there is not, a file
    without rules, or a selection that matches nothing, and what opening the file raises.
    """
    check_format(fmt, TEXTS)
    kind = reports.expect(file, "diagnose")
    if kernel is not None or launch is not None:
        reports.expect(file, "diagnose --kernel" if launch is None else "diagnose --launch", "ncu")
    if rule_files and ANY not in FORMATS[kind].rules:
        raise LabError(f"diagnose: rules of your own judge nsys captures; leave out --rules for {file}")
    if scheduler is not None:
        reports.expect(file, "diagnose --scheduler", "ranks")
    asked = Asked(fmt, tuple(only), tuple(rule_files), kernel, launch, scheduler, window, everything)
    reports.doing("diagnose", file)(file, kind, asked, output, notes)
    return 0


@dataclass(frozen=True)
class Asked:
    """What is asked of a file; see `run`."""

    fmt: str
    only: tuple[str, ...] = ()
    rule_files: tuple[Path, ...] = ()
    kernel: str | None = None
    launch: int | None = None
    scheduler: str | None = None
    window: str | None = None
    everything: bool = False

    @property
    def short(self) -> bool:
        """Whether evidence, and the figures of what was not found, are left out of a table."""
        return not (self.everything or self.only)

    def rules(
        self, kind: Kind, also: Sequence[Rule[Any]] = ()
    ) -> tuple[list[Rule[Any]], Sequence[BrokenPlugin]]:
        """The rules to apply, of those on files of a kind and ``also``; those that could not be loaded."""
        rules, broken = rules_on(kind, self.rule_files)
        rules += also
        if not self.only:
            return rules, broken
        return select(self.only, rules, GROUPS[kind].of if kind in GROUPS else ""), ()


def gather(rule_files: Sequence[Path] = ()) -> tuple[list[Rule[Any]], list[BrokenPlugin]]:
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


def select(ids: Sequence[str], rules: Sequence[Rule[Any]] | None = None, of: str = "") -> list[Rule[Any]]:
    """The rules of these ids; `LabError` names the nearest one for an id there is not."""
    known = {one.id: one for one in (all_rules()[0] if rules is None else rules)}
    for name in ids:
        if name not in known:
            raise LabError(f"{name!r} is not a rule{of}; {nearest(name, known)}")
    return [known[name] for name in dict.fromkeys(ids)]


def list_rules(output: TextIO, rule_files: Sequence[Path] = ()) -> None:
    """Write every rule there is, by the kind of file it judges: id, title, where the book explains it."""
    rules, broken = gather(rule_files)
    _write_rules(rules, output)
    output.writelines(f"left out: {one_line(one.name)}: {one_line(one.reason, 200)}\n" for one in broken)
    for name, group in GROUPS.items():
        if group.title:
            output.write(f"\n{group.title}\n")
            _write_rules(own_rules(name), output)


def verdict_table(report: LaunchesReport) -> pd.DataFrame:
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


def _write_rules(rules: Sequence[Rule[Any]], output: TextIO) -> None:
    from labcode.analysis.stats.writer import write

    rows = [(one_line(one.id), one_line(one.title), one_line(one.book)) for one in rules]
    write(pd.DataFrame(rows, columns=["rule", "title", "in the book"]).astype("str"), "table", output)


def _judged(which: Rule[S], subject: S) -> Verdict:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a rule prints is no part of the report
            return verdict_of(which, which(subject))
    except CannotJudgeError as missing:
        status, message = "could not judge", f"could not judge: {missing}"
    except (Exception, SystemExit) as error:
        path = subject.report.path if isinstance(subject, Tables) else None
        if isinstance(error, InputError) and str(error).startswith(str(path)):
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


def _where(which: Rule[Any], error: BaseException) -> str:
    """The line of the rule's own file that failed."""
    file = getattr(getattr(which.judge, "__code__", None), "co_filename", "")
    line = line_of(error, file)
    return f" ({Path(file).name}, line {line})" if line else ""


def ranked(verdicts: Sequence[Verdict]) -> Verdicts:
    """Verdicts in the order in which they are told; see `diagnose`."""
    key = ranking(verdicts)
    rest = {"failed": 0, "not found": 1, "could not judge": 2}
    return Verdicts(sorted(verdicts, key=lambda one: (key(one)[0], rest.get(one.status, 0), key(one)[1])))
