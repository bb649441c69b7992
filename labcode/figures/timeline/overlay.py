"""A report in; what a Chrome trace shows beside its events out: queues and bandwidth as counters, and the
critical path, a track of its own with arrows where it goes to another thread or stream.
"""

import json
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from labcode.analysis.timeline.critical_path import critical_path
from labcode.analysis.timeline.critical_path import paths as paths_of_processes
from labcode.analysis.timeline.launch import queue_changes
from labcode.analysis.timeline.path_check import contradictions
from labcode.analysis.timeline.transfers import bandwidth_changes
from labcode.figures.timeline.groups import Report
from labcode.figures.timeline.rows import Window
from labcode.reports.kineto.report import KinetoReport
from labcode.reports.nsys.report import NsysReport

PATH = 1 << 26  # numbers of the critical paths' groups begin here
CATEGORY = "critical path"
Number = Callable[[int, int, int, int], tuple[int, int] | None]
GroupNumber = Callable[[int, int], int | None]


def microseconds(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals, exactly."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


def counters(report: Report, window: Window | None, group: GroupNumber) -> Iterator[str]:
    """Counter events: the queue of each stream, the bandwidth of copies and memsets by direction.

    ``group`` gives the number of the group of a process' GPU, None where it is not shown.
    """
    keys = ["pid", "device", "context", "stream"]
    ops = report.gpu_ops()
    several = ops[keys].drop_duplicates().groupby(["pid", "device"])["context"].nunique().max() > 1
    for (pid, device, context, stream), mine in queue_changes(ops, report.api(), keys).groupby(keys):
        name = f"queue of stream {stream}" + (f", context {context}" if several else "")
        yield from _counter(mine, "queued", name, "launches", window, group(_int(pid), _int(device)))
    columns = ["pid", "device", "start_ns", "end_ns", "bytes"]
    copies, sets = report.memcpys(), report.memsets()
    moved = [copies[columns].assign(what=copies["copy_kind"]), sets[columns].assign(what="memset")]
    changes = bandwidth_changes(pd.concat(moved, ignore_index=True), ["pid", "device", "what"])
    for (pid, device, what), mine in changes.groupby(["pid", "device", "what"]):
        number = group(_int(pid), _int(device))
        yield from _counter(mine, "gb_per_s", f"bandwidth {what}", "GB/s", window, number)


def _int(value: object) -> int:
    return int(str(value))


def _counter(
    changes: pd.DataFrame, column: str, name: str, unit: str, window: Window | None, group: int | None
) -> Iterator[str]:
    """The last value at each moment, from the one before the window on."""
    if group is None:
        return
    changes = changes.drop_duplicates("start_ns", keep="last")
    if window is not None:
        low = max(int(np.searchsorted(changes["start_ns"], window[0], "right")) - 1, 0)
        changes = changes.iloc[low : int(np.searchsorted(changes["start_ns"], window[1], "right"))]
        changes = changes.assign(start_ns=changes["start_ns"].clip(lower=window[0]))
    head = f'{{"ph":"C","name":{json.dumps(name)},"pid":{group},"tid":0,"ts":'
    for ns, value in zip(changes["start_ns"].to_list(), changes[column].round(3).to_list(), strict=True):
        yield f'{head}{microseconds(ns)},"args":{{"{unit}":{value}}}}}'


def paths(report: Report, window: Window | None, track: Number) -> Iterator[str]:
    """The critical path of each rank or process: named tracks, slices, arrows.

    ``track`` gives the numbers (of group and track) of a stream (pid, device, context, stream) or of a
    thread's calls (pid, -1, -1, tid); None where that is not shown.
    """
    if isinstance(report, KinetoReport):
        of, found = "rank", [mine for _, mine in critical_path(report, window).groupby("rank")]
    elif isinstance(report, NsysReport):
        of, found = "process", [path for path in paths_of_processes(report, window) if len(path)]
    else:
        return
    ops = report.gpu_ops()
    ops = ops if of == "rank" else ops.assign(rank=ops["pid"])
    for place, mine in enumerate(found):
        rank = int(mine["rank"].iloc[0])
        number = PATH + rank
        name = CATEGORY + (f", {of} {rank}" if len(found) > 1 else "")
        for what, key, value in (
            ("process_name", "name", name),
            ("process_sort_index", "sort_index", -1),
            ("thread_name", "name", "what decides the time"),
            *(("process_labels", "labels", line) for line in contradictions(mine, ops, of=of)),
        ):
            yield json.dumps({"ph": "M", "name": what, "pid": number, "tid": 1, "args": {key: value}})
        names = {text: json.dumps(text) for text in set(mine["name"]) | set(mine["kind"])}
        columns = ("start_ns", "duration_ns", "kind", "name")
        for start, spent, kind, text in zip(*(mine[c].to_list() for c in columns), strict=True):
            yield (
                f'{{"ph":"X","name":{names[text or kind]},"cat":"{CATEGORY}","pid":{number},"tid":1,'
                f'"ts":{microseconds(start)},"dur":{microseconds(spent)},"args":{{"kind":{names[kind]}}}}}'
            )
        yield from _arrows(mine, place << 32, track)


def _arrows(path: pd.DataFrame, first: int, track: Number) -> Iterator[str]:
    """From track to track, where the path changes it; their numbers are above ``first``."""
    columns = ["pid", "device", "context", "stream", "tid"]
    places = path[columns].to_numpy(np.int64)
    changed = np.flatnonzero((places[1:] != places[:-1]).any(axis=1))
    times = path["start_ns"].to_numpy(np.int64)
    for row in changed.tolist():
        ends = []
        for pid, device, context, stream, tid in places[[row, row + 1]].tolist():
            ends.append(track(pid, device, context, stream) if device >= 0 else track(pid, -1, -1, tid))
        if ends[0] is None or ends[1] is None:
            continue
        head = f'"name":"{CATEGORY}","cat":"{CATEGORY}","id":{first + row + 1}'
        at = int(times[row + 1])
        for phase, (pid, tid), ns in (("s", ends[0], at - 1), ('f","bp":"e', ends[1], at)):
            yield f'{{"ph":"{phase}",{head},"pid":{pid},"tid":{tid},"ts":{microseconds(ns)}}}'
