"""A trace in; what the GPUs did with the time, how fast copies were, which kernels come together, out.

As in `labcode.analysis.stats.kineto_gpu`, definitions are those of Holistic Trace Analysis where it has them.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.stats.kineto_gpu import CATEGORIES, idle_gaps, queue_series
from labcode.analysis.timeline import links as kineto_links
from labcode.analysis.timeline import tree as kineto_tree
from labcode.analysis.timeline.joins import duration_ns, extent, launch_rows, named_like
from labcode.analysis.timeline.launch import QUEUED_BY
from labcode.analysis.timeline.overlap import time_shares
from labcode.analysis.timeline.summary import bandwidth_changes
from labcode.reports.columns import Ints, objects
from labcode.reports.common import STEP
from labcode.reports.kineto.report import KinetoReport

FULL = 1024  # launches that CUDA lets wait in a stream; the next one blocks the thread that makes it
LEAST_KERNELS = 3
LONGEST_RUN = 8  # kernels in a row
MOST_RUNS = 200
MOST_NAMES = 24
_SERIES = ("changes", "mean", "std", "min", "p25", "median", "p75", "max")


def temporal_breakdown(report: KinetoReport) -> pd.DataFrame:
    """What each GPU did from its first operation to the end of its last, each ns once.

    rank; device; total_ns; compute_ns (a kernel that is none of NCCL's runs), non_compute_ns (something else:
    communication_ns, copies_ns), idle_ns with its parts host_wait_ns, kernel_wait_ns, other_ns (see
    `idle_gaps`; of the whole GPU); compute_share, non_compute_share, idle_share.
    """
    rows = []
    ops, gaps = report.gpu_ops(), idle_gaps(report, of=("rank", "device"))
    for (rank, device), mine in ops.groupby(["rank", "device"], sort=True):
        window = extent(mine)
        (shares,) = time_shares(mine, window).to_dict("records")
        own = gaps[(gaps["rank"] == rank) & (gaps["device"] == device)]
        waits = own.groupby("category")["idle_ns"].sum()
        beside = shares["communication_ns"] + shares["copies_ns"]
        rows.append(
            {
                "rank": rank,
                "device": device,
                "total_ns": window[1] - window[0],
                "compute_ns": shares["computing_ns"],
                "non_compute_ns": beside,
                "communication_ns": shares["communication_ns"],
                "copies_ns": shares["copies_ns"],
                "idle_ns": shares["idle_ns"],
                **{f"{name}_ns": int(waits.get(name, 0)) for name in CATEGORIES},
            }
        )
    table = pd.DataFrame(rows)
    for what in ("compute", "non_compute", "idle") if rows else ():
        table[f"{what}_share"] = table[f"{what}_ns"] / table["total_ns"].where(table["total_ns"] > 0)
    return table


def bandwidth_series(report: KinetoReport) -> pd.DataFrame:
    """How fast copies and memsets move bytes at each moment: rank, device, what, start_ns, gb_per_s.

    A row for each change; ``what`` is Kineto's name of the direction ('Memcpy HtoD', 'Memset'); see
    `bandwidth_changes`.
    """
    copies, sets = report.memcpys(), report.memsets()
    columns = ["rank", "device", "what", "start_ns", "end_ns", "bytes"]
    moved = pd.concat([copies.assign(what=_direction(copies))[columns], sets.assign(what="Memset")[columns]])
    return bandwidth_changes(moved, columns[:3]).astype({"what": "str"})


def memory_bandwidth(report: KinetoReport) -> pd.DataFrame:
    """Copies and memsets by direction: rank; device; what; count; bytes; total_ns; gb_per_s (bytes by time).

    And how fast they ran over time, of the values of `bandwidth_series` above 0: changes, mean, std, min,
    p25, median, p75, max.
    """
    copies, sets = report.memcpys(), report.memsets()
    series = bandwidth_series(report)
    keys = ["rank", "device", "what"]
    columns = ["rank", "device", "bytes"]
    moved = pd.concat(
        [
            copies[columns].assign(what=_direction(copies), total_ns=duration_ns(copies)),
            sets[columns].assign(what="Memset", total_ns=duration_ns(sets)),
        ]
    )
    if not len(moved):
        return moved
    grouped = moved.groupby(keys)
    table = grouped[["bytes", "total_ns"]].sum()
    table.insert(0, "count", grouped.size())
    table["gb_per_s"] = table["bytes"] / table["total_ns"].where(table["total_ns"] > 0)
    rates = series["gb_per_s"].where(series["gb_per_s"] > 0)
    stats = rates.groupby([series[key] for key in keys]).describe()
    stats = stats.set_axis(list(_SERIES), axis=1).astype({"changes": "int64"})
    return table.join(stats).reset_index().astype({"what": "str"})


def _direction(copies: pd.DataFrame) -> pd.Series:
    """Kineto's name of each copy's direction, 'Memcpy HtoD'."""
    codes, names = pd.factorize(copies["raw_name"])
    directions = [n.partition(" (")[0] if n.startswith("Memcpy ") else "Memcpy Unknown" for n in names]
    return pd.Series(objects(codes, directions), index=copies.index, dtype="str")


def queue_full(report: KinetoReport, most: int = FULL) -> pd.DataFrame:
    """How long each stream's queue was full: rank, device, stream; longest (the most that waited in it);
    full_ns (time with ``most`` or more), share (of the time from first to last event of the rank);
    blocked_calls, blocked_ns (the launching calls that began meanwhile, and what they took of the CPU).

    CUDA lets 1,024 launches wait, about; the call that makes the next one returns when there is room again.
    """
    series = queue_series(report)
    keys = ["rank", "device", "stream"]
    following = series.groupby(keys)["start_ns"].shift(-1)
    series = series.assign(end_ns=following.fillna(series["start_ns"]).astype("int64"))
    full = series[series["queued"] >= most]
    table = series.groupby(keys)["queued"].max().rename("longest").reset_index()
    spent = (full["end_ns"] - full["start_ns"]).groupby([full[key] for key in keys]).sum().rename("full_ns")
    table = table.merge(spent, how="left", left_on=keys, right_index=True).fillna({"full_ns": 0})
    whole = {rank: high - low for rank, (low, high) in _extents(report).items()}
    table["share"] = table["full_ns"] / table["rank"].map(whole).clip(lower=1)
    ops, api = report.gpu_ops(), report.api()
    row = launch_rows(ops, api)
    calls = api[api["name"].isin(QUEUED_BY)]
    rows = []
    for rank, device, stream in table[keys].itertuples(index=False):
        here = full[(full["rank"] == rank) & (full["device"] == device) & (full["stream"] == stream)]
        mine = (ops["rank"] == rank) & (ops["device"] == device) & (ops["stream"] == stream)
        own = calls[np.isin(calls.index, row[mine.to_numpy() & (row >= 0)])]
        start = own["start_ns"].to_numpy(np.int64)
        place = np.searchsorted(here["start_ns"].to_numpy(np.int64), start, "right") - 1
        inside = np.append(here["end_ns"].to_numpy(np.int64), 0)[place] > start
        inside &= place >= 0
        rows.append((int(inside.sum()), int(duration_ns(own)[inside].sum())))
    blocked = pd.DataFrame(rows, columns=["blocked_calls", "blocked_ns"])
    whole_numbers = dict.fromkeys(("full_ns", "blocked_calls", "blocked_ns"), "int64")
    return pd.concat([table, blocked], axis=1).astype(whole_numbers)


def _extents(report: KinetoReport) -> dict[int, tuple[int, int]]:
    """From first to last operator, call, annotation or operation on a GPU of each rank."""
    tables = (report.ops(), report.api(), report.annotations(), report.gpu_ops())
    spans = pd.concat([table[["rank", "start_ns", "end_ns"]] for table in tables])
    found = spans.groupby("rank").agg({"start_ns": "min", "end_ns": "max"})
    return {int(str(rank)): (int(low), int(high)) for rank, low, high in found.itertuples()}


# ---- kernels that come together


@dataclass(frozen=True, eq=False)
class _Sums:
    """A number for every stretch of a list of names: the same for stretches with the same names."""

    sums: NDArray[np.uint64]
    scale: NDArray[np.uint64]

    @classmethod
    def of(cls, codes: Ints) -> _Sums:
        """``codes``: a number for each name."""
        draw = np.random.default_rng(17)
        values = draw.integers(1, 1 << 63, int(codes.max(initial=-1)) + 1, np.uint64)
        base = int(draw.integers(1, 1 << 62)) * 2 + 1
        steps = np.ones((2, len(codes) + 1), np.uint64)
        steps[:, 1:] = np.array([[base], [pow(base, -1, 1 << 64)]], np.uint64)
        power, back = np.cumprod(steps, axis=1, dtype=np.uint64)
        sums = np.zeros(len(codes) + 1, np.uint64)
        np.cumsum(values[codes] * power[:-1], out=sums[1:])
        return cls(sums, back)

    def __call__(self, low: Ints, high: Ints) -> NDArray[np.uint64]:
        """The numbers of the stretches [low, high)."""
        return (self.sums[high] - self.sums[low]) * self.scale[low]


def kernel_sequences(report: KinetoReport, operator: str = "", least: int = LEAST_KERNELS) -> pd.DataFrame:
    """Which kernels operators and annotations launch one after the other, the most frequent first.

    rank; operator; kernels (in one occurrence, at least ``least``); count; gpu_ns, cpu_ns (over all
    occurrences: of the kernels, copies and memsets, and of the operator); sequence (their short names in the
    order of their launches; one that comes several times in a row once, with “× n”). Of operators inside
    each other with the same kernels, the outermost has a row; with ``operator``, only the outermost of those
    whose names contain it.
    """
    tree = kineto_tree.build(report)
    ops = report.gpu_ops()
    where = kineto_links.launch_events(report, tree)
    known = np.flatnonzero(where >= 0)
    order = known[np.lexsort((ops["start_ns"].to_numpy(np.int64)[known], where[known]))]
    codes, names = pd.factorize(ops["short_name"].to_numpy(object)[order])
    events, kinds = tree.events, tree.events["kind"].to_numpy(object)
    size = tree.inclusive(np.ones(len(events), np.int64))
    place = np.arange(len(events))
    low, high = (np.searchsorted(where[order], edge) for edge in (place, place + size))
    wanted = np.isin(kinds, ("op", "annotation"))
    if operator:
        wanted &= named_like(events["name"], re.escape(operator))
        around = np.append(kineto_links.nearest(tree, wanted), -1)[tree.parent]
        wanted &= around < 0
    else:
        wanted &= ~named_like(events["name"], f"^{STEP}")
        around = np.append(kineto_links.nearest(tree, wanted), -1)[tree.parent]
        wanted &= (around < 0) | ((high - low)[around] > high - low)
    rows = np.flatnonzero(wanted & (high - low >= least))
    spent = np.concatenate(([0], np.cumsum(duration_ns(ops)[order])))
    table = pd.DataFrame(
        {
            "rank": events["rank"].to_numpy(np.int64)[rows],
            "operator": events["name"].array[rows],
            "kernels": (high - low)[rows],
            "sum": _Sums.of(codes)(low[rows], high[rows]),
            "gpu_ns": (spent[high] - spent[low])[rows],
            "cpu_ns": duration_ns(events)[rows],
            "first": low[rows],
        }
    )
    keys = ["rank", "operator", "kernels", "sum"]
    grouped = table.groupby(keys, sort=False)
    found = grouped[["gpu_ns", "cpu_ns"]].sum().assign(count=grouped.size(), first=grouped["first"].min())
    found = found.reset_index().sort_values(["rank", "count", "gpu_ns"], ascending=[True, False, False])
    found["sequence"] = [
        _told([str(names[code]) for code in codes[begin : begin + many]])
        for begin, many in zip(found["first"].tolist(), found["kernels"].tolist(), strict=True)
    ]
    columns = ["rank", "operator", "kernels", "count", "gpu_ns", "cpu_ns", "sequence"]
    return found[columns].astype({"operator": "str", "sequence": "str"}).reset_index(drop=True)


def kernel_runs(report: KinetoReport) -> pd.DataFrame:
    """Sequences of two to eight kernels, not all alike, that come again on a stream, the most time first.

    rank; device; stream; kernels (of one sequence); count (not overlapping); gpu_ns (of the kernels, in all);
    gaps_ns (between them, in all: what one fused kernel would not have); sequence. One that is always part of
    the same longer one has no row.
    """
    keys = ["rank", "device", "context", "stream"]
    kernels = report.kernels()[[*keys, "start_ns", "end_ns", "short_name"]]
    parts = []
    for _, mine in kernels.groupby(keys, sort=True):
        mine = mine.sort_values("start_ns", kind="stable")
        of = {key: int(mine[key].iloc[0]) for key in ("rank", "device", "stream")}
        parts.append(_runs(mine).assign(**of))
    columns = ["rank", "device", "stream", "kernels", "count", "gpu_ns", "gaps_ns", "sequence"]
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    whole = whole.sort_values(["rank", "gpu_ns"], ascending=[True, False], kind="stable", ignore_index=True)
    return whole[columns].astype({**dict.fromkeys(columns[:-1], "int64"), "sequence": "str"})


def _runs(kernels: pd.DataFrame) -> pd.DataFrame:
    """The repeated sequences of one stream, whose kernels are sorted by start."""
    codes, names = pd.factorize(kernels["short_name"].to_numpy(object))
    start, end = (kernels[c].to_numpy(np.int64) for c in ("start_ns", "end_ns"))
    spent = np.concatenate(([0], np.cumsum(duration_ns(kernels))))
    gap = np.concatenate(([0], np.cumsum(np.maximum(start[1:] - end[:-1], 0)), [0]))
    sums = _Sums.of(codes)
    longest = min(LONGEST_RUN, len(codes))
    rows = []
    following = _alike(sums, len(codes), 2)
    for length in range(2, longest + 1):
        (group, order, count), following = following, _alike(sums, len(codes), length + 1)
        wider, _, often = following
        bounds = np.concatenate(([0], np.cumsum(count)))
        first = order[bounds[:-1]]
        longer = np.zeros(len(count), np.bool_)
        for shift in (0, -1) if len(wider) else ():
            at = first + shift
            there = (at >= 0) & (at < len(wider))
            longer |= there & (often[wider[np.where(there, at, 0)]] == count)
        time = np.bincount(group, spent[length:] - spent[:-length])
        chosen = np.flatnonzero((count > 1) & ~longer)
        for one in chosen[np.argsort(-time[chosen], kind="stable")[:MOST_RUNS]].tolist():
            own = codes[first[one] : first[one] + length]
            if any((own[period:] == own[:-period]).all() for period in range(1, length // 2 + 1)):
                continue  # a shorter one, several times
            at = _apart(order[bounds[one] : bounds[one + 1]], length)
            ns = int((spent[at + length] - spent[at]).sum()), int((gap[at + length - 1] - gap[at]).sum())
            rows.append((length, len(at), *ns, _told([str(names[code]) for code in own])))
    columns = ["kernels", "count", "gpu_ns", "gaps_ns", "sequence"]
    table = pd.DataFrame(rows, columns=columns).sort_values("gpu_ns", ascending=False, kind="stable")
    return table[table["count"] > 1].head(MOST_RUNS)


def _alike(sums: _Sums, count: int, length: int) -> tuple[Ints, Ints, Ints]:
    """Of all stretches of a length: the group of each, their places by group, how many each group has."""
    low = np.arange(max(count - length + 1, 0))
    keys = sums(low, low + length)
    order = np.argsort(keys, kind="stable")
    new = np.append(True, keys[order[1:]] != keys[order[:-1]])[: len(order)]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(new) - 1
    return group, order, np.bincount(group)


def _apart(places: Ints, length: int) -> Ints:
    """Those of ascending places that lie at least so far from the last one taken."""
    if len(places) < 2 or int(np.diff(places).min()) >= length:
        return places
    taken = [int(places[0])]
    for place in places.tolist():
        if place >= taken[-1] + length:
            taken.append(place)
    return np.array(taken, np.int64)


def _told(names: list[str]) -> str:
    """Names in a row, equal neighbors once."""
    texts = []
    for name, some in itertools.groupby(names):
        many = len(list(some))
        texts.append(name if many == 1 else f"{name} × {many}")
    return " | ".join(texts[:MOST_NAMES]) + (
        f" | … {len(texts) - MOST_NAMES} more" if len(texts) > MOST_NAMES else ""
    )
