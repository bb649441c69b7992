"""What each report of a run says about ranges in; one table of all ranks out: their pace, and NCCL's own."""

import re

import numpy as np
import pandas as pd

from labcode.analysis.ranks.lane import Columns, Piece
from labcode.analysis.ranks.merge import of_ranks
from labcode.analysis.ranks.run import Run
from labcode.analysis.timeline.joins import named_like
from labcode.analysis.timeline.nvtx import covered, in_order, labels
from labcode.reports.columns import Ints
from labcode.reports.frames import codes_of, is_any
from labcode.reports.report import TimelineReport

STEP = r"(?i)^(?:profiler)?step\b|^profilerstep#"
_STATS = dict.fromkeys(
    ("count", "mean_ns", "std_ns", "min_ns", "q1_ns", "median_ns", "q3_ns", "max_ns", "sum_ns"), np.float64
) | dict.fromkeys(("count", "min_ns", "max_ns", "sum_ns"), np.int64)


def pace(run: Run, name: str = "") -> pd.DataFrame:
    """When each rank began each instance of a range, by default of those called step: rank, instance, name,
    start_ns and late_ns (after the first rank; on the common clock), duration_ns, delta_ns (from the end of
    the one before), duration_accum_ns, delta_accum_ns (their running sums).
    """
    table = of_ranks(run, steps(name))
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
    return run.once("nccl_sum", lambda: of_ranks(run, NCCL))


def nccl_gpu_proj_sum(run: Run) -> pd.DataFrame:
    """NCCL's own ranges where their work ran on the GPU, by rank: the columns of `nccl_sum`."""
    return run.once("nccl_gpu_proj_sum", lambda: of_ranks(run, NCCL_ON_GPU))


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


def _instances(report: TimelineReport, name: str) -> Columns:
    """The ranges of one report that go by a name, by process and time."""
    ranges = report.nvtx()
    if name:
        wanted = is_any(ranges["name"], name) | is_any(labels(ranges), name)
    else:
        wanted = named_like(ranges["name"], STEP)
    rows, start, end = in_order(ranges, wanted)
    pid = ranges["pid"].to_numpy(np.int64)[rows]
    kept, device = _devices(report.gpu_ops(), pid)
    kept = kept[np.argsort(pid[kept], kind="stable")]
    rows, start, end, device, pid = rows[kept], start[kept], end[kept], device[kept], pid[kept]
    codes, names = codes_of(ranges["name"].to_numpy(object)[rows])
    heads = np.flatnonzero(np.append(True, pid[1:] != pid[:-1])[: len(pid)])
    first = np.repeat(heads, np.diff(np.append(heads, len(pid))))  # of each process
    delta = start - np.append(start[:1], end[:-1])
    delta[heads] = 0
    lasted = end - start
    return {
        "device": device,
        "instance": np.arange(len(rows)) - first,
        "name": np.array([re.sub(r"\d+$", "#", text) for text in names], object)[codes],
        "start_ns": start,
        "duration_ns": lasted,
        "delta_ns": delta,
        "duration_accum_ns": _accumulated(lasted, first),
        "delta_accum_ns": _accumulated(delta, first),
    }


def _accumulated(values: Ints, first: Ints) -> Ints:
    """Running sums, each from its own ``first`` row on."""
    sums = np.append(0, np.cumsum(values))
    return np.asarray(sums[1:] - sums[first], np.int64)


def _described(report: TimelineReport, where: str) -> Columns:
    """NCCL's ranges of one report by GPU and name."""
    ranges, ops = report.nvtx(), report.gpu_ops()
    rows, start, end = in_order(
        ranges, is_any(ranges["domain"], "NCCL") | named_like(ranges["name"], "^nccl:")
    )
    pid = ranges["pid"].to_numpy(np.int64)[rows]
    if where == "GPU":
        tid = ranges["tid"].to_numpy(np.int64)[rows]
        ended = ranges["end_tid"]
        own = np.flatnonzero(
            ended.isna().to_numpy()[rows] | (ended.to_numpy(np.int64, na_value=0)[rows] == tid)
        )
        some, found = covered(start[own], end[own], pid[own], tid[own], report.api(), ops)
        rows, pid = rows[own[some]], pid[own[some]]
        lasted = found["gpu_end_ns"] - found["gpu_start_ns"]
    else:
        lasted = end - start
    kept, device = _devices(ops, pid)
    kept = kept[lasted[kept] > 0]
    gpus, gpu = np.unique(device[kept], return_inverse=True)
    codes, texts = codes_of(ranges["name"].to_numpy(object)[rows[kept]])
    names = np.array(sorted(texts), object)
    numbers = gpu * len(names) + np.searchsorted(names, texts)[codes]
    order = np.argsort(numbers, kind="stable")
    keys, first = np.unique(numbers[order], return_index=True)
    parts = np.split(lasted[kept][order], first[1:]) if len(keys) else []
    summed = list(zip(*map(_summed, parts), strict=True)) or [()] * len(_STATS)
    values = {name: np.array(some, dtype) for (name, dtype), some in zip(_STATS.items(), summed, strict=True)}
    own_gpu, own_name = np.divmod(keys, max(len(names), 1))
    return {"device": gpus[own_gpu], "name": names[own_name], **values}


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


def _devices(ops: pd.DataFrame, pid: Ints) -> tuple[Ints, Ints]:
    """The rows whose process used a GPU, and for all rows the GPU of their process: that of its first
    operation; 0 where there is none.
    """
    pids, first = np.unique(ops["pid"].to_numpy(np.int64), return_index=True)
    if not len(pids):
        return np.empty(0, np.int64), np.zeros(len(pid), np.int64)
    place = np.minimum(np.searchsorted(pids, pid), len(pids) - 1)
    there = pids[place] == pid
    return np.flatnonzero(there), np.where(there, ops["device"].to_numpy(np.int64)[first][place], 0)


NCCL: Piece = (_described, "CPU")
NCCL_ON_GPU: Piece = (_described, "GPU")
