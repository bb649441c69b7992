"""What advanced-ex01 expects: operations, calls, Python stacks and ranges of a capture in; paths of lines
out.

Written apart from `labcode.analysis.timeline.launch_sites`, with one step more: a call without a stack
inside its outermost operation of PyTorch is placed between the stacks before and after it. The flags of
`Rules` leave out what learners tend to leave out.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

Frame = tuple[str, str, int]  # function, file, line
Path = tuple[Frame, ...]  # the program's own frames, outermost first; line 0: not known
Thread = tuple[int, int]  # pid, tid
Spans = list[tuple[int, int, str, int]]  # start, end, name, sequence number or -1
LIBRARY = re.compile(r"(?:^|/)(?:site|dist)-packages/|(?:^|/)lib/python\d|^<")
_SEQUENCE = re.compile(r", seq = (\d+)(?:,|$)")
_AUTOGRAD = re.compile(r", (?:seq|op_id) = \d+")


@dataclass(frozen=True)
class Rules:
    """Which rules count; each flag turned off is a typical mistake."""

    own: bool = True  # leave out the frames of libraries
    by_process: bool = True  # correlations and sequence numbers count within a process
    outermost: bool = True  # the outermost operation around the call, not the innermost
    last: bool = True  # the last forward operation of a number, not the first
    backward: bool = True  # follow sequence numbers at all
    inside: bool = True  # look for stacks inside the operation
    between: bool = True  # place what has none between its neighbors
    common: bool = True  # between: what both have in common, not the stack before
    exact: bool = False  # between: give up where the lines differ


def user_path(stack: Sequence[Frame], rules: Rules = Rules()) -> Path:
    """The program's own frames of a stack (innermost first), the outermost first."""
    return tuple(frame for frame in reversed(stack) if not rules.own or not LIBRARY.search(frame[1]))


def common_path(before: Path, after: Path, *, exact: bool = False) -> Path:
    """What two paths have in common from the outside; a last frame on different lines counts with line 0."""
    found: list[Frame] = []
    for one, other in zip(before, after, strict=False):
        if one == other:
            found.append(one)
            continue
        if one[:2] == other[:2] and not exact:
            found.append((one[0], one[1], 0))
        break
    return tuple(found)


def paths(
    ops: pd.DataFrame,
    api: pd.DataFrame,
    backtraces: pd.DataFrame,
    frames: pd.DataFrame,
    nvtx: pd.DataFrame,
    rules: Rules = Rules(),
) -> list[Path | None]:
    """For each operation the path of the line it comes from; None where nothing is known."""
    scene = _Scene(api, backtraces, frames, nvtx, rules)
    return [
        scene.path(int(pid), int(number)) for pid, number in zip(ops["pid"], ops["correlation"], strict=True)
    ]


def blame(found: Sequence[Path | None], durations: Sequence[int]) -> dict[tuple[str, str], int]:
    """For each function (name, file) the GPU time of what was launched in it, or in what it called."""
    times: dict[tuple[str, str], int] = defaultdict(int)
    for path, ns in zip(found, durations, strict=True):
        for function in {frame[:2] for frame in path or ()}:
            times[function] += ns
    return dict(times)


