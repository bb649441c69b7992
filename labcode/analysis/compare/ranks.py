"""`labcode compare FOLDER FOLDER`: two runs in; what changed, rank by rank, and an exit code out.

A rank is an instance: a measure has a value for each rank, a ratio is of the ranks in the middle, and its
interval comes from how ranks scatter.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from labcode.analysis.compare.interval import THRESHOLD, Interval, Limits, Wishes, limits_of, median_ratio
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


def run(before: Path, after: Path, wishes: Wishes) -> int:
    """Write the comparison; 1 when a time (or energy) grew by over the allowed percentage, whole interval."""
    where = wishes.scheduler
    with open_run(before, scheduler=where) as one, open_run(after, scheduler=where) as other:
        table = compare(one, other, limits_of(wishes.fail_above).same)
        notes = [*one.notes, *other.notes]
        if len(one.lanes) != len(other.lanes):
            notes.append(f"{len(one.lanes)} ranks before, {len(other.lanes)} after")
    judged = table[~table["name"].isin(["mean_w", "sm_mhz"])]
    return write_rows(before, after, table, judged, notes, wishes, name="name", grew="grew")


def compare(before: Run, after: Run, tolerance: float = THRESHOLD) -> pd.DataFrame:
    """A row for each measure and kernel: columns are `COLUMNS`, of the middle rank and the one with the most.

    The verdict is 'more', 'less', 'no change' (within ``tolerance``), 'undecided', 'new', 'vanished' or 'too
    few ranks'. Raises `LabError` for runs whose reports are of different kinds.
    """
    if before.metered != after.metered:
        odd = before if after.metered else after
        raise LabError(f"{odd.path}: no power logs; compare a folder of power logs with another one")
    sides = [measures(side) for side in (before, after)]
    total: dict[str, float] = {}
    for side in sides:
        for (kind, name), values in side.items():
            if kind == "kernel":
                total[name] = total.get(name, 0.0) + float(values.sum())
    kernels = [("kernel", name) for name in sorted(total, key=lambda name: (-total[name], name))[:_KERNELS]]
    none = pd.Series(dtype="float64")
    keys = [*(key for key in sides[0] if key[0] == "rank"), *kernels]
    rows = [_row(*key, *(side.get(key, none) for side in sides), tolerance=tolerance) for key in keys]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def measures(run: Run) -> dict[tuple[str, str], pd.Series]:
    """By ('rank', measure) and ('kernel', name) the value of each rank."""
    table = (merge.power(run) if run.metered else stragglers.by_rank(run)).set_index("rank")
    names = _POWER if run.metered else _MEASURES
    found = {("rank", name): table[name].astype("float64") for name in names}
    if not run.metered:
        for kernel, mine in merge.kernels(run).groupby("name", sort=False):
            found["kernel", str(kernel)] = mine.set_index("rank")["total_ns"].astype("float64")
    return found


def _row(kind: str, name: str, before: pd.Series, after: pd.Series, *, tolerance: float) -> dict[str, object]:
    row: dict[str, object] = {"kind": kind, "name": name}
    for side, values in (("before", before), ("after", after)):
        row[side] = values.median() if len(values) else np.nan
        row[f"worst_{side}"] = values.max() if len(values) else np.nan
        row[f"worst_rank_{side}"] = int(values.index[int(values.argmax())]) if len(values) else -1
    if not len(before) or not len(after):
        return {**row, "verdict": "vanished" if len(before) else "new", **_ratio(Interval(np.nan))}
    found = median_ratio(before.to_numpy(np.float64), after.to_numpy(np.float64))
    verdict = Limits(0.0, tolerance).verdict(found, "more", "less")
    return {**row, "verdict": "too few ranks" if np.isnan(found.low) else verdict, **_ratio(found)}


def _ratio(interval: Interval) -> dict[str, float]:
    return {"ratio": interval.ratio, "ratio_low": interval.low, "ratio_high": interval.high}
