"""`labcode compare`: two captures and a limit in; the comparison as text and an exit code out::

    comparison = compare(open_report("before.sqlite"), open_report("after.sqlite"))
    comparison.kernels[["name", "ratio", "ratio_low", "ratio_high", "verdict"]]

nsys' own ``diff`` recipe leaves out kernels that are new in the second capture and gives no measure of
scatter. Here every kernel of either capture has its row, and a change is told from noise by an interval.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TextIO

import pandas as pd

from labcode import reports
from labcode.analysis.compare import launches, power, ranks
from labcode.analysis.compare.interval import (
    THRESHOLD,
    UNDECIDED,
    Wishes,
    check_exit,
    exit_code,
    limits_of,
    undecided,
)
from labcode.analysis.compare.timelines import COLUMNS, ONE_VALUE, TOO_FEW, Comparison, compare
from labcode.analysis.ledger.steady import only_within
from labcode.analysis.stats.writer import write
from labcode.errors import LabError
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.reports import FORMATS, Kind, is_timeline
from labcode.show import Paper, check_format, one_line, write_csv, write_json

__all__ = ["COLUMNS", "ONE_VALUE", "THRESHOLD", "TOO_FEW", "Comparison", "compare", "judge", "run"]

TITLES = {
    "total": "Totals",
    "kernel": "Kernels",
    "range": "NVTX ranges on the CPU",
    "range on the GPU": "NVTX ranges on the GPU",
    "period": "Periods of NVTX ranges, from start to start",
    "copy": "Copies (ratio: time per byte)",
}
_LONGEST_NAME = 72  # in tables for people
KINDS = {
    "total": "total",
    "kernel": "kernel",
    "range": "range",
    "gpu-range": "range on the GPU",
    "period": "period",
    "transfer": "copy",
}
ONLY = {
    "totals": ("total",),
    "kernels": ("kernel",),
    "ranges": ("range", "range on the GPU", "period"),
    "transfers": ("copy",),
}
_LISTED = 12
_LISTED_LONGEST = 60


def run(
    before: Path,
    after: Path,
    *,
    fail_above: float | None,
    fmt: str = "table",
    gates: Sequence[str] = (),
    only: Sequence[str] = (),
    kernel: str | None = None,
    scheduler: str | None = None,
    window: str | None = None,
    undecided_exit: int | None = None,
    output: TextIO,
) -> int:
    """Compare two files, write what was found to ``output``, and return the exit code.

    ``fmt`` is 'table', 'csv' (a row for each item), 'json' (an object) or 'md'. ``fail_above`` is in percent:
    1 is returned when something became slower by more than that, of timelines the whole interval above it;
    ``undecided_exit`` when the interval of something neither shows nor excludes that (without ``fail_above``
    of 5 %); otherwise 0. ``gates`` (see `parse`) name what is judged so, by default all that is written;
    ``only`` names what is written: totals, kernels, ranges, transfers; ``kernel`` chooses launches;
    ``scheduler`` says where the reports of folders are read; ``window`` what of each timeline is compared.
    Raises `LabError` for a bad format, limit or gate and for files that cannot be compared, `InputError` for
    a file that cannot be read.
    """
    check_format(fmt)
    if fail_above is not None and not (math.isfinite(fail_above) and fail_above >= 0):
        raise LabError(f"--fail-above {fail_above:g}: give a percentage of 0 or more, such as 10")
    check_exit(undecided_exit)
    kinds = [reports.expect(file, "compare") for file in (before, after)]
    if window is not None and not any(map(is_timeline, kinds)):
        raise LabError(f"compare: --window is for captures and traces; leave it out for {before}")
    wishes = Wishes(fail_above, fmt, output, undecided_exit, kernel, scheduler)
    for special, pair in PAIRS.items():
        if special in kinds:
            pair.check(special, kinds, (before, after))
            pair.refuse(bool(gates or only), kernel is not None, undecided_exit is not None)
            return pair.run(before, after, wishes)
    if scheduler is not None and "ranks" not in kinds:
        reports.expect(before, "compare --scheduler", "ranks")
    if "ranks" in kinds:
        if not (before.is_dir() and after.is_dir()):
            odd, own = (before, after) if after.is_dir() else (after, before)
            raise LabError(f"{odd}: no folder; compare {own} with another folder with a report for each rank")
        if gates or only or kernel is not None:
            raise LabError(
                "compare: --gate, --only and --kernel choose among events; folders of ranks have none"
            )
        return ranks.run(before, after, wishes)
    if kernel is not None:
        raise LabError("compare: --kernel chooses launches of .ncu-rep files; use --only kernels and --gate")
    if gates and fail_above is None:
        raise LabError(
            "--gate says what --fail-above PCT judges: give the limit, too, such as --fail-above 5"
        )
    parse(gates)
    shown = chosen(only)
    with (
        reports.open_timeline(before, "compare") as one,
        reports.open_timeline(after, "compare") as other,
    ):
        for report in (one, other):
            if window is not None:
                only_within(report, window)
            if report.window()[0] >= report.window()[1]:
                raise LabError(
                    f"{report.path}: no events to compare; record some with nsys (--trace=cuda,nvtx) or "
                    "torch.profiler"
                )
        limits = limits_of(fail_above)
        comparison = compare(one, other, threshold=limits.changed, tolerance=limits.same)
    judged = None
    if fail_above is not None and gates:
        judged = judge(comparison, gates, fail_above)
    elif fail_above is not None:
        everything = _everything(comparison, shown)
        found = comparison.regressions(fail_above)
        judged = Judged(found[found["kind"].isin(shown)].reset_index(drop=True), everything)
    gated = _everything(comparison, shown) if judged is None else judged.gated
    unsure = undecided(gated, limits.same)
    if fmt == "csv":
        write_csv(_everything(comparison, shown), output, digits=6)
    elif fmt == "json":
        _write_json(comparison, shown, judged, unsure, gates, output)
    else:
        _write_text(comparison, shown, judged, unsure, fail_above, gates, fmt, output)
    return exit_code(0 if judged is None else len(judged.failed), len(unsure), undecided_exit)


# ---- pairs of files that are no timelines


@dataclass(frozen=True)
class Pair:
    """How two files of a kind are compared: by what, what both have to be, what cannot be asked and why."""

    run: Callable[[Path, Path, Wishes], int]
    what: str
    events: str
    kernel: bool = True
    intervals: str = ""

    def check(self, own: Kind, kinds: Sequence[Kind], files: tuple[Path, Path]) -> None:
        """`LabError` where only one of the files is of the kind."""
        if kinds[0] != kinds[1]:
            odd, one = files if kinds[1] == own else files[::-1]
            raise LabError(f"{odd}: no {self.what}; compare {one} with another {FORMATS[own].suffixes[0]}")

    def refuse(self, chosen: bool, kernel: bool, undecided: bool) -> None:
        """`LabError` for what such files cannot be asked."""
        if chosen or (kernel and not self.kernel):
            raise LabError(f"compare: {self.events}")
        if undecided and self.intervals:
            raise LabError(f"compare: --undecided-exit goes by intervals, and {self.intervals}")


PAIRS: Mapping[Kind, Pair] = {
    "ncu": Pair(
        launches.run,
        ".ncu-rep",
        "--gate and --only choose among events of timelines; use --kernel",
        intervals="a .ncu-rep has each launch measured once",
    ),
    "power": Pair(
        power.run,
        "power log",
        "--gate, --only and --kernel choose among events; power logs have none",
        kernel=False,
    ),
}


# ---- gates: what users of a program wait for; everything else explains


@dataclass(frozen=True)
class Judged:
    """What gates say: the rows that became slower by more than the limit; all rows that were gated.

    Both have a column kind before `COLUMNS`. ``unjudged`` of the gated rows have no interval.
    """

    failed: pd.DataFrame
    gated: pd.DataFrame

    @property
    def unjudged(self) -> pd.DataFrame:
        """The gated rows that have no interval: new, vanished, or too few instances."""
        return self.gated[self.gated["ratio_low"].isna()]


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The kinds of tables that words of ``--only`` stand for; all of them for no word."""
    for word in only:
        if word not in ONLY:
            raise LabError(f"--only {word}: choose one of {', '.join(ONLY)}")
    wanted = {kind for word in (only or ONLY) for kind in ONLY[word]}
    return tuple(kind for kind in KINDS.values() if kind in wanted)


