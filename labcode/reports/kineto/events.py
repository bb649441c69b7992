"""Texts of trace events in; columns of numbers, and of codes into a list of texts, out.

Each kind of event has its columns (`FIELDS`). Integers are ``int64`` with `MISSING` where the event has none,
``real`` ones ``float64`` with nan, ``text`` ones codes into `Columns.texts` with -1. Times are nanoseconds on
the trace's clock, read without a floating-point number in between: a trace writes ``1712195495519689.047``,
whose nearest double is a quarter of a microsecond away from its neighbors.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from labcode.reports.columns import Bools, Ints, Objects, is_narrow, narrow, packed, spread
from labcode.reports.kineto.schema import (
    ARGS,
    ARGUMENTS,
    DEFAULTS,
    FIELDS,
    HOLDS,
    KINDS,
    MISSING,
    TYPES,
    Event,
    Times,
)

FURTHEST_NS = 4_000_000_000_000_000_000  # times beyond are none; sums of two still fit 63 bits
_LONGEST = 19  # digits of nanoseconds; those beyond 63 bits are read as the largest number there is
_WIDTH = len(Event.__struct_fields__)
_Members = list[list[Any]]
_ARGUMENTS = {kind: msgspec.json.Decoder(list[args], strict=False) for kind, args in ARGUMENTS.items()}  # type: ignore[valid-type]
_ABSENT: Mapping[str, Any] = {"int": np.int64(MISSING), "real": np.float64("nan"), "text": np.int64(-1)}
_PLAIN = np.zeros(256, np.bool_)
_PLAIN[list(b"0123456789.-\n")] = True
_NO_NUMBER = re.compile(rb"(?<=[:,\[\s])-?(?:inf(?:inity)?|nan)(?=[\s,}\]])", re.IGNORECASE)


def nanoseconds(texts: Sequence[Any]) -> tuple[Ints, Bools]:
    """Each text (bytes of a JSON number, in µs) as nanoseconds, and which of them are times at all.

    More than three decimals are rounded to the nearest nanosecond, half to even. What is no number, or more
    than 126 years from 0, is no time: its value is 0.
    """
    if not texts:
        return np.empty(0, np.int64), np.empty(0, np.bool_)
    joined = b"\n".join(texts) + b"\n"
    marks = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(marks == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))
    dots = np.flatnonzero(marks == ord("."))
    owner = np.searchsorted(ends, dots)
    minus = np.flatnonzero(marks == ord("-"))
    plain = (
        len(ends) == len(texts)
        and bool(_PLAIN[marks].all())
        and bool((owner[1:] != owner[:-1]).all())
        and bool((marks[minus[minus > 0] - 1] == ord("\n")).all())
        and bool((ends > starts).all())
    )
    if not plain:
        return _one_by_one(texts)
    decimals = np.zeros(len(texts), np.int64)
    decimals[owner] = ends[owner] - dots - 1
    pointed = np.zeros(len(texts), np.int64)
    pointed[owner] = 1
    odd = (decimals > 3) | (ends - starts - pointed + 3 - decimals > _LONGEST)
    if odd.any():
        kept: list[Any] = list(texts)
        for row in np.flatnonzero(odd):
            kept[row] = b"0"
        joined = b"\n".join(kept)
    values = _parse(joined.replace(b".", b""))
    if len(values) != len(texts):
        return _one_by_one(texts)
    values *= np.array([1000, 100, 10, 1], np.int64)[np.where(odd, 0, decimals)]
    known = np.ones(len(texts), np.bool_)
    for row in np.flatnonzero(odd):
        values[row], known[row] = _exact(bytes(texts[int(row)]))
    far = np.abs(values) > FURTHEST_NS
    values[far], known[far] = 0, False
    return values, known


def _parse(text: bytes) -> Ints:
    """Whole numbers, one per line; fewer than there are lines when one of them is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.fromstring(text.decode("ascii"), dtype=np.int64, sep="\n")
    except (ValueError, DeprecationWarning):
        return np.empty(0, np.int64)


def _one_by_one(texts: Sequence[Any]) -> tuple[Ints, Bools]:
    pairs = [_exact(bytes(text)) for text in texts]
    return np.array([value for value, _ in pairs], np.int64), np.array([ok for _, ok in pairs], np.bool_)


def _exact(text: bytes) -> tuple[int, bool]:
    text = text.strip(b'" \t\r\n')
    if not text or len(text) > 64:
        return 0, False
    try:
        number = Decimal(text.decode("ascii"))
        if not number.is_finite() or abs(number) > FURTHEST_NS // 1000:
            return 0, False
        return int((number * 1000).to_integral_value(ROUND_HALF_EVEN)), True
    except (InvalidOperation, UnicodeDecodeError):
        return 0, False


