"""A report in; what a trace of it holds out, as columns of some thousand rows at a time: groups and tracks,
slices with their arguments, arrows, counters. What the writers of traces have in common.

Nothing is held of it but the report's tables: a writer takes a piece, writes it and lets it go.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline.intervals import Window
from labcode.analysis.timeline.joins import launch_rows
from labcode.figures.timeline.overlay import CATEGORY, PATH, crossings, found_paths, series
from labcode.figures.timeline.rows import Report
from labcode.figures.timeline.tracks import (
    Batch,
    Track,
    batches,
    calls_track,
    described,
    group_names,
    thread_names,
    track_names,
)
from labcode.reports.columns import Ints
from labcode.reports.nsys.counters import Counter
from labcode.reports.report import CountedReport

_ROWS = 1 << 14  # events put together at once
_GPU = 1 << 24  # numbers of (process, GPU) begin above those of processes
_COUNTERS = 1 << 25  # and those of GPUs' counters above these
_PATH_TRACK = 1  # of a critical path's group
Arguments = list[tuple[str, list[Any]]]  # by name a value for each event, None where it has none


@dataclass(frozen=True)
class Group:
    """Tracks that belong together: number, name, place among the others, and of each track the number, the
    name and its place; ``labels``: what else is said of it; ``described``: of each track what it is of.
    """

    number: int
    name: str
    place: int
    tracks: tuple[tuple[int, str, int | None], ...] = ()
    labels: tuple[str, ...] = ()
    described: tuple[str, ...] = ()


@dataclass(frozen=True)
class Slices:
    """Some events of one kind, by start and the longest first; ``ends``: -1 for a moment."""

    category: str
    names: list[str]
    groups: list[int]
    tracks: list[int]
    starts: list[int]
    ends: list[int]
    arguments: Arguments

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class Arrows:
    """Some arrows: of each the number, and the group, track and time at both ends."""

    category: str
    numbers: Ints
    begins: tuple[Ints, Ints, Ints]
    ends: tuple[Ints, Ints, Ints]


@dataclass(frozen=True)
class Samples:
    """Some values of a counter of a group, each from its time on; ``unit``: what stands beside the value."""

    group: int
    name: str
    unit: str
    times: list[int]
    values: list[float]


@dataclass
class Events:
    """What a trace of a report holds, in the window, by default all of it.

    ``count``: the events of the report that are in it, with the samples of the GPU's own counters; neither
    its arrows nor what is computed count.
    """

    report: Report
    window: Window | None = None
    count: int = 0
    _tracks: dict[Track, int] = field(default_factory=dict)
    _groups: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._batches = [(batch, *self._numbered(batch)) for batch in batches(self.report, self.window)]
        self._paths = found_paths(self.report, self.window)
        self._counters: list[Counter] = []
        if isinstance(self.report, CountedReport):
            found = self.report.counters()
            self._counters = [one.within(self.window) if self.window else one for one in found]
        self.count = sum(len(batch.events) for batch, _, _ in self._batches)
        self.count += sum(len(one.values) for one in self._counters)

    def groups(self) -> Iterator[Group]:
        """All groups with their tracks, in the order of display."""
        for path in self._paths:
            labels = tuple(path.contradictions)
            yield Group(PATH + path.rank, path.title, -1, ((_PATH_TRACK, path.what, None),), labels)
        tracks = sorted(self._tracks)
        members: dict[tuple[int, int], list[tuple[int, str, int | None]]] = {}
        of: dict[tuple[int, int], list[str]] = {}
        for track, text in zip(tracks, track_names(tracks, thread_names(self.report)), strict=True):
            mine = members.setdefault((track.pid, track.device), [])
            mine.append((self._tracks[track], text, len(mine)))
            of.setdefault((track.pid, track.device), []).append(described(track))
        for place, (key, name) in enumerate(group_names(tracks, self.report.threads()).items()):
            yield Group(self._groups[key], name, place, tuple(members[key]), described=tuple(of[key]))
        for device in sorted({one.device for one in self._counters if len(one.values)}):
            number = _COUNTERS + device
            yield Group(number, f"GPU {device}, its own counters", number)

    def layers(self) -> Iterator[list[Iterator[Slices]]]:
        """All slices and moments: iterators whose events share tracks, each of them in time's order."""
        on_gpu = [one for one in self._batches if one[0].kind not in ("api", "nvtx")]
        yield [_slices(*one) for one in on_gpu]
        for one in self._batches:
            if one[0].kind in ("api", "nvtx"):
                yield [_slices(*one)]
        for path in self._paths:
            yield [_path_slices(path.table, PATH + path.rank)]

    def starts(self) -> tuple[Ints, Ints]:
        """Of each event of the report its track and when it begins."""
        none: list[Ints] = [np.empty(0, np.int64)]
        tracks = [number[: len(batch.events)] for batch, number, _ in self._batches]
        starts = [batch.events["start_ns"].to_numpy("int64") for batch, _, _ in self._batches]
        return np.concatenate(none + tracks), np.concatenate(none + starts)

    def arrows(self) -> Iterator[Arrows]:
        """From calls to the first operation that each launched; then along the critical path."""
        columns = ["start_ns", "pid", "correlation"]
        tables = [
            batch.events[columns].assign(track=number, group=group)
            for batch, number, group in self._batches
            if batch.kind not in ("api", "nvtx")
        ]
        for batch, number, group in self._batches:
            if batch.kind == "api":
                yield from _launches(tables, batch.events, number, group)
        for place, path in enumerate(self._paths):
            found = crossings(path.table, self._place_of)
            if found is not None:
                rows, begins, ends = found
                yield Arrows(CATEGORY, (place << 32) + rows + 1, begins, ends)

    def samples(self) -> Iterator[Samples]:
        """Queues and bandwidths, then the GPU's own counters."""
        for pid, device, name, unit, times, values in series(self.report, self.window):
            number = self._groups.get((pid, device))
            if number is None:
                continue
            for low in range(0, len(times), _ROWS):
                yield Samples(number, name, unit, times[low : low + _ROWS], values[low : low + _ROWS])
        for counter in self._counters:
            yield from _own_samples(counter)

    def _numbered(self, batch: Batch) -> tuple[Ints, Ints]:
        """For each event the number of its track, unique in a trace, and that of its group."""
        tracks = [self._tracks.setdefault(track, len(self._tracks) + 1) for track in batch.tracks]
        groups = [self._group(track) for track in batch.tracks]
        return tuple(np.array([*n, 0], np.int64)[batch.place] for n in (tracks, groups))  # type: ignore[return-value]

    def _group(self, track: Track) -> int:
        key = (track.pid, track.device)
        number = _GPU + len(self._groups) if track.on_gpu else track.pid
        return self._groups.setdefault(key, number)

    def _place_of(self, pid: int, device: int, context: int, stream: int, tid: int) -> tuple[int, int] | None:
        """The numbers of the group and track of a stream, or of a thread's calls (device -1)."""
        wanted = Track(pid, device, context, stream, 0) if device >= 0 else calls_track(pid, tid)
        found = self._tracks.get(wanted)
        return None if found is None else (self._groups[wanted.pid, wanted.device], found)