def parse(gates: Sequence[str]) -> list[tuple[str, str]]:
    """(kind of table, pattern) of each gate; `LabError` for one that is not KIND:NAME-GLOB."""
    found = []
    for gate in gates:
        kind, colon, pattern = gate.partition(":")
        if kind not in KINDS or (colon and not pattern):
            raise LabError(
                f"--gate {gate}: write KIND:NAME, with a kind of {', '.join(KINDS)} and a name in which * "
                "stands for anything, for instance period:step*"
            )
        found.append((KINDS[kind], pattern or "*"))
    return found


def judge(comparison: Comparison, gates: Sequence[str], percent: float) -> Judged:
    """Judge by gates: only what one of them names can fail.

    Raises `LabError` for a gate that is none, that matches nothing (it lists what there is), or of which no
    row can be judged, for want of instances or of a counterpart: no answer is not a pass.
    """
    parts = []
    for gate, (kind, pattern) in zip(gates, parse(gates), strict=True):
        table = comparison.tables[kind]
        rows = table[_matching(kind, table, pattern)]
        if rows.empty:
            raise LabError(f"--gate {gate} matches nothing; {_there_is(kind, table)}")
        if rows["ratio_low"].isna().all():
            raise LabError(f"--gate {gate} cannot be judged: {_unjudged(rows)}")
        parts.append(rows.assign(kind=kind))
    gated = pd.concat(parts, ignore_index=True).drop_duplicates(["kind", "name", "name_before"])
    gated = gated[["kind", *COLUMNS]].reset_index(drop=True)
    failed = gated[gated["ratio_low"] > 1 + percent / 100]
    return Judged(failed.reset_index(drop=True), gated)


