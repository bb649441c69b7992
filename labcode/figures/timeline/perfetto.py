"""A report in; a trace in Perfetto's own format (``.pftrace``), protocol buffers of track events, out.

It holds what `labcode.figures.timeline.chrome_trace` writes: the same groups, tracks, arguments, arrows and
counters, in a third of the bytes. Slices of a track that do not nest lie on rows of their own below it, for
the format tells a slice by where it begins and ends alone. Each slice is written as it comes and forgotten
when it has ended.

The format: “TrackEvent” (Perfetto, 2025). Numbers of fields are those of its ``trace_packet.proto``,
``track_event.proto``, ``track_descriptor.proto``, ``interned_data.proto`` and ``debug_annotation.proto``.
"""

import heapq
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from labcode.analysis.timeline.intervals import Window
from labcode.figures.timeline.events import Events, Slices
from labcode.figures.timeline.overlay import PATH
from labcode.figures.timeline.rows import Report
from labcode.reports.columns import Ints

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CLEARED, _NEEDED = 1, 2  # of the state that names' numbers are part of
_EXPLICIT = 3  # the order of a group's tracks
_SEQUENCE = 1
_NAMES, _CATEGORIES, _ARGUMENTS = 2, 1, 3  # fields of the interned data
_FLUSH = 1 << 20  # bytes
_TEXTS = 1 << 16  # names that are remembered; then they are explained anew
_Key = tuple[int, int]  # a track: the numbers of its group and of itself
_Row = tuple[int, int, _Key, str, str, list[tuple[str, Any]]]  # start, -end (1: a moment), …


def write_pftrace(report: Report, output: BinaryIO, *, window: Window | None = None) -> int:
    """Write the events that overlap the window, by default all; returns how many there were."""
    events = Events(report, window)
    held = bytearray()
    for packet in _Packets(events).all():
        held += _bytes(1, packet)
        if len(held) > _FLUSH:
            output.write(held)
            held.clear()
    output.write(held)
    return events.count


