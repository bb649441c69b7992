"""More than two runs in; medians and spread of each kernel, range and total by group, and what changed, out::

    groups = {"main": read([Path("a1.sqlite"), Path("a2.sqlite")]), "new": read([Path("b1.sqlite")])}
    ensemble(groups, "main").table[["kind", "name", "group", "median", "ratio", "verdict"]]

A run has one value of each: the median of its instances, or the total. A group's is the median of its runs,
and its spread reaches from the smallest to the largest. A change is called where it exceeds the spread: see
`spread_ratio`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from labcode import reports
from labcode.analysis.compare import power, ranks
from labcode.analysis.compare.interval import FEWEST, Interval, Limits, median_ratio
from labcode.analysis.compare.timelines import (
    Side,
    all_periods,
    by_family,
    family_of,
    pace,
    verdict_of,
)
from labcode.analysis.ranks.run import open_run
from labcode.errors import LabError
from labcode.reports import Kind
from labcode.reports.columns import Floats
from labcode.reports.power.log import open_log
from labcode.store import file_sha256

Key = tuple[str, str]
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("kind", "name", "unit", "group"), "str"),
    "runs": "int64",
    **dict.fromkeys(("median", "low", "high", "spread", "ratio", "ratio_low", "ratio_high"), "float64"),
    "verdict": "str",
}
_NOT_TIMES = {"energy_j": "J", "mean_w": "W", "sm_mhz": "MHz"}
_NO_VERDICT = ("mean_w", "sm_mhz")  # more of it is neither better nor worse


@dataclass(frozen=True)
class Measured:
    """A run: its file, what it is ('timeline', 'ranks', 'power'), the files' SHA-256, and by (kind, name) the
    values of the instances and their sum."""

    file: str
    what: str
    sha256: tuple[str, ...]
    values: Mapping[Key, Floats]
    totals: Mapping[Key, float]


@dataclass(frozen=True)
class Ensemble:
    """What groups of runs show.

    ``table``: a row for each (kind, name) and group, columns are `COLUMNS`, those with the most time first;
    spread is (high - low) ÷ median. ``column``: a parameter and its value in each group.
    """

    groups: Mapping[str, Sequence[Measured]]
    baseline: str
    table: pd.DataFrame
    notes: tuple[str, ...]
    column: tuple[str, Mapping[str, float]] | None = None

    @property
    def judged(self) -> pd.DataFrame:
        """The rows of the other groups in which more is worse."""
        table = self.table
        return table[(table["group"] != self.baseline) & ~table["name"].isin(_NO_VERDICT)]

    def over(self, key: str, values: Sequence[float]) -> Ensemble:
        """The same with the value of a parameter for each group, in their order."""
        found = dict(zip(self.groups, values, strict=True))
        table = self.table.copy()
        table.insert(list(COLUMNS).index("group") + 1, key, table["group"].map(found).astype("float64"))
        return replace(self, table=table, column=(key, found))


def ensemble(
    groups: Mapping[str, Sequence[Measured]], baseline: str, *, limits: Limits | None = None
) -> Ensemble:
    """Compare every group with the one named ``baseline``; `LabError` for runs of several kinds."""
    limits = limits or Limits()
    every = [run for runs in groups.values() for run in runs]
    odd = next((run for run in every if run.what != every[0].what), None)
    if odd is not None:
        raise LabError(
            f"{odd.file}: of the kind {odd.what}, but {every[0].file} of the kind {every[0].what}; "
            "compare runs of one kind"
        )
    most: dict[Key, float] = {}
    for run in every:
        for key, total in run.totals.items():
            most[key] = max(total, most.get(key, 0.0))
    kinds = list(dict.fromkeys(kind for kind, _ in most))
    order = sorted(most, key=lambda key: (kinds.index(key[0]), -most[key] * (key[0] != "total"), key[1]))
    rows = [row for key in order for row in _rows(key, groups, baseline, limits)]
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict(COLUMNS))
    return Ensemble(groups, baseline, table, tuple(_notes(groups, baseline)))


def _rows(
    key: Key, groups: Mapping[str, Sequence[Measured]], baseline: str, limits: Limits
) -> Iterator[dict[str, object]]:
    kind, name = key
    there = {group: [run.values[key] for run in runs if key in run.values] for group, runs in groups.items()}
    for group, runs in there.items():
        values = np.array([np.median(instances) for instances in runs])
        row: dict[str, object] = {"kind": kind, "name": name, "unit": unit_of(key), "group": group}
        row["runs"] = len(runs)
        if runs:
            middle, low, high = float(np.median(values)), float(values.min()), float(values.max())
            spread = (high - low) / middle if middle and len(runs) > 1 else math.nan
            row |= {"median": middle, "low": low, "high": high, "spread": spread}
        if group == baseline or not (runs or there[baseline]):
            yield {**row, "verdict": ""}
            continue
        found = spread_ratio(there[baseline], runs)
        row |= {"ratio": found.ratio, "ratio_low": found.low, "ratio_high": found.high}
        verdict = verdict_of(len(there[baseline]), len(runs), found, limits)
        yield {**row, "verdict": "" if name in _NO_VERDICT else verdict}


def spread_ratio(before: Sequence[Floats], after: Sequence[Floats]) -> Interval:
    """The ratio of the medians of two groups of runs, each run with its instances, and how sure it is.

    From six runs per side on the interval is the bootstrap's, of runs. With fewer it reaches from the
    smallest of one side by the largest of the other to the opposite: it leaves out 1 where all runs of one
    side are above all of the other. A run alone against another has no spread but that of its instances.
    """
    if not before or not after:
        return Interval(math.nan)
    if len(before) == len(after) == 1:
        return median_ratio(before[0], after[0])
    one, other = (np.array([np.median(run) for run in side]) for side in (before, after))
    if min(len(one), len(other)) >= FEWEST:
        return median_ratio(one, other)
    if one.min() <= 0:
        return Interval(math.nan)
    ratio = float(np.median(other) / np.median(one))
    return Interval(ratio, float(other.min() / one.max()), float(other.max() / one.min()))


def _notes(groups: Mapping[str, Sequence[Measured]], baseline: str) -> Iterator[str]:
    first = len(groups[baseline])
    said: dict[str, list[str]] = {}
    for name, runs in groups.items():
        if name == baseline:
            continue
        text = ""
        if max(first, len(runs)) == 1:
            text = "one run against one: what differs from run to run is not seen; repeat both"
        elif min(first, len(runs)) < FEWEST:
            chance = 2 / math.comb(first + len(runs), first)
            text = (
                f"{len(runs)} against {first}: where nothing changed, a row exceeds the spread by chance in "
                f"{chance:.0%} of cases"
            )
        said.setdefault(text, []).append(name)
    yield from (f"{', '.join(names)}: {text}" for text, names in said.items() if text)
    kept = {sha for run in groups[baseline] for sha in run.sha256}
    for name, runs in groups.items():
        if name != baseline and any(kept & set(run.sha256) for run in runs):
            yield f"{name}: holds a run that the baseline {baseline} holds, too"


def unit_of(key: Key) -> str:
    """What values are counted in: 'ns', of copies 'ns/byte', of energies 'J' …"""
    kind, name = key
    return {"copy": "ns/byte", "window": "J"}.get(kind) or _NOT_TIMES.get(name, "ns")


# ---- what a run measured


def read(paths: Sequence[Path], *, scheduler: str | None = None) -> list[Measured]:
    """The runs in some files or folders; `LabError` for those of which more than two are not compared."""
    several = (*reports.timelines(), *reports.METERED, *reports.FOLDERS)
    kinds: list[Kind] = [reports.expect(path, "compare (of more than two)", *several) for path in paths]
    found: dict[Path, Measured] = {}
    timelines = [path for path, kind in zip(paths, kinds, strict=True) if reports.is_timeline(kind)]
    if timelines:
        found.update(zip(timelines, _timelines(timelines), strict=True))
    for path, kind in zip(paths, kinds, strict=True):
        if kind in reports.METERED:
            energies = power.by_name(open_log(path))["joules"].dropna()
            joules = {("window", str(name)): np.array([value]) for name, value in energies.items()}
            found[path] = _measured(path, "power", joules)
        elif kind in reports.FOLDERS:
            with open_run(path, scheduler=scheduler) as run:
                measures = ranks.measures(run).items()
                found[path] = _measured(
                    path, "ranks", {key: series.to_numpy(np.float64) for key, series in measures}
                )
    return [found[path] for path in paths]


def _timelines(paths: Sequence[Path]) -> list[Measured]:
    sides = []
    for path in paths:
        with reports.open_timeline(path, "compare") as report:
            window = report.window()
            if window[0] >= window[1]:
                raise LabError(
                    f"{path}: no events to compare; record some with nsys (--trace=cuda,nvtx) or "
                    "torch.profiler"
                )
            sides.append((Side(report, window), float(window[1] - window[0])))
    family = family_of({name for side, _ in sides for name in side.range_times})
    found = []
    repeated = all_periods([side for side, _ in sides], family)
    for path, (side, width), periods in zip(paths, sides, repeated, strict=True):
        copies = {" ".join(key).strip(): pace(side, key) for key in side.copy_times}
        totals = {"window": width, "GPU busy": float(side.busy_ns)}
        for name, times in (("kernels", side.kernel_times), ("copies", side.copy_times)):
            if times:
                totals[name] = float(sum(values.sum() for values in times.values()))
        tables: dict[str, Mapping[str, Floats]] = {
            "total": {name: np.array([value]) for name, value in totals.items()},
            "period": periods,
            "kernel": side.kernel_times,
            "range": by_family(side.range_times, family),
            "range on the GPU": by_family(side.projected_times, family),
            "copy": {name: values for name, values in copies.items() if len(values)},
        }
        values = {(kind, name): each for kind, table in tables.items() for name, each in table.items()}
        found.append(_measured(path, "timeline", values))
    return found


def _measured(path: Path, what: str, values: Mapping[Key, Floats]) -> Measured:
    hashes = tuple(file_sha256(file) for file in reports.files_of(path))
    return Measured(str(path), what, hashes, values, {key: float(each.sum()) for key, each in values.items()})
