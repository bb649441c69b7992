"""What ran at the same time on GPUs: operations in; times of overlap, levels of concurrency, waits out."""

import numpy as np
import pandas as pd

from labcode.analysis.buckets import COMMUNICATION
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import extent, in_window, named_like, spans
from labcode.reports.columns import Bools, Ints
from labcode.reports.frames import is_any

_NCCL = r"^nccl"
_NO_MEETING = r"SendRecv|Broadcast|(?<!All)Reduce(?!Scatter)"
_BESIDE = 0.02  # of a kernel's time: from there on it ran beside something
TOGETHER = 0.9  # of the sets of collectives overlap in time on all GPUs, where they belong together
_COPIES = {"h2d_ns": r"\bH2D$", "d2h_ns": r"\bD2H$"}


def is_communication(ops: pd.DataFrame) -> pd.Series:
    """Which rows are kernels between GPUs, by their name: NCCL's, NVSHMEM's, all-reduces of others."""
    return pd.Series(named_like(ops["name"], COMMUNICATION.pattern), index=ops.index)


def is_meeting(ops: pd.DataFrame) -> pd.Series:
    """Which rows are collectives that no rank can leave before all have come.

    Of NCCL's that is all but broadcasts, whose root sends and goes on, reductions to one rank, in which all
    but the root do, and what goes between two.
    """
    some = named_like(ops["short_name"], _NO_MEETING)
    return pd.Series(named_like(ops["short_name"], _NCCL) & ~some, index=ops.index)


def is_broadcast(ops: pd.DataFrame) -> pd.Series:
    """Which rows are NCCL's broadcasts: who receives waits for the root, and the root for nobody."""
    return pd.Series(named_like(ops["short_name"], r"^nccl.*Broadcast"), index=ops.index)


