"""A steady state in; where the time of a GPU's iterations goes, every ns with one owner, out.

Time in which something runs belongs to what runs: of operations that overlap, to the first kind in the list
of `labcode.analysis.ledger.view`. An idle stretch ends with an operation that some call launched. What of
it lies after that call is the GPU's own; what lies before is the time of the CPU: of the call that its
launching threads were in, or of the program's code between two calls. So the parts add up to the iteration.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from labcode.analysis.ledger.lines import COMPILING, NOWHERE, Lines, Place
from labcode.analysis.ledger.steady import LOADING, Steady, loading_launches
from labcode.analysis.ledger.view import CODE, OWNERS, View
from labcode.analysis.timeline import intervals, overlap
from labcode.analysis.timeline.intervals import Spans
from labcode.analysis.timeline.joins import named_like, spans
from labcode.analysis.timeline.nvtx import NUMBER, labels
from labcode.analysis.timeline.utilization import SYNCHRONIZING, _dominant
from labcode.reports.columns import Bools, Ints, Objects, at_rows, by_code, small, unique
from labcode.reports.common import MEASURED, STEP
from labcode.reports.frames import codes_of, is_any, rows_of
from labcode.reports.report import FunctionsReport, SystemReport

LAUNCHES = r"^(?:cu(?:da)?|hip(?:Ext)?(?:Module)?)(?:Launch(?!HostFunc)|GraphLaunch)"
ALLOCATING = (
    r"^(?:cuda(?:Malloc|Free|HostAlloc|HostRegister|HostUnregister)|"
    r"cuMem(?:Alloc|Free|Host|Map|Unmap|Create|Release|SetAccess|AddressReserve|AddressFree))(?!.*Async)"
)
COPYING = r"^(?:cuda|cu|hip)Memcpy"
MADE = r"^(?:cu(?:Module|Library)Load|cudaLibraryLoad|cuLink)"  # calls that bring code that was just made
LOADS = (
    r"(?i)\b(?:load|loading|load_?data|dataload\w*|data|fetch|next_?batch|decode|augment|collate)\b|__next__"
)
READING = r"^(?:poll|ppoll|select|epoll_wait|sem_wait|sem_timedwait|read|pread64|pread|readv|open64|openat)$"
PACE = 10  # times what usually lies between two launches
SLOWEST_PACE_NS = 500_000
USUAL_LAUNCH_NS = 4_000  # where a capture holds no launches
READ_BYTES = 4096  # a copy to the host up to there is of a number that somebody reads
BATCH_BYTES = 16_384  # a copy to the GPU from there on is of a batch, and not of a number
WAITING = 0.5  # of a stretch
FED = 0.8  # a GPU that works so much of what the CPU needs would not run dry without synchronizations
MOST_GPUS = 64  # that are judged, each by itself
_MANY = 64  # numbers that are looked up, not compared one by one
DEEPEST = 4_000  # stretches whose place is looked up, the longest first


@dataclass(frozen=True, eq=False)
class Ledger:
    """The pieces of a window of one GPU, by time, without a gap: start_ns, end_ns, owner (code), place.

    ``edges`` are begins and ends of its iterations; ``why`` says why waits for other GPUs are not told apart.
    ``place`` is where in the program an idle piece was caused (`Place`), ``range`` the range around it.
    Where ``repeats`` is false, nothing repeats, and the window stands for an iteration.
    """

    device: int
    pid: int
    window: tuple[int, int]
    edges: tuple[Ints, Ints]
    pieces: pd.DataFrame
    why: str = ""
    repeats: bool = True

    @property
    def count(self) -> int:
        """How many iterations."""
        return max(len(self.edges[0]), 1)

    @cached_property
    def whole_ns(self) -> int:
        """The length of all iterations together."""
        return int((self.edges[1] - self.edges[0]).sum())

    @property
    def each_ns(self) -> float:
        """The length of an iteration, in the mean."""
        return self.whole_ns / self.count

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each owner that has any time, in their order: owner (id), title, side; total_ns (exact,
        of all iterations), each_ns (of an iteration, in the mean), share (of it), low_ns, high_ns (of single
        iterations: the tenth and the ninetieth percentile).
        """
        rows = []
        owner = self.pieces["owner"].to_numpy()
        start, end = spans(self.pieces)
        for code, mine in enumerate(by_code(owner, len(OWNERS))):
            per = intervals.covered_within(start[mine], end[mine], *self.edges)
            total = int(per.sum())
            if total:
                low, high = np.quantile(per, [0.1, 0.9])
                one = OWNERS[code]
                share = total / max(self.whole_ns, 1)
                rows.append(
                    (one.id, one.title, one.side, total, total / self.count, share, float(low), float(high))
                )
        columns = ["owner", "title", "side", "total_ns", "each_ns", "share", "low_ns", "high_ns"]
        types = dict.fromkeys(columns[:3], "str") | {"total_ns": "int64"}
        types |= dict.fromkeys(columns[4:], "float64")
        return pd.DataFrame(rows, columns=columns).astype(types)

    def each(self, *owners: str) -> float:
        """ns of an iteration, in the mean, of some owners."""
        table = self.table
        return float(table.loc[table["owner"].isin(owners), "each_ns"].sum())

    def share(self, *owners: str) -> float:
        """Of an iteration, the share of some owners."""
        return self.each(*owners) / max(self.each_ns, 1.0)

    def side(self, side: str) -> float:
        """ns of an iteration, in the mean: 'computing', 'moving' or 'idle'."""
        table = self.table
        return float(table.loc[table["side"] == side, "each_ns"].sum())

    def places(self, *owners: str) -> pd.DataFrame:
        """Pieces of owners together by place, the most time first: place (text), range, loads, count,
        total_ns, each_ns, share.
        """
        codes = [CODE[one] for one in owners]
        mine = self.pieces[self.pieces["owner"].isin(codes).to_numpy()]
        low, high = spans(mine)
        inside = intervals.covered_within(*intervals.union(*self.edges), low, high)
        of_place, found = codes_of(mine["place"])
        of_text, texts = pd.factorize(np.array([one.text for one in found], object))
        of_range, ranges = codes_of(mine["range"])
        which, first = pd.factorize(of_text[of_place] * max(len(ranges), 1) + of_range)
        at = np.divmod(first, max(len(ranges), 1))
        table = pd.DataFrame(
            {
                "place": texts[at[0]],
                "range": ranges[at[1]],
                "count": np.bincount(which, minlength=len(first)),
                "total_ns": np.bincount(which, inside, len(first)).astype(np.int64),
            }
        )
        table = table[table["total_ns"] > 0].sort_values("total_ns", ascending=False, ignore_index=True)
        table["each_ns"] = table["total_ns"] / self.count
        table["share"] = table["total_ns"] / max(self.whole_ns, 1)
        return table.astype({"place": "str", "range": "str"})


