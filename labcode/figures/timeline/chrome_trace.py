"""A report in; a trace in Chrome's JSON format, which Perfetto opens, out.

Processes, threads, GPUs and streams are named tracks in a fixed order; arrows lead from each call to the
first operation that it launched. Beside them stand the queue of each stream and the bandwidth of copies, as
counters, and the critical path (`labcode.figures.timeline.overlay`). Times are microseconds on the capture's
clock, with three decimals, so that no nanosecond is lost. Written in pieces: what is held in memory is the
report's tables, not the text.

The GPU's own counters, where they were sampled, are counter tracks of a group of their own for each GPU.

The format: “Trace Event Format” (Google, 2016), of which this uses complete (X), instant (i), flow (s, f),
counter (C) and metadata (M) events.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

import numpy as np
import pandas as pd

from labcode.analysis.timeline.joins import launch_rows
from labcode.figures.timeline.groups import Report
from labcode.figures.timeline.overlay import counters, microseconds, paths
from labcode.figures.timeline.rows import Window
from labcode.figures.timeline.tracks import (
    Batch,
    Track,
    batches,
    calls_track,
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


def write_chrome_trace(report: Report, output: TextIO, *, window: Window | None = None) -> int:
    """Write the events that overlap the window, by default all; returns how many there were."""
    book = _Numbers()
    ops: list[pd.DataFrame] = []
    written = 0
    output.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
    for batch in batches(report, window):
        number, group = book.of(batch)
        for piece in _complete(batch, number, group):
            output.write(",\n".join(piece) + ",\n")
        written += len(batch.events)
        if batch.kind == "api":
            for piece in _flows(ops, batch.events.assign(track=number, group=group)):
                output.write(",\n".join(piece) + ",\n")
            ops.clear()
        elif batch.kind != "nvtx":
            columns = ["start_ns", "pid", "correlation"]
            ops.append(batch.events[columns].assign(track=number, group=group))
    for beside in (counters(report, window, book.group), paths(report, window, book.track)):
        output.writelines(f"{line},\n" for line in beside)
    devices = []
    for counter in report.counters() if isinstance(report, CountedReport) else []:
        part = counter.within(window) if window else counter
        for piece in _samples(part):
            output.write(",\n".join(piece) + ",\n")
            devices.append(counter.device)
        written += len(part.values)
    output.write(",\n".join([*book.metadata(report), *_counter_groups(devices)]))
    output.write("\n]}\n")
    return written


class _Numbers:
    """Gives each track the numbers it has in the file: tid, unique in the file, and pid, its group's."""

    def __init__(self) -> None:
        self._tracks: dict[Track, int] = {}
        self._groups: dict[tuple[int, int], int] = {}

    def of(self, batch: Batch) -> tuple[Ints, Ints]:
        """For each event of a batch the number of its track and of its group."""
        tracks = [self._tracks.setdefault(track, len(self._tracks) + 1) for track in batch.tracks]
        groups = [self._group(track) for track in batch.tracks]
        return tuple(np.array([*n, 0], np.int64)[batch.place] for n in (tracks, groups))  # type: ignore[return-value]

    def _group(self, track: Track) -> int:
        key = (track.pid, track.device)
        number = _GPU + len(self._groups) if track.on_gpu else track.pid
        return self._groups.setdefault(key, number)

    def group(self, pid: int, device: int) -> int | None:
        """The number of a process' GPU, where it has one."""
        return self._groups.get((pid, device))

    def track(self, pid: int, device: int, context: int, number: int) -> tuple[int, int] | None:
        """The numbers of the group and track of a stream, or of a thread's calls (device -1)."""
        wanted = Track(pid, device, context, number, 0) if device >= 0 else calls_track(pid, number)
        found = self._tracks.get(wanted)
        return None if found is None else (self._groups[wanted.pid, wanted.device], found)

    def metadata(self, report: Report) -> list[str]:
        """Names and places of all groups and tracks."""
        tracks = sorted(self._tracks)
        members: dict[tuple[int, int], list[tuple[Track, str]]] = {}
        for track, text in zip(tracks, track_names(tracks, thread_names(report)), strict=True):
            members.setdefault((track.pid, track.device), []).append((track, text))
        lines = [_metadata("process_name", 0, 0, "name", "")] if not tracks else []
        for place, (key, name) in enumerate(group_names(tracks, report.threads()).items()):
            number = self._groups[key]
            lines.append(_metadata("process_name", number, 0, "name", name))
            lines.append(_metadata("process_sort_index", number, 0, "sort_index", place))
            for rank, (track, text) in enumerate(members[key]):
                tid = self._tracks[track]
                lines.append(_metadata("thread_name", number, tid, "name", text))
                lines.append(_metadata("thread_sort_index", number, tid, "sort_index", rank))
        return lines


