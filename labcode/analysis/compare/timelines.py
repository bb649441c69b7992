"""Two captures of the same program in; what became slower, faster, new or gone, and how sure that is, out::

    comparison = compare(open_report("before.sqlite"), open_report("after.sqlite"))
    comparison.kernels[["name", "ratio", "ratio_low", "ratio_high", "verdict"]]

Only the measured part of each is compared (``TimelineReport.window``). A ratio is that of the medians of the
single durations, after ÷ before: above 1 is slower. A change is called only when the whole 95 % interval
lies on one side of 1 and the ratio is further from 1 than `Comparison.threshold`; no change only when the
whole interval is closer to 1 than `Comparison.tolerance`. What is neither is undecided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.compare.interval import (
    CONFIDENCE,
    FEWEST,
    THRESHOLD,
    UNDECIDED,
    Interval,
    Limits,
    median,
    median_ratio,
    total_ratio,
)
from labcode.analysis.compare.match import renamed_kernels, renamed_transfers
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns
from labcode.analysis.timeline.nvtx import cpu_ranges, labels, operation_of, project
from labcode.analysis.timeline.summary import host_memory
from labcode.reports.columns import Floats
from labcode.reports.common import MEASURED
from labcode.reports.frames import rows_of
from labcode.reports.report import TimelineReport
from labcode.show import html_facts, html_table, number, time_text

STARTS = ("label", "pid", "tid", "start_ns")
TOO_FEW = "too few to judge"
ONE_VALUE = "one value each"
Key = TypeVar("Key", str, tuple[str, str])

COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("name", "name_before", "verdict"), "str"),
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high", "median_before_ns", "median_after_ns"), "float64"),
    **dict.fromkeys(("count_before", "count_after", "total_before_ns", "total_after_ns"), "int64"),
    **dict.fromkeys(("bytes_before", "bytes_after"), "Int64"),
}


@dataclass(frozen=True)
class Comparison:
    """What changed between two captures. Every table has the columns `COLUMNS`, the most time first.

    name (in the capture after; in the one before where it vanished); name_before (where it was renamed, which
    is a guess, else ''); verdict ('slower', 'faster', 'no change', 'undecided', 'too few to judge', 'new',
    'vanished'); ratio with ratio_low and ratio_high (nan where there are fewer than six instances on a side);
    medians, counts and totals of both; bytes (copies only).

    kernels by name; ranges (NVTX, on the CPU) and projected (their spans on the GPU) by label, numbered ones
    ("step 1", "step 2") together as "step #"; periods, by label, from the start of one range to that of the
    next on its thread, on the GPU (on the CPU where one side has no operations in them); transfers by kind
    and host memory, with the ratio that of the time per byte; totals: 'kernels' and 'copies' (durations
    summed, each name resampled for itself), and without an interval ('one value each') 'GPU busy' (the
    union of a device's operations, summed over the devices) and 'window'.
    """

    before: str
    after: str
    threshold: float
    kernels: pd.DataFrame
    ranges: pd.DataFrame
    projected: pd.DataFrame
    periods: pd.DataFrame
    transfers: pd.DataFrame
    totals: pd.DataFrame
    warnings: tuple[str, ...] = ()
    tolerance: float = THRESHOLD

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables by what they hold."""
        return {
            "total": self.totals,
            "kernel": self.kernels,
            "range": self.ranges,
            "range on the GPU": self.projected,
            "period": self.periods,
            "copy": self.transfers,
        }

    @property
    def summary(self) -> tuple[str, ...]:
        """The verdict in lines: how many of how many changed, what is new, vanished, renamed."""
        return self.summarized(tuple(self.tables))

    def summarized(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """`summary` of some of the tables alone."""
        lines = []
        tables = {kind: table for kind, table in self.tables.items() if kind in kinds}
        for kind, table in tables.items():
            if kind != "total" and len(table):
                lines.append(_summarized(kind, table))
        judged = sum(int(table["ratio_low"].notna().sum()) for table in tables.values())
        if judged:
            chance = judged * (1 - CONFIDENCE)
            lines.append(
                f"{judged} intervals of {CONFIDENCE:.0%}: without any change about {chance:.1f} of them "
                f"would miss 1 by chance; a change is called from {100 * self.threshold:g} % on, none where "
                f"the whole interval is within {100 * self.tolerance:g} %, and the rest is undecided"
            )
        return tuple(lines)

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict in lines, and what changed."""
        told = ["name", "verdict", "ratio", "ratio_low", "ratio_high"]
        rows = [
            (kind, str(name), str(verdict), _ratio_text(*ratios))
            for kind, table in self.tables.items()
            for name, verdict, *ratios in table.loc[table["verdict"].isin(_CHANGED), told].itertuples(
                index=False, name=None
            )
        ]
        heads = ("Kind", "Name", "Verdict", "After by before")
        changed = html_table(heads, (False, False, False, True), rows[:_SHOWN]) if rows else ""
        return html_facts(f"{self.before} → {self.after}", {}, (*self.warnings, *self.summary)) + changed

    def regressions(self, percent: float) -> pd.DataFrame:
        """What became slower by more than ``percent``, the whole interval above it; with a column kind."""
        limit = 1 + percent / 100
        parts = [table[table["ratio_low"] > limit].assign(kind=kind) for kind, table in self.tables.items()]
        found: pd.DataFrame = pd.concat(parts, ignore_index=True)
        return found[["kind", *COLUMNS]].sort_values(
            ["total_after_ns", "name"], ascending=[False, True], ignore_index=True
        )


def _ratio_text(ratio: float, low: float, high: float) -> str:
    return "" if pd.isna(ratio) else f"{number(ratio)} ({number(low)} to {number(high)})"


def compare(
    before: TimelineReport,
    after: TimelineReport,
    *,
    threshold: float = THRESHOLD,
    tolerance: float | None = None,
) -> Comparison:
    """Compare the measured parts of two captures; ``threshold`` is the least change that is called one.

    An interval that reaches no further than ``tolerance`` (by default the same) is no change.
    """
    limits = Limits(threshold, threshold if tolerance is None else tolerance)
    windows = [report.window() for report in (before, after)]
    one, other = (Side(report, window) for report, window in zip((before, after), windows, strict=True))
    renamed = renamed_kernels(one.kernels, other.kernels)
    copied = renamed_transfers(one.copied_bytes, other.copied_bytes)
    kernels = _table(one.kernel_times, other.kernel_times, renamed, limits)
    family = family_of({*one.range_times, *other.range_times})
    ranges, projected = (
        _table(by_family(before_times, family), by_family(after_times, family), {}, limits)
        for before_times, after_times in (
            (one.range_times, other.range_times),
            (one.projected_times, other.projected_times),
        )
    )
    before_periods, after_periods = all_periods((one, other), family)
    periods = _table(before_periods, after_periods, {}, limits)
    return Comparison(
        before=str(before.path),
        after=str(after.path),
        threshold=threshold,
        kernels=kernels,
        ranges=ranges,
        projected=projected,
        periods=periods,
        transfers=_transfers(one, other, copied, limits),
        totals=_totals(one, other, windows, limits),
        warnings=_warnings(one, other),
        tolerance=limits.same,
    )


def _table(
    before: Mapping[str, Floats], after: Mapping[str, Floats], renamed: Mapping[str, str], limits: Limits
) -> pd.DataFrame:
    rows = [
        _row(name, old, before.get(old, _NONE), after.get(name, _NONE), limits)
        for old, name in _pairs(before, after, renamed)
    ]
    return _frame(rows)


_NONE: Floats = np.empty(0)
_CHANGED = ("slower", "faster", "new", "vanished")
_SHOWN = 20  # rows of what changed, in a notebook
_MOST = float((1 << 63) - 1024)  # the largest sum that 63 bits hold


def _pairs(
    before: Mapping[Key, Floats], after: Mapping[Key, Floats], renamed: Mapping[Key, Key]
) -> list[tuple[Key, Key]]:
    """(name before, name after); the same name twice where a kernel stands on one side alone."""
    pairs = [(old, renamed.get(old, old)) for old in before]
    known = {new for _, new in pairs}
    return pairs + [(name, name) for name in after if name not in known]


def _row(
    name: str,
    old: str,
    before: Floats,
    after: Floats,
    limits: Limits,
    ratio: Interval | None = None,
) -> dict[str, object]:
    """One row; ``ratio`` is given where it is not that of median durations."""
    found = median_ratio(before, after) if ratio is None else ratio
    return {
        "name": name,
        "name_before": old if old != name else "",
        "verdict": verdict_of(len(before), len(after), found, limits),
        "ratio": found.ratio,
        "ratio_low": found.low,
        "ratio_high": found.high,
        "median_before_ns": median(before),
        "median_after_ns": median(after),
        "count_before": len(before),
        "count_after": len(after),
        "total_before_ns": int(min(before.sum(), _MOST)),
        "total_after_ns": int(min(after.sum(), _MOST)),
        "bytes_before": pd.NA,
        "bytes_after": pd.NA,
    }


def verdict_of(before: int, after: int, found: Interval, limits: Limits) -> str:
    """The verdict on so many instances of before and after: see `Comparison`."""
    if not before or not after:
        return "new" if after else "vanished"
    if np.isnan(found.low):
        return TOO_FEW
    return limits.verdict(found, "slower", "faster")


def _transfers(
    one: Side, other: Side, renamed: Mapping[tuple[str, str], tuple[str, str]], limits: Limits
) -> pd.DataFrame:
    rows = []
    for old, new in _pairs(one.copy_times, other.copy_times, renamed):
        before, after = one.copy_times.get(old, _NONE), other.copy_times.get(new, _NONE)
        found = median_ratio(pace(one, old), pace(other, new))
        row = _row(_copy_name(new), _copy_name(old), before, after, limits, found)
        sizes = one.copied_bytes.get(old, 0), other.copied_bytes.get(new, 0)
        rows.append({**row, "bytes_before": sizes[0], "bytes_after": sizes[1]})
    return _frame(rows)


def pace(side: Side, key: tuple[str, str]) -> Floats:
    """ns per byte of each copy that moved any."""
    time, size = side.copy_times.get(key, _NONE), side.copy_sizes.get(key, _NONE)
    return time[size > 0] / size[size > 0]


def _copy_name(key: tuple[str, str]) -> str:
    return " ".join(key).strip()


def _totals(one: Side, other: Side, windows: list[tuple[int, int]], limits: Limits) -> pd.DataFrame:
    rows = []
    for name, before, after in (
        ("kernels", list(one.kernel_times.values()), list(other.kernel_times.values())),
        ("copies", list(one.copy_times.values()), list(other.copy_times.values())),
    ):
        if before or after:
            found = total_ratio(before, after)
            row = _row(name, name, _joined(before), _joined(after), limits, found)
            rows.append({**row, "median_before_ns": np.nan, "median_after_ns": np.nan})
    spans = [float(end - start) for start, end in windows]
    for name, values in (("GPU busy", (float(one.busy_ns), float(other.busy_ns))), ("window", tuple(spans))):
        row = _row(name, name, np.array(values[:1]), np.array(values[1:]), limits)
        rows.append({**row, "verdict": ONE_VALUE})
    return _frame(rows, ordered=False)


def _joined(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else _NONE


def _frame(rows: list[dict[str, object]], *, ordered: bool = True) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict(COLUMNS))
    if not ordered:
        return table
    most = table[["total_before_ns", "total_after_ns"]].max(axis=1)
    return (
        table.assign(most=most)
        .sort_values(["most", "name"], ascending=[False, True], ignore_index=True)
        .drop(columns="most")
    )


def _summarized(kind: str, table: pd.DataFrame) -> str:
    """One line on a table: “2 of 20 kernels slower, …”."""
    counts = table["verdict"].value_counts()
    judged = len(table) - int(sum(counts.get(v, 0) for v in ("new", "vanished", TOO_FEW)))
    plural = {"copy": "kinds of copies", "range on the GPU": "ranges on the GPU"}.get(kind, kind + "s")
    unsure = f", {counts[UNDECIDED]} undecided" if UNDECIDED in counts else ""
    parts = [
        f"{counts.get('slower', 0)} slower, {counts.get('faster', 0)} faster{unsure} of {judged} {plural}"
    ]
    for verdict, column in (("new", "total_after_ns"), ("vanished", "total_before_ns")):
        if verdict in counts:
            time = int(table.loc[table["verdict"] == verdict, column].sum())
            parts.append(f"{counts[verdict]} {verdict} ({time_text(time, 4)})")
    renamed = int((table["name_before"] != "").sum())
    if renamed:
        parts.append(f"{renamed} perhaps renamed")
    if TOO_FEW in counts:
        parts.append(f"{counts[TOO_FEW]} with fewer than {FEWEST} instances not judged")
    return "; ".join(parts)


def _warnings(one: Side, other: Side) -> tuple[str, ...]:
    """What keeps the two from being compared fairly."""
    found = []
    if len(one.devices) != len(other.devices):
        found.append(
            f"{len(one.devices)} GPUs before, {len(other.devices)} after: totals are sums over all of them"
        )
    hidden = [side for side, name in ((one, "before"), (other, "after")) if side.graphs]
    if hidden:
        found.append(
            "whole-graph launches: the kernels inside were not traced and are missing here; "
            "capture with --cuda-graph-trace=node"
        )
    return tuple(found)


# ---- one side: the durations of every kernel, range and kind of copy by name


class Side:
    """One capture's measured part: tables cut to the window, durations by name."""

    def __init__(self, report: TimelineReport, window: tuple[int, int]) -> None:
        def inside(table: pd.DataFrame) -> pd.DataFrame:
            some = (table["start_ns"] >= window[0]) & (table["start_ns"] <= window[1])
            return rows_of(table, some.to_numpy(np.bool_))

        nvtx = report.nvtx()
        nvtx = inside(nvtx[labels(nvtx) != MEASURED])
        ops = inside(report.gpu_ops())
        self.devices = sorted(int(device) for device in ops["device"].unique())
        self.busy_ns = sum(
            intervals.total(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
            for _, own in ops.groupby("device")
        )
        ranges = cpu_ranges(nvtx)
        self.range_times = _times(ranges["label"], duration_ns(ranges))
        self.range_starts = ranges[list(STARTS)]
        spans = project(nvtx, report.api(), ops)
        del ops  # before the kernels are read
        self.projected_times = _times(spans["label"], spans["span_ns"].to_numpy(np.int64))
        on_gpu = spans.drop(columns="start_ns").rename(columns={"gpu_start_ns": "start_ns"})
        self.projected_starts = on_gpu[list(STARTS)]
        self.kernels = inside(report.kernels())
        self.kernel_times = _times(self.kernels["name"], duration_ns(self.kernels))
        self.memcpys = inside(report.memcpys())
        self.graphs = len(inside(report.graph_launches()))
        self.copy_times = _by_copy(self.memcpys, duration_ns(self.memcpys))
        self.copy_sizes = _by_copy(self.memcpys, self.memcpys["bytes"].to_numpy(np.int64))
        self.copied_bytes = {kind: int(min(sizes.sum(), _MOST)) for kind, sizes in self.copy_sizes.items()}


def _times(names: pd.Series, values: NDArray[np.int64]) -> dict[str, Floats]:
    """The values of each name, in a table's order."""
    places = pd.Series(range(len(names))).groupby(names.to_numpy()).indices
    return {str(name): values[rows].astype(np.float64) for name, rows in places.items()}


def _by_copy(memcpys: pd.DataFrame, values: NDArray[np.int64]) -> dict[tuple[str, str], Floats]:
    """The values of each (kind of copy, host memory)."""
    keys = pd.DataFrame({"kind": memcpys["copy_kind"].to_numpy(), "memory": host_memory(memcpys).to_numpy()})
    found = {}
    for kind, same in keys.groupby("kind"):
        for memory, rows in same.groupby("memory"):
            found[str(kind), str(memory)] = values[rows.index.to_numpy()].astype(np.float64)
    return found


# ---- ranges: families of numbered names, and the periods from start to start
#
# The length of a range says little where a program runs ahead: on the CPU a step ends when all is launched,
# and its span on the GPU leaves out the idle time before its first operation. From the start of one step to
# the start of the next, everything counts.


def family_of(names: Iterable[str]) -> Callable[[str], str]:
    """A function from a name to its family: of names that differ in their last number alone, "step #"; of an
    operation of PyTorch, which ``emit_nvtx`` numbers, its name.
    """
    members: dict[str, set[str]] = {}
    for name in map(operation_of, names):
        members.setdefault(_unnumbered(name), set()).add(name)

    def family(name: str) -> str:
        name = operation_of(name)
        common = _unnumbered(name)
        return common if len(members.get(common, ())) > 1 else name

    return family


def by_family(times: Mapping[str, Floats], family: Callable[[str], str]) -> dict[str, Floats]:
    """The values of all names of a family together."""
    parts: dict[str, list[Floats]] = {}
    for name, values in times.items():
        parts.setdefault(family(name), []).append(values)
    return {name: np.concatenate(values) for name, values in parts.items()}


def periods(starts: pd.DataFrame, family: Callable[[str], str]) -> dict[str, Floats]:
    """ns from the start of a range to that of the next of its family on the same thread, by family.

    ``starts`` has the columns `STARTS`. Families that come once on each thread have no period.
    """
    table = starts.assign(family=[family(name) for name in starts["label"]])
    table = table.sort_values("start_ns", kind="stable")
    table["period"] = table.groupby(["family", "pid", "tid"])["start_ns"].diff()
    table = table[table["period"].notna()]
    places = pd.Series(range(len(table))).groupby(table["family"].to_numpy()).indices
    values = table["period"].to_numpy(np.float64)
    return {str(name): values[rows] for name, rows in places.items()}


def all_periods(sides: Sequence[Side], family: Callable[[str], str]) -> list[dict[str, Floats]]:
    """The periods of each side: between starts on the GPU where all have these, else on the CPU."""
    gpu = [periods(side.projected_starts, family) for side in sides]
    cpu = [periods(side.range_starts, family) for side in sides]
    common = set(gpu[0]).intersection(*gpu)
    return [
        {name: side_gpu[name] if name in common else values for name, values in side_cpu.items()}
        for side_gpu, side_cpu in zip(gpu, cpu, strict=True)
    ]


def _unnumbered(name: str) -> str:
    return re.sub(r"\d+$", "#", name)