@dataclass(frozen=True, eq=False)
class Host:
    """What the launching threads of a process did: their calls, outermost, by start and end; ``row`` is the
    place of each in the table of calls.

    ``launch_ns``: a launch call, in the median. ``patience_ns``: how long an operation may take to begin
    after its call. ``pace_ns``: code of the CPU between two calls that is no longer is the pace of launching.
    ``main``: the thread whose program it is: the process' first, if that launches, else the one with most.
    """

    pid: int
    tids: tuple[int, ...]
    start: Ints
    end: Ints
    row: Ints
    patience_ns: int
    pace_ns: int
    launch_ns: float
    main: int = -1


def host_of(view: View, pid: int, window: tuple[int, int]) -> Host:
    """The threads of a process that launch kernels in a window, as one: they take turns."""
    if (pid, window) not in view.hosts:
        view.hosts[pid, window] = _host_of(view, pid, window)
    found: Host = view.hosts[pid, window]
    return found


def _host_of(view: View, pid: int, window: tuple[int, int]) -> Host:
    api = view.api
    start, end = spans(api)
    inside = _calls_of(view, pid, window)
    tid = at_rows(api["tid"].to_numpy(np.int64), inside)
    launching = inside[named_like(api["name"], LAUNCHES)[inside]]
    tids = unique(api["tid"].to_numpy(np.int64)[launching])[0]
    if not len(tids):  # copies alone
        tids = unique(tid[named_like(api["name"], COPYING)[inside]])[0]
    rows = inside[_is_one_of(tid, tids)]
    order = rows[small(np.lexsort((-end[rows], at_rows(start, rows))))]
    high = at_rows(end, order)
    reach = np.maximum.accumulate(high) if len(high) else high
    outer = np.append(True, high[1:] > reach[:-1])[: len(order)]
    order = order[outer]
    del rows, tid, high, reach, outer
    spent = at_rows(end, launching) - at_rows(start, launching)
    launch_ns = float(np.median(spent)) if len(spent) else float(USUAL_LAUNCH_NS)
    patience = int(min(max(5 * launch_ns, 10_000), 50_000))
    calls = launching[small(np.argsort(at_rows(start, launching), kind="stable"))]
    between = at_rows(start, calls)[1:] - at_rows(end, calls)[:-1]
    usual = float(np.median(between)) if len(between) else 0.0
    pace = int(min(max(PACE * usual, patience), SLOWEST_PACE_NS))
    # where launches ran ahead of all of the window, the thread is the one that made them
    made = order if len(order) else _launches_of(view, pid, window)
    distinct, ours = unique(api["tid"].to_numpy(np.int64)[made])
    counts = np.bincount(ours, minlength=len(distinct))
    main = int(distinct[counts.argmax()]) if len(distinct) else -1
    main = pid if pid in tids else main
    start, end = at_rows(start, order), at_rows(end, order)
    return Host(pid, tuple(tids.tolist()), start, end, small(order), patience, pace, launch_ns, main)


