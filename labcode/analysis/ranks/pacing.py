"""What each report of a run says about ranges in; one table of all ranks out: their pace, and NCCL's own."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from labcode import reports
from labcode.analysis.ranks.merge import with_ranks
from labcode.analysis.ranks.run import Run
from labcode.analysis.timeline.joins import spans
from labcode.analysis.timeline.nvtx import cpu_ranges, project

STEP = r"(?i)^(?:profiler)?step\b|^profilerstep#"
_STATS = ["count", "mean_ns", "std_ns", "min_ns", "q1_ns", "median_ns", "q3_ns", "max_ns", "sum_ns"]


def pace(run: Run, name: str = "") -> pd.DataFrame:
    """When each rank began each instance of a range, by default of those called step: rank, instance, name,
    start_ns and late_ns (after the first rank; on the common clock), duration_ns, delta_ns (from the end of
    the one before), duration_accum_ns, delta_accum_ns (their running sums).
    """
    table = with_ranks(run, partial(_instances, name=name))
    place = {int(rank): number for number, rank in enumerate(run.ranks)}
    lanes = table["rank"].map(place).to_numpy(np.int64) if len(table) else np.empty(0, np.int64)
    start = table.pop("start_ns").to_numpy(np.float64)
    table.insert(
        3, "start_ns", np.rint(start * run.clocks.rate[lanes] + run.clocks.offset_ns[lanes]).astype(np.int64)
    )
    first = (
        table.groupby(["name", "instance"])["start_ns"].transform("min") if len(table) else table["start_ns"]
    )
    table.insert(4, "late_ns", table["start_ns"] - first)
    return table.sort_values(["rank", "instance"], ignore_index=True)


def nccl_sum(run: Run) -> pd.DataFrame:
    """NCCL's own ranges on the CPU, by rank: rank, name, count, mean_ns, std_ns, min_ns, q1_ns, median_ns,
    q3_ns, max_ns, sum_ns.
    """
    return with_ranks(run, _nccl)


def nccl_gpu_proj_sum(run: Run) -> pd.DataFrame:
    """NCCL's own ranges where their work ran on the GPU, by rank: the columns of `nccl_sum`."""
    return with_ranks(run, _nccl_on_gpu)


def over_all(table: pd.DataFrame) -> pd.DataFrame:
    """Such a table of all ranks together, as the recipes of Nsight Systems aggregate it.

    Count and sum are sums, the mean is of all instances, min and max are exact; std_ns is the mean of the
    ranks' ones, median_ns the median of theirs, q1_ns the least, q3_ns the most of theirs.
    """
    grouped = table.groupby("name", sort=True)
    found = grouped.agg(
        count=("count", "sum"),
        mean_ns=("sum_ns", "sum"),
        std_ns=("std_ns", "mean"),
        min_ns=("min_ns", "min"),
        q1_ns=("q1_ns", "min"),
        median_ns=("median_ns", "median"),
        q3_ns=("q3_ns", "max"),
        max_ns=("max_ns", "max"),
        sum_ns=("sum_ns", "sum"),
    ).reset_index()
    found["mean_ns"] = found["sum_ns"] / found["count"]
    return found


def _instances(path: Path, *, name: str) -> pd.DataFrame:
    """The ranges of one report that go by a name, by process and time."""
    with reports.open_timeline(path, "stats") as report:
        found = cpu_ranges(report.nvtx())
        if name:
            found = found[(found["label"] == name) | (found["name"] == name)]
        else:
            found = found[found["name"].str.contains(STEP)]
        ops = report.gpu_ops()
    device = ops.drop_duplicates("pid").set_index("pid")["device"] if len(ops) else pd.Series(dtype="int64")
    parts = []
    for pid, mine in found.sort_values("start_ns", kind="stable").groupby("pid", sort=True):
        if pid not in device.index:
            continue
        start, end = spans(mine)
        delta = start - np.concatenate([start[:1], end[:-1]])
        parts.append(
            pd.DataFrame(
                {
                    "device": int(device[pid]),
                    "instance": np.arange(len(mine)),
                    "name": mine["name"].str.replace(r"\d+$", "#", regex=True).to_numpy(object),
                    "start_ns": start,
                    "duration_ns": end - start,
                    "delta_ns": delta,
                    "duration_accum_ns": np.cumsum(end - start),
                    "delta_accum_ns": np.cumsum(delta),
                }
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else _none()


def _none() -> pd.DataFrame:
    columns = (
        "device",
        "instance",
        "start_ns",
        "duration_ns",
        "delta_ns",
        "duration_accum_ns",
        "delta_accum_ns",
    )
    return pd.DataFrame({**{name: np.empty(0, np.int64) for name in columns}, "name": pd.Series(dtype="str")})


def _nccl(path: Path) -> pd.DataFrame:
    return _described(path, on_gpu=False)


def _nccl_on_gpu(path: Path) -> pd.DataFrame:
    return _described(path, on_gpu=True)


def _described(path: Path, *, on_gpu: bool) -> pd.DataFrame:
    """NCCL's ranges of one report by GPU and name."""
    with reports.open_timeline(path, "stats") as report:
        ranges, ops = report.nvtx(), report.gpu_ops()
        ranges = ranges[(ranges["domain"] == "NCCL") | ranges["name"].str.startswith("nccl:")]
        if on_gpu:
            found = project(ranges, report.api(), ops)
            lasted = found["gpu_end_ns"] - found["gpu_start_ns"]
        else:
            found = cpu_ranges(ranges)
            lasted = found["duration_ns"]
    device = ops.drop_duplicates("pid").set_index("pid")["device"] if len(ops) else pd.Series(dtype="int64")
    kept = found["pid"].isin(device.index) & (lasted > 0)
    keys = [found.loc[kept, "pid"].map(device).rename("device"), found.loc[kept, "name"]]
    grouped = lasted[kept].groupby(keys)
    table = grouped.agg(["count", "mean", "std", "min", "median", "max", "sum"])
    table["q1"], table["q3"] = grouped.quantile(0.25), grouped.quantile(0.75)
    table = table.rename(columns={name: f"{name}_ns" for name in table if name != "count"})
    return table[_STATS].reset_index()
