"""A snapshot of PyTorch's GPU allocator in; the same as plain JSON, with frames and addresses by index, out.

PyTorch offers snapshots as pickles, which run code when they are opened; what leaves a workload is JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SCHEMA = 1
Snapshot = Mapping[str, Any]
_LIVE = ("active_allocated", "active_awaiting_free")


def convert(snapshot: Snapshot, torch_version: str, before: list[dict[str, Any]]) -> dict[str, Any]:
    """What a snapshot (`torch.cuda.memory._snapshot`) says of one GPU's history and of its memory now.

    The result has ``segments`` (what the allocator holds, and the blocks in it), ``events`` in the order of
    time (``t_us`` from the first on; ``action`` is PyTorch's word: ``alloc``, ``free_requested``,
    ``free_completed``, ``segment_alloc``, …), ``frames`` and ``live_before``, the blocks that were in use
    before the first event (``before``, see `live_blocks`). An address is a number that stands for it, the
    same wherever the address is the same. ``frames`` of events and blocks are indices, innermost first.
    """
    addresses = _Numbers()
    streams = _Numbers()
    frames = _Frames()
    live = [
        {**block, "addr": addresses.of(block["addr"]), "stream": streams.of(block["stream"])}
        for block in before
    ]
    traces = [trace for trace in snapshot.get("device_traces", []) if trace]
    entries = sorted(
        (entry for trace in traces for entry in trace if entry["action"] != "snapshot"),
        key=lambda entry: entry.get("time_us", 0),
    )
    first = entries[0].get("time_us", 0) if entries else 0
    events = [
        {
            "t_us": entry.get("time_us", 0) - first,
            "action": entry["action"],
            "addr": addresses.of(entry.get("addr", 0)),
            "size": entry["size"],
            "stream": streams.of(entry["stream"]),
            "frames": frames.of(entry.get("frames", ())),
        }
        for entry in entries
    ]
    segments = [
        {
            "addr": addresses.of(segment["address"]),
            "size": segment["total_size"],
            "stream": streams.of(segment["stream"]),
            "type": segment["segment_type"],
            "blocks": [
                {
                    "addr": addresses.of(block["address"]),
                    "size": block["size"],
                    "requested_size": block["requested_size"],
                    "state": block["state"],
                    "frames": frames.of(block.get("frames", ())),
                }
                for block in segment["blocks"]
            ],
        }
        for segment in snapshot["segments"]
    ]
    return {
        "schema": SCHEMA,
        "torch": torch_version,
        "segments": segments,
        "events": events,
        "frames": frames.table,
        "live_before": live,
    }


def live_blocks(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The blocks in use, with their addresses as they are: ``addr``, ``size``, ``stream``."""
    return [
        {"addr": block["address"], "size": block["size"], "stream": segment["stream"], "frames": []}
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] in _LIVE
    ]


class _Numbers:
    """Numbers that stand for values, in the order in which they come."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, value: int) -> int:
        return self._known.setdefault(value, len(self._known))


class _Frames:
    """The frames of stacks, each once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], int] = {}
        self.table: list[dict[str, Any]] = []

    def of(self, stack: Iterable[Mapping[str, Any]]) -> list[int]:
        found = []
        for frame in stack:
            key = (frame["filename"], frame["line"], frame["name"])
            if key not in self._known:
                self._known[key] = len(self.table)
                self.table.append({"file": key[0], "line": key[1], "function": key[2]})
            found.append(self._known[key])
        return found
