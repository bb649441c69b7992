"""A trace of Perfetto in; its events by kind, as they are read of a trace of torch.profiler, out.

Where an event ran is told by its track: by what this project's writer says of it, else by the thread or
process that it is of, else by numbers in names ("GPU 0", "stream 7"). A kernel without a correlation belongs
to the call that an arrow leads from. Slices of categories that are not known are read as ranges.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labcode.errors import InputError
from labcode.inputs import plain_file
from labcode.reports.columns import Ints, narrow
from labcode.reports.kineto.events import Columns
from labcode.reports.kineto.names import short_name
from labcode.reports.kineto.open import RankTrace
from labcode.reports.kineto.schema import FIELDS, HOLDS, MISSING
from labcode.reports.naming import rank_in_name
from labcode.reports.perfetto.events import Info, Slices, Trace
from labcode.reports.perfetto.packets import Packets
from labcode.reports.perfetto.schema import CATEGORIES, COMPUTED, FIELDS_OF, GRAPH, ON_GPU
from labcode.show import byte_text, one_line

_GPU = re.compile(r"(?:pid (-?\d{1,18}), )?GPU (\d{1,9}), context (-?\d{1,18}), stream (-?\d{1,18})")
_CPU = re.compile(r"pid (-?\d{1,18}), tid (-?\d{1,18})")
_DEVICE = re.compile(r"(?:GPU|device|agent)\s*[#\[:]?\s*(\d{1,9})", re.IGNORECASE)
_STREAM = re.compile(r"(?:stream|queue)\s*[#\[:]?\s*(\d{1,18})", re.IGNORECASE)
_CONTEXT = re.compile(r"context\s*[#\[:]?\s*(\d{1,18})", re.IGNORECASE)
_SHAPE = re.compile(r"(\d{1,18}) × (\d{1,18}) × (\d{1,18})")
_OF_THREAD = re.compile(
    r"(?:CUDA API|NVTX(?: start/end)?|annotations)(?: \(\d+\))?, (?:main thread|thread -?\d+(?: (.*?))?)"
    r"(?:, row \d+)?"
)
_WAY = re.compile(r"(?:memcpy )?(?:managed )?([A-Z])(?:2|to)([A-Z])", re.IGNORECASE)
_OWN = -2  # in place of a thread: a stream that this project's writer describes
OURS = "written by labcode"
_ARROWS = 1 << 48  # correlations that are made of arrows begin here


@dataclass(frozen=True)
class _Place:
    """Where a track's events ran: process and thread, or GPU, context and stream; -1: not told."""

    pid: int
    tid: int
    device: int
    context: int
    stream: int


def read_pftrace(path: Path) -> RankTrace:
    """Read a file; `InputError` for one that is no trace of Perfetto, or without a single slice."""
    packets, trace = Packets(plain_file(path)), Trace()
    for packet in packets.all():
        trace.add(packet)
    slices = trace.slices()
    columns, strange = _columns(trace, slices)
    if not columns.events:
        held = ", ".join(f"{count:,} {what}" for what, count in trace.left.most_common(3))
        raise InputError(
            f"{path}: a trace of Perfetto without slices of track events, which are what is read"
            + (f" (it holds {one_line(held, 120)})" if held else "")
        )
    rank = rank_in_name(path)
    return RankTrace(
        path,
        max(rank, 0) if rank < 1 << 20 else 0,
        columns,
        {OURS: any(_GPU.match(t.description) or _CPU.match(t.description) for t in trace.tracks.values())},
        trace.realtime,
        1,
        packets.cut_off,
        tuple(f"{path}: {line}" for line in _odd(packets, trace, columns, strange)),
    )


def _odd(packets: Packets, trace: Trace, columns: Columns, strange: Counter[str]) -> list[str]:
    lines = []
    if packets.cut_off:
        lines.append(
            f"cut off ({packets.cut_off}): {columns.events:,} events in the first "
            f"{byte_text(packets.bytes_read)} were read; every number is of this part alone"
        )
    unreadable = packets.unreadable + trace.unreadable
    if unreadable:
        lines.append(f"{unreadable:,} packets are no valid protocol buffers and were left out")
    if trace.timeless:
        lines.append(f"{trace.timeless:,} events have no valid time and were left out")
    if trace.open:
        lines.append(f"{trace.open:,} slices do not end; they are taken to end with the last event")
    if trace.left:
        told = "; ".join(f"{count:,} {what}" for what, count in trace.left.most_common(6))
        more = len(trace.left) - 6
        lines.append(f"not read: {told}" + (f"; {more} other things" if more > 0 else ""))
    if strange:
        names = ", ".join(one_line(name, 40) or "none" for name, _ in strange.most_common(4))
        more = len(strange) - 4
        lines.append(
            f"{strange.total():,} events of categories that are not known ({names}"
            + (f" and {more} more" if more > 0 else "")
            + ") are read as ranges"
        )
    return lines