def _calls_of(view: View, pid: int, window: tuple[int, int]) -> Ints:
    """The places of the calls of a process that overlap a window."""
    mine = small(np.flatnonzero(view.api["pid"].to_numpy(np.int64) == pid))
    start, end = (at_rows(times, mine) for times in spans(view.api))
    return mine[(start < window[1]) & (end > window[0])]


def _launches_of(view: View, pid: int, window: tuple[int, int]) -> Ints:
    """The places of the calls that launched what a process runs in a window."""
    start, end = spans(view.ops)
    mine = (view.ops["pid"].to_numpy(np.int64) == pid) & (start < window[1]) & (end > window[0])
    return np.asarray(view.row[mine & (view.row >= 0)], np.int64)


def _is_one_of(values: Ints, wanted: Sequence[int] | Ints) -> Bools:
    """Which values are among a few."""
    if len(wanted) > _MANY:
        return np.isin(values, wanted)
    found = np.zeros(len(values), np.bool_)
    for one in wanted:
        found |= values == one
    return found


def main_process(view: View, device: int, window: tuple[int, int]) -> int:
    """The process that keeps a GPU busy longest in a window."""
    mine = rows_on(view, device, window)
    if not len(mine):
        return -1
    distinct, code = unique(view.ops["pid"].to_numpy(np.int64)[mine])
    if len(distinct) == 1:
        return int(distinct[0])
    start, end = (times[mine] for times in spans(view.ops))
    spent = np.maximum(end - start, 0)
    return int(distinct[np.bincount(code, weights=spent).argmax()])


def rows_on(view: View, device: int, window: tuple[int, int]) -> Ints:
    """The places of the operations of a GPU that overlap a window."""
    mine = small(np.flatnonzero(view.ops["device"].to_numpy(np.int64) == device))
    start, end = (at_rows(times, mine) for times in spans(view.ops))
    return mine[(start < window[1]) & (end > window[0])]


def devices_of(view: View, window: tuple[int, int]) -> list[int]:
    """The GPUs on which anything runs in a window."""
    ops = view.ops
    inside = (ops["start_ns"].to_numpy(np.int64) < window[1]) & (ops["end_ns"].to_numpy(np.int64) > window[0])
    return [int(one) for one in unique(ops["device"].to_numpy(np.int64)[inside])[0]]


