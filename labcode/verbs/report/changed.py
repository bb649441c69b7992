"""Two opened files of a kind in; what a report says of the changes between them, in lines and tables, out."""

import pandas as pd

from labcode.analysis.compare import power
from labcode.analysis.compare.interval import SAME, UNDECIDED
from labcode.analysis.compare.launches import compare as compare_launches
from labcode.errors import InputError
from labcode.reports.ncu.report import NcuReport
from labcode.reports.power.log import PowerLog
from labcode.reports.report import TimelineReport
from labcode.verbs.compare.pairs import TITLES, compare, readable
from labcode.verbs.report.document import TOP, Shown

Changed = tuple[tuple[str, ...], tuple[Shown, ...]]


def timelines(before: TimelineReport, after: TimelineReport) -> Changed:
    """Kernels, ranges and transfers of two captures or traces."""
    for report in (before, after):
        if report.window()[0] >= report.window()[1]:
            raise InputError(f"{report.path}: no events to compare; record some with nsys or torch.profiler")

    found = compare(before, after)
    tables = []
    for kind, table in found.tables.items():
        if len(table):
            weight = (table["total_after_ns"] - table["total_before_ns"]).abs()
            rows = table.loc[weight.sort_values(ascending=False, kind="stable").index]
            told = rows[rows["verdict"] != SAME]
            unsure = told["verdict"] == UNDECIDED
            changed = pd.concat([told[~unsure], told[unsure]])
            shown = readable(kind, changed.head(TOP)).reset_index(drop=True)
            same = len(table) - len(changed)
            notes = [f"{same} did not change"] * bool(same)
            notes += [f"{int(unsure.sum())} undecided: their intervals are too wide"] * bool(unsure.any())
            tables.append(Shown(TITLES[kind], shown, len(changed), note="; ".join(notes)))
    return (*found.summary, *(f"note: {line}" for line in found.warnings)), tuple(tables)


def launches(before: NcuReport, after: NcuReport) -> Changed:
    """Metrics of the launches of two reports of Nsight Compute."""
    found = compare_launches(before, after)
    changed = found.table[found.table["changed"]].drop(columns=["changed", "kernel_before"])
    lines = [f"{len(found.pairs)} launches compared", *found.warnings]
    lines += [f"new: {', '.join(found.new)}"] * bool(found.new)
    lines += [f"vanished: {', '.join(found.vanished)}"] * bool(found.vanished)
    return tuple(lines), (Shown("What changed", changed.head(3 * TOP).reset_index(drop=True), len(changed)),)


def energy(before: PowerLog, after: PowerLog) -> Changed:
    """Energy of the windows of two power logs."""
    table = power.compare(before, after)
    return tuple(power.notes_on(before, after)), (Shown("Energy of windows", table.head(TOP), len(table)),)
