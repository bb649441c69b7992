"""Histories of PyTorch's GPU allocator (``.memory.json``, ``.memory.json.xz``) in, tables out.

A capture, or `labcode scrub`, makes them from memory snapshots, which are pickles: loading one could run
code. Times are microseconds since the first event; addresses are replaced by arbitrary numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from labcode.errors import InputError
from labcode.reports.common import Read, Shown
from labcode.reports.documents import decoded, text_of

SCHEMA = 1

READ = (
    Read(
        "PyTorch's allocator: .memory.json",
        f"schemas up to {SCHEMA}",
        "schema in the file",
        f"schema {SCHEMA + 1}: refused",
    ),
)
ALLOCATE = "alloc"
FREE = ("free_requested", "free_completed", "free")
OTHER = ("segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", "user_defined", "snapshot")
_LARGEST_SIZE = 1 << 43  # bytes of an allocation: 8 TiB
_LIMIT = 1 << 63


class _Frame(msgspec.Struct, frozen=True):
    file: str
    line: int
    function: str


class _Event(msgspec.Struct, frozen=True, gc=False):
    t_us: int
    action: str
    addr: int
    size: int
    stream: int = 0
    frames: tuple[int, ...] = ()


class _Block(msgspec.Struct, frozen=True):
    addr: int
    size: int
    stream: int = 0
    frames: tuple[int, ...] = ()


class _History(msgspec.Struct, frozen=True):
    events: list[_Event]
    frames: list[_Frame]
    torch: str = ""
    segments: list[dict[str, Any]] = []
    live_before: list[_Block] = []


class _Head(msgspec.Struct, frozen=True):
    schema: Any = None


@dataclass(frozen=True, eq=False)
class MemoryHistory(Shown):
    """What the allocator did.

    ``events``, in file order: t_us, action (PyTorch's word for it), addr, size (bytes), stream, stack (an
    index into ``stacks``). ``live_before``, what was in use before the first event: addr, size, stream,
    stack. ``stacks``: each a tuple of texts ``file:line function``, innermost frame first. ``segments`` are
    as in the file, ``torch`` is the version of PyTorch that recorded it, ``warnings`` has one line for each
    oddity.
    """

    path: Path
    torch: str
    events: pd.DataFrame
    live_before: pd.DataFrame
    stacks: tuple[tuple[str, ...], ...]
    segments: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]


def open_history(path: str | Path) -> MemoryHistory:
    """Open a history; `InputError` for a file that is missing, damaged, not one, or of a newer schema."""
    path = Path(path)
    text = _text(path)
    head = decoded(text, _Head, path, "a memory history", how=_HOW)
    if head.schema is None:
        raise InputError(f"{path}: JSON, but no memory history: it has no schema; {_HOW}")
    if not isinstance(head.schema, int) or isinstance(head.schema, bool):
        raise InputError(f"{path}: its schema is no number ({str(head.schema)[:20]!r}); {_HOW}")
    if head.schema > SCHEMA:
        raise InputError(
            f"{path}: memory history of schema {head.schema}, newer than this labcode knows ({SCHEMA}); "
            "update labcode"
        )
    return _history(path, decoded(text, _History, path, "a memory history", how=_HOW))


_HOW = "name a .memory.json or .memory.json.xz that labcode recorded"


def _text(path: Path) -> bytes:
    text = text_of(path, less="record fewer steps")
    if text.startswith(b"\x80"):
        raise InputError(
            f"{path}: a pickle, as torch.cuda.memory._dump_snapshot writes it; make a history of it, which "
            f"runs nothing: labcode scrub {path.name} -o {path.stem}.memory.json"
        )
    return text


def _history(path: Path, raw: _History) -> MemoryHistory:
    frames = [f"{frame.file}:{frame.line} {frame.function}" for frame in raw.frames]
    stacks: dict[tuple[int, ...], int] = {}
    warnings = []

    def stack(numbers: Sequence[int]) -> int:
        key = tuple(number for number in numbers if 0 <= number < len(frames))
        return stacks.setdefault(key, len(stacks))

    lost = sum(not 0 <= number < len(frames) for event in raw.events for number in event.frames)
    if lost:
        warnings.append(f"{path}: {lost:,} frames of stacks are missing from the list of frames")
    known = {ALLOCATE, *FREE, *OTHER}
    strange = sorted({event.action for event in raw.events} - known)
    if strange:
        count = sum(event.action in strange for event in raw.events)
        warnings.append(
            f"{path}: {count:,} events of kinds that this labcode does not know ({', '.join(strange)[:80]}), "
            f"recorded by torch {raw.torch or 'of unknown version'}; they are left out"
        )
    negative = sum(event.size < 0 for event in raw.events)
    if negative:
        warnings.append(f"{path}: {negative:,} events have a negative size; they are left out")
    large = sum(not _possible(event) for event in raw.events)
    large += sum(not _possible(block) for block in raw.live_before)
    if large:
        warnings.append(f"{path}: {large:,} events or blocks have numbers that no GPU has; they are left out")
    rows = [
        (event.t_us, event.action, event.addr, event.size, event.stream, stack(event.frames))
        for event in raw.events
        if event.action in known and event.size >= 0 and abs(event.t_us) < 1 << 53 and _possible(event)
    ]
    blocks = [
        (b.addr, b.size, b.stream, stack(b.frames)) for b in raw.live_before if b.size >= 0 and _possible(b)
    ]
    types = {"t_us": "int64", "action": "str", "addr": "int64", "size": "int64", "stream": "int64"}
    events = pd.DataFrame(rows, columns=[*types, "stack"]).astype({**types, "stack": "int64"})
    backward = int((events["t_us"].diff() < 0).sum())
    if backward:
        warnings.append(f"{path}: time goes backward {backward:,} times; events count in the file's order")
    live = pd.DataFrame(blocks, columns=["addr", "size", "stream", "stack"]).astype("int64")
    texts = tuple(tuple(frames[number] for number in key) for key in stacks)
    return MemoryHistory(path, raw.torch, events, live, texts, tuple(raw.segments), tuple(warnings))


def _possible(one: _Event | _Block) -> bool:
    """Whether its numbers can be: sums of a million such sizes fit into 64 bits, and so does an address."""
    return one.size <= _LARGEST_SIZE and all(-_LIMIT <= n < _LIMIT for n in (one.addr, one.stream))
