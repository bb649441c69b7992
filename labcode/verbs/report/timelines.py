"""What captures and traces have in common in a report: verdicts, ranges, the model, the critical path."""

from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from labcode.analysis.lm import attribution
from labcode.analysis.rules.registry import own_rules
from labcode.analysis.rules.tables import Tables
from labcode.reports.report import TimelineReport
from labcode.verbs.diagnose.verdicts import applying, judge, judge_all, rules_on, tables_of
from labcode.verbs.report import together
from labcode.verbs.report.document import Found, Shown
from labcode.verbs.report.part import told_of, whole

MOST_WALKED = 500_000  # GPU operations


def judged(
    report: TimelineReport, window: str | None, first: Tables | None, told: Sequence[Found]
) -> tuple[list[Found], Tables]:
    """What rules say of a timeline; those that judge both of two judge the first."""
    tables = tables_of(report, window)
    if first is None:
        rules, broken = rules_on(report.format)
        verdicts = judge_all(tables, applying(rules, tables), broken)
    else:
        said = {one.verdict.rule for one in told}
        more = [one for one in own_rules(report.format) if one.id not in said]
        verdicts = judge(tables, applying(more, tables), [])
    return [told_of(verdict, report) for verdict in verdicts], tables


def ranges(report: TimelineReport) -> Iterator[tuple[str, Shown]]:
    """Of each name of ranges: time on the CPU and of the GPU."""
    spent = together.spent(report).reset_index()
    if len(spent):
        yield "ranges", whole("Ranges, numbers left out: CPU and GPU time", spent, report)


def model(report: TimelineReport, operations: Callable[..., pd.DataFrame]) -> Iterator[tuple[str, Shown]]:
    """Of a transformer, by pass where the program marks them: shares of matmuls, attention, all other."""
    if not 0 < len(report.gpu_ops()) <= MOST_WALKED:
        return
    found = attribution.attribute(operations(report))
    if attribution.is_model(found):
        title = "Time of the GPU's operations; attention is fused attention and softmax"
        yield "model", whole(title, attribution.breakdown(found), report, "lm_buckets")


def path(tables: Sequence[pd.DataFrame], report: TimelineReport) -> Iterator[tuple[str, Shown]]:
    """What lies on the critical path of each rank or process: by kind, then the biggest entries by name."""
    titles = ("What decides how long the run took, by kind", "What lies on the path, the most time first")
    for title, name, table in zip(titles, ("critical_path", "critical_path_sum"), tables, strict=True):
        table = table.sort_values("total_ns", ascending=False, kind="stable")
        if len(table):
            yield (
                "path",
                whole(title, table.rename(columns={"at_most": "times as fast at most"}), report, name),
            )
