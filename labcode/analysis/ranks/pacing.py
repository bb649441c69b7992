"""What each report of a run says about ranges in; one table of all ranks out: their pace, and NCCL's own."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.ranks.lane import Piece
from labcode.analysis.ranks.merge import with_ranks
from labcode.analysis.ranks.run import Run
from labcode.analysis.timeline.joins import named_like, spans
from labcode.analysis.timeline.nvtx import cpu_ranges, labels, project
from labcode.reports.columns import Ints
from labcode.reports.frames import codes_of, is_any, rows_of
from labcode.reports.report import TimelineReport

STEP = r"(?i)^(?:profiler)?step\b|^profilerstep#"
_STATS = ["count", "mean_ns", "std_ns", "min_ns", "q1_ns", "median_ns", "q3_ns", "max_ns", "sum_ns"]


def pace(run: Run, name: str = "") -> pd.DataFrame:
    """When each rank began each instance of a range, by default of those called step: rank, instance, name,
    start_ns and late_ns (after the first rank; on the common clock), duration_ns, delta_ns (from the end of
    the one before), duration_accum_ns, delta_accum_ns (their running sums).
    """
    table = with_ranks(run, steps(name))
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
    return with_ranks(run, NCCL)


def nccl_gpu_proj_sum(run: Run) -> pd.DataFrame:
    """NCCL's own ranges where their work ran on the GPU, by rank: the columns of `nccl_sum`."""
    return with_ranks(run, NCCL_ON_GPU)


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


def steps(name: str = "") -> Piece:
    """What makes the table of one report that `pace` brings together."""
    return _instances, name


def _instances(report: TimelineReport, name: str) -> pd.DataFrame:
    """The ranges of one report that go by a name, by process and time."""
    ranges = report.nvtx()
    if name:
        wanted = is_any(ranges["name"], name) | is_any(labels(ranges), name)
    else:
        wanted = named_like(ranges["name"], STEP)
    found = cpu_ranges(rows_of(ranges, wanted), nested=False)
    device = _devices(report.gpu_ops())
    parts = []
    for pid, mine in found.sort_values("start_ns", kind="stable").groupby("pid", sort=True):
        if pid not in device:
            continue
        start, end = spans(mine)
        delta = start - np.concatenate([start[:1], end[:-1]])
        parts.append(
            pd.DataFrame(
                {
                    "device": device[pid],
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


def _described(report: TimelineReport, where: str) -> pd.DataFrame:
    """NCCL's ranges of one report by GPU and name."""
    ranges, ops = report.nvtx(), report.gpu_ops()
    ranges = rows_of(ranges, is_any(ranges["domain"], "NCCL") | named_like(ranges["name"], "^nccl:"))
    if where == "GPU":
        found = project(ranges, report.api(), ops, nested=False)
        lasted = (found["gpu_end_ns"] - found["gpu_start_ns"]).to_numpy(np.int64)
    else:
        found = cpu_ranges(ranges, nested=False)
        lasted = found["duration_ns"].to_numpy(np.int64)
    device = _devices(ops)
    pids = found["pid"].to_numpy(np.int64)
    kept = np.isin(pids, list(device)) & (lasted > 0)
    gpus, gpu = np.unique([device[pid] for pid in pids[kept].tolist()], return_inverse=True)
    codes, texts = codes_of(found["name"].to_numpy(object)[kept])
    names = np.array(sorted(texts), object)
    numbers = gpu * len(names) + np.searchsorted(names, texts)[codes]
    order = np.argsort(numbers, kind="stable")
    keys, first = np.unique(numbers[order], return_index=True)
    rows = [_summed(part) for part in np.split(lasted[kept][order], first[1:])] if len(keys) else []
    values = dict(zip(_STATS, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(_STATS, ())
    own = np.divmod(keys, max(len(names), 1))
    return pd.DataFrame({"device": gpus[own[0]], "name": pd.Series(names[own[1]], dtype="str"), **values})


def _summed(lasted: Ints) -> tuple[float, ...]:
    """The numbers of `_STATS`, to the bit those of pandas, whose groups take milliseconds for each number."""
    mean = squares = 0.0
    for count, value in enumerate(lasted.tolist(), 1):
        before, mean = mean, mean + (value - mean) / count
        squares += (value - mean) * (value - before)
    std = float(np.sqrt(squares / (len(lasted) - 1))) if len(lasted) > 1 else float("nan")
    ordered, total = np.sort(lasted), int(lasted.sum())
    low, middle, high = (_quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    shape = int(ordered[0]), low, middle, high, int(ordered[-1])
    return len(lasted), total / len(lasted), std, *shape, total


def _quantile(ordered: Ints, share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    value = float(ordered[low])
    return value if low == place else value + (float(ordered[low + 1]) - value) * (place - low)


def _devices(ops: pd.DataFrame) -> dict[Any, int]:
    """The GPU of each process: that of its first operation."""
    pids, first = np.unique(ops["pid"].to_numpy(np.int64), return_index=True)
    return dict(zip(pids.tolist(), ops["device"].to_numpy(np.int64)[first].tolist(), strict=True))


NCCL: Piece = (_described, "CPU")
NCCL_ON_GPU: Piece = (_described, "GPU")
