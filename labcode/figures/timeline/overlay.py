"""A report in; what a trace shows beside its events out: queues and bandwidth as counters, and the critical
path, a track of its own with arrows where it goes to another thread or stream.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from labcode.analysis.timeline.critical_path import contradictions, critical_path
from labcode.analysis.timeline.critical_path import paths as paths_of_processes
from labcode.analysis.timeline.intervals import Window
from labcode.analysis.timeline.joins import in_window
from labcode.analysis.timeline.launch import queue_changes
from labcode.analysis.timeline.summary import bandwidth_changes
from labcode.figures.timeline.rows import Report
from labcode.reports.columns import Ints
from labcode.reports.common import MOST_WALKED
from labcode.reports.kineto.report import KinetoReport
from labcode.reports.nsys.report import NsysReport

PATH = 1 << 26  # numbers of the critical paths' groups begin here
CATEGORY = "critical path"
Place = Callable[[int, int, int, int, int], tuple[int, int] | None]
Ends = tuple[Ints, Ints, Ints]  # groups, tracks, times
_Series = tuple[int, int, str, str, list[int], list[float]]


@dataclass(frozen=True)
class Path:
    """The critical path of a rank or process: its table, titles, and what contradicts it."""

    rank: int
    title: str
    what: str
    table: pd.DataFrame
    contradictions: tuple[str, ...]


def series(report: Report, window: Window | None) -> Iterator[_Series]:
    """The queue of each stream, the bandwidth of copies and memsets by direction.

    process, GPU, name, unit, times and the value from each on.
    """
    keys = ["pid", "device", "context", "stream"]
    ops = report.gpu_ops()
    several = ops[keys].drop_duplicates().groupby(["pid", "device"])["context"].nunique().max() > 1
    for (pid, device, context, stream), mine in queue_changes(ops, report.api(), keys).groupby(keys):
        name = f"queue of stream {stream}" + (f", context {context}" if several else "")
        yield _int(pid), _int(device), name, "launches", *_values(mine, "queued", window)
    columns = ["pid", "device", "start_ns", "end_ns", "bytes"]
    copies, sets = report.memcpys(), report.memsets()
    moved = [copies[columns].assign(what=copies["copy_kind"]), sets[columns].assign(what="memset")]
    changes = bandwidth_changes(pd.concat(moved, ignore_index=True), ["pid", "device", "what"])
    for (pid, device, what), mine in changes.groupby(["pid", "device", "what"]):
        yield _int(pid), _int(device), f"bandwidth {what}", "GB/s", *_values(mine, "gb_per_s", window)


def _int(value: object) -> int:
    return int(str(value))


def _values(changes: pd.DataFrame, column: str, window: Window | None) -> tuple[list[int], list[float]]:
    """The last value at each moment, from the one before the window on."""
    changes = changes.drop_duplicates("start_ns", keep="last")
    if window is not None:
        low = max(int(np.searchsorted(changes["start_ns"], window[0], "right")) - 1, 0)
        changes = changes.iloc[low : int(np.searchsorted(changes["start_ns"], window[1], "right"))]
        changes = changes.assign(start_ns=changes["start_ns"].clip(lower=window[0]))
    return changes["start_ns"].to_list(), changes[column].round(3).to_list()


def found_paths(report: Report, window: Window | None) -> list[Path]:
    """The critical path of each rank or process; none of what is neither a capture nor a trace, and of what
    holds too many operations (`too_many`)."""
    if too_many(report, window):
        return []
    if isinstance(report, KinetoReport):
        of, found = "rank", [mine for _, mine in critical_path(report, window).groupby("rank")]
    elif isinstance(report, NsysReport):
        of, found = "process", [path for path in paths_of_processes(report, window) if len(path)]
    else:
        return []
    ops = report.gpu_ops()
    ops = ops if of == "rank" else ops.assign(rank=ops["pid"])
    made = []
    for mine in found:
        rank = int(mine["rank"].iloc[0])
        title = CATEGORY + (f", {of} {rank}" if len(found) > 1 else "")
        against = tuple(contradictions(mine, ops, of=of))
        made.append(Path(rank, title, "what decides the time", mine, against))
    return made


def too_many(report: Report, window: Window | None) -> bool:
    """Whether a window holds so many operations that its path is not looked for: it takes 1 KB for each."""
    ops = report.gpu_ops()
    return len(ops) > MOST_WALKED and len(ops if window is None else in_window(ops, window)) > MOST_WALKED


def crossings(path: pd.DataFrame, place: Place) -> tuple[Ints, Ends, Ends] | None:
    """Where the path changes the track: its row, and group, track and time before and after; None: nowhere.

    ``place`` gives the numbers (of group and track) of a stream or, with the device -1, of a thread's calls
    (pid, device, context, stream, tid); None where that is not shown.
    """
    columns = ["pid", "device", "context", "stream", "tid"]
    places, which = np.unique(path[columns].to_numpy(np.int64), axis=0, return_inverse=True)
    shown = [place(*one) for one in places.tolist()]
    which = which.reshape(-1)
    numbers = np.array([one or (-1, -1) for one in shown], np.int64).reshape(-1, 2)
    rows = np.flatnonzero(which[1:] != which[:-1])
    rows = rows[(numbers[which[rows], 1] >= 0) & (numbers[which[rows + 1], 1] >= 0)]
    if not len(rows):
        return None
    at = path["start_ns"].to_numpy(np.int64)[rows + 1]
    before, after = numbers[which[rows]], numbers[which[rows + 1]]
    return rows, (before[:, 0], before[:, 1], at - 1), (after[:, 0], after[:, 1], at)