def busiest(view: View, window: tuple[int, int]) -> list[int]:
    """Of more GPUs than `MOST_GPUS` those that did most in a window; of fewer all."""
    devices = devices_of(view, window)
    if len(devices) <= MOST_GPUS:
        return devices
    begun, ended = spans(view.ops)
    did = pd.Series(np.clip(np.minimum(ended, window[1]) - np.maximum(begun, window[0]), 0, None))
    did = did.groupby(view.ops["device"].to_numpy(np.int64)).sum()
    return sorted(int(one) for one in did.nlargest(MOST_GPUS).index)


def ledgers(view: View, judged: Steady, lines: Lines | None = None) -> list[Ledger]:
    """The ledger of each GPU, that of the worst one first.

    Worst is the one that waits least for others: what it does decides how long all take. Of GPUs that do not
    wait for each other, it is the one with the longest iteration, then with the most idle time; those whose
    process has no iterations among the judged ones come last.
    """
    begun, ended = spans(view.ops)
    some = overlap.meets(view.ops) & (begun < judged.window[1]) & (ended > judged.window[0])
    met, why = overlap.waits(rows_of(view.ops, some), view.row[some])
    lines = Lines(view.report) if lines is None else lines
    every = [
        ledger_of(view, judged, device, met[met["device"] == device], why, lines)
        for device in busiest(view, judged.window)
    ]
    every = [one for one in every if one is not None]
    if len(met):
        every.sort(key=lambda one: one.each("late-rank"))
    else:
        every.sort(key=lambda one: (not one.repeats, -one.each_ns, -one.side("idle")))
    for process, window in list(view.hosts):  # nobody asks for the others again
        if every and process != every[0].pid:
            del view.hosts[process, window]
    return every


def ledger_of(view: View, judged: Steady, device: int, met: pd.DataFrame, why: str, lines: Lines) -> Ledger:
    """The ledger of one GPU."""
    window = judged.window
    pid = main_process(view, device, window)
    rows = judged.rows[judged.rows["pid"] == pid] if len(judged.rows) else judged.rows
    if len(rows):
        start = np.maximum(rows["start_ns"].to_numpy(np.int64), window[0])
        end = np.minimum((rows["start_ns"] + rows["duration_ns"]).to_numpy(np.int64), window[1])
        kept = end > start
        edges = start[kept], end[kept]
        window = int(edges[0].min()), int(edges[1].max())
    else:
        edges = np.array([window[0]], np.int64), np.array([window[1]], np.int64)
    ops = view.ops
    begun, ended = spans(ops)
    mine = rows_on(view, device, window)
    parts: list[tuple[Ints, Ints, int]] = []
    free = np.array([window[0]], np.int64), np.array([window[1]], np.int64)
    low, high = begun[mine], ended[mine]
    owned = by_code(view.owner[mine], len(OWNERS))
    late = CODE["late-rank"]
    for code, one in enumerate(OWNERS):
        if one.side == "idle":
            break
        if code == late:
            until = met["until_ns"].to_numpy(np.int64)
            run = met["start_ns"].to_numpy(np.int64), until
        else:
            run = low[owned[code]], high[owned[code]]
        if not len(run[0]):
            continue
        taken = intervals.intersect(*run, *free)
        if len(taken[0]):
            parts.append((*taken, code))
            free = intervals.less(*free, *taken)
    host = host_of(view, pid, window)
    idle = _Idle(view, host, window, mine, free, lines, len(edges[0]))
    parts += [(a, b, code) for a, b, code in idle.parts()]
    start = np.concatenate([a for a, _, _ in parts]) if parts else free[0]
    end = np.concatenate([b for _, b, _ in parts]) if parts else free[1]
    codes = np.concatenate([np.full(len(a), code, np.int8) for a, _, code in parts])
    order = np.argsort(start, kind="stable")
    start, end, codes = start[order], end[order], codes[order]
    size = len(start) if idle.told else 1  # of what is the same everywhere one is enough
    place, ranges = np.full(size, NOWHERE, object), np.full(size, "", object)
    if idle.told:
        idle.tell(start, codes, place, ranges)
    place, ranges = (np.broadcast_to(column, len(start)) for column in (place, ranges))
    columns = {"start_ns": start, "end_ns": end, "owner": codes, "place": place, "range": ranges}
    pieces = pd.DataFrame(columns, copy=False)
    return Ledger(device, pid, window, edges, pieces, why, bool(len(rows)))