class _Packets:
    """What a trace holds as packets."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._uuids: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[tuple[int, str], int] = {}
        self._new: list[bytes] = []
        self._forget = False
        self._tracks: dict[_Key, tuple[str, int, str]] = {}
        self._open: dict[_Key, list[list[int]]] = {}  # by track, by row: when slices that have begun will end
        self._arrows: dict[int, _Arrowheads] = {}

    def all(self) -> Iterator[bytes]:
        """Groups and tracks, then the events, those of a track in time's order."""
        yield _number(13, _CLEARED) + _number(10, _SEQUENCE)
        for group in self._events.groups():
            number_of = _number(1, self._uuid(group.number))
            name_of = _text(2, ": ".join((group.name, *group.labels)))
            yield _descriptor(number_of + name_of + _number(11, _EXPLICIT) + _number(12, group.place))
            told = group.described or ("",) * len(group.tracks)
            for (number, name, place), described in zip(group.tracks, told, strict=True):
                self._tracks[group.number, number] = name, place or 0, described
                yield self._line((group.number, number), 0)
        self._attach()
        for layer in self._events.layers():
            for one in heapq.merge(*map(_rows, layer), key=lambda one: one[:2]):
                yield from self._slice(*one)
        for track, stacks in self._open.items():
            for row, stack in enumerate(stacks):
                yield from (self._end(track, row, stack.pop()) for _ in range(len(stack)))
        for samples in self._events.samples():
            key = samples.group, samples.name, samples.unit
            title = samples.name if samples.unit == "value" else f"{samples.name}: {samples.unit}"
            if key not in self._uuids:
                parent = _number(5, self._uuid(samples.group))
                yield _descriptor(_number(1, self._uuid(*key)) + _text(2, title) + parent + _bytes(8, b""))
            uuid = _number(11, self._uuid(*key))
            for at, value in zip(samples.times, samples.values, strict=True):
                yield self._event(at, _number(9, _COUNTER) + uuid + _double(44, float(value)))

    def _slice(
        self, start: int, end: int, track: _Key, category: str, name: str, arguments: list[tuple[str, Any]]
    ) -> Iterator[bytes]:
        end = -1 if end == 1 else -end
        stacks = self._open.setdefault(track, [[]])
        for row, stack in enumerate(stacks):
            while stack and stack[-1] <= start:
                yield self._end(track, row, stack.pop())
        place = _fitting(stacks, max(start, end))
        if place == len(stacks):
            stacks.append([])
            yield self._line(track, place)
        arriving = self._arrows.get(track[1]) if track[0] < PATH else None
        arrows = arriving.at(start) if arriving else []
        if end == -1:
            kind = _INSTANT
        else:
            kind = _BEGIN
            stacks[place].append(end)
        yield self._event(
            start, self._described(kind, self._uuid(*track, place), category, name, arguments, arrows)
        )
        if end == start:
            yield self._end(track, place, stacks[place].pop())

    def _line(self, track: _Key, row: int) -> bytes:
        """The descriptor of a track, or of one of the rows below it."""
        name, rank, described = self._tracks[track]
        return _descriptor(
            _number(1, self._uuid(*track, row))
            + _text(2, name if not row else f"{name}, row {row + 1}")
            + _number(5, self._uuid(track[0]))
            + _number(12, rank)
            + (_text(14, described) if described else b"")
        )

    def _attach(self) -> None:
        """Find for each arrow's end the event that it lies in: the last one that had begun then."""
        tracks, starts = self._events.starts()
        order = np.lexsort((starts, tracks))
        starts = starts[order]
        bounds = np.searchsorted(tracks[order], np.arange(1, tracks.max(initial=0) + 2))
        parts: list[tuple[Ints, Ints, Ints]] = []
        low = 0
        for arrows in self._events.arrows():
            numbers = np.arange(low + 1, low + 1 + len(arrows.numbers))
            low += len(numbers)
            for side, (_, track, time) in enumerate((arrows.begins, arrows.ends)):
                parts.append((track, time, 2 * numbers + side))
        if not parts:
            return
        track, time, number = (np.concatenate(column) for column in zip(*parts, strict=True))
        for one in np.unique(track).tolist():
            mine = np.flatnonzero(track == one)
            begun = starts[bounds[one - 1] : bounds[one]]
            at = begun[np.maximum(np.searchsorted(begun, time[mine], "right") - 1, 0)]
            by_time = np.argsort(at, kind="stable")
            self._arrows[one] = _Arrowheads(at[by_time], number[mine][by_time])

    def _described(
        self,
        kind: int,
        uuid: int,
        category: str,
        name: str,
        arguments: list[tuple[str, Any]],
        arrows: list[tuple[bool, int]],
    ) -> bytes:
        if len(self._numbers) > _TEXTS:
            self._numbers.clear()
            self._forget = True
        made = [
            _number(9, kind),
            _number(11, uuid),
            _number(10, self._interned(_NAMES, name)),
            _number(3, self._interned(_CATEGORIES, category)),
        ]
        for key, value in arguments:
            made.append(_bytes(4, _number(1, self._interned(_ARGUMENTS, key)) + _argument(value)))
        made += [_fixed(48 if ends else 47, number) for ends, number in arrows]
        return b"".join(made)

    def _interned(self, field: int, text: str) -> int:
        """The number that stands for a text, which the next packet explains where it is new."""
        key = field, text
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self._new.append(_bytes(field, _number(1, self._numbers[key]) + _text(2, text)))
        return self._numbers[key]

    def _end(self, track: _Key, row: int, at: int) -> bytes:
        return self._event(at, _number(9, _END) + _number(11, self._uuid(*track, row)))

    def _event(self, at: int, event: bytes) -> bytes:
        new = _bytes(12, b"".join(self._new)) if self._new else b""
        flags = _NEEDED | _CLEARED if self._forget else _NEEDED
        self._new.clear()
        self._forget = False
        return _number(8, at) + _number(10, _SEQUENCE) + _number(13, flags) + new + _bytes(11, event)

    def _uuid(self, *place: Any) -> int:
        return self._uuids.setdefault(place, len(self._uuids) + 1)


class _Arrowheads:
    """The ends of a track's arrows by time; each is given away once."""

    def __init__(self, times: Ints, numbers: Ints) -> None:
        self._times, self._numbers, self._next = times, numbers, 0

    def at(self, time: int) -> list[tuple[bool, int]]:
        """Of the arrows at a time, which is no earlier than that asked for before: ends there?, number."""
        first = self._next
        while self._next < len(self._times) and self._times[self._next] <= time:
            self._next += 1
        return [(bool(one & 1), one >> 1) for one in self._numbers[first : self._next].tolist()]


def _rows(pieces: Iterator[Slices]) -> Iterator[_Row]:
    for some in pieces:
        keys = [key for key, _ in some.arguments]
        tracks = zip(some.groups, some.tracks, strict=True)
        given = zip(*(values for _, values in some.arguments), strict=True)
        for start, end, track, name, values in zip(
            some.starts, some.ends, tracks, some.names, given, strict=True
        ):
            told = [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
            yield start, 1 if end == -1 else -end, track, some.category, name, told


def _fitting(stacks: list[list[int]], end: int) -> int:
    """The first row in which a slice that ends then nests; their number where it does in none."""
    return next((n for n, stack in enumerate(stacks) if not stack or end <= stack[-1]), len(stacks))


def _descriptor(content: bytes) -> bytes:
    return _number(10, _SEQUENCE) + _bytes(60, content)


def _argument(value: Any) -> bytes:
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int):
        return _number(4, value)
    if isinstance(value, float):
        return _double(5, round(value, 3))
    return _text(6, str(value))


# ---- the wire: https://protobuf.dev/programming-guides/encoding/


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # of what is negative the complement
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "replace"))


def _fixed(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<Q", value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)
