"""`labcode compare A.power.json B.power.json`: two logs in; what used more energy, and an exit code, out.

Windows are paired by name: of each the mean energy of its instances, on all GPUs together. A ratio's interval
comes from the error bars of the instrument; it says nothing of how runs scatter.
"""

from pathlib import Path

import pandas as pd

from labcode.analysis.compare.interval import THRESHOLD, Interval, Limits, Wishes, limits_of
from labcode.analysis.compare.rows import write_rows
from labcode.analysis.energy.window import windows
from labcode.errors import InputError
from labcode.reports.power.log import PowerLog, open_log
from labcode.reports.power.schema import IDLE

COLUMNS = {
    **dict.fromkeys(("window", "verdict"), "str"),
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high", "before_j", "before_error_j", "after_j"), "float64"),
    **dict.fromkeys(("after_error_j", "before_s", "after_s", "before_w", "after_w"), "float64"),
}


def run(before: Path, after: Path, wishes: Wishes) -> int:
    """Write the comparison; 1 when a window used more by over the allowed percentage, whole interval."""
    one, other = open_log(before), open_log(after)
    table = compare(one, other, limits_of(wishes.fail_above).same)
    notes = notes_on(one, other)
    return write_rows(before, after, table, table, notes, wishes, name="window", grew="used more")


def compare(before: PowerLog, after: PowerLog, tolerance: float = THRESHOLD) -> pd.DataFrame:
    """A row for each window of either log, but the idle one: columns are `COLUMNS`.

    ``ratio`` is after by before, its interval from the error bars; the verdict is 'more', 'less', 'no
    change' (within ``tolerance``), 'undecided', 'new', 'vanished' or 'too short'. Raises `InputError` where
    there is nothing to compare.
    """
    sides = [by_name(before), by_name(after)]
    rows = []
    for name in dict.fromkeys([*sides[0].index, *sides[1].index]):
        there = [side.loc[name] if name in side.index else None for side in sides]
        rows.append(_row(name, *there, tolerance=tolerance))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def notes_on(before: PowerLog, after: PowerLog) -> list[str]:
    """What makes the comparison a doubtful one."""
    notes = [*before.warnings, *after.warnings]
    kinds = [", ".join(log.devices["name"]) for log in (before, after)]
    if kinds[0] != kinds[1]:
        notes.append(f"other GPUs: {kinds[0] or 'none'} before, {kinds[1] or 'none'} after")
    limits = [
        ", ".join(f"{watts:.0f} W" for watts in log.devices["power_limit_w"]) for log in (before, after)
    ]
    if limits[0] != limits[1]:
        notes.append(f"other power limits: {limits[0]} before, {limits[1]} after")
    return notes


def by_name(log: PowerLog) -> pd.DataFrame:
    """joules with their error and seconds of each window but the idle one, of all GPUs, by its name."""
    if not len(log.samples):
        raise InputError(f"{log.path}: no samples to compare; record for longer")
    table = windows(log)
    table = table[table["name"] != IDLE]
    each = table.groupby(["name", "instance"], sort=False).agg(
        joules=("counter_j", lambda values: values.sum(skipna=False)),
        error=("error_j", lambda values: values.sum(skipna=False)),
        seconds=("seconds", "max"),
    )
    return each.groupby("name", sort=False).mean()


def _row(
    name: str, before: pd.Series | None, after: pd.Series | None, *, tolerance: float
) -> dict[str, object]:
    row: dict[str, object] = {"window": name}
    for side, one in (("before", before), ("after", after)):
        if one is not None:
            row[f"{side}_j"], row[f"{side}_error_j"] = one["joules"], one["error"]
            row[f"{side}_s"] = one["seconds"]
            row[f"{side}_w"] = one["joules"] / one["seconds"] if one["seconds"] else float("nan")
    if before is None or after is None:
        return {**row, "verdict": "new" if before is None else "vanished"}
    if pd.isna(before["joules"]) or pd.isna(after["joules"]) or before["joules"] <= before["error"]:
        return {**row, "verdict": "too short"}
    low = max(after["joules"] - after["error"], 0.0) / (before["joules"] + before["error"])
    high = (after["joules"] + after["error"]) / (before["joules"] - before["error"])
    ratio = after["joules"] / before["joules"]
    verdict = Limits(0.0, tolerance).verdict(Interval(ratio, low, high), "more", "less")
    return {**row, "verdict": verdict, "ratio": ratio, "ratio_low": low, "ratio_high": high}