def time_shares(ops: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """What each GPU did in the window, each ns once: device; computing, communication (while nothing
    computes), copies and memsets (while neither runs), idle; all in ns.
    """
    talks, kinds = is_communication(ops).to_numpy(), ops["kind"]
    works = is_any(kinds, "kernel", "graph")
    devices, place = np.unique(ops["device"].to_numpy(np.int64), return_inverse=True)
    start, end = (np.clip(times, *window) for times in spans(ops))
    order = np.lexsort((start, place))
    found, before = {"device": devices}, np.zeros(len(devices), np.int64)
    for name, some in (
        ("computing_ns", works & ~talks),
        ("communication_ns", works),
        ("copies_ns", np.ones(len(ops), np.bool_)),
    ):
        mine = order[some[order]]
        covered = intervals.totals(place[mine], start[mine], end[mine], len(devices))
        found[name], before = covered - before, covered
    return pd.DataFrame({**found, "idle_ns": window[1] - window[0] - before})


def communication_overlap(ops: pd.DataFrame, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """Communication and computing of each GPU; takes `kernels` or `gpu_ops` of a report.

    device; window_ns (by default from the first to the last row); comm_ns (time with at least one kernel
    between GPUs running); compute_ns (at least one other kernel, or a whole graph); hidden_ns (both),
    exposed_ns (communication only); hidden_share (hidden_ns of comm_ns; nan without communication);
    comm_count (kernels between GPUs). Such a kernel also runs while it waits for the other GPUs, so comm_ns
    contains that wait.
    """
    low, high = extent(ops) if window is None else window
    table = in_window(ops, window)
    start, end = spans(table)
    talks, devices = is_communication(table).to_numpy(), table["device"].to_numpy(np.int64)
    if "kind" in table:
        some = is_any(table["kind"], "kernel", "graph")
        start, end, talks, devices = start[some], end[some], talks[some], devices[some]
    rows = []
    for device in np.unique(devices).tolist():
        here = devices == device
        comm, compute = ((start[some], end[some]) for some in (here & talks, here & ~talks))
        comm_ns, hidden = intervals.total(*comm), intervals.total(*intervals.intersect(*comm, *compute))
        rows.append(
            {
                "device": device,
                "window_ns": max(high - low, 0),
                "comm_ns": comm_ns,
                "compute_ns": intervals.total(*compute),
                "hidden_ns": hidden,
                "exposed_ns": comm_ns - hidden,
                "hidden_share": hidden / comm_ns if comm_ns else np.nan,
                "comm_count": len(comm[0]),
            }
        )
    whole = ("device", "window_ns", "comm_ns", "compute_ns", "hidden_ns", "exposed_ns")
    types = {**dict.fromkeys(whole, "int64"), "hidden_share": "float64", "comm_count": "int64"}
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def slowed_beside(kernels: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """What kernels take alone, and while ``others`` (operations of the same report) run on their GPU.

    By short_name and blocks (of the grid): alone_ns and beside_ns (mean time), alone_count, beside_count,
    ratio (beside by alone), alone_spread (90th by 10th percentile of the times alone: well above 1 where one
    name and grid work on several sizes, so that the means cannot be compared), spent_ns (all time beside);
    those with both, most spent_ns first. A kernel is beside the others from 2 % of its time on.
    """
    keys = ["short_name", "blocks"]
    found = kernels.assign(
        blocks=kernels["grid_x"] * kernels["grid_y"] * kernels["grid_z"],
        ns=kernels["end_ns"] - kernels["start_ns"],
        covered=0,
    )
    for device, mine in found.groupby("device"):
        talking = spans(others[others["device"] == device])
        found.loc[mine.index, "covered"] = intervals.covered_within(*talking, *spans(mine))
    beside = found["covered"] > _BESIDE * found["ns"]
    alone, slowed = (
        found[rows].groupby(keys)["ns"].agg(["mean", "count", "sum"]) for rows in (~beside, beside)
    )
    often, seldom = (found[~beside].groupby(keys)["ns"].quantile(share) for share in (0.9, 0.1))
    table = pd.DataFrame(
        {
            "alone_ns": alone["mean"],
            "beside_ns": slowed["mean"],
            "alone_count": alone["count"],
            "beside_count": slowed["count"],
            "ratio": slowed["mean"] / alone["mean"],
            "alone_spread": often / seldom,
            "spent_ns": slowed["sum"],
        }
    )
    return table.dropna().sort_values("spent_ns", ascending=False).reset_index()


def copy_compute_overlap(ops: pd.DataFrame, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """How much of the copying each GPU did while computing.

    device; window_ns; copy_ns, compute_ns (time with at least one copy, at least one kernel or graph);
    overlap_ns (both); busy_ns (copy, kernel or memset); hidden_share (overlap_ns of copy_ns; nan without
    copies); h2d_ns, d2h_ns (time with at least one copy of the direction). Graph launches count as compute:
    what runs inside is not known.
    """
    width = _width(ops, window)
    rows = []
    for device, mine in in_window(ops, window).groupby("device", sort=True):
        copies = spans(mine[mine["kind"] == "memcpy"])
        compute = spans(mine[mine["kind"].isin(["kernel", "graph"])])
        copy_ns, both = intervals.total(*copies), intervals.total(*intervals.intersect(*copies, *compute))
        rows.append(
            {
                "device": device,
                "window_ns": width,
                "copy_ns": copy_ns,
                "compute_ns": intervals.total(*compute),
                "overlap_ns": both,
                "busy_ns": intervals.total(*spans(mine)),
                "hidden_share": both / copy_ns if copy_ns else np.nan,
                **{
                    name: intervals.total(*spans(mine[named_like(mine["name"], pattern)]))
                    for name, pattern in _COPIES.items()
                },
            }
        )
    whole = ("device", "window_ns", "copy_ns", "compute_ns", "overlap_ns", "busy_ns")
    types = {**dict.fromkeys(whole, "int64"), "hidden_share": "float64", **dict.fromkeys(_COPIES, "int64")}
    return pd.DataFrame(rows, columns=list(types)).astype(types)


def stream_concurrency(ops: pd.DataFrame, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """For how long how many streams of each GPU were active.

    device; streams (0: the GPU was idle); time_ns; share (of the window, by default from the first to the
    last operation of all GPUs; nan when it is empty). The shares of a GPU add up to 1. Streams of different
    processes or contexts are different streams, whatever their numbers.
    """
    window = extent(ops) if window is None else window
    width = max(window[1] - window[0], 0)
    rows = []
    for device, mine in in_window(ops, window).groupby("device", sort=True):
        parts = [spans(stream) for _, stream in mine.groupby(["pid", "context", "stream"])]
        merged = [intervals.union(*part) for part in parts]
        start, end, level = intervals.concurrency(*intervals.joined(merged))
        time = np.bincount(level, weights=end - start, minlength=1).astype(np.int64)
        time[0] = width - time[1:].sum()
        for streams, ns in enumerate(time.tolist()):
            rows.append((device, streams, ns, ns / width if width else np.nan))
    columns = ["device", "streams", "time_ns", "share"]
    return pd.DataFrame(rows, columns=columns).astype({**dict.fromkeys(columns, "int64"), "share": "float64"})


def meets(ops: pd.DataFrame) -> Bools:
    """Which operations `waits` looks at."""
    some = is_any(ops["kind"], "kernel") & (is_meeting(ops).to_numpy() | is_broadcast(ops).to_numpy())
    return np.asarray(some, np.bool_)


def waits(ops: pd.DataFrame, launched: Ints) -> tuple[pd.DataFrame, str]:
    """The collectives that GPUs wait in for each other, with when the last came; and why there are none.

    ``launched`` has an entry for each operation, -1 where its call was not recorded. Columns: row (position
    in ``ops``), device, set (its number), start_ns, end_ns, until_ns (when the last GPU began, at most
    end_ns), last (whether this GPU came last). The k-th of a name belongs together on all GPUs; a recording
    may begin while GPUs still work at what was launched before, so where their numbers differ, operations
    whose launch was not recorded are left out. In a broadcast the root goes on at once: a GPU that left
    before the last one came has not waited there, and broadcasts that do not match are left out.
    """
    one_way = is_broadcast(ops).to_numpy()
    rows = np.flatnonzero(meets(ops))
    talk = ops.iloc[rows][["start_ns", "end_ns", "device", "short_name"]].assign(row=rows)
    talk = talk.assign(one_way=one_way[rows])
    talk = talk.sort_values("start_ns", kind="stable")
    none = talk.iloc[:0].assign(set=0, until_ns=0, last=False)
    if not _alike(talk[talk["one_way"]]) or talk.loc[talk["one_way"], "device"].nunique() == 1:
        talk = talk[~talk["one_way"]]
    if talk["device"].nunique() < 2:
        return none, "fewer than two GPUs communicate"
    if not _alike(talk):
        talk = talk[launched[talk["row"].to_numpy(np.int64)] >= 0]
    if not len(talk) or not _alike(talk) or talk["device"].nunique() < 2:
        return none, (
            "the GPUs ran different numbers of communication kernels, so that they cannot be matched "
            "(a trimmed capture, or several communicators)"
        )
    place = talk.groupby(["short_name", "device"]).cumcount().to_numpy(np.int64)
    codes = np.asarray(pd.factorize(talk["short_name"])[0], np.int64)
    talk = talk.assign(set=codes * (int(place.max(initial=0)) + 1) + place)
    by = talk.groupby("set")
    last, first_end = by["start_ns"].transform("max"), by["end_ns"].transform("min")
    met = (last < first_end)[~talk["one_way"]]
    together = float(met.mean()) if len(met) else 0.0
    if together < TOGETHER:
        return none, (
            f"only {100 * together:.1f} % of the collectives overlap on all GPUs: they cannot be matched "
            "(several communicators, or reports of several machines with clocks apart)"
        )
    until = np.minimum(last.to_numpy(np.int64), talk["end_ns"].to_numpy(np.int64))
    came = talk["start_ns"].to_numpy(np.int64)
    left = talk["one_way"].to_numpy() & (talk["end_ns"].to_numpy(np.int64) < last.to_numpy(np.int64))
    until = np.where(left, came, until)
    is_last = (came == last.to_numpy(np.int64)) & (by["start_ns"].transform("min").to_numpy(np.int64) < came)
    return talk.assign(until_ns=until, last=is_last), ""


def _alike(talk: pd.DataFrame) -> bool:
    """Whether the GPUs have the same number of each of these kernels."""
    counts = talk.groupby(["short_name", "device"]).size().unstack(fill_value=0)
    return bool((counts.nunique(axis=1) == 1).all())


def _width(ops: pd.DataFrame, window: tuple[int, int] | None) -> int:
    low, high = extent(ops) if window is None else window
    return max(high - low, 0)