def _matching(kind: str, table: pd.DataFrame, pattern: str) -> list[bool]:
    """Which rows a pattern names, by the name of either side; copies also by their direction alone."""

    def fits(name: str) -> bool:
        names = (name, name.split(" ")[0]) if kind == "copy" else (name,)
        return bool(name) and any(one == pattern or fnmatchcase(one, pattern) for one in names)

    return [fits(new) or fits(old) for new, old in zip(table["name"], table["name_before"], strict=True)]


def _there_is(kind: str, table: pd.DataFrame) -> str:
    word = next(word for word, own in KINDS.items() if own == kind)
    if table.empty:
        return f"the captures hold nothing of the kind {word}"
    names = [one_line(name, _LISTED_LONGEST) for name in table["name"]]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"of the kind {word} there are: {', '.join(names[:_LISTED])}{more}"


def _unjudged(rows: pd.DataFrame) -> str:
    reasons = ", ".join(
        f"{name} is {verdict!r}" for name, verdict in rows[["name", "verdict"]].to_numpy()[:3]
    )
    return (
        f"{reasons}{' …' if len(rows) > 3 else ''}; record more instances, or gate on what both captures hold"
    )


# ---- text


def _everything(comparison: Comparison, kinds: Sequence[str]) -> pd.DataFrame:
    parts = [table.assign(kind=kind) for kind, table in comparison.tables.items() if kind in kinds]
    whole: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return whole[["kind", *COLUMNS]]


def _write_json(
    comparison: Comparison,
    kinds: Sequence[str],
    judged: Judged | None,
    unsure: pd.DataFrame,
    gates: Sequence[str],
    output: TextIO,
) -> None:
    def records(table: pd.DataFrame) -> object:
        return json.loads(table.to_json(orient="records", double_precision=6))

    document = {
        "schema": DOCUMENT_SCHEMA,
        "before": comparison.before,
        "after": comparison.after,
        "threshold": comparison.threshold,
        "tolerance": comparison.tolerance,
        "summary": list(comparison.summarized(kinds)),
        "warnings": list(comparison.warnings),
        "rows": records(_everything(comparison, kinds)),
        "gates": list(gates),
        "regressions": None if judged is None else records(judged.failed),
        "undecided": records(unsure),
        "gated": records(judged.gated) if judged is not None and gates else None,
    }
    write_json(document, output)