def _columns(trace: Trace, slices: Slices) -> tuple[Columns, Counter[str]]:
    """The events by kind, and how many there are of each category that is not known."""
    kinds: dict[str, list[int]] = {}
    strange: Counter[str] = Counter()
    for number, info in enumerate(trace.infos):
        if info.category == COMPUTED:
            continue
        kind = _kind(info)
        if not kind:
            strange[info.category] += 1
            kind = "annotation"
        kinds.setdefault(kind, []).append(number)
    uuids = list(trace.places)
    places = [_place(trace, uuid, number) for number, uuid in enumerate(uuids)]
    main = Counter(
        places[int(slices.track[row])].pid
        for kind, rows in kinds.items()
        if kind not in ON_GPU
        for row in rows
    )
    owner = main.most_common(1)[0][0] if main else 0
    out = Columns()
    texts = _Codes()
    arrows = _Arrows(trace, kinds)
    for kind, rows in kinds.items():
        which = np.array(rows, np.int64)
        where = slices.track[which].tolist()
        infos = [trace.infos[row] for row in rows]
        told = [_told(kind, info) for info in infos]
        columns: dict[str, Any] = {
            "name": texts.of([_name(kind, info) for info in infos]),
            "start": slices.start[which],
            "duration": slices.duration[which],
            "order": which,
        }
        if kind == "kernel":
            columns["short"] = texts.of([_short(info) for info in infos])
        if kind in ON_GPU:
            for one, place in zip(told, where, strict=True):
                at = places[place]
                for key, value in (("device", at.device), ("context", at.context), ("stream", at.stream)):
                    given = MISSING if at.tid == _OWN else _whole(one.get(key))
                    one[key] = value if given == MISSING else given
            gpu = kind == "gpu_annotation"
            pids = [one["device"] if gpu else places[p].pid for one, p in zip(told, where, strict=True)]
            columns["pid"] = np.array([owner if pid < 0 and not gpu else pid for pid in pids], np.int64)
            columns["tid"] = np.array([one["stream"] for one in told], np.int64)
        else:
            columns["pid"] = np.array([places[p].pid for p in where], np.int64).clip(0)
            columns["tid"] = np.array([places[p].tid for p in where], np.int64)
        if kind in ("kernel", "memcpy", "memset", GRAPH, "runtime", "driver"):
            for one, row in zip(told, rows, strict=True):
                if _whole(one.get("correlation")) == MISSING and (number := arrows.of(row)):
                    one["correlation"] = number
        for key in FIELDS[kind] if kind != GRAPH else ("device", "context", "stream", "correlation"):
            columns[key] = _column(key, told, texts)
        out.kinds[kind] = {key: narrow(values) for key, values in columns.items()}
        out.events += len(rows)
    if arrows.ends:
        out.kinds["flow"] = arrows.columns(out, slices, trace, texts)
    out.texts = list(texts)
    used = {
        int(number) for kind, rows in kinds.items() if kind not in ON_GPU for number in slices.track[rows]
    }
    for number in sorted(used):
        name = next((t.thread or t.name for t in trace.above(uuids[number]) if t.thread or t.name), "")
        if name := _thread(name):
            out.threads.append((max(places[number].pid, 0), places[number].tid, name))
    return out, strange


def _thread(name: str) -> str:
    """A thread's name of that of its track; '' where this project wrote that and it had none."""
    found = _OF_THREAD.fullmatch(name)
    return name if found is None else found[1] or ""


def _kind(info: Info) -> str:
    kind = CATEGORIES.get(info.category) or CATEGORIES.get(info.category.lower(), "")
    return "driver" if kind == "runtime" and re.match(r"cu[A-Z]", info.name) else kind


def _place(trace: Trace, uuid: int, number: int) -> _Place:
    """Where a track's events ran; ``tid`` is `_OWN` of a stream that the writer describes."""
    chain = list(trace.above(uuid))
    for track in chain:
        if found := _GPU.match(track.description):
            pid, device, context, stream = (int(text or -1) for text in found.groups())
            return _Place(pid, _OWN, device, context, stream)
        if found := _CPU.match(track.description):
            return _Place(int(found[1]), int(found[2]), -1, 0, -1)
    pid = next((track.pid for track in chain if track.pid >= 0), -1)
    tid = next((track.tid for track in chain if track.tid >= 0), -1)
    names = [text for track in chain for text in (track.name, track.thread, track.process) if text]

    def told(pattern: re.Pattern[str], missing: int) -> int:
        return next((int(found[1]) for text in names if (found := pattern.search(text))), missing)

    stream = told(_STREAM, number)
    return _Place(pid, tid if tid >= 0 else _OWN - 1 - number, told(_DEVICE, 0), told(_CONTEXT, 0), stream)


def _name(kind: str, info: Info) -> str:
    """An event's name as torch.profiler writes it."""
    told = dict(info.arguments)
    if kind == "kernel":
        name = told.get("kernel")
        return name if isinstance(name, str) and name else info.name
    if kind == "memcpy" and (way := _WAY.search(info.name)) and "(" not in info.name:
        sides = [re.sub(r"\W", "_", str(told.get(side) or "Unknown")) for side in ("from", "to")]
        return f"Memcpy {way[1].upper()}to{way[2].upper()} ({sides[0].title()} -> {sides[1].title()})"
    if kind == "memset" and "(" not in info.name:
        return "Memset (Unknown)"
    return info.name


