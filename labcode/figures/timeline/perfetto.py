"""A report in; a trace in Perfetto's own format (``.pftrace``), protocol buffers of track events, out.

It holds what `labcode.figures.timeline.chrome_trace` writes: the same groups, tracks, arguments, arrows and
counters, in a third of the bytes. Slices of a track that do not nest lie on rows of their own below it, for
the format tells a slice by where it begins and ends alone.

The format: “TrackEvent” (Perfetto, 2025). Numbers of fields are those of its ``trace_packet.proto``,
``track_event.proto``, ``track_descriptor.proto``, ``interned_data.proto`` and ``debug_annotation.proto``.
"""

import bisect
import json
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO

from labcode.figures.timeline.chrome_trace import write_chrome_trace
from labcode.figures.timeline.groups import Report
from labcode.figures.timeline.rows import Window

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CLEARED, _NEEDED = 1, 2  # of the state that names' numbers are part of
_EXPLICIT = 3  # the order of a group's tracks
_SEQUENCE = 1
_NAMES, _CATEGORIES, _ARGUMENTS = 2, 1, 3  # fields of the interned data
_FLUSH = 1 << 20  # bytes
_Slice = tuple[int, int, dict[str, Any]]  # when it begins, when it ends (-1 for a moment), what it is


def write_pftrace(report: Report, output: BinaryIO, *, window: Window | None = None) -> int:
    """Write the events that overlap the window, by default all; returns how many there were."""
    gathered = _Gathered()
    written = write_chrome_trace(report, gathered, window=window)  # type: ignore[arg-type]
    held = bytearray()
    for packet in gathered.packets():
        held += _bytes(1, packet)
        if len(held) > _FLUSH:
            output.write(held)
            held.clear()
    output.write(held)
    return written