class _Scene:
    """A capture, indexed for many questions."""

    def __init__(
        self,
        api: pd.DataFrame,
        backtraces: pd.DataFrame,
        frames: pd.DataFrame,
        nvtx: pd.DataFrame,
        rules: Rules,
    ) -> None:
        self.rules = rules
        by_stack: dict[int, list[Frame]] = defaultdict(list)
        for row in _rows(frames.sort_values(["backtrace", "depth"])):
            by_stack[int(row.backtrace)].append((str(row.function), str(row.file), int(row.line)))
        self.taken: dict[Thread, list[tuple[int, Path]]] = defaultdict(list)
        self.at_call: dict[tuple[int, int], Path] = {}
        for row in _rows(backtraces.sort_values("start_ns", kind="stable")):
            path = user_path(by_stack[int(row.backtrace)], rules)
            self.taken[int(row.pid), int(row.tid)].append((int(row.start_ns), path))
            if not pd.isna(row.correlation):
                self.at_call.setdefault(self._key(int(row.pid), int(row.correlation)), path)
        self.calls: dict[tuple[int, int], tuple[Thread, int]] = {}
        for row in _rows(api.sort_values("start_ns", kind="stable")):
            key = self._key(int(row.pid), int(row.correlation))
            self.calls.setdefault(key, ((int(row.pid), int(row.tid)), int(row.start_ns)))
        self.operations = _operations(nvtx)
        self.outer = {thread: _outermost(spans) for thread, spans in self.operations.items()}
        self.numbered: dict[int, list[tuple[Thread, tuple[int, int, str, int]]]] = defaultdict(list)
        for thread, spans in self.operations.items():
            for span in spans:
                self.numbered[span[3]].append((thread, span))
        self.known: dict[tuple[Thread, int, int], Path | None] = {}

    def _key(self, pid: int, number: int) -> tuple[int, int]:
        return (pid if self.rules.by_process else 0, number)

    def path(self, pid: int, number: int) -> Path | None:
        key = self._key(pid, number)
        if key in self.at_call:
            return self.at_call[key]
        if key not in self.calls:
            return None
        thread, at = self.calls[key]
        if self.rules.outermost:
            around = _around(self.outer.get(thread, []), at)
        else:
            around = next((s for s in reversed(self.operations.get(thread, [])) if s[0] <= at < s[1]), None)
        if self.taken.get(thread):
            return self._placed(thread, *(around[:2] if around else (at, at)))
        if around is None or not self.rules.backward:
            return None
        number = self._number(thread, around)
        forward = [
            (other, span)
            for other, span in self.numbered.get(number, [])
            if number >= 0
            and (other[0] == thread[0] or not self.rules.by_process)
            and other != thread
            and span[1] <= around[0]
        ]
        if not forward:
            return None
        other, span = (max if self.rules.last else min)(forward, key=lambda one: one[1][0])
        if self.rules.outermost:
            span = _around(self.outer[other], span[0]) or span
        return self._placed(other, span[0], span[1])

    def _number(self, thread: Thread, around: tuple[int, int, str, int]) -> int:
        """The first sequence number in a range."""
        spans = self.operations[thread]
        place = bisect.bisect_left(spans, around[0], key=lambda one: one[0])
        for span in spans[place:]:
            if span[0] >= around[1]:
                break
            if span[3] >= 0:
                return span[3]
        return -1

    def _placed(self, thread: Thread, start: int, end: int) -> Path | None:
        key = thread, start, end
        if key not in self.known:
            self.known[key] = self._place(thread, start, end)
        return self.known[key]

    def _place(self, thread: Thread, start: int, end: int) -> Path | None:
        stacks = self.taken.get(thread, [])
        first = bisect.bisect_left(stacks, start, key=lambda one: one[0])
        if first < len(stacks) and stacks[first][0] < end and self.rules.inside:
            return stacks[first][1]
        after = bisect.bisect_left(stacks, end, key=lambda one: one[0])
        if not self.rules.between or first == 0 or after == len(stacks):
            return None
        before = stacks[first - 1][1]
        both = common_path(before, stacks[after][1], exact=self.rules.exact)
        return (both or None) if self.rules.common else before


def _rows(table: pd.DataFrame) -> Iterable[Any]:
    return table.itertuples()


def _operations(nvtx: pd.DataFrame) -> dict[Thread, Spans]:
    """The ranges of PyTorch's operations by thread, in the order in which they began, the longer first."""
    found: dict[Thread, Spans] = defaultdict(list)
    for row in _rows(nvtx):
        if row.event_type == "push_pop" and not pd.isna(row.end_ns) and _AUTOGRAD.search(str(row.name)):
            number = _SEQUENCE.search(str(row.name))
            seq = int(number[1]) if number else -1
            found[int(row.pid), int(row.tid)].append((int(row.start_ns), int(row.end_ns), str(row.name), seq))
    return {thread: sorted(spans, key=lambda one: (one[0], -one[1])) for thread, spans in found.items()}


def _outermost(spans: Spans) -> Spans:
    outer: Spans = []
    for span in spans:
        if not outer or span[0] >= outer[-1][1]:
            outer.append(span)
    return outer


def _around(outer: Spans, at: int) -> tuple[int, int, str, int] | None:
    place = bisect.bisect_right(outer, at, key=lambda one: one[0]) - 1
    return outer[place] if place >= 0 and at < outer[place][1] else None
