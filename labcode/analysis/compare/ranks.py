"""`labcode compare FOLDER FOLDER`: two runs of many ranks in; what changed, rank by rank, and an exit code,
out.

A rank is an instance: a measure has a value for each rank, a ratio is of the ranks in the middle, and its
interval comes from how ranks scatter.
"""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from labcode.analysis.compare.interval import Interval, median_ratio
from labcode.analysis.compare.rows import write_rows
from labcode.analysis.ranks import merge, stragglers
from labcode.analysis.ranks.run import Run, open_run
from labcode.errors import LabError

COLUMNS = {
    **dict.fromkeys(("kind", "name", "verdict"), "str"),
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high"), "float64"),
    **dict.fromkeys(("before", "after", "worst_before", "worst_after"), "float64"),
    **dict.fromkeys(("worst_rank_before", "worst_rank_after"), "int64"),
}
_KERNELS = 20  # names that are compared, those with the most time
_MEASURES = ("span_ns", "busy_ns", "compute_ns", "comm_ns", "exposed_ns", "idle_ns", "wait_ns", "delay_ns")
_POWER = ("energy_j", "mean_w", "sm_mhz")


def run(
    before: Path,
    after: Path,
    *,
    fail_above: float | None,
    fmt: str,
    output: TextIO,
    scheduler: str | None = None,
) -> int:
    """Write the comparison; 1 when a time (or energy) grew by over ``fail_above`` percent, whole interval."""
    with open_run(before, scheduler=scheduler) as one, open_run(after, scheduler=scheduler) as other:
        table = compare(one, other)
        notes = [*one.notes, *other.notes]
        if len(one.lanes) != len(other.lanes):
            notes.append(f"{len(one.lanes)} ranks before, {len(other.lanes)} after")
    judged = table[~table["name"].isin(["mean_w", "sm_mhz"])]
    return write_rows(
        *(before, after, table, judged, notes),
        name="name",
        grew="grew",
        fail_above=fail_above,
        fmt=fmt,
        output=output,
    )


def compare(before: Run, after: Run) -> pd.DataFrame:
    """A row for each measure and kernel: columns are `COLUMNS`, of the rank in the middle and the one with
    the most.

    The verdict is 'more', 'less', 'no change shown', 'new', 'vanished' or 'too few ranks'. Raises `LabError`
    for runs whose reports are of different kinds.
    """
    if "power" in (before.kind, after.kind) and before.kind != after.kind:
        odd = before if after.kind == "power" else after
        raise LabError(f"{odd.path}: no power logs; compare a folder of power logs with another one")
    if before.kind == "power":
        tables = [merge.power(side) for side in (before, after)]
        rows = [_row("rank", name, *_values(tables, name)) for name in _POWER]
    else:
        tables = [stragglers.by_rank(side) for side in (before, after)]
        rows = [_row("rank", name, *_values(tables, name)) for name in _MEASURES]
        kernels = [merge.kernels(side) for side in (before, after)]
        total = pd.concat(kernels).groupby("name")["total_ns"].sum().nlargest(_KERNELS)
        for name in total.index:
            sides = [table[table["name"] == name].set_index("rank")["total_ns"] for table in kernels]
            rows.append(_row("kernel", str(name), *sides))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _values(tables: list[pd.DataFrame], name: str) -> list[pd.Series]:
    return [table.set_index("rank")[name].astype("float64") for table in tables]


def _row(kind: str, name: str, before: pd.Series, after: pd.Series) -> dict[str, object]:
    row: dict[str, object] = {"kind": kind, "name": name}
    for side, values in (("before", before), ("after", after)):
        row[side] = values.median() if len(values) else np.nan
        row[f"worst_{side}"] = values.max() if len(values) else np.nan
        row[f"worst_rank_{side}"] = int(values.index[int(values.argmax())]) if len(values) else -1
    if not len(before) or not len(after):
        return {**row, "verdict": "vanished" if len(before) else "new", **_ratio(Interval(np.nan))}
    found = median_ratio(before.to_numpy(np.float64), after.to_numpy(np.float64))
    verdict = "more" if found.low > 1 else "less" if found.high < 1 else "no change shown"
    return {**row, "verdict": "too few ranks" if np.isnan(found.low) else verdict, **_ratio(found)}


def _ratio(interval: Interval) -> dict[str, float]:
    return {"ratio": interval.ratio, "ratio_low": interval.low, "ratio_high": interval.high}