class _Gathered:
    """Takes the text of a Chrome trace, line by line, and gives packets."""

    def __init__(self) -> None:
        self._rest = ""
        self._tracks: dict[tuple[int, int], list[_Slice]] = {}
        self._counters: dict[tuple[int, str], list[tuple[int, float]]] = {}
        self._flows: dict[tuple[int, int], list[tuple[int, bool, int]]] = {}
        self._uuids: dict[tuple[Any, ...], int] = {}
        self._named: dict[tuple[str, int, int], Any] = {}
        self._numbers: dict[tuple[int, str], int] = {}
        self._new: list[bytes] = []
        self._flow_numbers: dict[tuple[str, Any], int] = {}

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line.startswith('{"ph"'):
                self._take(json.loads(line.rstrip(","), parse_float=Decimal))
        return len(text)

    def writelines(self, texts: Iterator[str]) -> None:
        for text in texts:
            self.write(text)

    def _take(self, event: dict[str, Any]) -> None:
        place = event["pid"], event["tid"]
        kind = event["ph"]
        if kind == "M":
            (value,) = event["args"].values()
            of_group = event["name"].startswith("process_")
            self._named[event["name"], place[0], 0 if of_group else place[1]] = value
            return
        at = _ns(event["ts"])
        if kind in ("X", "i"):
            end = at + _ns(event["dur"]) if kind == "X" else -1
            self._tracks.setdefault(place, []).append((at, end, event))
        elif kind == "C":
            for name, value in event["args"].items():
                title = event["name"] if name == "value" else f"{event['name']}: {name}"
                self._counters.setdefault((event["pid"], title), []).append((at, float(value)))
        else:
            number = self._flow_numbers.setdefault((event["cat"], event["id"]), len(self._flow_numbers) + 1)
            self._flows.setdefault(place, []).append((at, kind == "f", number))

    def packets(self) -> Iterator[bytes]:
        """The tracks, then the events of each in time's order."""
        self.write("\n")
        yield _number(13, _CLEARED) + _number(10, _SEQUENCE)
        groups = sorted({pid for pid, _ in (*self._tracks, *self._counters)})
        for pid in groups:
            yield _descriptor(
                _number(1, self._uuid(pid))
                + _text(2, str(self._named.get(("process_name", pid, 0), pid)))
                + _number(11, _EXPLICIT)
                + _number(12, self._rank("process", pid, 0))
            )
        for pid, tid in sorted(self._tracks):
            yield from self._track(pid, tid)
        for pid, title in sorted(self._counters):
            uuid = self._uuid(pid, title)
            yield _descriptor(
                _number(1, uuid) + _text(2, title) + _number(5, self._uuid(pid)) + _bytes(8, b"")
            )
            for at, value in sorted(self._counters[pid, title], key=lambda one: one[0]):
                event = _number(9, _COUNTER) + _number(11, uuid) + _double(44, value)
                yield self._event(at, event)

    def _track(self, pid: int, tid: int) -> Iterator[bytes]:
        name = str(self._named.get(("thread_name", pid, tid), tid))
        events = sorted(self._tracks[pid, tid], key=lambda one: (one[0], -one[1]))
        rank, flows = self._rank("thread", pid, tid), self._arrows(pid, tid, events)
        for row, (number, found) in enumerate(_nested(events)):
            uuid = self._uuid(pid, tid, number)
            yield _descriptor(
                _number(1, uuid)
                + _text(2, name if not row else f"{name}, row {row + 1}")
                + _number(5, self._uuid(pid))
                + _number(12, rank)
            )
            for at, kind, event in found:
                if kind == _END:
                    yield self._event(at, _number(9, kind) + _number(11, uuid))
                else:
                    arrows = flows.get(id(event), ())
                    yield self._event(at, self._described(kind, uuid, event, arrows))

    def _arrows(self, pid: int, tid: int, events: list[_Slice]) -> dict[int, list[tuple[bool, int]]]:
        """By event the arrows that begin or end in it: in the last one that had begun then."""
        begins = [at for at, _, _ in events]
        found: dict[int, list[tuple[bool, int]]] = {}
        for at, ends, number in self._flows.get((pid, tid), ()):
            event = events[max(0, bisect.bisect_right(begins, at) - 1)][2]
            found.setdefault(id(event), []).append((ends, number))
        return found

    def _described(self, kind: int, uuid: int, event: dict[str, Any], arrows: Any) -> bytes:
        made = [_number(9, kind), _number(11, uuid), _number(10, self._interned(_NAMES, event["name"]))]
        if category := event.get("cat"):
            made.append(_number(3, self._interned(_CATEGORIES, category)))
        for key, value in event.get("args", {}).items():
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

    def _event(self, at: int, event: bytes) -> bytes:
        new = _bytes(12, b"".join(self._new)) if self._new else b""
        self._new.clear()
        return _number(8, at) + _number(10, _SEQUENCE) + _number(13, _NEEDED) + new + _bytes(11, event)

    def _uuid(self, *place: Any) -> int:
        return self._uuids.setdefault(place, len(self._uuids) + 1)

    def _rank(self, what: str, pid: int, tid: int) -> int:
        return int(self._named.get((f"{what}_sort_index", pid, tid), 0))


def _nested(events: list[_Slice]) -> Iterator[tuple[int, list[_Slice]]]:
    """Events of a track, in order, as rows of begins and ends, in each of which slices nest."""
    open_ends: list[list[int]] = []
    rows: list[list[_Slice]] = []
    for at, end, event in events:
        for stack, row in zip(open_ends, rows, strict=True):
            while stack and stack[-1] <= at:
                row.append((stack.pop(), _END, {}))
        fits = (n for n, stack in enumerate(open_ends) if not stack or max(end, at) <= stack[-1])
        place = next(fits, len(rows))
        if place == len(rows):
            open_ends.append([])
            rows.append([])
        if end < 0:
            rows[place].append((at, _INSTANT, event))
        elif end == at:
            rows[place] += [(at, _BEGIN, event), (at, _END, {})]
        else:
            rows[place].append((at, _BEGIN, event))
            open_ends[place].append(end)
    for stack, row in zip(open_ends, rows, strict=True):
        row.extend((stack.pop(), _END, {}) for _ in range(len(stack)))
    yield from enumerate(rows)


def _ns(microseconds: Any) -> int:
    return int(Decimal(microseconds) * 1000)


def _descriptor(content: bytes) -> bytes:
    return _number(10, _SEQUENCE) + _bytes(60, content)


def _argument(value: Any) -> bytes:
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int):
        return _number(4, value)
    if isinstance(value, Decimal):
        return _double(5, float(value))
    return _text(6, value if isinstance(value, str) else json.dumps(value, default=str))


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
