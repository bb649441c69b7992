"""What was read of each rank in; clocks, processes and GPUs brought together, columns of tables, out."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from labcode.reports.columns import Column, Ints, is_narrow, narrow, objects, unique
from labcode.reports.kineto.open import RankTrace, correlation_doubles
from labcode.reports.kineto.schema import FIELDS, HOLDS, MISSING

CPU = ("op", "annotation", "runtime", "driver")
GPU = ("kernel", "memcpy", "memset")
_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
JUMP_NS = 60_000_000_000  # without any event: the clock jumped, or the program was stopped
PID_OF_RANK = 10_000_000  # added for each rank where processes of several machines have the same number


class Ranks:
    """The ranks of one run, with what their tables have in common.

    ``origin_ns`` is the Unix time of the first event, ``devices`` gives (rank, device) the number that the
    GPU has in tables.
    """

    def __init__(self, ranks: Sequence[RankTrace]) -> None:
        self.ranks = list(ranks)
        starts = [
            one.base_ns + int(columns["start"].min())
            for one in ranks
            for kind, columns in one.columns.kinds.items()
            if len(columns["start"]) and kind != "flow"
        ]
        self.origin_ns: int = min(starts, default=0)
        self.own_pid = {one.rank: _main_pid(one) for one in ranks}
        apart = len(set(self.own_pid.values())) == len(self.own_pid)
        self.pid_shift = {one.rank: 0 if apart else one.rank * PID_OF_RANK for one in ranks}
        self.devices = _devices(ranks)

    def pid(self, one: RankTrace) -> int:
        """The process that recorded a rank."""
        return self.own_pid[one.rank] + self.pid_shift[one.rank]

    def spans(self) -> list[tuple[int, int]]:
        """From first to last event of each kind and rank, Python's functions left out."""
        return [
            (int(start.min()), int((start + columns["duration"]).max()))
            for one in self.ranks
            for kind, columns in one.columns.kinds.items()
            if kind in (*CPU, *GPU) and len(columns["start"])
            for start in [self.ns(one, columns["start"])]
        ]

    def raw(self, one: RankTrace, kind: str) -> dict[str, Any]:
        """The columns of a kind of events; empty ones where a rank has none."""
        found = one.columns.kinds.get(kind)
        if found is not None:
            return found
        keys = ("name", "pid", "tid", "start", "duration", "order", *FIELDS[kind])
        keys = (*keys, "id", "phase", "category") if kind == "flow" else keys
        return {key: np.empty(0, np.float64 if HOLDS.get(key) == "real" else np.int64) for key in keys}

    def ns(self, one: RankTrace, times: Ints) -> Ints:
        """Times on the rank's own clock as nanoseconds since the first event of all."""
        return times + (one.base_ns - self.origin_ns)

    def times(self, one: RankTrace, raw: Mapping[str, Any]) -> dict[str, Any]:
        """start_ns and end_ns."""
        start = self.ns(one, raw["start"])
        return {"start_ns": start, "end_ns": start + raw["duration"]}

    def thread(self, one: RankTrace, raw: Mapping[str, Any]) -> dict[str, Any]:
        """pid and tid."""
        return {"pid": raw["pid"] + self.pid_shift[one.rank], "tid": raw["tid"]}

    def where(self, one: RankTrace, raw: Mapping[str, Any]) -> dict[str, Any]:
        """start_ns … correlation of what ran on a GPU."""
        return {
            **self.times(one, raw),
            "pid": np.broadcast_to(np.int64(self.pid(one)), len(raw["start"])),
            "device": self.device(one, _gpus(raw)),
            "context": filled(raw["context"]),
            "stream": narrow(np.where(raw["stream"] == MISSING, raw["tid"], raw["stream"])),
            "correlation": filled(raw["correlation"]),
        }

    def device(self, one: RankTrace, numbers: Ints) -> Ints:
        """Numbers of GPUs, of their own for each GPU."""
        distinct, codes = unique(np.asarray(numbers, np.int64))
        known = [self.devices.get((one.rank, int(number)), int(number)) for number in distinct]
        return narrow(np.array(known, np.int64)[codes]) if len(distinct) else np.asarray(numbers, np.int64)

    def odd(self, path: Path) -> list[str]:
        """What is odd about the traces together, a line each."""
        notes = []
        for one in self.ranks:
            doubles = correlation_doubles(one.columns)
            if doubles:
                notes.append(
                    f"{one.path}: {doubles:,} correlation ids are those of several calls; what ran on the "
                    "GPU under one is counted for the call that began first"
                )
            gap, place = _longest_silence(one)
            if gap > JUMP_NS:
                notes.append(
                    f"{one.path}: no event for {gap / 1e9:,.0f} s, {place / 1e9:,.3f} s after the start: the "
                    "clock jumped or the program stood still; shares of the whole time count this silence"
                )
        if not any(kind in one.columns.kinds for one in self.ranks for kind in GPU):
            notes.append(
                f"{path}: no GPU operations; record them with "
                "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
            )
        return notes