class _Idle:
    """The idle time of a GPU, by what the launching threads did in it."""

    def __init__(
        self,
        view: View,
        host: Host,
        window: tuple[int, int],
        mine: Ints,
        free: Spans,
        lines: Lines,
        iterations: int,
    ) -> None:
        self.view, self.host, self.window, self.free, self.lines = view, host, window, free, lines
        self.mine, self.iterations = mine, iterations
        self.told: dict[int, tuple[Place, str]] = {}  # by the begin of a piece

    def parts(self) -> Iterator[tuple[Ints, Ints, int]]:
        """Its pieces: starts, ends, owner."""
        start, end = self.free
        if not len(start):
            return
        called = self._called(end)
        known = called >= 0
        if not len(self.host.start):
            ends = np.append(self.view.api["end_ns"].to_numpy(np.int64), 0)
            early = known & (ends[called] <= start)
            yield start[early], end[early], CODE["queued"]
            yield start[~early], end[~early], CODE["unknown"]
            return
        yield start[~known & (end < self.window[1])], end[~known & (end < self.window[1])], CODE["unknown"]
        # after the last operation of the window the next one's call is not looked for: all is the CPU's
        known |= end >= self.window[1]
        returned = np.where(
            called >= 0, np.append(self.view.api["end_ns"].to_numpy(np.int64), 0)[called], end
        )
        cut = np.clip(returned, start, end)
        early = known & (returned <= start)
        yield start[early], end[early], CODE["queued"]
        late = known & ~early
        # what is left after the call is the launch's own latency, or a wait for another stream
        after = late & (end > cut)
        short = after & (end - cut < self.host.patience_ns)
        long = after & ~short
        yield cut[long], end[long], CODE["queued"]
        yield cut[short], end[short], CODE["launch"]
        yield from self._of_cpu(start[late], np.where(after, cut, end)[late])

    def _called(self, ends: Ints) -> Ints:
        """For each idle stretch the row of the call that launched the operation it ends with; -1: none."""
        begun = self.view.ops["start_ns"].to_numpy(np.int64)[self.mine]
        order = np.argsort(begun, kind="stable")
        place = np.searchsorted(begun[order], ends, "left")
        some = place < len(order)
        found = np.full(len(ends), -1, np.int64)
        found[some] = self.view.row[self.mine[order[place[some]]]]
        return found

    # ---- the CPU's part

    def _of_cpu(self, start: Ints, end: Ints) -> Iterator[tuple[Ints, Ints, int]]:
        left: Spans = intervals.union(start, end)
        api = self.view.api
        mine = _calls_of(self.view, self.host.pid, self.window)
        mine = mine[_is_one_of(at_rows(api["tid"].to_numpy(np.int64), mine), self.host.tids)]
        begun, ended = (at_rows(times, mine) for times in spans(api))

        def named(pattern: str) -> Bools:
            return np.asarray(named_like(api["name"], pattern)[mine], np.bool_)

        def calls(some: Bools) -> Spans:
            return begun[some], ended[some]

        syncs, copying, allocating = named(SYNCHRONIZING), named(COPYING), named(ALLOCATING)
        first = loading_launches(self.view.ops, self.view.row, api)
        loading = calls(named(LOADING) | np.isin(mine, first))
        compiled = self._compiling()
        classes = (
            ("profiler", self._profiled()),
            ("loading", intervals.joined([loading, compiled])),
            ("allocation", calls(allocating)),
            ("sync", calls(syncs & ~copying & ~allocating)),
            ("copy-call", calls(copying)),
            ("launch", (self.host.start, self.host.end)),
        )
        launch: list[Spans] = []
        for name, theirs in classes:
            taken = intervals.intersect(*theirs, *left)
            if not len(taken[0]):
                continue
            left = intervals.less(*left, *taken)
            if name == "launch":
                launch.append(taken)
            else:
                yield *self._noted(taken, name), CODE[name]
        # the program's own code: between two calls; short is the pace of the launches
        low, high = self._stretches(left)
        width = high - low
        cut = np.maximum(left[0], low), np.minimum(left[1], high)
        pace = width <= self.host.pace_ns
        launch.append((left[0][pace], left[1][pace]))
        for owner, some in self._told_apart(cut, low, high, ~pace):
            yield left[0][some], left[1][some], CODE[owner]
        paced = intervals.union(*intervals.joined(launch))
        drained = self._after_a_drain(paced[0], begun[syncs], ended[syncs])
        yield paced[0][drained], paced[1][drained], CODE["sync"]
        yield paced[0][~drained], paced[1][~drained], CODE["launch"]

    def _stretches(self, left: Spans) -> Spans:
        """For each piece between calls of the launching threads: when the one before ended, the next began.

        A piece lies between two calls, for calls are cut out of what is left; a call of another kind ends it.
        """
        host = self.host
        reach = np.maximum.accumulate(host.end) if len(host.end) else host.end
        before = np.searchsorted(reach, left[0], "right") - 1
        after = np.searchsorted(host.start, left[0], "right")
        low = np.where(before >= 0, np.append(reach, self.window[0])[before], self.window[0])
        high = np.append(host.start, self.window[1])[np.minimum(after, len(host.start))]
        return np.minimum(low, left[0]), np.maximum(high, left[1])

    def _told_apart(self, cut: Spans, low: Ints, high: Ints, long: Bools) -> Iterator[tuple[str, Ints]]:
        """The long stretches by what the program did: loading data, making code, or anything else of its own.

        Code is made where the stack of Python says so, and before a call that loads it: who compiles in the
        loop, in Python or below it (cuDNN, NVRTC), has the GPU load the result at once.
        """
        rows = np.flatnonzero(long)
        if not len(rows):
            return
        order = rows[np.argsort(-(cut[1] - cut[0])[rows], kind="stable")]
        looked = np.sort(order[:DEEPEST])
        host = self.host
        api = self.view.api
        tids = api["tid"].to_numpy(np.int64)
        before = np.maximum(np.searchsorted(host.start, low[looked], "left") - 1, 0)
        tid = tids[host.row[before]]
        following = np.searchsorted(host.start, low[looked], "left")
        beyond = following >= len(host.start)
        after = np.minimum(following, max(len(host.start) - 1, 0))
        # a thread of autograd's has nothing of its own to do: its stretches are those of the main thread
        tid = np.full(len(tid), host.main, np.int64) if len(host.tids) > 1 else tid
        table = pd.DataFrame(
            {"start_ns": cut[0][looked], "end_ns": cut[1][looked], "pid": host.pid, "tid": tid}
        )
        places = self.lines.during(table)
        named, share, loads_range = self._ranges(table)
        reads = self._reading(table)
        made = ~beyond & named_like(api["name"].iloc[host.row[after]], MADE)
        next_copy = np.where(beyond, False, self._leads_to_a_batch(low[looked], high[looked]))
        owner = np.full(len(rows), "host-code", object)
        position = {int(row): place for place, row in enumerate(rows)}
        guessed = []
        width = (high - low)[looked]
        loaded = coded = 0  # ns of stretches before a batch's copy whose samples say what was done in them
        for number, row in enumerate(looked.tolist()):
            place = places[number]
            inside = named[number] if share[number] >= WAITING else ""
            if place.compiles or bool(made[number]):
                owner[position[row]] = "loading"
            elif place.loads or bool(loads_range[number]):
                owner[position[row]] = "data-loading"
            elif not (place.file and place.seen) and not inside and bool(reads[number] or next_copy[number]):
                guessed.append(position[row])
            if bool(next_copy[number]) and place.file and place.seen:
                loaded += int(width[number]) * place.loads
                coded += int(width[number]) * (not place.loads)
            self.told[int(cut[0][row])] = (place, inside)
        # what comes before the copy of a batch now and then only is something else; and where most of such
        # stretches are seen to be other code, those without a sample are, too
        if 2 * len(guessed) >= self.iterations and loaded >= coded:
            owner[guessed] = "data-loading"
        for name in ("loading", "data-loading", "host-code"):
            some = rows[owner == name]
            if len(some):
                yield name, some

    def _ranges(self, table: pd.DataFrame) -> tuple[list[str], list[float], Bools]:
        """The range that was innermost for most of each stretch, for which share; and whether it loads."""
        nvtx = self.view.nvtx
        own = nvtx["end_ns"].notna().to_numpy() & (nvtx["pid"] == self.host.pid).to_numpy()
        ended = rows_of(nvtx, own & is_any(nvtx["event_type"], "push_pop"))
        if isinstance(self.view.report, FunctionsReport):
            ended = ended[~ended["name"].str.startswith((STEP, "Optimizer."))]
        ended = rows_of(ended, ~is_any(ended["name"], MEASURED))
        names, shares = [""] * len(table), [0.0] * len(table)
        loads = np.zeros(len(table), np.bool_)
        if not len(ended):
            return names, shares, loads
        ended = ended.assign(end_ns=ended["end_ns"].astype("int64"), label=labels(ended))
        for tid, rows in table.groupby("tid").indices.items():
            mine = ended[ended["tid"] == tid]
            if not len(mine):
                continue
            low, high = spans(table.iloc[rows])
            found, most = _dominant(mine, "label", low, high)
            loading = mine[named_like(mine["label"], LOADS)]
            covered = intervals.covered_within(*spans(loading), low, high)
            for place, row in enumerate(np.asarray(rows).tolist()):
                width = max(int(high[place] - low[place]), 1)
                names[row], shares[row] = NUMBER.sub("", str(found[place])), float(most[place] / width)
                loads[row] = covered[place] >= WAITING * width
        return names, shares, loads

    def _reading(self, table: pd.DataFrame) -> Bools:
        """Whether the thread waited in a call of the system for most of a stretch."""
        if not isinstance(self.view.report, SystemReport):
            return np.zeros(len(table), np.bool_)
        system = self.view.report.osrt()
        if not len(system):
            return np.zeros(len(table), np.bool_)
        system = system[system["pid"] == self.host.pid]
        system = system[named_like(system["name"], READING)]
        found = np.zeros(len(table), np.bool_)
        for tid, rows in table.groupby("tid").indices.items():
            mine = system[system["tid"] == tid]
            low, high = spans(table.iloc[rows])
            found[rows] = intervals.covered_within(*spans(mine), low, high) >= WAITING * (high - low)
        return found

    def _leads_to_a_batch(self, since: Ints, until: Ints) -> Bools:
        """Whether the first operation launched after a stretch is a copy of some size to the GPU.

        Not where the last one before it is a copy from the GPU: then the code works with what came back.
        """
        called, into, back = self._launches()
        place = np.searchsorted(called, until, "left")
        before = np.searchsorted(called, since, "left") - 1
        return np.asarray(np.append(into, False)[place] & ~np.append(back, False)[before], np.bool_)

    def _launches(self) -> tuple[Ints, Bools, Bools]:
        """Calls that launched operations of this GPU, by start, and whether each copies a batch to it, or
        more than a number back.
        """
        ops, row = self.view.ops, self.view.row
        mine = self.mine[row[self.mine] >= 0]
        called = self.view.api["start_ns"].to_numpy(np.int64)[row[mine]]
        size, owner = ops["bytes"].fillna(0).to_numpy(np.int64)[mine], self.view.owner[mine]
        into = (owner == CODE["copy-in"]) & (size >= BATCH_BYTES)
        back = (owner == CODE["copy-out"]) & (size > READ_BYTES)
        order = np.argsort(called, kind="stable")
        return called[order], into[order], back[order]

    def _after_a_drain(self, at: Ints, sync_start: Ints, sync_end: Ints) -> Bools:
        """Which paced pieces come after a synchronization that drained the queue, before it was filled again.

        A synchronization drains where the GPU becomes idle during it. The queue is filled where an operation
        had to wait for another one. Where the GPU has much less to do than the CPU, it would wait anyway.
        """
        if not len(at) or not len(sync_start):
            return np.zeros(len(at), np.bool_)
        drained = self.free[0]
        inside = intervals.covered_within(sync_start, sync_end, drained - 1, drained + 1) > 0
        drains = np.sort(drained[inside])
        if not len(drains):
            return np.zeros(len(at), np.bool_)
        ops, row = self.view.ops, self.view.row
        begun = ops["start_ns"].to_numpy(np.int64)[self.mine]
        made = np.append(self.view.api["end_ns"].to_numpy(np.int64), np.iinfo(np.int64).max)[row[self.mine]]
        kernels = is_any(ops["kind"], "kernel")[self.mine]
        fills = np.sort(begun[(begun - np.minimum(made, begun) > self.host.patience_ns) & kernels])
        none = np.int64(np.iinfo(np.int64).min)
        last_drain = np.append(none, drains)[np.searchsorted(drains, at, "right")]
        last_fill = np.append(none, fills)[np.searchsorted(fills, at, "right")]
        far = np.iinfo(np.int64).max
        next_drain = np.append(drains, far)[np.searchsorted(drains, at, "right")]
        next_fill = np.append(fills, far)[np.searchsorted(fills, at, "right")]
        after = (last_drain > last_fill) & (last_drain != none)
        return np.asarray(after & ((next_fill < next_drain) | self._fed(sync_start, sync_end)), np.bool_)

    def _fed(self, sync_start: Ints, sync_end: Ints) -> bool:
        """Whether the GPU has about as much to do as the CPU needs to launch it."""
        width = self.window[1] - self.window[0]
        busy = width - intervals.total(*self.free)
        working = width - intervals.total(*intervals.clip(sync_start, sync_end, self.window))
        return busy >= FED * working

    # ---- what is told of pieces

    def _noted(self, taken: Spans, owner: str) -> Spans:
        """Note where in the program calls of an owner stand."""
        api, host = self.view.api, self.host
        place = np.searchsorted(host.start, taken[0], "right") - 1
        some = np.flatnonzero(place >= 0)
        rows = host.row[place[some]]
        calls = api.iloc[np.unique(rows)][["start_ns", "end_ns", "pid", "tid"]]
        if len(calls) and self.lines.known:
            found = dict(zip(np.unique(rows).tolist(), self.lines.at_calls(calls), strict=True))
            for piece, row in zip(some.tolist(), rows.tolist(), strict=True):
                self.told[int(taken[0][piece])] = (found[row], "")
        return taken

    def tell(self, start: Ints, codes: Ints, place: Objects, ranges: Objects) -> None:
        """Write places and ranges of pieces into columns."""
        idle = np.flatnonzero(codes >= CODE["profiler"])
        for row, at in zip(idle.tolist(), start[idle].tolist(), strict=True):
            found = self.told.get(at)
            if found is not None:
                place[row], ranges[row] = found

    def _profiled(self) -> Spans:
        overhead = self.view.report.profiler_overhead()
        mine = overhead[(overhead["pid"] == self.host.pid) & overhead["tid"].isin(self.host.tids)]
        return spans(mine)

    def _compiling(self) -> Spans:
        """When a compiler ran, where a trace has the functions of Python or marks of it."""
        report = self.view.report
        if not isinstance(report, FunctionsReport):
            nvtx = self.view.nvtx
            some = nvtx[named_like(nvtx["name"], COMPILING) & nvtx["end_ns"].notna().to_numpy()]
            some = some[some["pid"] == self.host.pid]
            return spans(some.astype({"end_ns": "int64"}))
        tables = [report.python_functions(), report.annotations(), report.ops()]
        parts = [
            spans(t[named_like(t["name"], COMPILING) & (t["pid"] == self.host.pid).to_numpy()])
            for t in tables
        ]
        return intervals.joined(parts)
