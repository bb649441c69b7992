"""What captures and traces have in common in a report: verdicts, ranges, the model, the critical path.

Of two: whether they are of one run, and what follows when they are joined on ranges.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from labcode.analysis.lm import attribution
from labcode.analysis.lm.parts import range_paths
from labcode.analysis.rules.registry import own_rules
from labcode.analysis.rules.tables import Tables
from labcode.analysis.timeline.joins import duration_ns
from labcode.analysis.timeline.nvtx import NUMBER, project
from labcode.errors import InputError, LabError
from labcode.reports import FORMATS, Kind, is_timeline, timelines
from labcode.reports.common import MEASURED, MOST_WALKED
from labcode.reports.facts import facts_of
from labcode.reports.frames import codes_of, mapped, rows_of
from labcode.reports.report import TimelineReport
from labcode.verbs.diagnose.verdicts import diagnose, judge, judge_all, rules_on, tables_of
from labcode.verbs.report.document import Found, Shown, told_of, whole

_SPENT = ["start_ns", "name", "duration_ns", "busy_ns"]
Opened = Mapping[Kind, Sequence[Any]]
_ONE_RUN = "give the files of one run, or name the other one with --before"


def gpu_names(kind: Kind, report: Any) -> list[str]:
    """The GPUs that a file speaks of, by name, each once."""
    return list(dict.fromkeys(str(name) for name in facts_of(kind).gpus(report) if name))


def refuse_strangers(opened: Opened) -> None:
    """`LabError` says which two files are not of one run, and why: a kind twice, other GPUs or kernels."""
    every = [(kind, report) for kind, reports in opened.items() for report in reports]
    for (kind, one), (other_kind, other) in combinations(every, 2):
        if kind == other_kind and not FORMATS[kind].several:
            raise LabError(
                f"{other.path}: {FORMATS[kind].what}, as {one.path} is; a report has one of them: {_ONE_RUN}"
            )
        names, others = gpu_names(kind, one), gpu_names(other_kind, other)
        if names and others and not set(names) & set(others):
            raise LabError(
                f"{other.path}: is of {', '.join(others)}, but {one.path} of {', '.join(names)}: {_ONE_RUN}"
            )
        mine, theirs = _kernels(kind, one), _kernels(other_kind, other)
        if mine and theirs and not mine & theirs:
            raise LabError(
                f"{other.path}: has no kernel in common with {one.path} (there {_some(mine)}, here "
                f"{_some(theirs)}): {_ONE_RUN}"
            )


def _kernels(kind: Kind, report: Any) -> set[str]:
    return {_base(name) for name in facts_of(kind).kernels(report)}


def _base(name: str) -> str:
    """A kernel's name without return type, namespaces, template arguments and parameters."""
    return re.split(r"[<(]", name.removeprefix("void "), maxsplit=1)[0].rpartition("::")[2].strip()


def _some(names: set[str]) -> str:
    shown = sorted(names)[:2]
    return ", ".join(name[:40] for name in shown) + (" …" if len(names) > 2 else "")


def by_range(opened: Opened) -> tuple[pd.DataFrame, list[str]]:
    """A row for each name of ranges that several files know, the most GPU time first; notes on what is not.

    range; count; cpu_ns, busy_ns (of the GPU) by the capture of Nsight Systems, or the trace where it is
    alone; trace_cpu_ns, trace_busy_ns by the trace; energy_j with error_j by the power log.
    """
    parts: list[Any] = []
    notes: list[str] = []
    timelines = dict([(kind, some[0]) for kind, some in opened.items() if some and is_timeline(kind)][:2])
    if not timelines or len(timelines) + len(opened.get("power", ())) < 2:
        return pd.DataFrame(), notes
    for place, report in enumerate(timelines.values()):
        parts.append(spent(report, "trace_" * (place > 0)))
    if opened.get("power"):
        from labcode.analysis.energy.ranges import NO_RANGE, clocks, per_range

        log, report = opened["power"][0], next(iter(timelines.values()))
        try:
            clocks(report, log)
            energy = per_range(log, report)
            known = energy[energy["range"] != NO_RANGE].groupby("range")[["energy_j", "error_j"]]
            parts.append(known.sum(min_count=1))
        except InputError as error:
            if "different runs" in str(error):
                raise
            notes.append(str(error))
    if len(parts) < 2:
        return pd.DataFrame(), notes
    table: pd.DataFrame = parts[0].join(parts[1:], how="outer" if len(timelines) > 1 else "left")
    both = table.notna().sum(axis=1) > len(parts[0].columns)
    table = table[both].rename_axis("range").reset_index()
    columns = [name for name in ("busy_ns", "trace_busy_ns") if name in table]
    table = table.astype({c: "Int64" for c in map(str, table) if c == "count" or c.endswith("_ns")})
    return table.sort_values(columns, ascending=False, kind="stable", ignore_index=True), notes


