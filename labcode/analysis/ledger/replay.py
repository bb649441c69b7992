"""Some iterations of a GPU in; how long one takes when a cause is taken out of them, out.

The iterations are played again, several times over: the launching threads, as one, make their calls with the
time between them that was recorded; an operation begins when its call was made, its stream is free and what
it waited for on another stream is done; a call that waits returns when the operation is done that it waited
for; and the queue has room for so many operations. What a change makes of the loop is the distance between
the ends of its last rounds: when the CPU is no longer what all wait for, the GPU is, and the other way round.
A batch that workers make comes when it is made, whatever the rest of the iteration takes: where the loop
waits for them in most iterations, they set the pace, and what makes the rest quicker makes the wait longer.

Predicted is for the program without the recorder: each traced call takes longer than it does by itself, in
the call and around it, and a gain in a loop that is slowed down so would be too small or too large.

A replay knows order, not contents: that operations beside each other slow each other down, and that work
moved elsewhere must be done there, it does not know. So a gain is told as an interval, from a cautious to a
bold change, wider by how far the replay of what was recorded is off.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from labcode.analysis.ledger.ledger import PACE, Host, Ledger, host_of
from labcode.analysis.ledger.view import CODE, View
from labcode.analysis.timeline.joins import named_like, spans
from labcode.analysis.timeline.utilization import SYNCHRONIZING
from labcode.reports.columns import Bools, Floats, Ints, Objects
from labcode.reports.frames import is_any

MOST = 5_000  # operations and calls of a round
ROOM = 1_000  # operations that fit into the queue
ROUNDS = 3
EARLIER = 500  # operations before a round that may still run when it begins
LEAST_ERROR = 0.05  # however well what was recorded is replayed
QUEUED_NS = 100_000  # a launch that takes so long waits for room
STREAM_WAIT = r"StreamWaitEvent"
SLACK_NS = 3_000  # between the end of what was waited for and what follows
OF_ITSELF_NS = 5_000  # what a call that waits takes besides
CLEAN_LAUNCH_NS = 3_000  # a launch without a recorder
# What a recorder costs besides, by the median over recordings of programs that the CPU holds up and whose
# time without it was taken, too: around a call, of what it costs in a launch; of all code, where it costs as
# much in a launch as that takes.
AROUND, SLOWED = 1.5, 0.2
MOST_OFTEN = 0.5  # of the iterations
BUSY, EASED = 0.95, 0.75  # of an iteration; of a launch and the code before it


@dataclass(frozen=True, eq=False)
class Program:
    """A round: calls in their order (with the code before each), and the operations of each.

    Of calls: ``gap`` (ns of code before it), ``spent`` (in it, waiting left out), ``waits`` (0: not; 1: for
    the stream ``target``; 2: for the operation ``target``; 3: for all), ``tail`` (from the end of that to
    its return), ``row`` (in the table of calls), ``first`` and ``last`` (its operations, from … up to).
    ``due``: when the batch is there that the code before the call waits for (from the round's begin; -1: it
    waits for none), in each round a ``period`` later.
    Of operations, in the order of their launch: ``made`` (from the call's begin), ``latency``, ``length``,
    ``stream``, ``after`` (an operation of another stream, -1: none), ``op`` (in the table of operations).
    ``count``: iterations of a round.
    """

    gap: Floats
    spent: Floats
    waits: Ints
    target: Ints
    tail: Floats
    row: Ints
    first: Ints
    last: Ints
    made: Floats
    latency: Floats
    length: Floats
    stream: Ints
    after: Ints
    op: Ints
    due: Floats
    count: int
    period: float

    def play(self) -> float:
        """ns of an iteration."""
        gap, spent, tail = self.gap.tolist(), self.spent.tolist(), self.tail.tolist()
        waits, target = self.waits.tolist(), self.target.tolist()
        first, last = self.first.tolist(), self.last.tolist()
        due = self.due.tolist()
        made, latency, length = self.made.tolist(), self.latency.tolist(), self.length.tolist()
        stream, after = self.stream.tolist(), self.after.tolist()
        streams = int(self.stream.max(initial=0)) + 1
        free = [0.0] * streams
        count = len(length)
        begun = [0.0] * count
        ended = [0.0] * count
        before = list(begun)  # of the round before
        cpu = 0.0
        ends = []
        room = min(ROOM, max(count - 1, 1)) if count else 0
        full = count > ROOM  # the queue may hold no more than a round of fewer operations
        for number in range(ROUNDS):
            before, begun = begun, before
            for i in range(len(gap)):
                if due[i] < 0:
                    cpu += gap[i]
                else:
                    cpu = max(cpu + min(gap[i], OF_ITSELF_NS), number * self.period + due[i])
                low, high = first[i], last[i]
                several = high - low > 1
                barrier = (
                    max(free) if several else 0.0
                )  # a graph begins when what was launched before is done
                if high > low and not several:
                    # room in the queue
                    back = high - 1 - room
                    limit = begun[back] if back >= 0 else before[back + count]
                    if (full or back < 0) and limit > cpu:
                        cpu = limit
                if high > low:
                    for k in range(low, high):
                        at = cpu + made[k]
                        s = stream[k]
                        if barrier > at:
                            at = barrier
                        if free[s] > at:
                            at = free[s]
                        if after[k] >= 0 and ended[after[k]] > at:
                            at = ended[after[k]]
                        at += latency[k]
                        begun[k] = at
                        at += length[k]
                        ended[k] = at
                        free[s] = at
                cpu += spent[i]
                how = waits[i]
                if how:
                    if how == 2:
                        done = ended[target[i]]
                    elif how == 1:
                        done = free[target[i]]
                    else:
                        done = max(free)
                    done += tail[i]
                    if done > cpu:
                        cpu = done
            ends.append(max(max(free), cpu))
        return (ends[-1] - ends[-2]) / max(self.count, 1)

    def change(self, **columns: Floats | Ints) -> "Program":
        """The program with some columns replaced."""
        return replace(self, **columns)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Gain:
    """What taking a cause out saves, as shares of an iteration: predicted, at least, at most."""

    share: float
    low: float
    high: float


class Replay:
    """The replay of a ledger's GPU; ``why`` says why there is none."""

    def __init__(self, view: View, ledger: Ledger) -> None:
        self.view, self.ledger = view, ledger
        self.why = ""
        self.chosen = slice(0, 1)

    @cached_property
    def host(self) -> Host:
        """The launching threads."""
        return host_of(self.view, self.ledger.pid, self.ledger.window)

    @cached_property
    def program(self) -> Program | None:
        """What is played: as many iterations as make a round; None where calls are missing."""
        edges = self.ledger.edges
        ops, row = self.view.ops, self.view.row
        begun = ops["start_ns"].to_numpy(np.int64)
        mine = np.flatnonzero((ops["device"].to_numpy(np.int64) == self.ledger.device) & (row >= 0))
        mine = mine[ops["pid"].to_numpy(np.int64)[mine] == self.ledger.pid]
        if not len(mine):  # where launches ran ahead of all that is judged, their calls are enough
            self.why = "the capture holds no calls that launched these operations"
            return None
        per = np.searchsorted(begun[mine], edges[1]) - np.searchsorted(begun[mine], edges[0])
        calls = np.searchsorted(self.host.start, edges[1]) - np.searchsorted(self.host.start, edges[0])
        sizes = per + calls
        count = max(min(int(MOST // max(sizes.mean(), 1)), len(sizes)), 1)
        # as many as fit, which follow each other and take about as long as all do in the mean
        ends = np.append(0, np.cumsum(edges[1] - edges[0]))
        mean = (ends[count:] - ends[:-count]) / count
        first = int(np.abs(mean - ends[-1] / len(sizes)).argmin())
        self.chosen = slice(first, first + count)
        low, high = int(edges[0][first]), int(edges[1][first + count - 1])
        inside = mine[(begun[mine] >= low) & (begun[mine] < high)]
        if len(inside) < 2 or int(sizes[self.chosen].sum()) > 20 * MOST:
            self.why = "an iteration holds too few or too many operations"
            return None
        return self._made(inside, mine, high, count)

    def _made(self, inside: Ints, mine: Ints, high: int, count: int) -> Program | None:
        api, host = self.view.api, self.host
        a_start, a_end = spans(api)
        order = inside[
            np.lexsort((self.view.ops["start_ns"].to_numpy(np.int64)[inside], a_start[self.view.row[inside]]))
        ]
        begun, ended = (self.view.ops[c].to_numpy(np.int64)[order] for c in ("start_ns", "end_ns"))
        called = self.view.row[order]
        begin = int(a_start[called].min())
        following = mine[self.view.ops["start_ns"].to_numpy(np.int64)[mine] >= high]
        latest = int(a_start[called].max())
        until = int(self.ledger.window[1]) if self.ledger.repeats else latest + 1
        until = int(a_start[self.view.row[following]].min()) if len(following) else until
        if until <= latest:  # launched before: the round ends with its own last call
            until = latest + 1
        some = np.flatnonzero((host.start >= begin) & (host.start < until))
        # operations that other threads launched: their calls stand among those of the launching threads
        rows = np.unique(np.concatenate((host.row[some], called)))
        rows = rows[np.lexsort((-a_end[rows], a_start[rows]))]
        start, end = a_start[rows], a_end[rows]
        reach = np.append(begin, np.maximum.accumulate(end))[:-1]
        gap = np.maximum(start - reach, 0).astype(np.float64)
        spent = np.maximum(end - np.maximum(start, reach), 0).astype(np.float64)
        position = np.full(len(api) + 1, -1, np.int64)
        position[rows] = np.arange(len(rows))
        of_call = position[called]
        if (np.diff(of_call) < 0).any():  # calls of several threads that began at the same time
            again = np.argsort(of_call, kind="stable")
            order, begun, ended, called, of_call = (
                column[again] for column in (order, begun, ended, called, of_call)
            )
        first = np.searchsorted(of_call, np.arange(len(rows)), "left")
        last = np.searchsorted(of_call, np.arange(len(rows)), "right")
        streams = self.view.ops[["context", "stream"]].iloc[order]
        stream = np.asarray(streams.groupby(["context", "stream"], sort=True).ngroup(), np.int64)
        earlier = self._earlier(
            order, mine[max(int(np.searchsorted(mine, order.min())) - EARLIER, 0) :], stream
        )
        made, latency, after = self._times(order, begun, ended, called, stream, earlier)
        names = api["name"].iloc[rows]
        syncs = named_like(names, SYNCHRONIZING)
        waits, target, tail, spent = self._waits(
            names.to_numpy(object), syncs, start, end, spent, first, last, begun, ended, stream, order
        )
        tail_gap = max(until - int(end.max()), 0) if len(following) or self.ledger.repeats else 0
        gap[0] += tail_gap  # the code after the last call of a round comes before the first of the next
        length = np.maximum(ended - begun, 0).astype(np.float64)
        return Program(
            gap,
            spent,
            waits,
            target,
            tail,
            rows,
            first,
            last,
            made,
            latency,
            length,
            stream,
            after,
            order,
            self._due(rows, start - begin + gap[0], count),
            count,
            float(until - begin),
        )

    def _due(self, rows: Ints, at: Floats, count: int) -> Floats:
        """When the batches are there that the code before calls waits for; -1 elsewhere."""
        pieces = self.ledger.pieces
        mine = pieces[(pieces["owner"] == CODE["data-loading"]).to_numpy()]
        mine = mine[[bool(place.waits) for place in mine["place"]]]
        if not self.ledger.repeats or len(mine) < MOST_OFTEN * self.ledger.count:
            return np.full(len(rows), -1.0)
        return np.where(self._before(mine, rows), np.asarray(at, np.float64), -1.0)

    def _earlier(self, order: Ints, before: Ints, stream: Ints) -> dict[int, int]:
        """When what ran on each stream before the round had ended."""
        ops = self.view.ops
        keys = ["context", "stream"]
        begun = ops["start_ns"].to_numpy(np.int64)
        first: dict[int, int] = {}
        before = before[begun[before] < begun[order].min()]
        where = ops[keys].to_numpy(np.int64)
        ended = ops["end_ns"].to_numpy(np.int64)
        for number in np.unique(stream).tolist():
            key = where[order[int(np.argmax(stream == number))]]
            mine = before[(where[before] == key).all(axis=1)]
            if len(mine):
                first[number] = int(ended[mine].max())
        return first

    def _times(
        self, order: Ints, begun: Ints, ended: Ints, called: Ints, stream: Ints, earlier: dict[int, int]
    ) -> tuple[Floats, Floats, Ints]:
        """When each was made after its call began; its latency; what of another stream it waited for."""
        a_start, a_end = spans(self.view.api)
        made_at = np.minimum(a_end[called], begun)
        made = (made_at - np.minimum(a_start[called], made_at)).astype(np.float64)
        asked = np.sort(a_start[named_like(self.view.api["name"], STREAM_WAIT)])
        latency, after = np.zeros(len(order)), np.full(len(order), -1, np.int64)
        last_of: dict[int, int] = {}
        called_at = a_start[called]
        for k in range(len(order)):
            s = int(stream[k])
            back = last_of.get(s, -1)
            free = int(ended[back]) if back >= 0 else earlier.get(s, int(made_at[k]))
            ready = max(free, int(made_at[k]))
            since = int(called_at[back]) if back >= 0 else -1
            waited = (
                np.searchsorted(asked, called_at[k]) > np.searchsorted(asked, since) if len(asked) else False
            )
            if waited or begun[k] - ready > SLACK_NS:
                best = -1
                for other, place in last_of.items():
                    if other == s:
                        continue
                    at = place
                    while at >= 0 and (stream[at] != other or ended[at] > begun[k]):
                        at -= 1
                        if place - at > 64:
                            at = -1
                    if at >= 0 and (best < 0 or ended[at] > ended[best]):
                        best = at
                if best >= 0 and (waited or begun[k] - ended[best] <= 4 * SLACK_NS):
                    after[k] = best
                    ready = max(ready, int(ended[best]))
            # an operation may begin before the one before it has ended (programmatic dependent launches)
            latency[k] = int(begun[k]) - ready if ready == free else max(int(begun[k]) - ready, 0)
            last_of[s] = k
        return made, latency, after

    def _waits(
        self,
        names: Objects,
        syncs: Bools,
        start: Ints,
        end: Ints,
        spent: Floats,
        first: Ints,
        last: Ints,
        begun: Ints,
        ended: Ints,
        stream: Ints,
        order: Ints,
    ) -> tuple[Ints, Ints, Floats, Floats]:
        """Which calls wait, for what, how long after it they return, and what they take of themselves."""
        count = len(start)
        waits, target, tail = np.zeros(count, np.int64), np.full(count, -1, np.int64), np.zeros(count)
        spent = spent.copy()
        blocking = self._blocking(order)
        main = int(np.bincount(stream).argmax()) if len(stream) else 0
        launches = spent[(last > first) & ~syncs]
        usual = float(np.median(launches)) if len(launches) else 0.0
        done: list[int] = []
        newest = -1  # of the operations launched so far, the one that ended last
        for i in range(count):
            for k in range(int(first[i]), int(last[i])):
                done.append(k)
            own = range(int(first[i]), int(last[i]))
            copy = next((k for k in own if blocking[k]), -1)
            if copy >= 0 and ended[copy] <= end[i] + SLACK_NS:
                waits[i], target[i] = 2, copy
                tail[i] = max(int(end[i]) - int(ended[copy]), 0)
                spent[i] = min(spent[i], OF_ITSELF_NS)
                continue
            if len(own):
                if usual < QUEUED_NS <= spent[i] and self._full(int(start[i]), begun, done):
                    spent[i] = usual
                continue
            if not syncs[i]:
                continue
            name = str(names[i])
            newest = self._latest(done, ended, int(end[i]), stream, None)
            if "Event" in name:
                if newest >= 0 and ended[newest] > start[i]:
                    waits[i], target[i] = 2, newest
            elif "Stream" in name:
                streams = stream[newest] if newest >= 0 and ended[newest] > start[i] else main
                waits[i], target[i] = 1, int(streams)
            else:
                waits[i] = 3
            if waits[i]:
                waited = newest >= 0 and ended[newest] > start[i]
                tail[i] = max(int(end[i]) - int(ended[newest]), 0) if waited else 0.0
                spent[i] = min(spent[i], OF_ITSELF_NS) if waited else spent[i]
        return waits, target, tail, spent

    @staticmethod
    def _full(start: int, begun: Ints, done: list[int]) -> bool:
        """Whether many operations that had been launched had not begun."""
        return len(done) > ROOM // 2 and int(begun[done[-ROOM // 2]]) > start

    @staticmethod
    def _latest(done: list[int], ended: Ints, until: int, stream: Ints, of: int | None) -> int:
        """Of operations that were launched before, the one that ended last by some time."""
        best = -1
        for k in done[-400:]:
            if ended[k] <= until and (best < 0 or ended[k] >= ended[best]):
                best = k
        return best

    def _blocking(self, order: Ints) -> Bools:
        """Which operations are copies whose call returns when they are done."""
        ops = self.view.ops
        found = np.zeros(len(order), np.bool_)
        copies = np.flatnonzero(is_any(ops["kind"], "memcpy")[order])
        if not len(copies):
            return found
        pageable = self.view.pageable
        calls = self.view.api["name"].to_numpy(object)
        for k in copies.tolist():
            name = str(calls[self.view.row[order[k]]])
            found[k] = bool(pageable[order[k]]) or "Async" not in name
        return found

    # ---- gains

    @cached_property
    def clean(self) -> Program | None:
        """The program without the recorder, as far as its calls tell.

        Of a launch call what exceeds 3 µs is taken for the recorder's; of the code before each call 1.5 times
        as much, where the recorder enters and leaves it, or a fifth, where it interrupts long code to look
        where that is; never more than half of either.
        """
        program = self.program
        if program is None:
            return None
        extra = max(self.host.launch_ns - CLEAN_LAUNCH_NS, 0.0)
        launches = program.last > program.first
        spent = np.where(launches, program.spent - np.minimum(program.spent / 2, extra), program.spent)
        slowed = program.gap * SLOWED * min(extra / CLEAN_LAUNCH_NS, 1.0)
        around = np.maximum(AROUND * extra, slowed)
        return program.change(spent=spent, gap=program.gap - np.minimum(program.gap / 2, around))

    @cached_property
    def recorded_ns(self) -> float:
        """ns of an iteration, replayed as it was recorded."""
        return self.program.play() if self.program is not None else float("nan")

    @cached_property
    def base_ns(self) -> float:
        """ns of an iteration without the recorder."""
        return self.clean.play() if self.clean is not None else float("nan")

    @cached_property
    def error(self) -> float:
        """How far the replay is off what was recorded, as a share."""
        program = self.program
        if program is None:
            return float("nan")
        low, high = self.ledger.edges
        measured = float((high[self.chosen] - low[self.chosen]).mean())
        return abs(self.recorded_ns - measured) / max(measured, 1.0)

    def gain(self, bold: Callable[[Program], Program], cautious: Callable[[Program], Program]) -> Gain | None:
        """What two changes save; None where nothing can be played.

        Predicted is the bold one, which takes the cause out whole; the cautious one is the least. Launches of
        a GPU that was always busy are such that nobody waited for: where they set the pace of the bold
        change, a recorder may cost them more than `clean` takes out (`EASED`), and predicted is the middle of
        both.
        """
        program = self.clean
        if program is None or not self.base_ns > 0:
            return None
        changed = bold(program)
        took = changed.play()
        most = eased = 1 - took / self.base_ns
        least = most if cautious is bold else 1 - cautious(program).play() / self.base_ns
        low = min(most, least)
        every = max(program.count, 1)
        if program.length.sum() >= BUSY * self.base_ns * every and changed.length.sum() < BUSY * took * every:
            easier = changed.change(gap=changed.gap * EASED, spent=changed.spent * EASED)
            eased = 1 - easier.play() / self.base_ns
            most = (most + eased) / 2
        off = min(max(self.error, LEAST_ERROR), 0.5)
        high = min(max(most, least, eased, 0.0) * (1 + off), 1.0)
        # at most, all that the recorder is taken to have cost is the cause's
        high = 1 - (1 - high) * min(self.base_ns / max(self.recorded_ns, 1.0), 1.0) if high else high
        return Gain(max(most, 0.0), max(low * (1 - off), 0.0), high)

    def owned(self, *owners: str, program: Program | None = None) -> Bools:
        """Which stretches of code before calls hold idle pieces of some owners."""
        program = program or self.program
        assert program is not None
        pieces = self.ledger.pieces
        codes = [CODE[one] for one in owners]
        return self._before(pieces[np.isin(pieces["owner"].to_numpy(np.int64), codes)], program.row)

    def _before(self, pieces: pd.DataFrame, rows: Ints) -> Bools:
        """Which of some calls come right after one of the pieces."""
        middle = (pieces["start_ns"].to_numpy(np.int64) + pieces["end_ns"].to_numpy(np.int64)) // 2
        start = self.view.api["start_ns"].to_numpy(np.int64)[rows]
        place = np.searchsorted(start, middle, "left")
        found = np.zeros(len(rows), np.bool_)
        found[np.unique(np.where(place < len(found), place, 0))] = bool(len(middle))
        return found


# ---- changes: each takes a cause out, whole (``keep`` 0) or in part: ``keep`` is the share of it that stays


def without_code(program: Program, stretches: Bools, keep: float = 0.0) -> Program:
    """Without the code of the CPU before some calls."""
    gap, due = np.where(stretches, program.gap * keep, program.gap), np.where(stretches, -1.0, program.due)
    return program.change(gap=gap, due=due)


def without_calls(program: Program, calls: Bools, keep: float = 0.0) -> Program:
    """Some calls take no time, and nothing is waited for in them."""
    waits = program.waits if keep else np.where(calls, 0, program.waits)
    return program.change(spent=np.where(calls, program.spent * keep, program.spent), waits=waits)


def without_waits(program: Program, calls: Bools) -> Program:
    """Some calls wait for nothing."""
    return program.change(waits=np.where(calls, 0, program.waits))


def cheaper_launches(program: Program, calls: Bools, factor: float, latency_ns: float) -> Program:
    """Some calls and the code before them take a fraction; what was launched begins so much later."""
    gap, spent = (np.where(calls, column * factor, column) for column in (program.gap, program.spent))
    late = np.minimum(program.latency, latency_ns)
    return program.change(
        gap=gap, spent=spent, latency=np.where(calls[call_of(program)], late, program.latency)
    )


def own_stream(program: Program, ops: Bools) -> Program:
    """Some operations run beside all others, in a line of their own; in this round nobody waits for them."""
    stream = np.where(ops, int(program.stream.max(initial=0)) + 1, program.stream)
    after = np.where(ops | np.append(ops, False)[program.after], -1, program.after)
    moved = program.change(stream=stream, after=after, latency=np.where(ops, 0.0, program.latency))
    return not_blocking(moved, ops)


def not_blocking(program: Program, ops: Bools) -> Program:
    """Nobody waits in the calls of some copies, nor elsewhere for them alone."""
    waited = (program.waits == 2) & np.append(ops, False)[program.target]
    mine = np.zeros(len(program.row), np.bool_)
    mine[call_of(program)[ops]] = True
    spent = np.where(mine | waited, np.minimum(program.spent, 5_000.0), program.spent)
    made = np.where(ops, np.minimum(program.made, 5_000.0), program.made)
    return program.change(waits=np.where(waited, 0, program.waits), spent=spent, made=made)


def with_lengths(program: Program, length: Floats) -> Program:
    """Operations take other times."""
    return program.change(length=np.asarray(length, np.float64))


def without_ops(program: Program, ops: Bools) -> Program:
    """Some operations are not launched: neither they nor their calls take time, nor the code before these.

    Nor what is asked between that code and the call (whether a stream is being captured). Code that takes far
    longer than what usually lies before a launch does something else and stays.
    """
    every = np.bincount(call_of(program), minlength=len(program.row))
    some = np.bincount(call_of(program)[ops], minlength=len(program.row))
    launch = launch_of(program)
    calls = np.append(some == every, False)[launch]
    code = np.zeros(len(program.row) + 1)
    np.add.at(code, launch, program.gap)
    between = code[:-1][every > 0]
    paced = code[launch] <= PACE * (float(np.median(between)) if len(between) else 0.0)
    return program.change(
        length=np.where(ops, 0.0, program.length),
        latency=np.where(ops, 0.0, program.latency),
        gap=np.where(calls & paced, 0.0, program.gap),
        spent=np.where(calls, 0.0, program.spent),
    )


def without_copies(program: Program, copies: Bools) -> Program:
    """Some copies are not made: neither they nor their calls, nor the wait right after each, take time."""
    called = np.zeros(len(program.row), np.bool_)
    called[call_of(program)[copies]] = True
    waits = np.append(False, called[:-1]) & (program.waits > 0) & (program.last == program.first)
    return without_calls(without_ops(not_blocking(program, copies), copies), waits)


def copies_around(program: Program, code: Bools, into: Bools, back: Bools) -> Bools:
    """Of copies to the GPU (``into``) those right after some code before calls, which makes what they bring;
    of copies from it (``back``) those right before, whose data the code works with.
    """
    launches = program.last > program.first
    wanted = np.zeros(len(program.row) + 1, np.bool_)
    wanted[launch_of(program)[code]] = True
    after = into & wanted[call_of(program)]
    wanted[:] = False
    wanted[launched_before(launches)[code]] = True
    return np.asarray(after | (back & wanted[call_of(program)]), np.bool_)


def code_after(program: Program, code: Bools, back: Bools) -> Bools:
    """Of some code before calls that which follows one of some copies, with nothing launched in between."""
    copied = np.zeros(len(program.row) + 1, np.bool_)
    copied[call_of(program)[back]] = True
    return np.asarray(code & copied[launched_before(program.last > program.first)], np.bool_)


def launched_before(launches: Bools) -> Ints:
    """For each call the one before it that launched last; as many as there are calls: none."""
    places = np.flatnonzero(launches)
    found = np.searchsorted(places, np.arange(len(launches)), "left") - 1
    return np.where(found >= 0, np.append(places, 0)[found], len(launches))


def launch_of(program: Program) -> Ints:
    """For each call the one that launches what it is made for: itself, or the next one, which short calls
    that neither launch nor wait prepare; as many as there are calls: none.
    """
    launches = program.last > program.first
    stop = np.flatnonzero(launches | (program.waits > 0) | (program.spent > OF_ITSELF_NS))
    following = np.append(stop, len(launches))[np.searchsorted(stop, np.arange(len(launches)), "left")]
    return np.where(np.append(launches, False)[following], following, len(launches))


def call_of(program: Program) -> Ints:
    """For each operation its call."""
    return np.repeat(np.arange(len(program.row)), program.last - program.first)
