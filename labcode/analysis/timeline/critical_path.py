"""A recording in; the critical path of each rank or process, which decides how long it took, out.

The path is walked backward from the last event, each time to the dependency that was met last:

- an operation on the GPU began when its stream was free, or its launch was made, or, after a wait for an
  event (``cudaStreamWaitEvent``), another stream was done;
- a call that waits returned when an operation on the GPU was done, and so did a launch that took long: there
  was no room for it in the queue; so did a thread that asked again and again whether something was done;
- a thread without calls and operators for a while went on when another one was done (autograd's thread in the
  backward pass, the main thread after it);
- anything else on a thread came after what the thread did before.

A thread that only asks whether the GPU is done (NCCL's watchdog) is no part of it: nothing waits for it. So
the pieces of the path follow each other without a gap and add up to the time of the run. Making a piece
shorter by some time makes the run shorter by at most that time: others may become critical.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, launch_rows, named_like
from labcode.analysis.timeline.overlap import is_communication, time_shares
from labcode.analysis.timeline.utilization import LAUNCHING, SYNCHRONIZING
from labcode.reports.columns import Ints
from labcode.reports.frames import codes_of
from labcode.reports.nsys.report import NsysReport

if TYPE_CHECKING:
    from labcode.reports.kineto.report import KinetoReport


ALONE_NS = 20_000  # a thread may have been handed its work where it did nothing for so long …
HANDED = 0.5  # … and another one did something for this share of that time
UNASKED_NS = 5_000  # of an operation whose launch was not recorded: what a longer gap ended with is its cause
QUEUED_NS = 100_000  # a launch that takes so long waits: for room in the queue, or until the GPU is idle
STREAM_WAIT = r"StreamWaitEvent"
QUERY = r"^(?:cuda|hip|cu)(?:Event|Stream)Query"
HANDS_ON = r"EventRecord|StreamWaitEvent|LaunchHostFunc|StreamAddCallback"  # others may go by what it did
POLLS = 0.5  # of a poller's calls, the rest look something up
POLLED = 3  # queries in a row, nothing between them, are a wait …
POLLED_NS = 100_000  # … where they take so long; the allocator also asks, but in passing
ASYNC_COPY = r"^(?:cuda|hip|cu)Memcpy\w*(?:Async|WithStream)"
KINDS = (
    *("kernel", "communication", "copy", "memset", "gap on the GPU", "launch latency"),
    *("operator", "CUDA call", "wait ends", "Python", "host"),
)
_KERNEL, _TALK, _COPY, _MEMSET, _GAP, _LATENCY, _OP, _CALL, _WAIT, _PYTHON, _HOST = range(len(KINDS))
_WHEN = ["start_ns", "end_ns", "pid"]
_WORK = [*_WHEN, "kind", "name", "short_name", "device", "context", "stream", "correlation"]
_CALLS = [*_WHEN, "tid", "name", "correlation"]
_RANGES = [*_WHEN, "tid", "name"]
COLUMNS = {
    **dict.fromkeys(("rank", "start_ns", "duration_ns"), "int64"),
    **dict.fromkeys(("kind", "name"), "str"),
    **dict.fromkeys(("pid", "tid", "device", "context", "stream"), "int64"),
}


@dataclass(frozen=True)
class Recorded:
    """What the walk goes by: tables of ranks or processes with a column rank, as `KinetoReport` has them."""

    ranks: tuple[int, ...]
    gpu_ops: pd.DataFrame
    api: pd.DataFrame
    ops: pd.DataFrame
    annotations: pd.DataFrame
    python_functions: pd.DataFrame


def critical_path(report: KinetoReport, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """The critical path of each rank within the window (by default the measured part), by rank and time.

    rank; start_ns, duration_ns; kind (one of `KINDS`); name (of the kernel, operator, call or function; of
    'host', where nothing is recorded, the annotation around; of a gap or latency, the operation that it
    delayed); pid; tid (of what ran on the CPU, else -1); device, context, stream (of what ran on a GPU, or
    was about to, else -1).
    """
    tables = report.gpu_ops(), report.api(), report.ops(), report.annotations(), report.python_functions()
    found = walked(Recorded(report.ranks, *tables), report.window() if window is None else window)
    return found.astype({"kind": "str"})


def paths(report: NsysReport, window: tuple[int, int] | None = None) -> Iterator[pd.DataFrame]:
    """The path of each process that uses a GPU within the window (by default the measured part), by number.

    As `critical_path` of a trace has it; its rank is the process's number. It goes by operations of GPUs, the
    calls that launched them or waited for them, and push/pop ranges. There are no operators: between two
    calls the CPU is “host”, named by the innermost range around.
    """
    window, ranges = report.window() if window is None else window, report.nvtx()
    nested = ((ranges["event_type"] == "push_pop") & ranges["end_ns"].notna()).to_numpy()
    work, calls = report.gpu_ops()[_WORK], report.api()[_CALLS]
    for pid in sorted(set(work["pid"]) & set(calls["pid"])):
        around = ranges.loc[nested & (ranges["pid"] == pid).to_numpy(), _RANGES].astype({"end_ns": "int64"})
        tables = _of(work, "pid", pid), _of(calls, "pid", pid), around
        of_gpu, called, around = (table.assign(rank=pid) for table in tables)
        none = around.iloc[:0]
        yield walked(Recorded((pid,), of_gpu, called, none, around, none), window)


def walked(recorded: Recorded, window: tuple[int, int]) -> pd.DataFrame:
    """The same of any recording; kind is categorical."""
    parts = []
    for rank in recorded.ranks:
        mine, calls = _of(recorded.gpu_ops, "rank", rank), _of(recorded.api, "rank", rank)
        found = _Rank(recorded, rank, mine, calls, *window).path() if len(mine) or len(calls) else None
        if found is not None:
            parts.append(found)
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))
    return whole[list(COLUMNS)].astype({**COLUMNS, "kind": pd.CategoricalDtype(pd.Index(KINDS, dtype="str"))})


def pollers(api: pd.DataFrame, ops: pd.DataFrame, annotations: pd.DataFrame) -> frozenset[int]:
    """The threads that only ask whether the GPU is done: nothing waits for what they do.

    At least `POLLS` of such a thread's calls are queries of events or streams. It launches nothing, waits for
    nothing, hands nothing on (`HANDS_ON`), and has neither operators nor annotations.
    """
    names, tids = api["name"], api["tid"]
    asks = named_like(names, QUERY)
    if not asks.any():
        return frozenset()
    works = named_like(names, LAUNCHING) | named_like(names, SYNCHRONIZING) | named_like(names, HANDS_ON)
    table = pd.DataFrame({"asks": asks, "works": works, "tid": tids.to_numpy()}).groupby("tid")
    share, busy = table["asks"].mean(), table["works"].any()
    found = {int(str(tid)) for tid in share.index[(share >= POLLS) & ~busy]}
    return frozenset(found - set(ops["tid"]) - set(annotations["tid"]))


def polled_waits(api: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Where a thread asked again and again whether the GPU is done: tid, start_ns, end_ns of each such wait.

    At least `POLLED` queries in a row, no other call and no operator between them, for `POLLED_NS`.
    """
    columns = ["tid", "start_ns", "end_ns"]
    asks = named_like(api["name"], QUERY)
    threads = api.loc[asks, "tid"].unique()
    parts = [api[columns].assign(asks=asks), ops[columns].assign(asks=False)]
    table = pd.concat([part[part["tid"].isin(threads)] for part in parts], ignore_index=True)
    table = table.sort_values(["tid", "start_ns"], kind="stable")
    begins = (table["tid"] != table["tid"].shift()) | (table["asks"] != table["asks"].shift())
    table = table.assign(row=begins.cumsum())[table["asks"].to_numpy(np.bool_)]
    rows = table.groupby("row").agg(
        tid=("tid", "first"), start_ns=("start_ns", "min"), end_ns=("end_ns", "max"), count=("tid", "size")
    )
    long = (rows["count"] >= POLLED) & (rows["end_ns"] - rows["start_ns"] >= POLLED_NS)
    return rows.loc[long, columns].astype("int64").reset_index(drop=True)


