"""Packets in; the slices of their tracks out: names and arguments looked up, times on one clock.

What a sequence of packets explains once (names, categories, clocks, its track) is kept for it until it says
that all of that is void. What is not read is counted by what it is.
"""

import json
import struct
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from labcode.reports.columns import Ints
from labcode.reports.kineto.events import FURTHEST_NS
from labcode.reports.ncu.wire import WireError, dict_of, fields, number_of, text_of, varint
from labcode.reports.perfetto.schema import (
    BEGIN,
    BOOT,
    CLEARED,
    COUNTER,
    END,
    INSTANT,
    NEEDED,
    OTHERS,
    OWN_CLOCKS,
    PHASES,
    PLAIN,
    REALTIME,
    WHOLE,
)

_DEEPEST = 16  # of arguments in arguments
_KEPT = 1 << 16  # arguments that are remembered as they are written
_MOST_NAMES = 1 << 22
Arguments = tuple[tuple[str, Any], ...]


@dataclass(slots=True)
class Track:
    """What is said of a track; ``pid``, ``tid``: -1 where it is none of a process or thread."""

    uuid: int
    name: str = ""
    parent: int = 0
    pid: int = -1
    tid: int = -1
    thread: str = ""
    process: str = ""
    description: str = ""


class Info(NamedTuple):
    """What is said of an event; ``begins`` and ``ends`` are numbers of arrows."""

    name: str
    category: str
    arguments: Arguments
    begins: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass(frozen=True)
class Slices:
    """Of each slice and moment: start and duration in ns, its track's place, that of what is said of it."""

    start: Ints
    duration: Ints
    track: Ints
    info: Ints


@dataclass
class _Sequence:
    """What one sequence of packets has explained so far."""

    names: dict[int, dict[int, str]] = field(default_factory=dict)  # by field of the interned data
    known: dict[bytes, tuple[str, Any]] = field(default_factory=dict)
    valid: bool = False
    track: int = 0
    clock: int = 0
    ticks: dict[int, tuple[int, int, bool]] = field(default_factory=dict)  # clock → now, unit, counts up

    def clear(self) -> None:
        self.names.clear()
        self.known.clear()
        self.valid, self.track, self.clock = True, 0, 0

    def text(self, of: int, number: int) -> str | None:
        found = self.names.get(of)
        return found.get(number) if found else None


_EVENT_CATEGORIES, _EVENT_NAMES, _KEYS, _VALUES = 1, 2, 3, 29
_INTERNED = (_EVENT_CATEGORIES, _EVENT_NAMES, _KEYS, _VALUES)
_READ = frozenset((BEGIN, END, INSTANT, WHOLE))


def split(data: bytes) -> tuple[dict[int, int], list[tuple[int, int, bytes]]]:
    """A message's integers by field, the last of each, and its other fields: number, kind, bytes.

    `labcode.reports.ncu.wire.fields` says the same; this is what a trace has millions of.
    """
    numbers: dict[int, int] = {}
    parts: list[tuple[int, int, bytes]] = []
    place, end = 0, len(data)
    while place < end:
        key = data[place]
        place += 1
        if key > 127:
            key, place = varint(data, place - 1)
        kind = key & 7
        if kind in (0, 2):
            if place >= end:
                raise WireError("a number that does not end")
            value = data[place]
            place += 1
            if value > 127:
                value, place = varint(data, place - 1)
            if kind == 0:
                numbers[key >> 3] = value
                continue
        elif kind in (1, 5):
            value = 8 if kind == 1 else 4
        else:
            raise WireError("a field of a kind that protobuf does not have")
        if place + value > end or key < 8:
            raise WireError("a field longer than what holds it, or without a number")
        parts.append((key >> 3, kind, data[place : place + value]))
        place += value
    return numbers, parts


