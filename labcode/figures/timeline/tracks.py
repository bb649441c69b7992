"""A report in; its events, a table at a time, each placed on a track, out.

A track is one line of a viewer: the NVTX ranges or the CUDA calls of a thread, or a stream of a GPU. Events
of one track nest or follow each other; those that overlap otherwise (kernels of a graph that share a stream,
start/end ranges) get tracks of their own. What `labcode.figures.timeline.chrome_trace` and
`labcode.figures.pages.interactive` have in common.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from labcode.analysis.timeline.intervals import Window
from labcode.analysis.timeline.nvtx import labels
from labcode.analysis.timeline.overlap import is_communication
from labcode.figures.timeline.rows import Report, api_role, assign_lanes, process_names, rank_numbers
from labcode.reports.columns import Ints
from labcode.reports.common import MEASURED
from labcode.reports.frames import rows_of

_COPY_ROLES = {"H2D": "h2d", "D2H": "d2h", "P2P": "p2p"}
_MARKS, _NVTX, _RANGES, _API = -1, 0, 1, 2  # the lines of a thread, in this order
_NAMES = {_MARKS: "annotations", _NVTX: "NVTX", _RANGES: "NVTX start/end", _API: "CUDA API"}


@dataclass(frozen=True, order=True)
class Track:
    """One line: the process; the GPU (-1: the CPU); context and stream, or thread (-1: the main one) and what
    of it; the number among lines that overlap.
    """

    pid: int
    device: int
    where: int
    line: int
    lane: int

    @property
    def on_gpu(self) -> bool:
        """Whether it is a stream."""
        return self.device >= 0


def calls_track(pid: int, tid: int) -> Track:
    """The line of a thread's calls."""
    return Track(pid, -1, -1 if pid == tid else tid, _API, 0)


def described(track: Track) -> str:
    """What a track is of, for programs: `labcode.reports.perfetto.open` reads it."""
    if track.on_gpu:
        return f"pid {track.pid}, GPU {track.device}, context {track.where}, stream {track.line}"
    return f"pid {track.pid}, tid {track.pid if track.where < 0 else track.where}"


@dataclass(frozen=True)
class Batch:
    """Events of one kind: the report's columns with label and role added, by start and the longest first.

    place: for each event the position of its track in tracks.
    """

    kind: str  # 'kernel', 'memcpy', 'memset', 'graph', 'api', 'nvtx'
    events: pd.DataFrame
    tracks: list[Track]
    place: Ints


def batches(report: Report, window: Window | None = None) -> Iterator[Batch]:
    """All events that overlap the window: the GPU's, then calls, then ranges and marks."""
    yield from _gpu(report, window)
    yield _api(report, window)
    yield _nvtx(report, window)


def group_names(tracks: list[Track], threads: pd.DataFrame) -> dict[tuple[int, int], str]:
    """Names of (process, GPU), GPU -1 being the process's threads, in the order of display.

    Processes are ordered by the first GPU that they use; threads is the report's table.
    """
    groups = sorted({(track.pid, track.device) for track in tracks})
    devices: dict[int, list[int]] = {pid: [] for pid, _ in groups}
    for pid, device in groups:
        devices[pid] += [device] * (device >= 0)
    called = process_names(devices, threads)
    ranks = rank_numbers(threads)
    several = sum(bool(used) for used in devices.values()) > 1
    names = {}
    for pid, device in sorted(groups, key=lambda group: ((devices[group[0]] or [1 << 30])[0], *group)):
        whose = f", rank {ranks[pid]}" if pid in ranks else f", process {pid}"
        gpu = f"GPU {device}" + (whose if several else "")
        names[pid, device] = called[pid] if device < 0 else gpu
    return names


def track_names(tracks: list[Track], threads: dict[tuple[int, int], str]) -> list[str]:
    """What to write beside each track; threads: names of (process, thread)."""
    contexts: dict[tuple[int, int], set[int]] = {}
    for track in tracks:
        contexts.setdefault((track.pid, track.device), set()).add(track.where)
    several = {group for group, found in contexts.items() if len(found) > 1}
    return [_track_name(track, (track.pid, track.device) in several, threads) for track in tracks]


def _track_name(track: Track, several_contexts: bool, threads: dict[tuple[int, int], str]) -> str:
    more = f" ({track.lane + 1})" if track.lane else ""
    if track.on_gpu:
        context = f", context {track.where}" if several_contexts else ""
        return f"stream {track.line}{context}{more}"
    tid = track.pid if track.where < 0 else track.where
    name = threads.get((track.pid, tid), "")
    thread = "main thread" if track.where < 0 else f"thread {tid}"
    if name and track.where >= 0:
        thread += f" {name}"
    return f"{_NAMES[track.line]}{more}, {thread}"


def thread_names(report: Report) -> dict[tuple[int, int], str]:
    """Names of (process, thread)."""
    table = report.threads()
    return {
        (int(pid), int(tid)): str(name)
        for pid, tid, name in zip(table["pid"], table["tid"], table["name"], strict=True)
    }


