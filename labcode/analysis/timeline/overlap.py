"""What ran at the same time on a GPU: operations in, times of overlap and levels of concurrency out."""

import numpy as np
import pandas as pd

from labcode.analysis.kernel.buckets import COMMUNICATION
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import extent, in_window, named_like, spans
from labcode.reports.frames import is_any

_NCCL = r"^nccl"
_NO_MEETING = r"SendRecv|Broadcast|(?<!All)Reduce(?!Scatter)"
_BESIDE = 0.02  # of a kernel's time: from there on it ran beside something
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


def _width(ops: pd.DataFrame, window: tuple[int, int] | None) -> int:
    low, high = extent(ops) if window is None else window
    return max(high - low, 0)