def filled(values: Ints) -> Ints:
    """Numbers, 0 where there is none."""
    if is_narrow(values):
        return np.broadcast_to(np.int64(0), len(values)) if values[0] == MISSING else values
    return np.where(values == MISSING, 0, values)


def column(values: Ints) -> Column:
    """Numbers of which some may be missing."""
    if is_narrow(values):
        return Column(filled(values), None if values[0] != MISSING else np.zeros(len(values), np.bool_))
    present = values != MISSING
    return Column(values) if present.all() else Column(np.where(present, values, 0), present)


def mapped(codes: Ints, texts: Sequence[str], function: Callable[[str], str]) -> Any:
    """Each text through a function, once for each distinct one."""
    distinct, places = unique(codes)
    return objects(places, [function(texts[code]) for code in distinct.tolist()])


def triples(one: RankTrace, codes: Ints) -> Ints:
    """``[x, y, z]`` as three columns; 0 where a kernel has none."""
    distinct, places = unique(codes)
    found = np.zeros((len(distinct) + 1, 3), np.int64)
    for row, code in enumerate(distinct.tolist()):
        if code < 0:
            continue
        try:
            values = msgspec.json.decode(one.columns.texts[code], type=list[_Int64])
        except msgspec.DecodeError:
            continue
        found[row, : len(values[:3])] = values[:3]
    return found[places]


def _main_pid(one: RankTrace) -> int:
    """The process that recorded: the one with the most calls, operators and annotations."""
    pids = [one.columns.kinds[kind]["pid"] for kind in CPU if kind in one.columns.kinds]
    if not pids or not sum(len(part) for part in pids):
        return 0
    distinct, counts = np.unique(np.concatenate(pids), return_counts=True)
    return int(distinct[counts.argmax()])


def _gpus(raw: Mapping[str, Any]) -> Ints:
    """The GPU of each event: as its arguments say, else its process; 0 where neither is a GPU's number."""
    if is_narrow(raw["device"]) and raw["device"][0] >= 0:
        return np.asarray(raw["device"], np.int64)
    return np.asarray(np.where(raw["device"] < 0, raw["pid"], raw["device"]), np.int64).clip(0)


def _devices(ranks: Sequence[RankTrace]) -> dict[tuple[int, int], int]:
    """(rank, device) → a number of its own; the device's where no two ranks share one."""
    used: list[tuple[int, int]] = []
    for one in ranks:
        numbers: set[int] = set()
        for kind in (*GPU, "sync"):
            raw = one.columns.kinds.get(kind)
            if raw is not None:
                numbers |= set(np.unique(_gpus(raw)).tolist())
        used += [(one.rank, number) for number in sorted(numbers)]
    if len({number for _, number in used}) == len(used):
        return {key: key[1] for key in used}
    if len({rank for rank, _ in used}) == len(used):
        return {key: key[0] for key in used}
    return {key: place for place, key in enumerate(sorted(used))}


def _longest_silence(one: RankTrace) -> tuple[int, int]:
    """The longest stretch in which nothing ran, in ns, and when it began after the first event."""
    parts = [columns for kind, columns in one.columns.kinds.items() if kind in (*CPU, *GPU)]
    if not parts:
        return 0, 0
    start = np.concatenate([columns["start"] for columns in parts])
    if int(start.max()) - int(start.min()) < JUMP_NS:
        return 0, 0
    end = start + np.concatenate([columns["duration"] for columns in parts])
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    gaps = start[order][1:] - reach[:-1]
    worst = int(gaps.argmax())
    return int(gaps[worst]), int(reach[worst] - start.min())
