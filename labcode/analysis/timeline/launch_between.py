"""Lines of calls at which no stack was taken: the stacks before and after them on their thread in, what these
have in common out.

Where both pass through the same line of a function and part behind it, what happened in between was called
from that line. A loop that goes round in between may deceive; a stack in each of its rounds rules that out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Frame = tuple[str, str, int | None]  # function, file, line; no line: another one in each of two stacks
Path = tuple[Frame, ...]  # the program's own frames, outermost first
Thread = tuple[int, int]  # pid, tid


class Neighbors:
    """The stacks of a capture by thread and time."""

    def __init__(self, backtraces: pd.DataFrame, frames: pd.DataFrame, library: str) -> None:
        own = frames[~frames["file"].str.contains(library, regex=True)]
        own = own.sort_values(["backtrace", "depth"], ascending=[True, False], kind="stable")
        found: dict[int, list[Frame]] = defaultdict(list)
        columns = (own[name].tolist() for name in ("backtrace", "function", "file", "line"))
        for number, function, file, line in zip(*columns, strict=True):
            found[number].append((function, file, int(line)))
        self._paths = {number: tuple(path) for number, path in found.items()}
        self._stacks: dict[Thread, tuple[Ints, Ints]] = {}
        ordered = backtraces.sort_values("start_ns", kind="stable")
        at, number, pid, tid = (
            ordered[c].to_numpy(np.int64) for c in ("start_ns", "backtrace", "pid", "tid")
        )
        for rows in ordered.groupby(["pid", "tid"]).indices.values():
            self._stacks[int(pid[rows[0]]), int(tid[rows[0]])] = at[rows], number[rows]

    def known(self, thread: Thread) -> bool:
        """Whether the thread has any stacks."""
        return thread in self._stacks

    def between(self, thread: Thread, start: int, end: int) -> Path:
        """What the last stack before ``start`` and the first from ``end`` on have in common; () for none."""
        at, number = self._stacks.get(thread, (np.empty(0, np.int64), np.empty(0, np.int64)))
        before = int(np.searchsorted(at, start, "left")) - 1
        after = int(np.searchsorted(at, end, "left"))
        if before < 0 or after == len(at):
            return ()
        return common(self._paths.get(int(number[before]), ()), self._paths.get(int(number[after]), ()))

    def agrees(self, backtrace: int, path: Path) -> bool:
        """Whether a stack passes through all of a path, the line at its end included."""
        return len(path) > 0 and self._paths.get(backtrace, ())[: len(path)] == path


def common(one: Sequence[Frame], other: Sequence[Frame]) -> Path:
    """What two paths share from the outside; a function in which they part counts, without a line."""
    shared: list[Frame] = []
    for mine, theirs in zip(one, other, strict=False):
        if mine[:2] != theirs[:2]:
            break
        if mine != theirs:
            shared.append((mine[0], mine[1], None))
            break
        shared.append(mine)
    return tuple(shared)