def by_kind(path: pd.DataFrame, *, names: bool = False) -> pd.DataFrame:
    """A path summed up by kind, or by kind and name, the most time first: rank; kind; name; pieces; total_ns;
    share (of the path); at_most (how many times as fast the run gets at most when these pieces take no time).
    """
    keys = ["rank", "kind", *(["name"] if names else [])]
    texts = {key: _codes(path[key]) for key in keys[1:]}  # numbers are sooner grouped than texts
    path = path[["rank", "duration_ns"]].assign(**{key: codes for key, (codes, _) in texts.items()})
    table = path.groupby(keys, sort=False)["duration_ns"].agg(["size", "sum"]).reset_index()
    for key, (_, distinct) in texts.items():
        table[key] = pd.Series(distinct[table[key]], dtype="str")
    return _shares(table.rename(columns={"size": "pieces", "sum": "total_ns"}), keys)


def _codes(texts: pd.Series) -> tuple[Ints, NDArray[np.object_]]:
    if isinstance(texts.dtype, pd.CategoricalDtype):
        return np.asarray(texts.cat.codes, np.int64), np.asarray(texts.cat.categories, object)
    return codes_of(texts)


def kinds_of(named: pd.DataFrame) -> pd.DataFrame:
    """A path summed up by kind, of one summed up by kind and name."""
    keys = ["rank", "kind"]
    return _shares(named.groupby(keys, sort=False)[["pieces", "total_ns"]].sum().reset_index(), keys)


