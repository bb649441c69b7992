"""A function that makes a table of one report in; one table of all ranks of a run out."""

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from labcode.analysis.ranks.lane import Piece, below
from labcode.analysis.ranks.run import Run
from labcode.inputs import name_of
from labcode.reports.naming import rank_in_name


def with_ranks(run: Run, table: Callable[[Path], pd.DataFrame]) -> pd.DataFrame:
    """The tables of all reports below each other, the rank first.

    A table with a column ``device`` has rows of several GPUs: it gives way to each one's rank. The rows of
    another get the rank of the report's GPU; of a report with several, the first one's. Where no rank used a
    GPU, the reports' names say the rank, or their order.
    """
    lanes = () if run.without_gpu else run.lanes
    known = {name_of(path) for path in run.files} if run.without_gpu else {lane.file for lane in lanes}
    found = [one for one in run.each(partial(_named, table)) if one[0] in known]
    owners = _owners(run, [(name, one.get("device"), len(one)) for name, one in found])
    kept = [place for place, own in enumerate(owners) if place == 0 or max(own, default=-1) >= 0]
    if len(kept) > 1 and max(owners[0], default=-1) < 0:
        del kept[0]
    merged = pd.concat([found[place][1] for place in kept], ignore_index=True)
    merged = merged.drop(columns=["device", "rank"], errors="ignore")
    merged.insert(0, "rank", np.array([*itertools.chain.from_iterable(owners[p] for p in kept)], np.int64))
    merged = merged[merged["rank"] >= 0]
    return merged.sort_values("rank", kind="stable", ignore_index=True)


def of_ranks(run: Run, piece: Piece) -> pd.DataFrame:
    """As `with_ranks`, of what each report was reduced to."""
    found = run.tables(piece)
    owners = _owners(run, [(name, one["device"], len(one["device"])) for name, one in found])
    table = below([one for _, one in found]).drop(columns="device")
    table.insert(0, "rank", np.array([*itertools.chain.from_iterable(owners)], np.int64))
    table = table[table["rank"] >= 0]
    return table.sort_values("rank", kind="stable", ignore_index=True)


def _owners(run: Run, tables: Iterable[tuple[str, Iterable[int] | None, int]]) -> list[list[int]]:
    """The rank of each row, or -1, of tables of which the report, the GPUs (or None) and the length are
    known.
    """
    lanes = () if run.without_gpu else run.lanes
    ranks = {(lane.file, lane.device): lane.rank for lane in lanes}
    first = {lane.file: lane.rank for lane in reversed(lanes)}
    if run.without_gpu:
        said = [rank_in_name(path) for path in run.files]
        numbers = said if len(set(said)) == len(said) and min(said) >= 0 else range(len(said))
        first = {name_of(path): number for path, number in zip(run.files, numbers, strict=True)}
    return [
        [first.get(name, -1)] * length
        if devices is None or name not in first
        else [ranks.get((name, int(device)), -1) for device in devices]
        for name, devices, length in tables
    ]


def kernels(run: Run) -> pd.DataFrame:
    """Kernels by name and rank: rank, name, count, total_ns, mean_ns, ratio (its mean by that of the rank in
    the middle). NCCL's are left out; of each rank those with the most time.
    """
    table = below([lane.kernels for lane in run.lanes], rank=run.ranks.tolist())
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
