"""A function that makes a table of one report in; one table of all ranks of a run out."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from labcode.analysis.ranks.lane import Piece
from labcode.analysis.ranks.run import Run
from labcode.inputs import name_of
from labcode.reports.naming import rank_in_name


def with_ranks(run: Run, table: Piece | Callable[[Path], pd.DataFrame]) -> pd.DataFrame:
    """The tables of all reports below each other, the rank first.

    A table with a column ``device`` has rows of several GPUs: it gives way to each one's rank. The rows of
    another get the rank of the report's GPU; of a report with several, the first one's. Where no rank used a
    GPU, the reports' names say the rank, or their order.
    """
    lanes = () if run.without_gpu else run.lanes
    ranks = {(lane.file, lane.device): lane.rank for lane in lanes}
    first = {lane.file: lane.rank for lane in reversed(lanes)}
    if run.without_gpu:
        said = [rank_in_name(path) for path in run.files]
        numbers = said if len(set(said)) == len(said) and min(said) >= 0 else range(len(said))
        first = {name_of(path): number for path, number in zip(run.files, numbers, strict=True)}
    parts: list[pd.DataFrame] = []
    owners: list[list[int]] = []
    for name, found in run.tables(table) if isinstance(table, tuple) else run.each(partial(_named, table)):
        if name not in first:
            continue
        if "device" in found:
            own = [ranks.get((name, device), -1) for device in found["device"].astype("int64").tolist()]
        else:
            own = [first[name]] * len(found)
        if not parts or max(own, default=-1) >= 0:
            parts.append(found)
            owners.append(own)
    if len(parts) > 1 and max(owners[0], default=-1) < 0:
        del parts[0], owners[0]
    merged = pd.concat(parts, ignore_index=True).drop(columns=["device", "rank"], errors="ignore")
    merged.insert(0, "rank", np.array([*itertools.chain.from_iterable(owners)], np.int64))
    merged = merged[merged["rank"] >= 0]
    return merged.sort_values("rank", kind="stable", ignore_index=True)


def kernels(run: Run) -> pd.DataFrame:
    """Kernels by name and rank: rank, name, count, total_ns, mean_ns, ratio (its mean by that of the rank in
    the middle). NCCL's are left out; of each rank those with the most time.
    """
    parts = [lane.kernels.assign(rank=lane.rank) for lane in run.lanes]
    table = pd.concat(parts, ignore_index=True)[["rank", "name", "count", "total_ns"]]
    table["mean_ns"] = table["total_ns"] / table["count"]
    middle = table.groupby("name")["mean_ns"].transform("median")
    table["ratio"] = table["mean_ns"] / middle.where(middle > 0)
    return table.sort_values(["name", "rank"], ignore_index=True)


def power(run: Run) -> pd.DataFrame:
    """Of power logs, a row for each GPU: rank, file, device, gpu, energy_j, mean_w, peak_w, sm_mhz (mean),
    temperature_c (highest), held_share (of the samples in which something held the clocks down).
    """
    rows = [
        {"rank": lane.rank, "file": lane.file, "device": lane.device, "gpu": lane.gpu, **lane.power}
        for lane in run.lanes
    ]
    return pd.DataFrame(rows)


def _named(table: Callable[[Path], pd.DataFrame], path: Path) -> tuple[str, pd.DataFrame]:
    return name_of(path), table(path)
