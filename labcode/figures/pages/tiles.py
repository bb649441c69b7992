"""Events of a timeline by lane and start in; tiles out, which a page loads as it is zoomed.

A tile is a part of the window with what is drawn of it. Where a part holds more than `LEAF` events, its tile
holds those that are wide at its scale, and of the others one box per lane and bin: how many there are, how
much of it they cover, the name of the longest; and it is split into `PARTS`. The first tile is in the page,
and the last ones hold the events themselves. An event that reaches over the edge of a part is in both.
"""

import base64
import contextlib
import json
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode.reports.columns import Bools, Floats, Ints, unique

LEAF = 20_000  # events of a tile that holds them all
PARTS = 8
MOST_NAMES = 200_000  # that the search knows
_BOXES = 24_000  # of a tile, in all lanes, besides wide events
_BINS = (100, 2000)
_LEAST_NS = 64  # a shorter part is not split


@dataclass(frozen=True)
class Laid:
    """All events by lane and start: times in ns since the window began, codes of role, label and detail."""

    start: Floats
    duration: Floats
    lane: Ints
    role: Ints
    label: Ints
    detail: Ints
    labels: Sequence[str]
    details: Sequence[str]
    lanes: int


@dataclass
class Tiles:
    """The tiles of a timeline.

    After `all`: ``nodes`` has of each tile the number of the one it is a part of (-1: none), begin, end, the
    width of a bin (0: it holds the events themselves).
    """

    laid: Laid
    span: float
    nodes: list[tuple[int, float, float, float]] = field(default_factory=list)
    _leaves: list[tuple[int, Ints]] = field(default_factory=list)

    def all(self) -> Iterator[dict[str, Any]]:
        """What each tile holds, for ``interactive.js``: the whole window first."""
        bins = int(np.clip(_BOXES // max(self.laid.lanes, 1), *_BINS))
        waiting = [(-1, 0.0, self.span, np.arange(len(self.laid.start)))]
        while waiting:
            above, begin, end, rows = waiting.pop()
            number = len(self.nodes)
            leaf = len(rows) <= LEAF or end - begin <= _LEAST_NS
            pixel = 0.0 if leaf else (end - begin) / bins
            self.nodes.append((above, begin, end, pixel))
            if leaf:
                own = rows[self.laid.start[rows] >= begin] if above >= 0 else rows
                self._leaves.append((number, own))
                yield self._events(rows, None, None)
                continue
            yield self._overview(begin, pixel, bins, rows)
            edges = np.floor(np.linspace(begin, end, PARTS + 1)).tolist()
            start, reach = self.laid.start[rows], self.laid.start[rows] + self.laid.duration[rows]
            for low, high in reversed(list(pairwise(edges))):
                last = high == edges[-1]
                mine = rows[((start < high) | last) & ((reach > low) | (start >= low))]
                if len(mine):
                    waiting.append((number, low, high, mine))

    def index(self) -> dict[str, Any]:
        """Which names are in which tiles of events, and how often: what the search goes by."""
        known, codes, tiles, counts = self._names(), [], [], []
        for number, rows in self._leaves:
            labels, place = unique(self.laid.label[rows])
            here = np.bincount(place, minlength=len(labels))
            kept = known[labels] >= 0
            codes.append(known[labels][kept])
            counts.append(here[kept])
            tiles.append(np.full(int(kept.sum()), number))
        name, tile, count = (np.concatenate(parts) for parts in (codes, tiles, counts))
        order = np.lexsort((tile, name))
        shown = [self.laid.labels[code] for code in np.flatnonzero(known >= 0).tolist()]
        return {
            "labels": shown,
            "name": packed(name[order]),
            "tile": packed(tile[order]),
            "count": packed(count[order]),
            "whole": len(shown) == len(self.laid.labels),
        }

    def _names(self) -> Ints:
        """For each label its number in the index; -1 of those beyond the most, the shortest in all."""
        total = np.bincount(self.laid.label, weights=self.laid.duration, minlength=len(self.laid.labels))
        kept = np.ones(len(total), np.bool_)
        if len(total) > MOST_NAMES:
            kept[np.argsort(-total, kind="stable")[MOST_NAMES:]] = False
        return np.where(kept, np.cumsum(kept) - 1, -1)

    def _overview(self, begin: float, pixel: float, bins: int, rows: Ints) -> dict[str, Any]:
        laid = self.laid
        start, duration, lane = laid.start[rows], laid.duration[rows], laid.lane[rows]
        wide = duration >= pixel
        narrow = np.flatnonzero(~wide)
        place = np.clip((start[narrow] - begin) // pixel, 0, bins - 1).astype(np.int64)
        key = lane[narrow] * bins + place  # ascending, as the rows are by lane and start
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.empty(0, np.int64)
        counts = np.diff(np.append(first, len(key)))
        spent = duration[narrow]
        if len(first):
            covered = np.add.reduceat(spent, first)
            reach = np.maximum.reduceat(start[narrow] + spent, first)
            most = np.repeat(np.maximum.reduceat(spent, first), counts)
            longest = np.flatnonzero(spent == most)
            group = np.repeat(np.arange(len(first)), counts)[longest]
            longest = longest[np.append(True, group[1:] != group[:-1])]
        else:
            covered = reach = np.empty(0)
            longest = first
        # of a box the row of its longest event, with the first one's start
        every = np.concatenate((np.flatnonzero(wide), narrow[longest]))
        starts = np.concatenate((start[wide], start[narrow][first]))
        lengths = np.concatenate((duration[wide], np.maximum(reach - start[narrow][first], 0)))
        count = np.concatenate((np.ones(int(wide.sum()), np.int64), counts))
        share = np.concatenate((duration[wide], covered))
        order = np.lexsort((starts, lane[every]))
        return self._events(
            rows[every][order],
            (starts[order], lengths[order]),
            (count[order], share[order]),
        )

    def _events(
        self,
        rows: Ints,
        times: tuple[Floats, Floats] | None,
        joined: tuple[Ints, Floats] | None,
    ) -> dict[str, Any]:
        laid = self.laid
        start, duration = times or (laid.start[rows], laid.duration[rows])
        begin = float(start.min()) if len(start) else 0.0
        labels, label = unique(laid.label[rows])
        details, detail = unique(laid.detail[rows]) if joined is None else (np.empty(0, np.int64), None)
        return {
            "from": begin,
            "first": packed(np.searchsorted(laid.lane[rows], np.arange(laid.lanes + 1))),
            "start": packed(start - begin),
            "duration": packed(duration),
            "role": packed(laid.role[rows]),
            "label": packed(label),
            "detail": packed(detail) if detail is not None else None,
            "labels": [laid.labels[code] for code in labels.tolist()],
            "details": [laid.details[code] for code in details.tolist()],
            **({"count": packed(joined[0]), "covered": packed(joined[1])} if joined else {}),
        }


def packed(values: NDArray[Any]) -> str:
    """Numbers as text: a letter for their type and base64; whole ones in as few bytes as they fit."""
    if not len(values):
        return "B"
    whole: Bools = np.equal(np.mod(values, 1), 0)
    if not whole.all() or values.min() < 0:
        kind, dtype = "d", "<f8"
    else:
        most = int(values.max())
        kind, dtype = next(
            (k, d)
            for k, d, top in (("B", "u1", 8), ("H", "<u2", 16), ("I", "<u4", 32), ("d", "<f8", 64))
            if most < 1 << top
        )
    return kind + base64.b64encode(values.astype(dtype).tobytes()).decode("ascii")


def script(name: str, content: dict[str, Any]) -> str:
    """What a page loads: a call with the name of the tile and what it holds."""
    return f"labTile({json.dumps(name)},{json.dumps(content, separators=(',', ':'))});\n"


def remove(folder: Path, *, but: Container[str] = ()) -> None:
    """Take the tiles of an earlier page out of a folder, and the folder where nothing else is in it.

    A tile is known by its name and by how it begins: what somebody else put there stays.
    """
    if not folder.is_dir() or folder.is_symlink():
        return
    for path in folder.iterdir():
        ours = re.fullmatch(r"(index|\d+)\.js", path.name) and path.is_file() and not path.is_symlink()
        if ours and path.name not in but:
            begin = f"labTile({json.dumps(path.stem)},".encode("ascii")
            with path.open("rb") as stream:
                ours = stream.read(len(begin)) == begin
            if ours:
                path.unlink()
    with contextlib.suppress(OSError):  # others' files lie in it, or the tiles of today
        folder.rmdir()