def spent(report: TimelineReport, prefix: str = "") -> pd.DataFrame:
    """By name of ranges without their number: count, time on the CPU, busy time of the GPU, most first."""
    begin, end = report.window()
    nvtx, calls, ops = report.nvtx(), report.api(), report.gpu_ops()
    calls = calls[["start_ns", "end_ns", "pid", "tid", "correlation"]]
    ops = ops[["start_ns", "end_ns", "pid", "correlation"]]
    parts = [  # a process at a time, for a long run has millions of ranges
        project(
            *(rows_of(table, (table["pid"] == pid).to_numpy()) for table in (nvtx, calls, ops)), nested=False
        )[_SPENT]
        for pid in nvtx["pid"].unique()
    ]
    ranges = pd.concat(parts) if parts else project(nvtx, calls, ops)[_SPENT]
    inside = ranges["start_ns"].between(begin, end) & (ranges["name"] != MEASURED)
    ranges = ranges[inside]
    family, names = codes_of(mapped(ranges["name"], lambda name: NUMBER.sub("", name) or name))
    grouped = ranges.groupby(family)
    table = grouped.agg(count=("busy_ns", "size"), cpu_ns=("duration_ns", "sum"), busy_ns=("busy_ns", "sum"))
    table = table.set_axis(pd.Index(names, dtype="str", name="range")).sort_index()
    table = table.sort_values("busy_ns", ascending=False, kind="stable")
    if prefix:
        table = table.drop(columns="count")
    return table.add_prefix(prefix)


def profiled_kernels(opened: Opened) -> pd.DataFrame:
    """What the kernels of Nsight Compute's reports are in the run: a row for each name, the most time first.

    kernel; launches (looked at); in_run (launches), gpu_ns and share of the run's kernel time; range (the
    innermost ones in which it spends the most); verdict (the one with the largest bound),
    gain_of_run_share (at most: the launch's bound by the kernel's share). Empty without both.
    """
    timelines = [some[0] for kind, some in opened.items() if some and is_timeline(kind)]
    if not timelines or not opened.get("ncu"):
        return pd.DataFrame()
    report = timelines[0]
    begin, end = report.window()
    ops = report.gpu_ops()
    ops = ops[(ops["kind"] == "kernel") & ops["start_ns"].between(begin, end)]
    total = int(duration_ns(ops).sum())
    names = mapped(ops["short_name"], _base)
    rows = []
    looked: dict[str, list[Any]] = {}
    for one in (launch for ncu in opened["ncu"] for launch in ncu.list):
        looked.setdefault(_base(one.function), []).append(one)
    wanted = ops[names.isin(list(looked))]
    paths = pd.Series(range_paths(report.nvtx(), report.api(), wanted), index=wanted.index, dtype="str")
    inner = paths.str.rpartition("/")[2].str.replace(NUMBER, "", regex=True) if len(paths) else paths
    for name, launches in looked.items():
        mine = wanted[names.loc[wanted.index] == name]
        spent = pd.Series(duration_ns(mine), index=mine.index)
        where = spent.groupby(inner.loc[mine.index]).sum()
        found = [v for one in launches for v in diagnose(one) if v.status == "found" and v.gain is not None]
        worst = max(found, key=lambda verdict: verdict.gain or 0.0, default=None)
        share = int(spent.sum()) / total if total else float("nan")
        rows.append(
            {
                "kernel": name,
                "launches": len(launches),
                "in_run": len(mine),
                "gpu_ns": int(spent.sum()),
                "share": share,
                "range": str(where.idxmax()) if len(where) else "",
                "verdict": worst.title if worst else "",
                "gain_of_run_share": share * (worst.gain or 0.0) if worst else float("nan"),
            }
        )
    return pd.DataFrame(rows).sort_values("gpu_ns", ascending=False, kind="stable", ignore_index=True)


def same_kind(before: Path, kind: Kind, opened: Opened) -> Any:
    """The opened file that one of before is compared with; `LabError` where there is none of its kind."""
    kinds = [kind, *(timelines() if is_timeline(kind) else ())]
    found = next((opened[one][0] for one in kinds if opened.get(one)), None)
    if found is None:
        raise LabError(
            f"{before}: {FORMATS[kind].what}, and none of the other files is one; --before names the file of "
            "an earlier run that one of them is compared with"
        )
    return found


def judged(
    report: TimelineReport, window: str | None, first: Tables | None, told: Sequence[Found]
) -> tuple[list[Found], Tables]:
    """What rules say of a timeline; those that judge both of two judge the first."""
    tables = tables_of(report, window)
    if first is None:
        rules, broken = rules_on(report.format, tables=tables)
        verdicts = judge_all(tables, rules, broken)
    else:
        said = {one.verdict.rule for one in told}
        more = [one for one in own_rules(report.format) if one.id not in said]
        verdicts = judge(tables, more, [])
    return [told_of(verdict, report) for verdict in verdicts], tables


def ranges(report: TimelineReport) -> Iterator[tuple[str, Shown]]:
    """Of each name of ranges: time on the CPU and of the GPU."""
    table = spent(report).reset_index()
    if len(table):
        yield "ranges", whole("Ranges, numbers left out: CPU and GPU time", table, report)


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