def _gpu(report: Report, window: Window | None) -> Iterator[Batch]:
    """The four kinds of operations; tracks are shared among them, so lanes are assigned to all at once."""
    tables = {
        "kernel": report.kernels(),
        "memcpy": report.memcpys(),
        "memset": report.memsets(),
        "graph": report.graph_launches(),
    }
    tables = {kind: _sorted(_overlapping(table, window)) for kind, table in tables.items()}
    keys = ["pid", "device", "context", "stream"]
    light = [table[[*keys, "start_ns", "end_ns"]] for table in tables.values()]
    everything = pd.concat(light, ignore_index=True)
    lane = np.zeros(len(everything), np.int64)
    start, end = everything["start_ns"].to_numpy("int64"), everything["end_ns"].to_numpy("int64")
    for rows in everything.groupby(keys).indices.values():
        lane[rows] = assign_lanes(start[rows], end[rows])
    low = 0
    for kind, table in tables.items():
        high = low + len(table)
        name, role = _named(kind, table)
        tracks, place = _placed(*(table[key].to_numpy("int64") for key in keys), lane[low:high])
        yield Batch(kind, table.assign(label=name, role=role), tracks, place)
        low = high


def _named(kind: str, table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Names and roles of operations."""

    def same(value: str) -> pd.Series:
        return pd.Series(value, index=table.index, dtype="str")

    if kind == "kernel":
        return table["short_name"], same("kernel").mask(is_communication(table), "nccl")
    if kind == "memcpy":
        copy = table["copy_kind"].astype("str")
        role = copy.str.removeprefix("managed ").map(_COPY_ROLES).fillna("d2d")
        return same("memcpy ") + copy, role
    if kind == "graph" and "graph_id" in table:
        return same("graph ") + table["graph_id"].astype("str"), same("graph")
    return same(kind), same(kind)


def _api(report: Report, window: Window | None) -> Batch:
    calls = _sorted(_overlapping(report.api(), window))
    roles = {name: api_role(str(name)) for name in calls["name"].unique()}
    calls = calls.assign(label=calls["name"], role=calls["name"].map(roles).astype("str"))
    tracks, place = _on_threads(calls, np.full(len(calls), _API, np.int64), np.zeros(len(calls), np.int64))
    return Batch("api", calls, tracks, place)


def _nvtx(report: Report, window: Window | None) -> Batch:
    """Ranges and marks; a range still open ends with the window, or else with the last event."""
    ranges = report.nvtx()
    last = window[1] if window else report.window()[1]
    is_open = ranges["end_ns"].isna() & (ranges["event_type"] != "mark")
    start = ranges["start_ns"].astype("Int64")
    end = ranges["end_ns"].astype("Int64").where(~is_open, np.maximum(last, start))
    ranges = ranges.assign(end_ns=end.fillna(start).astype("int64"), still_open=is_open, label=labels(ranges))
    ranges = _sorted(_overlapping(ranges, window))
    own = (ranges["event_type"] == "start_end").to_numpy()
    nested = np.flatnonzero((ranges["label"] != MEASURED).to_numpy())
    lane, depth = np.zeros(len(ranges), np.int64), np.zeros(len(ranges), np.int64)
    inner = ranges.iloc[nested]
    begin, until = ranges["start_ns"].to_numpy("int64"), ranges["end_ns"].to_numpy("int64")
    for places in inner.groupby([inner["pid"], inner["tid"], own[nested]]).indices.values():
        rows = nested[places]
        level = assign_lanes(begin[rows], until[rows])
        (lane if own[rows[0]] else depth)[rows] = level
    role = np.array(["nvtx1", "nvtx2", "nvtx3"], dtype=object)[np.minimum(depth, 2)]
    marks = _MARKS if "rank" in ranges else _NVTX  # as torch.profiler's traces call them
    line = np.where(own, _RANGES, marks).astype(np.int64)
    tracks, place = _on_threads(ranges, line, lane)
    return Batch("nvtx", ranges.assign(role=pd.Series(role, ranges.index, dtype="str")), tracks, place)


def _on_threads(events: pd.DataFrame, line: Ints, lane: Ints) -> tuple[list[Track], Ints]:
    pid, tid = events["pid"].to_numpy("int64"), events["tid"].to_numpy("int64")
    return _placed(pid, np.full(len(pid), -1, np.int64), np.where(pid == tid, -1, tid), line, lane)


def _placed(*columns: Ints) -> tuple[list[Track], Ints]:
    """Distinct tracks, and the position of each event's."""
    table = pd.DataFrame(dict(enumerate(columns)))
    place = np.asarray(table.groupby(list(table.columns), sort=True).ngroup(), np.int64)
    rows = table.drop_duplicates().sort_values(list(table.columns))
    return [Track(*(int(value) for value in row)) for row in rows.to_numpy()], place


def _overlapping(table: pd.DataFrame, window: Window | None) -> pd.DataFrame:
    if window is None:
        return table
    some = (table["end_ns"] >= window[0]) & (table["start_ns"] <= window[1])
    return rows_of(table, some.to_numpy(np.bool_))


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    start = table["start_ns"].to_numpy("int64")
    if (start[1:] > start[:-1]).all():
        return table
    return table.iloc[np.lexsort((-table["end_ns"].to_numpy("int64"), start))]