def _short(info: Info) -> str:
    """A kernel's short name: the event's, where an argument has the whole one."""
    return info.name if any(key == "kernel" for key, _ in info.arguments) else short_name(info.name)


def _told(kind: str, info: Info) -> dict[str, Any]:
    """What an event's arguments say, by field."""
    told: dict[str, Any] = {}
    for name, value in info.arguments:
        key = FIELDS_OF.get(name)
        if key is not None and value is not None:
            told[key] = value
        elif kind == "kernel" and name in ("static shared bytes", "dynamic shared bytes"):
            told["shared"] = told.get("shared", 0) + (value if isinstance(value, int) else 0)
    return told


class _Codes(dict[str, int]):
    """Gives each distinct text a number."""

    def __missing__(self, key: str) -> int:
        number = self[key] = len(self)
        return number

    def of(self, texts: list[str]) -> Ints:
        """The numbers of texts."""
        return np.fromiter(map(self.__getitem__, texts), np.int64, len(texts))


def _column(key: str, told: list[dict[str, Any]], texts: _Codes) -> Any:
    holds = HOLDS[key]
    values = [one.get(key) for one in told]
    if holds == "text":
        return np.array([-1 if v is None or v == "" else texts[_text(v)] for v in values], np.int64)
    if holds == "real":
        return np.array([_real(value) for value in values], np.float64)
    return np.array([_whole(value) for value in values], np.int64)


def _text(value: Any) -> str:
    text = str(value)
    shape = _SHAPE.fullmatch(text)
    return f"[{shape[1]}, {shape[2]}, {shape[3]}]" if shape else text


def _real(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _whole(value: Any) -> int:
    if isinstance(value, str):
        try:
            value = int(value) if len(value) < 24 else None
        except ValueError:
            return MISSING
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int):
        return MISSING
    return int(value) if -(1 << 63) <= value < 1 << 63 else MISSING


class _Arrows:
    """Arrows between calls and what they launched: ``ends`` has (arrow, arrives?, event) of each end."""

    def __init__(self, trace: Trace, kinds: dict[str, list[int]]) -> None:
        self.ends: list[tuple[int, bool, int]] = []
        self._numbers: dict[int, int] = {}
        self._of: dict[int, int] = {}
        launched = {row for kind in ("kernel", "memcpy", "memset", GRAPH) for row in kinds.get(kind, ())}
        calling = {row for kind in ("runtime", "driver") for row in kinds.get(kind, ())}
        touched: dict[int, list[tuple[bool, int]]] = {}
        for row in sorted(launched | calling):
            info = trace.infos[row]
            for arrives, arrows in ((False, info.begins), (True, info.ends)):
                for arrow in arrows:
                    touched.setdefault(arrow, []).append((arrives, row))
        for arrow, ends in touched.items():
            rows = {row for _, row in ends}
            if not (rows & launched and rows & calling):
                continue
            number = self._numbers.setdefault(arrow, len(self._numbers) + 1)
            for arrives, row in ends:
                self.ends.append((number, row in launched or arrives, row))
                self._of.setdefault(row, _ARROWS + self._call(ends, calling))
        self._own(trace, launched, calling)

    def of(self, row: int) -> int:
        """The correlation that arrows give an event; 0 for none."""
        return self._of.get(row, 0)

    def columns(self, out: Columns, slices: Slices, trace: Trace, texts: _Codes) -> dict[str, Any]:
        """The ends as events of a trace of torch.profiler."""
        placed = {
            int(order): (int(pid), int(tid))
            for kind in ("kernel", "memcpy", "memset", GRAPH, "runtime", "driver")
            if kind in out.kinds
            for order, pid, tid in zip(*(out.kinds[kind][k] for k in ("order", "pid", "tid")), strict=True)
        }
        rows = np.array([row for _, _, row in self.ends], np.int64)
        where = np.array([placed[row] for _, _, row in self.ends], np.int64)
        zeros = np.zeros(len(rows), np.int64)
        return {
            "name": texts.of(["ac2g"] * len(rows)),
            "pid": where[:, 0],
            "tid": where[:, 1],
            "start": slices.start[rows],
            "duration": zeros,
            "order": len(trace.infos) + np.arange(len(rows)),
            "id": np.array([number for number, _, _ in self.ends], np.int64),
            "phase": texts.of(["f" if arrives else "s" for _, arrives, _ in self.ends]),
            "category": texts.of(["ac2g"] * len(rows)),
        }

    def _call(self, ends: list[tuple[bool, int]], calling: set[int]) -> int:
        return min(row for _, row in ends if row in calling)

    def _own(self, trace: Trace, launched: set[int], calling: set[int]) -> None:
        """Where a call has a correlation of its own, what it launched has that."""
        own: dict[int, int] = {}
        for row in calling:
            for name, value in trace.infos[row].arguments:
                if FIELDS_OF.get(name) == "correlation" and isinstance(value, int):
                    own[_ARROWS + row] = value
        for row in launched:
            if (number := self._of.get(row)) in own:
                self._of[row] = own[number]
