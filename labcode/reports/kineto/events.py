"""Texts of trace events in; columns of numbers, and of codes into a list of texts, out.

Each kind of event has its columns (`FIELDS`). Integers are ``int64`` with `MISSING` where the event has none,
``real`` ones ``float64`` with nan, ``text`` ones codes into `Columns.texts` with -1. Times are nanoseconds on
the trace's clock, read without a floating-point number in between: a trace writes ``1712195495519689.047``,
whose nearest double is a quarter of a microsecond away from its neighbors.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from labcode.reports.columns import narrow
from labcode.reports.kineto.schema import ARGS, FIELDS, HOLDS, KINDS, MISSING, TYPES, Args, Event, Times

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FURTHEST_NS = 4_000_000_000_000_000_000  # times beyond are none; sums of two still fit 63 bits
_LONGEST = 19  # digits of nanoseconds; those beyond 63 bits are read as the largest number there is
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
    """Whole numbers, one a line; fewer than there are lines when one of them is none."""
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
                    codes = columns[key]
                    columns[key] = narrow(np.where(codes < 0, codes, codes + offset))
        out.texts = names + texts
        return out

    def _add(self, events: Sequence[Any]) -> None:
        groups: dict[str, list[Any]] = {}
        places: dict[str, list[int]] = {}
        order = self._order
        for event in events:
            category = event.cat
            group = groups.get(category)
            if group is None:
                group = groups[category] = []
                places[category] = []
            group.append(event)
            places[category].append(order)
            order += 1
        self._order = order
        for category, group in groups.items():
            kind = KINDS.get(category.lower())
            if kind is None:
                if not category:
                    self._metadata(group)
                continue
            self._keep(kind, category, group, np.array(places[category], np.int64))

    def _keep(self, kind: str, category: str, group: list[Any], places: Ints) -> None:
        if kind != "flow":
            phase = "i" if kind == "memory" else "X"
            phases = list(map(attrgetter("ph"), group))
            if phases.count(phase) < len(phases):
                right = [found == phase for found in phases]
                group = [event for event, good in zip(group, right, strict=True) if good]
                places = places[np.array(right, np.bool_)]
        if not group:
            return
        start, known = nanoseconds(list(map(attrgetter("ts"), group)))
        instant = kind in ("memory", "flow")
        if instant:
            duration = np.zeros(len(group), np.int64)
        else:
            duration, measured = nanoseconds(list(map(attrgetter("dur"), group)))
            known &= measured
        columns: dict[str, Any] = {
            "name": np.fromiter(
                map(self._names.__getitem__, map(attrgetter("name"), group)), np.int64, len(group)
            ),
            "pid": self._track(list(map(attrgetter("pid"), group))),
            "tid": self._track(list(map(attrgetter("tid"), group))),
            "start": start,
            "duration": np.maximum(duration, 0),
            "order": places,
        }
        if kind == "flow":
            columns["id"] = _integers(list(map(attrgetter("id"), group)))
            columns["phase"] = np.fromiter(
                map(self._names.__getitem__, map(attrgetter("ph"), group)), np.int64, len(group)
            )
            columns["category"] = np.full(len(group), self._names[category])
        arguments = list(map(attrgetter("args"), group))
        for key in FIELDS[kind]:
            values: Iterable[Any] = map(attrgetter(key), arguments)
            holds = HOLDS[key]
            if holds == "text":
                columns[key] = self._codes(list(values))
            elif holds == "real":
                columns[key] = np.array(list(values), np.float64)  # None is nan
            else:
                columns[key] = _integers(list(values))
        self._out.events += int(known.sum())
        if not known.all():
            self._out.timeless += int((~known).sum())
            if not known.any():
                return
            columns = {key: values[known] for key, values in columns.items()}
            duration = duration[known]
        self._out.negative += int((duration < 0).sum())
        self._parts[kind].append(columns)

    def _codes(self, raws: list[Any]) -> Ints:
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

    def _metadata(self, group: list[Any]) -> None:
        for event in group:
            if event.ph != "M" or event.name not in ("thread_name", "process_name"):
                continue
            label = _plain_text(bytes(event.args.label))
            pid, tid = self._number(event.pid), self._number(event.tid)
            if event.name == "process_name":
                self._out.processes.append((pid, label))
            else:
                self._out.threads.append((pid, tid, label))


def together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of parts as those of one; the parts' are let go one by one."""
    return {key: narrow(np.concatenate([part.pop(key) for part in parts])) for key in list(parts[0])}


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
    for member, (name, holds) in ARGS.items():
        value = arguments.get(member) if isinstance(arguments, dict) else None
        if value is None:
            continue
        if holds == "text":
            kept[name] = msgspec.Raw(msgspec.json.encode(value))
            continue
        try:
            kept[name] = msgspec.convert(value, TYPES[holds], strict=False)
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
        track("id"), Args(**kept),
    )  # fmt: skip