class Trace:
    """What packets hold. ``left`` counts by what it is what was not read; ``realtime`` is the Unix time at 0
    of the clock, 0 where unknown.
    """

    def __init__(self) -> None:
        self.tracks: dict[int, Track] = {}
        self.places: dict[int, int] = {}
        self.infos: list[Info] = []
        self.left: Counter[str] = Counter()
        self.unreadable = 0
        self.timeless = 0
        self.open = 0
        self.realtime = 0
        self._times, self._types = array("q"), array("b")
        self._where, self._what, self._spent = array("q"), array("q"), array("q")
        self._sequences: dict[int, _Sequence] = {}
        self._offsets: dict[tuple[int, int], int] = {}
        self._names = 0

    def add(self, packet: bytes) -> None:
        """Read a packet; one that is none is counted."""
        before = len(self._times), len(self.infos)
        try:
            self._add(packet)
        except WireError:
            self.unreadable += 1
            for column in (self._times, self._types, self._where, self._what, self._spent):
                del column[before[0] :]
            del self.infos[before[1] :]

    def _add(self, packet: bytes) -> None:
        numbers, parts = split(packet)
        at, number, clock = numbers.get(8, 0), numbers.get(10, 0), numbers.get(58, 0)
        flags = numbers.get(13, 0) | (CLEARED if numbers.get(41) else 0)
        event = descriptor = interned = None
        others: list[tuple[int, bytes]] = []
        for key, kind, value in parts:
            if kind == 2:
                if key == 11:
                    event = value
                elif key == 12:
                    interned = value
                elif key == 60:
                    descriptor = value
                else:
                    others.append((key, value))
        sequence = self._sequences.get(number)
        if sequence is None:
            sequence = self._sequences[number] = _Sequence()
        if numbers.get(42):  # what came before is lost
            sequence.valid = False
        if flags & CLEARED:
            sequence.clear()
        for key, content in others:
            self._other(sequence, number, key, content)
        if descriptor is not None:
            self._descriptor(descriptor)
        if interned is not None:
            self._intern(sequence, interned)
        if event is None:
            return
        if flags & NEEDED and not sequence.valid:
            self.left["events whose names were lost while recording"] += 1
            return
        self._event(sequence, event, self._time(sequence, number, clock, at))

    # ---- what stands around events

    def _other(self, sequence: _Sequence, number: int, key: int, content: bytes) -> None:
        if key == 6:
            self._clocks(sequence, number, content)
        elif key == 59:
            told = dict_of(content)
            sequence.clock = number_of(told, 58)
            inner = told.get(11)
            if isinstance(inner, bytes):
                sequence.track = number_of(dict_of(inner), 11)
        elif key == 44:  # of older writers: the thread that the sequence is of
            thread = dict_of(content)
            pid, tid = number_of(thread, 1), number_of(thread, 2)
            sequence.track = (1 << 64) + (pid << 64) + tid  # no writer can have that number
            self.tracks[sequence.track] = Track(
                sequence.track, pid=_signed(pid), tid=_signed(tid), thread=text_of(thread, 5)
            )
        elif key not in PLAIN:
            self.left[f"packets of {OTHERS.get(key, f'kind {key}')}"] += 1

    def _clocks(self, sequence: _Sequence, number: int, content: bytes) -> None:
        found: dict[int, tuple[int, int, bool]] = {}
        primary = 0
        for key, kind, value in fields(content):
            if (key, kind) == (1, 2) and isinstance(value, bytes):
                told = dict_of(value)
                unit = number_of(told, 4) or 1
                found[number_of(told, 1)] = number_of(told, 2) * unit, unit, bool(number_of(told, 3))
            elif (key, kind) == (2, 0) and isinstance(value, int):
                primary = value
        if not found:
            return
        reference = next((one for one in (primary, BOOT, 3) if one in found), min(found))
        zero = found[reference][0]
        for clock, (now, unit, counting) in found.items():
            own = clock in OWN_CLOCKS
            self._offsets[number if own else -1, clock] = zero - now
            if own:
                sequence.ticks[clock] = now, unit, counting
        if REALTIME in found and not self.realtime:
            self.realtime = max(found[REALTIME][0] - zero, 0)

    def _time(self, sequence: _Sequence, number: int, clock: int, at: int) -> int | None:
        """A packet's time on the trace's clock; None where nothing says how its own goes."""
        clock = clock or sequence.clock
        if clock in (0, BOOT):
            return at
        if clock in OWN_CLOCKS:
            if clock not in sequence.ticks:
                return None
            now, unit, counting = sequence.ticks[clock]
            at = now + at * unit if counting else at * unit
            if counting:
                sequence.ticks[clock] = at, unit, True
            return at + self._offsets[number, clock]
        return at + self._offsets.get((-1, clock), 0)

    def _descriptor(self, content: bytes) -> None:
        told = dict_of(content)
        uuid = number_of(told, 1)
        track = self.tracks.setdefault(uuid, Track(uuid))
        track.name = text_of(told, 2) or text_of(told, 10) or track.name
        track.parent = number_of(told, 5) or track.parent
        track.description = text_of(told, 14) or track.description
        process, thread = told.get(3), told.get(4)
        if isinstance(process, bytes):
            inner = dict_of(process)
            track.pid = _signed(number_of(inner, 1))
            track.process = text_of(inner, 6) or track.process
        if isinstance(thread, bytes):
            inner = dict_of(thread)
            track.pid, track.tid = _signed(number_of(inner, 1)), _signed(number_of(inner, 2))
            track.thread = text_of(inner, 5) or track.thread

    def _intern(self, sequence: _Sequence, content: bytes) -> None:
        for key, kind, value in fields(content):
            if kind == 2 and key in _INTERNED and isinstance(value, bytes):
                told = dict_of(value)
                names = sequence.names.setdefault(key, {})
                number = number_of(told, 1)
                if number in names:
                    sequence.known.clear()  # it stands for something else from here on
                elif self._names < _MOST_NAMES:
                    self._names += 1
                else:
                    self.left["names beyond the first 4 million"] += 1
                    continue
                names[number] = text_of(told, 2)

    # ---- events

    def _event(self, sequence: _Sequence, content: bytes, at: int | None) -> None:
        numbers, parts = split(content)
        legacy: dict[int, Any] = {}
        what = numbers.get(9, 0)
        if not what:
            legacy = next((dict_of(value) for key, kind, value in parts if (key, kind) == (6, 2)), {})
            what = PHASES.get(number_of(legacy, 2), 0)
        if what not in _READ:
            self.left["values of counters" if what == COUNTER else "events of other types"] += 1
            return
        if 16 in numbers:
            at = numbers[16] * 1000
        spent = number_of(legacy, 3) * 1000 if what == WHOLE else 0
        if at is None or not 0 <= at <= FURTHEST_NS or spent > FURTHEST_NS:
            self.timeless += what != END
            return
        info = -1
        if what != END:
            info = len(self.infos)
            self.infos.append(self._info(sequence, numbers, parts, number_of(legacy, 1)))
        uuid = numbers.get(11, sequence.track)
        place = self.places.setdefault(uuid, len(self.places))
        self._times.append(at)
        self._types.append(what)
        self._where.append(place)
        self._what.append(info)
        self._spent.append(spent)

    def _info(
        self, sequence: _Sequence, numbers: dict[int, int], parts: list[tuple[int, int, bytes]], legacy: int
    ) -> Info:
        name = None
        category = sequence.text(_EVENT_CATEGORIES, numbers[3]) if 3 in numbers else None
        arguments: list[tuple[str, Any]] = []
        begins: tuple[int, ...] = (numbers[36],) if 36 in numbers else ()
        ends: tuple[int, ...] = (numbers[42],) if 42 in numbers else ()
        for key, kind, value in parts:
            if kind == 2:
                if key == 4:
                    told = sequence.known.get(value) or self._argument(sequence, value)
                    if told is not None:
                        arguments.append(told)
                elif key == 23:
                    name = value.decode("utf-8", "replace")
                elif key == 22 and category is None:
                    category = value.decode("utf-8", "replace")
            elif kind == 1 and key == 47:
                begins = (*begins, int.from_bytes(value, "little"))
            elif kind == 1 and key == 48:
                ends = (*ends, int.from_bytes(value, "little"))
        if name is None:
            number = numbers.get(10) or legacy
            name = sequence.text(_EVENT_NAMES, number) if number else ""
            if name is None:
                self.left["names that nothing explains"] += 1
                name = ""
        return Info(name, category or "", tuple(arguments), begins, ends)

    def _argument(self, sequence: _Sequence, content: bytes) -> tuple[str, Any] | None:
        key, value = self._told(sequence, content, 0)
        found = None if key is None else (key, value)
        if len(sequence.known) >= _KEPT:
            sequence.known.clear()
        if found is not None:
            sequence.known[content] = found
        return found

    def _told(self, sequence: _Sequence, content: bytes, depth: int) -> tuple[str | None, Any]:
        """An argument's name and value; of what holds others its JSON."""
        if depth > _DEEPEST:
            raise WireError("arguments in arguments without end")
        name: str | None = None
        value: Any = None
        entries: dict[str, Any] = {}
        items: list[Any] = []
        for key, kind, one in fields(content):
            if kind == 0 and isinstance(one, int):
                if key == 1:
                    name = sequence.text(_KEYS, one)
                elif key == 2:
                    value = bool(one)
                elif key in (3, 7):
                    value = one & (1 << 64) - 1
                elif key == 4:
                    value = _signed(one)
                elif key == 17:
                    value = sequence.text(_VALUES, one)
            elif isinstance(one, bytes):
                if key == 5 and kind == 1:
                    value = struct.unpack("<d", one)[0]
                elif kind != 2:
                    continue
                elif key in (6, 9):
                    value = one.decode("utf-8", "replace")
                elif key == 10:
                    name = one.decode("utf-8", "replace")
                elif key == 11:
                    inner, held = self._told(sequence, one, depth + 1)
                    entries[inner or ""] = held
                elif key == 12:
                    items.append(self._told(sequence, one, depth + 1)[1])
        held = entries or items
        if held:
            value = held if depth else json.dumps(held, ensure_ascii=False)
        return name, value

    # ---- all of them together

    def slices(self) -> Slices:
        """Every slice and moment, in the order in which they begin in the file.

        A slice that does not end does so with the last event; an end without a begin is counted.
        """
        if not len(self._times):
            none: Ints = np.empty(0, np.int64)
            return Slices(none, none, none, none)
        times = np.frombuffer(self._times, np.int64)
        where = np.frombuffer(self._where, np.int64)
        spent = np.frombuffer(self._spent, np.int64)
        last = int((times + spent).max())
        order = np.lexsort((np.arange(len(times)), times, where))
        types = np.frombuffer(self._types, np.int8)[order].tolist()
        infos = np.frombuffer(self._what, np.int64)[order].tolist()
        starts = np.zeros(len(self.infos), np.int64)
        lengths = np.zeros(len(self.infos), np.int64)
        tracks = np.zeros(len(self.infos), np.int64)
        found = np.array(infos, np.int64)
        said = found >= 0
        starts[found[said]] = times[order][said]
        tracks[found[said]] = where[order][said]
        lengths[found[said]] = spent[order][said]
        begun: list[int] = []
        mine = -1
        for what, info, at, track in zip(
            types, infos, times[order].tolist(), where[order].tolist(), strict=True
        ):
            if track != mine:
                self._left_open(begun, last, starts, lengths)
                mine = track
            if what == BEGIN:
                begun.append(info)
            elif what == END:
                if begun:
                    one = begun.pop()
                    lengths[one] = at - starts[one]
                else:
                    self.left["ends of what did not begin"] += 1
        self._left_open(begun, last, starts, lengths)
        return Slices(starts, lengths, tracks, np.arange(len(self.infos)))

    def _left_open(self, begun: list[int], last: int, starts: Ints, lengths: Ints) -> None:
        for one in begun:
            lengths[one] = last - starts[one]
            self.open += 1
        begun.clear()

    def above(self, uuid: int) -> Iterator[Track]:
        """A track and those that it belongs to."""
        seen: set[int] = set()
        while uuid not in seen and uuid in self.tracks:
            seen.add(uuid)
            track = self.tracks[uuid]
            yield track
            uuid = track.parent


def _signed(value: int) -> int:
    """A number of 64 bits with its sign."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
