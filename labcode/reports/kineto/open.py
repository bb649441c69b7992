"""A trace file, or a folder with one for each rank, in; what was read of each rank, what is amiss, out."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labcode.errors import InputError
from labcode.inputs import plain_file
from labcode.reports.kineto.events import Collector, Columns
from labcode.reports.kineto.schema import NEWEST_SCHEMA
from labcode.reports.kineto.text import TraceText
from labcode.reports.kineto.workers import SpreadCollector, UnreadableError, workers_for
from labcode.reports.naming import rank_in_name
from labcode.show import byte_text

TRACE_SUFFIXES = (".trace.json", ".trace.json.gz")
SUFFIXES = (".json", ".json.gz")
_OTHERS = (".averages.json", ".memory.json", ".clean.json", ".averages.json.gz", ".memory.json.gz")
_MOST_RANKS = 1 << 20
_FURTHEST_BASE = 4_000_000_000_000_000_000


@dataclass(frozen=True)
class RankTrace:
    """One file as it was read: ``rank``, ``base_ns`` (its clock's 0 in Unix time, 0 where unknown)."""

    path: Path
    rank: int
    columns: Columns
    metadata: dict[str, Any]
    base_ns: int
    world_size: int
    cut_off: str
    warnings: tuple[str, ...]


def open_ranks(paths: Sequence[Path]) -> tuple[list[RankTrace], list[str]]:
    """Read trace files, each of another rank; and what is amiss with their number.

    Raises `InputError` for a file that is no trace and for two files of one rank.
    """
    read = [read_trace(path) for path in paths]
    notes: list[str] = []
    if len(read) > 1:
        unknown = [one for one in read if one.rank < 0]
        if unknown:
            free = (n for n in range(len(read) * 2) if n not in {one.rank for one in read})
            read = [one if one.rank >= 0 else replace(one, rank=next(free)) for one in read]
            notes.append(
                f"{unknown[0].path.parent}: {len(unknown)} traces do not say of which rank they are; "
                "they are numbered in the order of their names"
            )
        _refuse_doubles(read)
    else:
        read = [one if one.rank >= 0 else replace(one, rank=0) for one in read]
    read.sort(key=lambda one: one.rank)
    world = max(one.world_size for one in read)
    missing = sorted(set(range(world)) - {one.rank for one in read})
    if missing and len(read) > 1:
        shown = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        notes.append(
            f"{read[0].path.parent}: traces of {len(read)} of {world} ranks; rank {shown} missing: "
            "who waited for whom is told of those that are there"
        )
    return read, notes


def trace_files(folder: Path) -> list[Path]:
    """The traces in a folder; `InputError` where there is none."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    named = [path for path in files if path.name.lower().endswith(TRACE_SUFFIXES)]
    found = named or [
        path for path in files if path.name.lower().endswith(SUFFIXES) and not path.name.endswith(_OTHERS)
    ]
    if not found:
        raise InputError(
            f"{folder}: a folder without traces (.trace.json, .trace.json.gz); name one that "
            "torch.profiler wrote"
        )
    return found


def _refuse_doubles(read: list[RankTrace]) -> None:
    for rank, count in Counter(one.rank for one in read).items():
        if count > 1:
            two = [one.path for one in read if one.rank == rank][:2]
            raise InputError(
                f"{two[0].parent}: {two[0].name} and {two[1].name} are both of rank {rank}, so they are "
                "of different runs; name a file, or a folder with the ranks of one run"
            )


def read_trace(path: Path) -> RankTrace:
    """Read one file."""
    text, columns = _read(plain_file(path))
    if not columns.events and not text.cut_off and "schemaVersion" not in text.metadata:
        raise InputError(
            f"{path}: no trace of torch.profiler: not one of its events is an operator, a call of CUDA or an "
            "operation of a GPU; name a file that prof.export_chrome_trace wrote"
        )
    distributed = text.metadata.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    world = distributed.get("world_size")
    base = text.metadata.get("baseTimeNanoseconds", 0)
    known_base = isinstance(base, int) and 0 <= base < _FURTHEST_BASE
    warnings = _warnings(path, text, columns)
    version = text.metadata.get("schemaVersion")
    if isinstance(version, int) and version > NEWEST_SCHEMA:
        warnings.append(
            f"{path}: trace schema {version} is newer than the newest one tried ({NEWEST_SCHEMA}): "
            "events and members that are not known are left out"
        )
    if not known_base:
        warnings.append(f"{path}: baseTimeNanoseconds is no time ({str(base)[:30]}); it is taken as 0")
    return RankTrace(
        path,
        _rank(path, distributed),
        columns,
        text.metadata,
        base if known_base else 0,
        world if isinstance(world, int) and 0 < world < _MOST_RANKS else 1,
        text.cut_off,
        tuple(warnings),
    )


def _read(path: Path) -> tuple[TraceText, Columns]:
    """A file's text and events; of a large one decoded by workers, unless something in it is odd."""
    workers = workers_for(path)
    if workers:
        text = TraceText(path)
        with suppress(UnreadableError), SpreadCollector(workers) as spread:
            text.read(spread.take, spread.take_one)
            return text, spread.finish()
    text, collector = TraceText(path), Collector()
    text.read(collector.take, collector.take_one)
    return text, collector.finish()


def _rank(path: Path, distributed: dict[str, Any]) -> int:
    """From the trace, else from the file's name; -1 where neither says it."""
    rank = distributed.get("rank")
    if not isinstance(rank, int) or not 0 <= rank < _MOST_RANKS:
        rank = rank_in_name(path)
    return rank if rank < _MOST_RANKS else -1


def _warnings(path: Path, text: TraceText, columns: Columns) -> list[str]:
    warnings = []
    if text.cut_off:
        warnings.append(
            f"{path}: cut off ({text.cut_off}): {columns.events:,} whole events in the first "
            f"{byte_text(text.bytes_read)} were read{_until(columns)}; the rest is missing, so every "
            "number is of this part alone"
        )
    if text.unreadable:
        warnings.append(f"{path}: {text.unreadable:,} events are no valid JSON and were left out")
    if columns.timeless:
        warnings.append(f"{path}: {columns.timeless:,} events have no valid time and were left out")
    if columns.negative:
        warnings.append(f"{path}: {columns.negative:,} events end before they begin; they count as 0 ns long")
    return warnings


def _until(columns: Columns) -> str:
    ends = [int((c["start"] + c["duration"]).max()) for c in columns.kinds.values() if len(c["start"])]
    starts = [int(c["start"].min()) for c in columns.kinds.values() if len(c["start"])]
    return f", {(max(ends) - min(starts)) / 1e6:,.3f} ms of the run" if ends else ""


def correlation_doubles(columns: Columns) -> int:
    """How many correlation ids several calls of the CUDA runtime share."""
    calls = columns.kinds.get("runtime")
    if calls is None:
        return 0
    own = calls["correlation"][calls["correlation"] > 0]
    return int((np.unique(own, return_counts=True)[1] > 1).sum())