def _metadata(what: str, pid: int, tid: int, key: str, value: str | int) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: value}})


def _complete(batch: Batch, number: Ints, group: Ints) -> Iterator[list[str]]:
    """The events of a batch as JSON texts, some at a time."""
    names = _texts(batch.events["label"])
    for low in range(0, len(batch.events), _ROWS):
        rows = batch.events.iloc[low : low + _ROWS]
        high = low + len(rows)
        start = rows["start_ns"].to_list()
        spent = [max(0, end - begin) for begin, end in zip(start, rows["end_ns"].to_list(), strict=True)]
        heads = zip(
            names(low, high), group[low:high].tolist(), number[low:high].tolist(), start, spent, strict=True
        )
        marks = (rows["event_type"] == "mark").to_list() if batch.kind == "nvtx" else [False] * len(rows)
        args = _ARGUMENTS[batch.kind](rows)
        yield [
            f'{{"ph":"i","s":"t","name":{name},"cat":"{batch.kind}","pid":{pid},"tid":{tid},'
            f'"ts":{microseconds(ts)},"args":{{{arg}}}}}'
            if mark
            else f'{{"ph":"X","name":{name},"cat":"{batch.kind}","pid":{pid},"tid":{tid},'
            f'"ts":{microseconds(ts)},"dur":{microseconds(dur)},"args":{{{arg}}}}}'
            for (name, pid, tid, ts, dur), mark, arg in zip(heads, marks, args, strict=True)
        ]


def _samples(counter: Counter) -> Iterator[list[str]]:
    """The values of a counter, some at a time: each from its time on, until another follows."""
    values = counter.values
    changed = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    times = np.append(counter.time_ns[changed], counter.until_ns[-1:]).tolist()
    shown = np.append(values[changed], values[-1:]).tolist()
    head = f'{{"ph":"C","name":{json.dumps(counter.metric)},"pid":{_COUNTERS + counter.device},"tid":0,"ts":'
    for low in range(0, len(times), _ROWS):
        pairs = zip(times[low : low + _ROWS], shown[low : low + _ROWS], strict=True)
        yield [f'{head}{microseconds(time)},"args":{{"value":{value}}}}}' for time, value in pairs]


def _counter_groups(devices: Sequence[int]) -> list[str]:
    lines = []
    for device in sorted(set(devices)):
        number = _COUNTERS + device
        lines.append(_metadata("process_name", number, 0, "name", f"GPU {device}, its own counters"))
        lines.append(_metadata("process_sort_index", number, 0, "sort_index", number))
    return lines


def _texts(column: pd.Series) -> Callable[[int, int], list[str]]:
    """A column of texts, each distinct one written as JSON once: gives the texts of some rows."""
    codes, texts = pd.factorize(column)
    written = [json.dumps(str(text)) for text in texts]
    return lambda low, high: [written[code] for code in codes[low:high].tolist()]