def _shares(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    table["share"] = table["total_ns"] / table.groupby("rank")["total_ns"].transform("sum")
    table["at_most"] = 1 / (1 - table["share"]).where(table["share"] < 1)
    by = ["rank", "total_ns", *keys[1:]]
    return table.sort_values(by, ascending=[True, False, *[True] * len(keys[1:])], ignore_index=True)


@dataclass(frozen=True, slots=True)
class _Leg:
    """A stretch of the path on one thread (``op`` -1) or stream: up to its operation ``op``."""

    start: int
    end: int
    tid: int
    op: int = -1
    kind: int = -1  # of a leg that is a piece: gap or latency


class _Rank:
    """One rank's events as columns, and the walk through them.

    Operations are sorted by stream and start; ``free`` is when the stream became free for each,
    ``made`` when its launch was made, ``via`` the thread that made it, ``other`` the operation of another
    stream that it waited for.
    """

    def __init__(
        self,
        recorded: Recorded,
        rank: int,
        ops: pd.DataFrame,
        api: pd.DataFrame,
        low: int,
        high: int,
    ) -> None:
        self.recorded, self.rank, self.low, self.high = recorded, rank, low, high
        stream = ops.groupby(["device", "context", "stream"], sort=True).ngroup().to_numpy(np.int64)
        order = np.lexsort((ops["start_ns"].to_numpy(np.int64), stream))
        self.ops, self.stream = ops.iloc[order], stream[order]
        self.begun = self.ops["start_ns"].to_numpy(np.int64)
        self.ended = np.maximum(self.ops["end_ns"].to_numpy(np.int64), self.begun)
        self.calls = api
        self.pollers = pollers(api, self._of("ops"), self._of("annotations"))
        if self.pollers:
            self.low = max(low, min(self._starts(), default=low))
        self._reasons(launch_rows(self.ops, api))
        self.waits = {tid: self._waits(calls) for tid, calls in _by_thread(self._waiting())}
        self.busy = {tid: self._at_work(table) for tid, table in _by_thread(self._working())}
        self.handed = {tid: self._handed(tid) for tid in self.busy}

    def _starts(self) -> Iterator[int]:
        """When each kind of event began first, without what pollers did."""
        tables = self.calls, *(self._of(name) for name in ("ops", "annotations", "python_functions"))
        for table in tables:
            first = table.loc[~table["tid"].isin(self.pollers), "start_ns"].min()
            if first == first:
                yield int(first)
        if len(self.begun):
            yield int(self.begun.min())

    # ---- what each event waited for

    def _reasons(self, row: Ints) -> None:
        count = len(self.ops)
        nothing = np.int64(np.iinfo(np.int64).min)
        first = np.append(True, self.stream[1:] != self.stream[:-1])[:count]
        # the running maximum of each stream: streams lie apart when each is moved beyond the one before
        low = int(self.begun.min()) if count else 0
        width = int(self.ended.max()) - low + 1 if count else 1
        reach = np.maximum.accumulate(self.ended - low + self.stream * width) - self.stream * width + low
        self.free = np.where(first, nothing, np.append(nothing, reach[:-1])[:count])
        known = row >= 0
        starts, ends, tids = (
            np.append(self.calls[c].to_numpy(np.int64), 0) for c in ("start_ns", "end_ns", "tid")
        )
        self.made = np.where(known, np.minimum(ends[row], self.begun), nothing)
        self.via = np.where(known, tids[row], -1)
        called = np.where(known, starts[row], nothing)
        # after a wait for an event: the operation of any stream that was done last before
        asked = np.sort(
            self.calls.loc[named_like(self.calls["name"], STREAM_WAIT), "start_ns"].to_numpy(np.int64)
        )
        before = np.where(first, nothing, np.append(nothing, called[:-1])[:count])
        waited = np.searchsorted(asked, called) > np.searchsorted(asked, before)
        waited |= ~known & (self.begun - np.where(first, self.low, self.free) > UNASKED_NS)
        self.by_end = np.argsort(self.ended, kind="stable")
        self.ends = self.ended[self.by_end]
        place = np.searchsorted(self.ends, self.begun, "right") - 1
        candidate = np.append(self.by_end, -1)[place] if count else place
        done = np.where(place >= 0, np.append(self.ended, nothing)[candidate], nothing)
        other = waited & (done > np.maximum(self.free, self.made))
        # one that begins no earlier took no time and cannot have been waited for: two would wait in a circle
        other &= np.append(self.begun, 0)[candidate] < self.begun
        self.other = np.where(other, candidate, -1)
        launched = (self.made > self.free) & ~other
        # the operation at which the run of operations that only waited for each other begins
        head = first | launched | other
        self.head = np.maximum.accumulate(np.where(head, np.arange(count), 0)) if count else self.stream
        self.launched = launched

    def _waiting(self) -> pd.DataFrame:
        """The calls that may wait, and for which operation (target; -1: none)."""
        copies = named_like(self.calls["name"], ASYNC_COPY)
        queued = named_like(self.calls["name"], LAUNCHING) & (duration_ns(self.calls) >= QUEUED_NS)
        rows = self.calls[copies | queued | named_like(self.calls["name"], SYNCHRONIZING)]
        target = self._done_by(rows["end_ns"].to_numpy(np.int64))
        own = launch_rows(rows, self.ops) if len(self.ops) else np.full(len(rows), -1, np.int64)
        target = np.where(named_like(rows["name"], ASYNC_COPY), own, target)
        waiting = rows[["tid", "start_ns", "end_ns"]].assign(target=target)
        polled = polled_waits(self.calls, self._of("ops"))
        polled = polled.assign(target=self._done_by(polled["end_ns"].to_numpy(np.int64)))
        return pd.concat([waiting, polled], ignore_index=True) if len(polled) else waiting

    def _waits(self, calls: pd.DataFrame) -> tuple[Ints, Ints, Ints]:
        """Of calls of one thread that waited: when each returned, and began, and for which operation."""
        start, end, target = (calls[c].to_numpy(np.int64) for c in ("start_ns", "end_ns", "target"))
        done = np.append(self.ended, np.iinfo(np.int64).min)[target]
        real = (target >= 0) & (done > start) & (done <= end)
        order = np.flatnonzero(real)[np.argsort(end[real], kind="stable")]
        return end[order], start[order], target[order]

    def _done_by(self, times: Ints) -> Ints:
        """The operation that was done last by each time; -1 for none."""
        place = np.searchsorted(self.ends, times, "right") - 1
        return np.append(self.by_end, -1)[place] if len(self.ends) else place

    def _working(self) -> pd.DataFrame:
        """Operators and calls of the threads that launch something."""
        columns = ["tid", "start_ns", "end_ns"]
        ops = self._of("ops")
        threads = self.calls.loc[named_like(self.calls["name"], LAUNCHING), "tid"].unique()
        table = pd.concat([ops[columns], self.calls[columns]], ignore_index=True)
        return table[table["tid"].isin(threads)]

    def _at_work(self, table: pd.DataFrame) -> tuple[Ints, Ints]:
        """When a thread worked: without operators also from one call to the next that comes soon."""
        until = 0 if len(self._of("ops")) else ALONE_NS - 1
        low, high = intervals.union(table["start_ns"], table["end_ns"] + until)
        return low, high - until

    def _handed(self, tid: int) -> tuple[Ints, Ints, Ints]:
        """Where others worked while a thread did not: when it went on, when the other was done, and which."""
        starts, ends = self.busy[tid]
        gap_low, gap_high = ends[:-1], starts[1:]
        long = gap_high - gap_low >= ALONE_NS
        gap_low, gap_high = gap_low[long], gap_high[long]
        if len(starts):  # before its first event, too
            gap_low = np.append(self.low, gap_low)
            gap_high = np.append(max(int(starts[0]), self.low), gap_high)
        best, which = np.full(len(gap_low), np.iinfo(np.int64).min), np.full(len(gap_low), -1)
        for other, (low, high) in self.busy.items():
            if other == tid or not len(low):
                continue
            worked = intervals.covered_within(low, high, gap_low, gap_high) >= HANDED * (gap_high - gap_low)
            place = np.searchsorted(high, gap_high, "right") - 1
            done = np.where(place >= 0, high[place], np.iinfo(np.int64).min)
            better = worked & (done > gap_low) & (done > best)
            best, which = np.where(better, done, best), np.where(better, other, which)
        some = which >= 0
        return gap_high[some], best[some], which[some]

    # ---- the walk

    def path(self) -> pd.DataFrame | None:
        """The path's pieces by time."""
        legs = list(self._walk())
        if not legs:
            return None
        on_gpu = [leg for leg in legs if leg.op >= 0 and leg.kind < 0]
        single = [leg for leg in legs if leg.kind >= 0]
        on_cpu = [leg for leg in legs if leg.op < 0 and leg.kind < 0]
        parts = [self._on_gpu(on_gpu), self._single(single), self._on_cpu(on_cpu)]
        del legs, on_gpu, single, on_cpu  # a million pieces fill memory; so no copy of them more than needed
        whole = pd.concat([part for part in parts if len(part)], ignore_index=True)
        parts.clear()
        pid = int(self.calls["pid"].iloc[0] if len(self.calls) else self.ops["pid"].iloc[0])
        order = np.argsort(whole["start_ns"].to_numpy(np.int64), kind="stable")
        order = order[whole["duration_ns"].to_numpy(np.int64)[order] > 0]
        return whole.iloc[order].reset_index(drop=True).assign(rank=self.rank, pid=pid)

    def _walk(self) -> Iterator[_Leg]:
        op, tid, at = self._last()
        while at > self.low:
            if op < 0:
                leg, op, tid, at = self._thread(tid, at)
                yield leg
                continue
            head = int(self.head[op])
            begun = min(int(self.begun[head]), at)
            yield _Leg(max(begun, self.low), at, -1, op)
            if self.launched[head]:
                made = min(int(self.made[head]), begun)
                yield _Leg(max(made, self.low), begun, -1, head, _LATENCY)
                op, tid, at = -1, int(self.via[head]), made
            elif self.other[head] >= 0:
                op = int(self.other[head])
                done = int(self.ended[op])
                yield _Leg(max(done, self.low), begun, -1, head, _GAP)
                at = done
            else:
                return  # launched before the recording

    def _last(self) -> tuple[int, int, int]:
        """Where the walk begins: the operation, or -1 and the thread, that was last active in the window."""
        op, at, tid = -1, self.low, -1
        inside = np.flatnonzero(self.begun < self.high)
        if len(inside):
            op = int(inside[np.minimum(self.ended[inside], self.high).argmax()])
            at = min(int(self.ended[op]), self.high)
        for table in (self.calls, self._of("ops"), self._of("annotations")):
            table = table[(table["start_ns"] < self.high) & ~table["tid"].isin(self.pollers)]
            ends = table["end_ns"].clip(upper=self.high).to_numpy(np.int64)
            if len(ends) and int(ends.max()) >= at:
                op, tid, at = -1, int(table["tid"].iloc[int(ends.argmax())]), int(ends.max())
        return op, tid, at

    def _thread(self, tid: int, at: int) -> tuple[_Leg, int, int, int]:
        """Back along a thread to where it waited for the GPU or for another thread."""
        none = np.empty(0, np.int64)
        ends, starts, targets = self.waits.get(tid, (none, none, none))
        went_on, done, whom = self.handed.get(tid, (none, none, none))
        stop, op, to = self.low, -1, -1
        place = int(np.searchsorted(ends, at, "right")) - 1
        if place >= 0:
            stop, op = int(self.ended[targets[place]]), int(targets[place])
        if place + 1 < len(ends) and starts[place + 1] < at:  # in the middle of a call that waits
            inner = int(self._done_by(np.array([at - 1]))[0])
            if inner >= 0 and self.ended[inner] > max(int(starts[place + 1]), stop):
                stop, op = int(self.ended[inner]), inner
        place = int(np.searchsorted(went_on, at, "right")) - 1
        if place >= 0 and done[place] > stop and done[place] < at:
            stop, op, to = int(done[place]), -1, int(whom[place])
        if stop >= at:  # nothing earlier
            stop, op, to = self.low, -1, -1
        stop = max(stop, self.low)
        return _Leg(stop, at, tid), op, to if to >= 0 else tid, stop

    # ---- pieces

    def _of(self, table: str) -> pd.DataFrame:
        return _of(getattr(self.recorded, table), "rank", self.rank)

    def _where(self, rows: Ints) -> dict[str, object]:
        columns = ("device", "context", "stream")
        return {**{c: self.ops[c].to_numpy(np.int64)[rows] for c in columns}, "tid": -1}

    def _on_gpu(self, legs: list[_Leg]) -> pd.DataFrame:
        """The operations of runs, each up to the next, and the gaps between them."""
        last = np.array([leg.op for leg in legs], np.int64)
        run, op = intervals.expand(np.append(self.head, -1)[last], last + 1)
        start = np.maximum(self.begun[op], np.array([leg.start for leg in legs], np.int64)[run])
        ends = np.array([leg.end for leg in legs], np.int64)[run]
        same = np.append(run[1:] == run[:-1], False)[: len(run)]
        following = np.where(same, np.append(start[1:], 0)[: len(run)], ends)
        end = np.minimum(np.minimum(self.ended[op], ends), following)
        end = np.maximum(end, start)
        kinds = self.ops["kind"].to_numpy(object)
        talks = is_communication(self.ops).to_numpy() & (kinds == "kernel")
        kind = np.where(
            talks, _TALK, np.where(kinds == "memcpy", _COPY, np.where(kinds == "memset", _MEMSET, _KERNEL))
        )
        names = self.ops["short_name"].to_numpy(object)
        late = np.flatnonzero((following > end) & same)
        return pd.DataFrame(
            {
                "start_ns": np.concatenate((start, end[late])),
                "duration_ns": np.concatenate((end - start, (following - end)[late])),
                "kind": _kinds(np.concatenate((kind[op], np.full(len(late), _GAP)))),
                "name": np.concatenate((names[op], names[op[late + 1]] if len(late) else names[:0])),
                **self._where(np.concatenate((op, op[late + 1] if len(late) else late))),
            }
        )

    def _single(self, legs: list[_Leg]) -> pd.DataFrame:
        rows = np.array([leg.op for leg in legs], np.int64)
        return pd.DataFrame(
            {
                "start_ns": np.array([leg.start for leg in legs], np.int64),
                "duration_ns": np.array([leg.end - leg.start for leg in legs], np.int64),
                "kind": _kinds(np.array([leg.kind for leg in legs], np.int64)),
                "name": self.ops["short_name"].to_numpy(object)[rows],
                **self._where(rows),
            }
        )

    def _on_cpu(self, legs: list[_Leg]) -> pd.DataFrame:
        """Stretches of threads, each cut into what was innermost."""
        low, high, tids = (
            np.array([getattr(leg, name) for leg in legs], np.int64) for name in ("start", "end", "tid")
        )
        events = self._events()
        rows_of = {int(str(tid)): rows for tid, rows in events.groupby("tid").indices.items()}
        parts = [pd.DataFrame(columns=["start_ns", "duration_ns", "kind", "name", "tid"])]
        for tid in np.unique(tids).tolist():
            mine = np.flatnonzero(tids == tid)
            mine = mine[np.argsort(low[mine], kind="stable")]
            table = events.iloc[rows_of.get(tid, mine[:0])]
            parts.append(self._cut(tid, low[mine], high[mine], table))
        whole = pd.concat(parts[1:] or parts, ignore_index=True)
        return whole.assign(device=-1, context=-1, stream=-1)

    def _cut(self, tid: int, low: Ints, high: Ints, events: pd.DataFrame) -> pd.DataFrame:
        """Stretches of one thread, by time, cut into what was innermost of its events."""
        starts, ends = (events[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        met = np.searchsorted(high, starts, "right") < np.searchsorted(low, ends, "left")
        events = events[met]
        edge, inner = _innermost(starts[met], ends[met])
        edge = np.concatenate(([self.low], np.maximum(edge, self.low), [np.iinfo(np.int64).max]))
        leg, piece = intervals.expand(
            np.searchsorted(edge, low, "right") - 1, np.searchsorted(edge, high, "left")
        )
        start, end = np.maximum(edge[piece], low[leg]), np.minimum(edge[piece + 1], high[leg])
        row = np.append(-1, inner)[piece]
        kind = np.append(events["code"].to_numpy(np.int64), _HOST)[row]
        back, began, _ = self.waits.get(tid, (edge[:0],) * 3)
        if len(back):  # what is left of a call after what it waited for was done
            place = np.minimum(np.searchsorted(back, end, "left"), len(back) - 1)
            after = (began[place] < start) & (end <= back[place]) & (start == low[leg])
            kind = np.where(after & (kind == _CALL), _WAIT, kind)
        names = np.append(events["name"].to_numpy(object), "")[row]
        return pd.DataFrame(
            {
                "start_ns": start,
                "duration_ns": end - start,
                "kind": _kinds(kind),
                "name": names,
                "tid": tid,
            }
        )

    def _events(self) -> pd.DataFrame:
        """What threads did: start_ns, end_ns, tid, name, code (the kind of piece)."""
        parts = (("ops", _OP), ("annotations", _HOST), ("python_functions", _PYTHON))
        columns = ["start_ns", "end_ns", "tid", "name"]
        tables = [self._of(name)[columns].assign(code=code) for name, code in parts]
        return pd.concat([*tables, self.calls[columns].assign(code=_CALL)], ignore_index=True)


def _kinds(codes: Ints) -> pd.Categorical[str]:
    """Kinds as numbers, for a path may have a million pieces."""
    return pd.Categorical.from_codes(codes, pd.Index(KINDS, dtype="str"))


def _of(table: pd.DataFrame, column: str, number: int) -> pd.DataFrame:
    """The rows of a rank or process; where all are, the table itself, for it may be large."""
    mine = (table[column] == number).to_numpy()
    return table if mine.all() else table[mine]


def _by_thread(table: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    for tid, mine in table.groupby("tid"):
        yield int(str(tid)), mine


def _innermost(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Of one thread's events, which nest: the times at which another is innermost, and which; or -1."""
    order = np.flatnonzero(ends > starts)  # what takes no time holds none
    order = order[np.lexsort((-ends[order], starts[order]))]
    around = intervals.holders(ends[order], starts[order])
    depth = intervals.depths(around)
    outer = np.where(around >= 0, order[around], -1) if len(order) else around
    times = np.concatenate((starts[order], ends[order]))
    which = np.concatenate((order, outer))
    first, width = int(times.min(initial=0)), 2 * int(depth.max(initial=0)) + 2
    # at the same time what ends comes before what begins; the inner ends first, the outer begins first
    ranks = np.concatenate((depth + width, width - 1 - depth))
    if (int(times.max(initial=0)) - first + 1) * 2 * width < 1 << 63:  # one sort of single integers
        rows = np.argsort((times - first) * (2 * width) + ranks, kind="stable")
    else:
        rows = np.lexsort((ranks, times))
    times, which = times[rows], which[rows]
    last = np.append(times[1:] != times[:-1], True)[: len(times)]
    return times[last], which[last]


APART = 0.10  # of the path's time, by which both shares of computing may differ


def contradictions(path: pd.DataFrame, ops: pd.DataFrame, *, of: str = "rank") -> tuple[str, ...]:
    """A line for each rank (or what ``of`` calls it) whose path and GPU differ in their share of computing.

    ``path`` as `critical_path` has it, ``ops`` with a column rank. The GPU's share is that of the time in
    which a kernel that is none of a collective's runs, within the path's own time, of the GPU that computes
    the longest. Both can be right: what runs beside the path is not on it.
    """
    return tuple(_contradictions(path, ops, of))


def _contradictions(path: pd.DataFrame, ops: pd.DataFrame, of: str) -> Iterator[str]:
    for rank, mine in path.groupby("rank", sort=True):
        begin = int(mine["start_ns"].min())
        end = int((mine["start_ns"] + mine["duration_ns"]).max())
        shares = time_shares(ops[ops["rank"] == rank], (begin, end))
        if not len(shares) or end <= begin:
            continue
        worst = shares.iloc[int(shares["computing_ns"].argmax())]
        kinds = mine.groupby("kind", observed=True)["duration_ns"].sum() / (end - begin)
        on_path = float(kinds.get("kernel", 0.0))
        computing, idle = (int(worst[c]) / (end - begin) for c in ("computing_ns", "idle_ns"))
        if abs(computing - on_path) <= APART:
            continue
        rest = kinds.drop("kernel", errors="ignore")
        what = f"; most of the path is {rest.idxmax()}, {rest.max():.0%}" if len(rest) else ""
        yield (
            f"critical path of {of} {rank}: {on_path:.0%} computing, while GPU {worst['device']} computes "
            f"for {computing:.0%} of that time and is idle for {idle:.0%}{what}; either the computing runs "
            "beside what decides, or the program waited for the GPU in a way that was not recorded, and then "
            "the path is wrong"
        )
