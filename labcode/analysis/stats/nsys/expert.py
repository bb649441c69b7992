"""Tables of nsys' own rules (`nsys analyze`): an open export in, nsys' columns out.

All rows, where nsys shows 50 unless told otherwise. Copies and memsets are joined with their calls within the
process; nsys goes by the correlation alone, and mixes processes up. What the rules miss, and rules that do
not, are in `labcode.analysis.rules`.
"""

import re

import numpy as np

from labcode.analysis.stats.nsys.tables import MEMORY_LABELS
from labcode.analysis.stats.table import Table, Texts
from labcode.reports.columns import Bools, Column, Ints, process_keys
from labcode.reports.nsys import schema
from labcode.reports.nsys.schema import pid_of, tid_of
from labcode.reports.nsys.source import Source

_FRAME = ("start", "duration", "correlationId", "globalPid", "deviceId", "contextId", "greenContextId")
_SMALL_BYTES = 64_000  # copies to the GPU up to this size return before they are done
_H2D = 1
_PAGEABLE, _PINNED, _MANAGED = 0, 1, 4
_NONE = -1


def cuda_memcpy_sync(source: Source) -> Table:
    """Copies that block the host: Duration, Start (ns), Src Kind, Dst Kind, Bytes (MB), PID … API Name.

    Those of calls without Async in their names; without copies within one GPU, and without those to the GPU
    of 64 KB or less, for which the host does not wait.
    """
    raw = _copies(source)
    small = (raw["bytes"].values <= _SMALL_BYTES) & (raw["copyKind"].values == _H2D)
    from_, to = raw["srcDeviceId"], raw["dstDeviceId"]
    within = from_.there() & (~to.there() | (from_.values == to.values))  # of unknown ends too, as nsys
    return _operations(source, raw, ~small & ~within, r"cudaMemcpy(?!.*Async)")


def cuda_memcpy_async(source: Source) -> Table:
    """Asynchronous copies of pageable memory, which block the host: the columns of cuda_memcpy_sync."""
    raw = _copies(source)
    pageable = (raw["srcKind"].filled(_NONE) == _PAGEABLE) | (raw["dstKind"].filled(_NONE) == _PAGEABLE)
    return _operations(source, raw, pageable, r"cudaMemcpy.*Async")


def cuda_memset_sync(source: Source) -> Table:
    """Memsets of pinned or managed memory that block the host: as cuda_memcpy_sync, with one Memory Kind."""
    raw = source.ints(schema.MEMSET, (*_FRAME, "streamId", "bytes", "memKind"))
    kind = raw["memKind"].filled(_NONE)
    return _operations(source, raw, (kind == _PINNED) | (kind == _MANAGED), r"cudaMemset(?!.*Async)")


def cuda_api_sync(source: Source) -> Table:
    """Calls that wait for a GPU or a stream: Duration, Start (ns), PID, TID, API Name."""
    raw = source.ints(schema.RUNTIME, ("start", "duration", "globalTid", "nameId"))
    codes, texts = source.strings(raw["nameId"])
    rows = np.flatnonzero(_named(codes, texts, r"cuda(?:Device|Stream)Synchronize"))
    rows = rows[np.argsort(-raw["duration"].values[rows], kind="stable")]
    thread = raw["globalTid"].values[rows]
    return {
        "Duration (ns)": raw["duration"].values[rows],
        "Start (ns)": raw["start"].values[rows],
        "PID": pid_of(thread),
        "TID": tid_of(thread),
        "API Name": Texts(codes[rows], texts),
    }


def _copies(source: Source) -> dict[str, Column]:
    more = ("bytes", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
    return source.ints(schema.MEMCPY, (*_FRAME, "streamId", *more))


def _named(codes: Ints, texts: list[str], pattern: str) -> Bools:
    """Which rows have a name that begins so, in letters of any size, as SQL's LIKE compares."""
    search = re.compile(pattern, re.IGNORECASE).match
    return np.array([*(search(text) is not None for text in texts), False], np.bool_)[codes]


def _operations(source: Source, raw: dict[str, Column], chosen: Bools, pattern: str) -> Table:
    """The chosen operations whose calls have such names, the longest first."""
    calls = source.ints(schema.RUNTIME, ("correlationId", "globalTid", "nameId"))
    codes, texts = source.strings(calls["nameId"])
    some = np.flatnonzero(_named(codes, texts, pattern) & calls["correlationId"].there())
    rows = np.flatnonzero(chosen & raw["correlationId"].there())
    mine, theirs = process_keys(
        pid_of(raw["globalPid"].values[rows]),
        raw["correlationId"].values[rows],
        pid_of(calls["globalTid"].values[some]),
        calls["correlationId"].values[some],
    )
    order = np.argsort(theirs, kind="stable")
    place = np.searchsorted(theirs[order], mine)
    there = place < len(order)
    there[there] = theirs[order[place[there]]] == mine[there]
    rows, call = rows[there], some[order[place[there]]]
    longest = np.argsort(-raw["duration"].values[rows], kind="stable")
    rows, call = rows[longest], call[longest]
    kinds = {"srcKind": "Src Kind", "dstKind": "Dst Kind", "memKind": "Memory Kind"}
    green = raw["greenContextId"].values[rows]
    return {
        "Duration (ns)": raw["duration"].values[rows],
        "Start (ns)": raw["start"].values[rows],
        **{text: _memory(raw[kind].filled(_NONE)[rows]) for kind, text in kinds.items() if kind in raw},
        "Bytes (MB)": raw["bytes"].values[rows] / 1e6,
        "PID": pid_of(raw["globalPid"].values[rows]),
        "Device ID": raw["deviceId"].values[rows],
        "Context ID": raw["contextId"].values[rows],
        "Green Context ID": Column(green, green != 0),  # 0: not a green context
        "Stream ID": raw["streamId"].values[rows],
        "API Name": Texts(codes[call], texts),
    }


def _memory(kinds: Ints) -> Texts:
    known = (kinds >= 0) & (kinds < len(MEMORY_LABELS))
    return Texts(np.where(known, kinds, _NONE), [MEMORY_LABELS[kind] for kind in range(len(MEMORY_LABELS))])