@dataclass
class Columns:
    """What was read of a trace.

    ``kinds`` maps a kind to its columns: name, pid, tid, start, duration, order (place in the file), those of
    `FIELDS`, and of flows id, phase and category. ``texts`` are what codes stand for. ``threads`` are
    (pid, tid, name), ``processes`` (pid, name). ``events`` counts the complete events by their category;
    ``negative`` those of them with a negative duration, which count as 0 long; ``timeless`` those left out,
    for their times are no times.
    """

    kinds: dict[str, dict[str, Any]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    threads: list[tuple[int, int, str]] = field(default_factory=list)
    processes: list[tuple[int, str]] = field(default_factory=list)
    events: int = 0
    negative: int = 0
    timeless: int = 0


class _Texts(dict[Any, int]):
    """Gives each distinct text a number."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


class Collector:
    """Takes texts of events, one after the other, and keeps their columns."""

    def __init__(self) -> None:
        self._names = _Texts()
        self._raws: _Texts = _Texts()
        self._tracks = _Texts()
        self._parts: dict[str, list[dict[str, Any]]] = {kind: [] for kind in FIELDS}
        self._out = Columns()
        self._order = 0
        self._many = msgspec.json.Decoder(list[Event], strict=False)
        self._one = msgspec.json.Decoder(Event, strict=False)

    @property
    def taken(self) -> int:
        """How many events were taken, of whatever kind."""
        return self._order

    def take(self, text: bytes) -> None:
        """A JSON array of events; `msgspec.DecodeError` when it is none, and then nothing was taken."""
        try:
            events = self._many.decode(text)
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from None
        self._add(events)

    def take_one(self, text: bytes) -> bool:
        """A text that should be one event, whatever it holds; False where nothing can be made of it."""
        text = text.decode("utf-8", "replace").encode()
        try:
            self._add([self._one.decode(text)])
            return True
        except msgspec.DecodeError:
            pass
        try:
            text = _NO_NUMBER.sub(b"null", text)
            members = msgspec.json.decode(text)
            times = msgspec.json.decode(text, type=Times)
        except msgspec.DecodeError:
            return False
        if not isinstance(members, dict):
            return False
        self._add([_lenient(members, times)])
        return True

    def finish(self) -> Columns:
        """Everything that was taken."""
        out = self._out
        names = [str(name) for name in self._names]
        for kind, parts in self._parts.items():
            if not parts:
                continue
            out.kinds[kind] = together(parts)
            parts.clear()
        texts = [_plain_text(raw) for raw in self._raws]
        offset = len(names)
        for kind, columns in out.kinds.items():
            for key in FIELDS[kind]:
                if HOLDS[key] == "text":
                    codes = packed(columns[key])
                    moved = np.where(codes < 0, codes, codes + offset)
                    columns[key] = spread(moved, len(columns["order"]))
        out.texts = names + texts
        return out

    def _add(self, events: Sequence[Any]) -> None:
        categories = _Texts()
        codes = np.fromiter(
            map(categories.__getitem__, map(attrgetter("cat"), events)), np.int64, len(events)
        )
        every = np.empty(len(events), np.object_)
        every[:] = events
        order = np.argsort(codes, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(codes, minlength=1))[:-1])
        found = []
        for category, rows in zip(categories, groups, strict=False):
            kind = KINDS.get(category.lower())
            if kind is not None:
                found.append((category, *_members(kind, every[rows], self._order + rows)))
        for one in found:  # all of them are what they should be
            self._keep(*one)
        self._order += len(events)

    def _keep(self, category: str, kind: str, members: _Members, arguments: list[Any], places: Ints) -> None:
        phases, _, names, pids, tids, starts, durations, ids, _ = members
        if kind == "metadata":
            self._metadata(phases, names, pids, tids, arguments[0])
            return
        if not names:
            return
        start, known = nanoseconds(starts)
        if kind in ("memory", "flow"):
            duration = np.zeros(len(names), np.int64)
        else:
            duration, measured = nanoseconds(durations)
            known &= measured
        columns: dict[str, Any] = {
            "name": self._numbers(names),
            "pid": self._track(pids),
            "tid": self._track(tids),
            "start": start,
            "duration": np.maximum(duration, 0),
            "order": places,
        }
        if kind == "flow":
            columns["id"] = _integers(ids)
            columns["phase"] = self._numbers(phases)
            columns["category"] = np.full(len(names), self._names[category])
        for key, values in zip(FIELDS[kind], arguments, strict=True):
            holds = HOLDS[key]
            absent = DEFAULTS[holds]
            if values[0] is absent and values.count(absent) == len(values):
                columns[key] = np.broadcast_to(_ABSENT[holds], len(values))
            elif holds == "text":
                columns[key] = self._codes(values)
            elif holds == "real":
                columns[key] = np.array(values, np.float64)  # None is nan
            else:
                columns[key] = _integers(values)
        self._out.events += int(known.sum())
        if not known.all():
            self._out.timeless += int((~known).sum())
            if not known.any():
                return
            columns = {key: values[known] for key, values in columns.items()}
            duration = duration[known]
        self._out.negative += int((duration < 0).sum())
        self._parts[kind].append(columns)

    def _numbers(self, names: list[str]) -> Ints:
        return np.fromiter(map(self._names.__getitem__, names), np.int64, len(names))

    def _codes(self, raws: list[Any]) -> Ints:
        texts = b"\0".join(raws).split(b"\0")  # JSON has none; sooner than one by one
        if len(texts) != len(raws):
            texts = list(map(bytes, raws))
        codes = np.fromiter(map(self._raws.__getitem__, texts), np.int64, len(texts))
        empty = self._raws.get(b"")
        return codes if empty is None else np.where(codes == empty, -1, codes)

    def _track(self, values: list[Any]) -> Ints:
        """Numbers of processes and threads; texts that are no number get negative ones."""
        try:
            return np.fromiter(values, np.int64, len(values))
        except (ValueError, TypeError, OverflowError):
            return np.array([self._number(value) for value in values], np.int64)

    def _number(self, value: Any) -> int:
        try:
            number = int(value)
            return number if abs(number) < 1 << 62 else -2 - self._tracks[value]
        except (ValueError, TypeError):
            return -2 - self._tracks[value]

    def _metadata(
        self, phases: list[Any], names: list[Any], pids: list[Any], tids: list[Any], labels: list[Any]
    ) -> None:
        for phase, name, pid, tid, label in zip(phases, names, pids, tids, labels, strict=True):
            if phase != "M" or name not in ("thread_name", "process_name"):
                continue
            text = _plain_text(bytes(label))
            if name == "process_name":
                self._out.processes.append((self._number(pid), text))
            else:
                self._out.threads.append((self._number(pid), self._number(tid), text))


def _members(kind: str, events: Objects, places: Ints) -> tuple[str, _Members, list[Any], Ints]:
    """Events of one kind as columns of their members and of their arguments; those of another phase left out.

    `msgspec.DecodeError` where arguments are not what they should be.
    """
    members = _transposed(events.tolist(), _WIDTH)
    phase = {"metadata": "", "flow": "", "memory": "i"}.get(kind, "X")
    if phase and members[0].count(phase) < len(places):
        right = np.array([found == phase for found in members[0]], np.bool_)
        places = places[right]
        members = _transposed(events[right].tolist(), _WIDTH)
    decoder = _ARGUMENTS.get(kind)
    arguments = decoder.decode(b"[" + b",".join(members[-1]) + b"]") if decoder else []
    return kind, members, _transposed(arguments, len(FIELDS[kind])), places


def _transposed(rows: list[Any], width: int) -> _Members:
    """Structs as a list for each of their fields."""
    flat = list(chain.from_iterable(map(astuple, rows)))
    return [flat[place::width] for place in range(width)]


def together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of parts as those of one; the parts' are let go one by one."""
    return {key: _as_one([part.pop(key) for part in parts]) for key in list(parts[0])}


def _as_one(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    if all(map(is_narrow, pieces)) and is_narrow(one := narrow(np.concatenate([p[:1] for p in pieces]))):
        return np.broadcast_to(one[0], sum(map(len, pieces)))
    return narrow(np.concatenate(pieces))


def _integers(values: list[Any]) -> Ints:
    """Numbers as int64; `MISSING` for none and for what does not fit."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (ValueError, TypeError, OverflowError):  # None, a number beyond 63 bits
        return np.array([_integer(v) for v in values], np.int64)


def _integer(value: Any) -> int:
    try:
        number = int(value)
    except (ValueError, TypeError):
        return MISSING
    return number if -(1 << 63) <= number < 1 << 63 else MISSING


def _plain_text(raw: bytes) -> str:
    """The JSON of an argument as a text: a string without its quotes, a list as it is written."""
    if raw.startswith(b'"'):
        try:
            return str(msgspec.json.decode(raw))
        except msgspec.DecodeError:
            pass
    return raw.decode("utf-8", "replace")


def _lenient(members: dict[str, Any], times: Times) -> Event:
    """An event of which some members hold something else than they should: those are left out."""
    arguments = members.get("args")
    kept = {}
    for member, (_, holds) in ARGS.items():
        value = arguments.get(member) if isinstance(arguments, dict) else None
        if value is None:
            continue
        if holds == "text":
            kept[member] = value
            continue
        try:
            kept[member] = msgspec.convert(value, TYPES[holds], strict=False)
        except msgspec.ValidationError:
            continue

    def text(key: str) -> str:
        value = members.get(key, "")
        return value if isinstance(value, str) else ""

    def track(key: str) -> int | str:
        value = members.get(key, 0)
        return value if isinstance(value, int | str) else str(value)

    return Event(
        text("ph"), text("cat"), text("name"), track("pid"), track("tid"), times.ts, times.dur,
        track("id"), msgspec.Raw(msgspec.json.encode(kept)),
    )  # fmt: skip