def _kernel_arguments(rows: pd.DataFrame) -> list[str]:
    grid, block = (
        list(zip(*(rows[f"{what}_{axis}"].to_list() for axis in "xyz"), strict=True))
        for what in ("grid", "block")
    )
    if "shared_bytes" in rows:  # torch.profiler's traces have the sum of both alone
        shared = [f'"shared bytes":{size}' for size in rows["shared_bytes"].to_list()]
    else:
        sizes = (rows[f"{kind}_shared_bytes"].to_list() for kind in ("static", "dynamic"))
        shared = [
            f'"static shared bytes":{a},"dynamic shared bytes":{b}' for a, b in zip(*sizes, strict=True)
        ]
    rest = zip(rows["registers_per_thread"].to_list(), shared, rows["correlation"].to_list(), strict=True)
    nodes = rows["graph_node"].astype(object).where(rows["graph_node"].notna(), None).to_list()
    names = _texts(rows["name"])(0, len(rows))
    return [
        f'"kernel":{name},"grid":"{g[0]} × {g[1]} × {g[2]}","block":"{b[0]} × {b[1]} × {b[2]}",'
        f'"registers per thread":{registers},{memory},"correlation":{correlation}'
        + (f',"graph node":{node}' if node is not None else "")
        for name, g, b, (registers, memory, correlation), node in zip(
            names, grid, block, rest, nodes, strict=True
        )
    ]


def _copy_arguments(rows: pd.DataFrame) -> list[str]:
    kinds = [_texts(rows[c])(0, len(rows)) for c in ("src_kind", "dst_kind")]
    spent = (rows["end_ns"] - rows["start_ns"]).to_list()
    return [
        f'"bytes":{size},{_rate(size, ns)}"from":{source},"to":{target},"correlation":{correlation}'
        for size, ns, source, target, correlation in zip(
            rows["bytes"].to_list(), spent, *kinds, rows["correlation"].to_list(), strict=True
        )
    ]


def _memset_arguments(rows: pd.DataFrame) -> list[str]:
    spent = (rows["end_ns"] - rows["start_ns"]).to_list()
    return [
        f'"bytes":{size},{_rate(size, ns)}"correlation":{correlation}'
        for size, ns, correlation in zip(
            rows["bytes"].to_list(), spent, rows["correlation"].to_list(), strict=True
        )
    ]


def _rate(size: int, ns: int) -> str:
    return f'"GB/s":{size / ns:.3f},' if ns > 0 else ""


def _call_arguments(rows: pd.DataFrame) -> list[str]:
    return [
        f'"correlation":{correlation}' + (f',"returned":{value}' if value else "")
        for correlation, value in zip(
            rows["correlation"].to_list(), rows["return_value"].to_list(), strict=True
        )
    ]


_ARGUMENTS: dict[str, Callable[[pd.DataFrame], list[str]]] = {
    "kernel": _kernel_arguments,
    "memcpy": _copy_arguments,
    "memset": _memset_arguments,
    "graph": lambda rows: [f'"correlation":{one}' for one in rows["correlation"].to_list()],
    "api": _call_arguments,
    "nvtx": lambda rows: [
        '"still open at the end":true' if one else "" for one in rows["still_open"].to_list()
    ],
}


def _flows(tables: Sequence[pd.DataFrame], calls: pd.DataFrame) -> Iterator[list[str]]:
    """Arrows from calls to the first operation that each launched, some at a time."""
    if not tables:
        return
    ops = pd.concat(tables, ignore_index=True).sort_values("start_ns", kind="stable", ignore_index=True)
    row = launch_rows(ops, calls)
    launched, first = np.unique(row, return_index=True)
    first = first[launched >= 0]
    calls = calls.iloc[launched[launched >= 0]]
    for low in range(0, len(first), _ROWS):
        ends = ops.iloc[first[low : low + _ROWS]]
        begins = calls.iloc[low : low + _ROWS]
        columns = [frame[c].to_list() for frame in (begins, ends) for c in ("group", "track", "start_ns")]
        yield [
            f'{{"ph":"s","name":"launch","cat":"launch","id":{number},"pid":{p},"tid":{t},"ts":{microseconds(at)}}},\n'
            f'{{"ph":"f","bp":"e","name":"launch","cat":"launch","id":{number},"pid":{q},"tid":{u},'
            f'"ts":{microseconds(to)}}}'
            for number, (p, t, at, q, u, to) in enumerate(zip(*columns, strict=True), start=low + 1)
        ]