def _write_text(
    comparison: Comparison,
    kinds: Sequence[str],
    judged: Judged | None,
    unsure: pd.DataFrame,
    limit: float | None,
    gates: Sequence[str],
    fmt: str,
    output: TextIO,
) -> None:
    """The verdict first, then a table for each kind."""
    paper = Paper(fmt, output)
    lines = [f"before: {comparison.before}", f"after: {comparison.after}", *comparison.summarized(kinds)]
    lines += [f"note: {warning}" for warning in comparison.warnings]
    if judged is not None and limit is not None:
        lines += _verdict(judged, unsure, limit, gates)
    paper.points(lines)
    for kind, table in comparison.tables.items():
        if len(table) and kind in kinds:
            title = TITLES[kind]
            if FORMATS[reports.kind_of(Path(comparison.after))].ranges == "annotation":
                title = title.replace("NVTX ranges", "Annotations").replace(
                    "of Annotations", "of annotations"
                )
            paper.heading(title)
            write(readable(kind, table), fmt, output)


def _verdict(judged: Judged, unsure: pd.DataFrame, limit: float, gates: Sequence[str]) -> list[str]:
    """What the limit says, in lines: of everything the failures alone, of gates each row that was judged."""
    failed, gated = judged.failed, judged.gated
    if not gates:
        what = f"{len(failed)} slower by more than {limit:g} %, with the whole interval above it"
        lines = [what + (":" if len(failed) else ""), *(f"  {line}" for line in _rows(failed))]
        if len(unsure):
            lines.append(f"{len(unsure)} undecided: the interval reaches above {limit:g} %:")
            lines += [f"  {line}" for line in _rows(unsure.head(_LISTED))]
        return lines
    judgeable = gated[gated["ratio_low"].notna()]
    lines = [
        f"gate: {len(failed)} of {len(judgeable)} slower by more than {limit:g} %, with the whole interval "
        f"above it ({', '.join(gates)}):"
    ]
    slow, open_ = (set(zip(some["kind"], some["name"], strict=True)) for some in (failed, unsure))
    for line, key in zip(
        _rows(judgeable), zip(judgeable["kind"], judgeable["name"], strict=True), strict=True
    ):
        lines.append(f"  {'FAIL' if key in slow else UNDECIDED if key in open_ else 'ok'}  {line}")
    lines += [
        f"  not judged: {kind} {one_line(name, _LONGEST_NAME)}: {verdict}"
        for kind, name, verdict in zip(
            *(judged.unjudged[c] for c in ("kind", "name", "verdict")), strict=True
        )
    ]
    return lines


def _rows(table: pd.DataFrame) -> list[str]:
    columns = ("kind", "name", "ratio", "ratio_low", "ratio_high")
    return [
        f"{kind} {one_line(name, _LONGEST_NAME)}: {_ratio(ratio, low, high)}"
        for kind, name, ratio, low, high in zip(*(table[c] for c in columns), strict=True)
    ]


def readable(kind: str, table: pd.DataFrame) -> pd.DataFrame:
    """The table for people: ratios with their intervals, times in µs."""
    names = [one_line(name, _LONGEST_NAME) for name in table["name"]]
    renamed = [
        f"{name} (was {one_line(old, _LONGEST_NAME)}?)" if old else name
        for name, old in zip(names, table["name_before"], strict=True)
    ]
    columns = {
        "Verdict": table["verdict"],
        "Ratio": [_ratio(*r) for r in table[["ratio", "ratio_low", "ratio_high"]].to_numpy()],
        "Count": _both(table, "count_{}", 1),
        "Total (µs)": _both(table, "total_{}_ns", 1000),
    }
    if kind != "total":
        columns["Median (µs)"] = _both(table, "median_{}_ns", 1000)
    if kind == "copy":
        columns["MB"] = _both(table, "bytes_{}", 1_000_000)
    return pd.DataFrame({**columns, "Name": renamed})


def _both(table: pd.DataFrame, column: str, unit: int) -> list[str]:
    """“before → after” for each row; one number where they are the same."""
    texts = []
    names = (column.format(side) for side in ("before", "after"))
    sides = (table[name].to_numpy(object, na_value=math.nan).tolist() for name in names)
    for one, other in zip(*sides, strict=True):
        before, after = _number(one, unit), _number(other, unit)
        texts.append(before if before == after else f"{before} → {after}")
    return texts


def _number(value: float, unit: int) -> str:
    if value != value:
        return "–"
    return f"{value:,.0f}" if unit == 1 else f"{value / unit:,.3f}"


def _ratio(ratio: float, low: float, high: float) -> str:
    if math.isnan(ratio):
        return "–"
    return f"{ratio:.3g}" if math.isnan(low) else f"{ratio:.3g} ({low:.3g} to {high:.3g})"