def _slices(batch: Batch, number: Ints, group: Ints) -> Iterator[Slices]:
    for low in range(0, len(batch.events), _ROWS):
        rows = batch.events.iloc[low : low + _ROWS]
        high = low + len(rows)
        starts = rows["start_ns"].to_list()
        ends = np.maximum(rows["end_ns"].to_numpy("int64"), rows["start_ns"].to_numpy("int64"))
        if batch.kind == "nvtx":
            ends = np.where(rows["event_type"] == "mark", -1, ends)
        yield Slices(
            batch.kind,
            rows["label"].astype("str").to_list(),
            group[low:high].tolist(),
            number[low:high].tolist(),
            starts,
            ends.tolist(),
            _ARGUMENTS[batch.kind](rows),
        )


def _path_slices(path: pd.DataFrame, group: int) -> Iterator[Slices]:
    for low in range(0, len(path), _ROWS):
        rows = path.iloc[low : low + _ROWS]
        kinds = rows["kind"].to_list()
        names = [text or kind for text, kind in zip(rows["name"].to_list(), kinds, strict=True)]
        ends = (rows["start_ns"] + rows["duration_ns"]).to_list()
        count = len(rows)
        yield Slices(
            CATEGORY,
            names,
            [group] * count,
            [_PATH_TRACK] * count,
            rows["start_ns"].to_list(),
            ends,
            [("kind", kinds)],
        )


def _launches(
    tables: Sequence[pd.DataFrame], calls: pd.DataFrame, number: Ints, group: Ints
) -> Iterator[Arrows]:
    ops = pd.concat(tables, ignore_index=True).sort_values("start_ns", kind="stable", ignore_index=True)
    row = launch_rows(ops, calls)
    launched, first = np.unique(row, return_index=True)
    first = first[launched >= 0]
    launched = launched[launched >= 0]
    start = calls["start_ns"].to_numpy("int64")
    ends = tuple(ops[column].to_numpy("int64") for column in ("group", "track", "start_ns"))
    for low in range(0, len(first), _ROWS):
        begun, reached = launched[low : low + _ROWS], first[low : low + _ROWS]
        numbers = np.arange(low + 1, low + 1 + len(begun))
        a, b, c = (column[reached] for column in ends)
        yield Arrows("launch", numbers, (group[begun], number[begun], start[begun]), (a, b, c))


def _own_samples(counter: Counter) -> Iterator[Samples]:
    """The values of a counter: each from its time on, until another follows."""
    values = counter.values
    changed = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    times = np.append(counter.time_ns[changed], counter.until_ns[-1:])
    shown = np.append(values[changed], values[-1:])
    for low in range(0, len(times), _ROWS):
        part = slice(low, low + _ROWS)
        group = _COUNTERS + counter.device
        yield Samples(group, counter.metric, "value", times[part].tolist(), shown[part].tolist())


# ---- arguments


def _kernel_arguments(rows: pd.DataFrame) -> Arguments:
    shapes = [
        [f"{x} × {y} × {z}" for x, y, z in zip(*(rows[f"{what}_{a}"].to_list() for a in "xyz"), strict=True)]
        for what in ("grid", "block")
    ]
    if "shared_bytes" in rows:  # torch.profiler's traces have the sum of both alone
        shared = [("shared bytes", rows["shared_bytes"].to_list())]
    else:
        shared = [
            (f"{kind} shared bytes", rows[f"{kind}_shared_bytes"].to_list()) for kind in ("static", "dynamic")
        ]
    nodes = rows["graph_node"].astype(object).where(rows["graph_node"].notna(), None).to_list()
    return [
        ("kernel", rows["name"].astype("str").to_list()),
        ("grid", shapes[0]),
        ("block", shapes[1]),
        ("registers per thread", rows["registers_per_thread"].to_list()),
        *shared,
        _correlations(rows),
        ("graph node", nodes),
    ]


def _correlations(rows: pd.DataFrame) -> tuple[str, list[Any]]:
    return "correlation", rows["correlation"].to_list()


def _sizes(rows: pd.DataFrame) -> Arguments:
    sizes, spent = rows["bytes"].to_list(), (rows["end_ns"] - rows["start_ns"]).to_list()
    rates = [size / ns if ns > 0 else None for size, ns in zip(sizes, spent, strict=True)]
    return [("bytes", sizes), ("GB/s", rates)]


def _copy_arguments(rows: pd.DataFrame) -> Arguments:
    ways = [
        (name, rows[column].astype("str").to_list())
        for name, column in (("from", "src_kind"), ("to", "dst_kind"))
    ]
    return [*_sizes(rows), *ways, _correlations(rows)]


_ARGUMENTS: dict[str, Callable[[pd.DataFrame], Arguments]] = {
    "kernel": _kernel_arguments,
    "memcpy": _copy_arguments,
    "memset": lambda rows: [*_sizes(rows), _correlations(rows)],
    "graph": lambda rows: [_correlations(rows)],
    "api": lambda rows: [
        _correlations(rows),
        ("returned", [value or None for value in rows["return_value"].to_list()]),
    ],
    "nvtx": lambda rows: [("still open at the end", [one or None for one in rows["still_open"].to_list()])],
}


def in_pieces(iterators: Sequence[Iterator[Slices]]) -> Iterator[Slices]:
    """One after the other, for writers to whom the order means nothing."""
    return itertools.chain.from_iterable(iterators)
