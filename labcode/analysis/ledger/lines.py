"""A timeline with stacks of Python in; the line of the user's program at a time of a thread, out.

A line is that of the innermost frame outside of PyTorch, installed packages and the standard library. Of
nsys' exports there are stacks at calls of CUDA and samples; of traces the functions that were running.
"""

import bisect
import functools
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

import numpy as np
import pandas as pd

from labcode.analysis.buckets import own_file
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import spans
from labcode.reports.columns import Floats, Ints
from labcode.reports.frames import codes_of
from labcode.reports.report import FunctionsReport, SampledReport, TimelineReport

DATA = re.compile(
    r"(?i)__getitem__|__getitems__|dataload|_next_data|_get_data|_process_data|next_batch|get_batch|"
    r"load_batch|load_data|collate|torch/utils/data|prefetch"
)
# where code is made: of frames as `file(line): function`, of traces also other marks
COMPILING = (
    r"torch/_inductor/compile_fx\.py|torch/_dynamo/(?:convert_frame|eval_frame)\.py.*"
    r"(?:compile(?!_wrapper)|_convert)|triton/compiler/compiler\.py|CachingAutotuner|"
    r"Torch-Compiled Region: (?!0/)|TorchDynamo(?! Cache Lookup)|(?<!Call )CompiledFxGraph|inductor_compile"
)
_COMPILES = re.compile(COMPILING)
WAITS = re.compile(
    r"(?:^|/)(?:queue\.py:get|threading\.py:wait|selectors\.py:select|"
    r"multiprocessing/connection\.py:_?(?:poll|wait|recv\w*))$"
)
# the backward pass has no line of its own: what it does was asked for by the forward pass
BACKWARD = re.compile(r"torch/autograd/\w+\.py:(?:_engine_run_backward|backward|grad)$")
TOP_LEVEL = "<module>"  # of a script
SOME = 0.1  # of the weight
STUCK = 0.9  # of its samples: a thread that is at one line so often waits there, as far as lines tell
WAITING = ("blocking wait", "interruptible", "waiting", "stopped", "terminated")  # states of threads
NEAR_NS = 300_000  # from a call to a sample
FOLDED = 1  # stacks of all iterations together for each call of one; with fewer the nearest in time says more
_KINETO = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)$")


@dataclass(frozen=True)
class Place:
    """Where in the program: the function and ``file:line`` of the innermost own frame, '' where unknown;
    whether data are loaded there (by the names of any frame), whether the thread waits there for others (by
    the innermost), whether code is compiled there. Where only the calls around are known,
    ``until`` is the line of the next one, if that is another. ``loop`` is the line of the loop from which
    that function was called (`Lines.loop_of`), in words, '' where it is in the loop itself.
    """

    function: str = ""
    file: str = ""
    line: int = 0
    loads: bool = False
    until: int = 0
    seen: bool = True
    waits: bool = False
    compiles: bool = False
    loop: str = ""

    @property
    def text(self) -> str:
        """In words: “in `encode`, model.py:14, from `train`, train.py:40”; '' where unknown."""
        return self._own and self._own + (f", from {self.loop}" if self.loop else "")

    @property
    def _own(self) -> str:
        if not self.file:
            return ""
        if self.until:
            return f"in `{self.function}`, {self.file}, between lines {self.line} and {self.until}"
        return f"in `{self.function}`, {self.file}:{self.line}"


NOWHERE = Place()


def short(path: str) -> str:
    """The last part of a file's path."""
    return PurePosixPath(path).name


class Lines:
    """The places in a program; nothing is read before it is asked for."""

    def __init__(self, report: TimelineReport, window: tuple[int, int] | None = None) -> None:
        self.report, self.window = report, window
        self._loops: dict[tuple[int, int], tuple[str, str]] = {}

    @cached_property
    def known(self) -> bool:
        """Whether the report has stacks at all."""
        return bool(self._stacks) or bool(self._functions)

    @cached_property
    def sampled(self) -> bool:
        """Whether the report has samples of stacks."""
        return any(bool(sampled.any()) for _, _, sampled in self._stacks.values())

    def at_calls(self, calls: pd.DataFrame) -> list[Place]:
        """The place of each call (start_ns, end_ns, pid, tid)."""
        return self._between(calls, inside=False)

    def during(self, stretches: pd.DataFrame) -> list[Place]:
        """Where a thread was in each stretch of time between calls (start_ns, end_ns, pid, tid)."""
        return self._between(stretches, inside=True)

    def spread(self, pid: int, tid: int, start: Ints, end: Ints) -> list[tuple[Place, float]]:
        """Where a thread was during some stretches of time together: places and their shares, most first."""
        if not self.known or not len(start):
            return []
        low, high = intervals.union(start, end)
        if (pid, tid) in self._functions:
            return _spread(self._functions[pid, tid], low, high)
        if (pid, tid) not in self._stacks:
            return []
        at, path, sampled = self._stacks[pid, tid]
        inside = np.searchsorted(low, at, "right") > np.searchsorted(high, at, "right")
        some = inside & (sampled == 1) if sampled.any() else inside
        return self._shares((pid, tid), path[some], np.ones(int(some.sum()), np.float64))

    def launched(
        self,
        pid: int,
        tid: int,
        calls: Ints,
        weight: Floats,
        repeated: tuple[Ints, Ints] | None = None,
    ) -> list[tuple[Place, float]]:
        """Where a thread was when calls were made (their times), by weight: places and shares, most first.

        Iterations that make the same calls (``repeated``: when each call of them returned, by time, and its
        number in its iteration) have their stacks together: those before or in one call say where it is made
        in each. Otherwise the nearest stack counts, where it is near.
        """
        if not self.known or not len(calls):
            return []
        if (pid, tid) in self._functions:
            places = _of_functions(self._functions[pid, tid], calls, calls + 1)
            return _together(places, weight)
        if (pid, tid) not in self._stacks:
            return []
        at, path, _ = self._stacks[pid, tid]
        if repeated is not None and len(repeated[0]):
            found = self._folded((pid, tid), calls, weight, *repeated)
            if found:
                return found
        after = np.searchsorted(at, calls, "left")
        before, after = np.maximum(after - 1, 0), np.minimum(after, len(at) - 1)
        nearest = np.where(np.abs(at[before] - calls) <= np.abs(at[after] - calls), before, after)
        distance = np.abs(at[nearest] - calls)
        for near in (NEAR_NS, 5 * NEAR_NS):
            some = distance <= near
            if some.any():
                return self._shares((pid, tid), path[nearest[some]], weight[some])
        return []

    def _folded(
        self, key: tuple[int, int], calls: Ints, weight: Floats, ends: Ints, number: Ints
    ) -> list[tuple[Place, float]]:
        """As `launched`, of calls that iterations repeat; none where stacks are too few for that."""
        at, path, _ = self._stacks[key]
        low, high = int(ends[0]), int(ends[-1])
        some = (at > low) & (at <= high)
        at, path = at[some], path[some]
        numbers = int(number.max()) + 1
        if len(at) < FOLDED * numbers:
            return []
        taken = number[np.searchsorted(ends, at, "left")]
        wanted = np.searchsorted(ends, calls, "right")
        inside = wanted < len(ends)
        owed = np.bincount(number[wanted[inside]], weight[inside], numbers)
        counts = np.bincount(taken, minlength=numbers)
        have, want = np.flatnonzero(counts), np.flatnonzero(owed)
        after = np.minimum(np.searchsorted(have, want, "left"), len(have) - 1)
        before = np.maximum(after - 1, 0)
        nearest = np.where(want - have[before] < have[after] - want, have[before], have[after])
        share = np.bincount(nearest, owed[want], numbers) / np.maximum(counts, 1)
        each = share[taken]
        return self._shares(key, path[each > 0], each[each > 0])

    def part_of(self, function: str, file: str, line: int) -> int:
        """Of functions of one name in a file (methods of several classes), which one a line is in.

        A stack that holds two lines of that name has one function call the other: the larger gap in which
        they can lie apart parts them. One that calls itself at a line that stands twice is one function.
        """
        return bisect.bisect_right(self._parted.get((function, file), ()), line)

    @cached_property
    def _parted(self) -> dict[tuple[str, str], list[int]]:
        lines: dict[tuple[str, str], set[int]] = {}
        apart: dict[tuple[str, str], set[tuple[int, int]]] = {}
        recursive: set[tuple[str, str]] = set()
        for path in self._paths if self._stacks else []:
            seen: dict[tuple[str, str], list[int]] = {}
            for function, file, line in path:
                if own_file(file):
                    seen.setdefault((function, short(file)), []).append(line)
            for key, mine in seen.items():
                lines.setdefault(key, set()).update(mine)
                distinct = sorted(set(mine))
                if len(distinct) < len(mine):
                    recursive.add(key)
                apart.setdefault(key, set()).update(itertools.combinations(distinct, 2))
        found: dict[tuple[str, str], list[int]] = {}
        for key in apart.keys() - recursive:
            every = sorted(lines[key])
            cuts: list[int] = []
            # of pairs as wide the last first: so one line parts both where one can
            for low, high in sorted(apart[key], key=lambda pair: (_gap(pair), -pair[0])):
                if bisect.bisect_right(cuts, low) == bisect.bisect_right(cuts, high):
                    between = [line for line in every if low <= line <= high]
                    bisect.insort(cuts, max(itertools.pairwise(between), key=_gap)[1])
            found[key] = cuts
        return found

    def naming(
        self, pid: int, tid: int, start: Ints, end: Ints, pattern: str
    ) -> tuple[float, list[tuple[Place, float]]]:
        """Of the samples of a thread during some stretches those with a frame like a pattern
        (``file:function``): their share, and where in the program they are, most first; (0, none) without.
        """
        if not self.known or not len(start) or (pid, tid) not in self._stacks:
            return 0.0, []
        at, path, sampled = self._stacks[pid, tid]
        low, high = intervals.union(start, end)
        some = np.searchsorted(low, at, "right") > np.searchsorted(high, at, "right")
        some &= sampled == 1
        search = re.compile(pattern).search
        distinct, code = np.unique(path[some], return_inverse=True)
        hits = np.array([any(map(search, self._named(one))) for one in distinct.tolist()], np.bool_)
        if not hits.any():
            return 0.0, []
        mine = path[some][hits[code]]
        return len(mine) / int(some.sum()), self._shares((pid, tid), mine, np.ones(len(mine), np.float64))

    def inside(self, pid: int, tid: int, start: Ints, end: Ints, place: Place) -> float | None:
        """Of some stretches of a thread the share in which the function of a place runs, or what it calls;
        None where nothing was seen of them.
        """
        low, high = intervals.union(start, end)
        wanted = place.function, place.file
        if (pid, tid) in self._functions:
            table = self._functions[pid, tid]
            split = [_KINETO.match(str(name)) for name in table["name"]]
            hits = [m is not None and (m["function"], short(m["file"])) == wanted for m in split]
            spent = intervals.covered_within(*spans(table[np.array(hits, np.bool_)]), low, high).sum()
            return float(spent / max((high - low).sum(), 1))
        if (pid, tid) not in self._stacks:
            return None
        at, path, sampled = self._stacks[pid, tid]
        mine = np.searchsorted(low, at, "right") > np.searchsorted(high, at, "right")
        some = path[mine & (sampled == 1) if sampled.any() else mine]
        distinct, count = np.unique(some, return_counts=True)
        hits = [any((f, short(p)) == wanted for f, p, _ in self._paths[one]) for one in distinct.tolist()]
        return float(count[np.array(hits, np.bool_)].sum() / len(some)) if len(some) else None

    def any_frame(self, pattern: str) -> bool:
        """Whether a stack, or a function of a trace, has a frame like a pattern (``file:function``)."""
        search = re.compile(pattern).search
        paths = range(len(self._paths) if self._stacks else 0)
        if any(search(frame) for path in paths for frame in self._named(path)):
            return True
        names = pd.concat([table["name"] for table in self._functions.values()]) if self._functions else ()
        found = (_KINETO.match(str(name)) for name in pd.unique(pd.Series(names, dtype=object)))
        return any(one is not None and bool(search(f"{one['file']}:{one['function']}")) for one in found)

    def above(self, pid: int, tid: int, window: tuple[int, int], pattern: str) -> list[tuple[Place, float]]:
        """Where in the program frames like a pattern (``file:function``) were called: places and their shares
        of the stacks that have one, most first.
        """
        if not self.known or (pid, tid) not in self._stacks:
            return []
        search = re.compile(pattern).search
        at, path, _ = self._stacks[pid, tid]
        distinct, counts = np.unique(path[(at >= window[0]) & (at < window[1])], return_counts=True)
        places, weight = [], []
        for one, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            first = next((i for i, frame in enumerate(self._named(one)) if search(frame)), 0)
            if first:
                places.append(place_of([self._paths[one][:first]], [1], self.loop_of(pid, tid)))
                weight.append(count)
        return _together(places, np.array(weight, np.float64), self.part_of)

    def _named(self, path: int) -> list[str]:
        """The frames of a path as ``file:function``."""
        return [f"{file}:{function}" for function, file, _ in self._paths[path]]

    def busy_threads(
        self, pid: int, without: Sequence[int], window: tuple[int, int], stuck: bool = False
    ) -> list[tuple[int, Place, int]]:
        """Other threads of a process that run the program's own code in a window: tid, place, samples.

        Samples in which a thread waits, by its state, do not count. Not all waiting is seen so: a thread that
        is always at one line may wait there, and counts only if ``stuck``.
        """
        found = []
        for (process, tid), (at, path, sampled) in (self._stacks if self.known else {}).items():
            if process != pid or tid in without:
                continue
            some = (at >= window[0]) & (at < window[1]) & (sampled == 1)
            some &= ~np.isin(at, self._waiting.get((process, tid), ()))
            inner = [self._paths[one][-1] for one in path[some].tolist()]
            if not inner or not any(own_file(p) for _, p, _ in inner):
                continue
            most = max(pd.Series(inner).value_counts())
            if stuck or most < STUCK * len(inner):
                place = place_of([self._paths[one] for one in path[some].tolist()], [1] * len(inner))
                found.append((tid, place, len(inner)))
        return sorted(found, key=lambda one: -one[2])

    def samples(self, pid: int, tid: int, window: tuple[int, int]) -> int:
        """How many samples of a thread lie in a window."""
        if not self.known or (pid, tid) not in self._stacks:
            return 0
        at, _, sampled = self._stacks[pid, tid]
        return int(((at >= window[0]) & (at < window[1]) & (sampled == 1)).sum())

    def _shares(self, key: tuple[int, int], paths: Ints, weight: Floats) -> list[tuple[Place, float]]:
        loop = self.loop_of(*key)
        distinct, code = np.unique(paths, return_inverse=True)
        sums = np.bincount(code, weights=weight, minlength=len(distinct)).astype(np.float64)
        back = np.array([_of_backward(self._paths[one]) for one in distinct.tolist()], np.bool_)
        if sums[~back].sum() >= SOME * sums.sum() > 0:
            distinct, sums = distinct[~back], sums[~back]
        places = [place_of([self._paths[one]], [1], loop) for one in distinct.tolist()]
        return _together(places, sums, self.part_of)

    def holds_loop(self, pid: int, tid: int, place: Place) -> bool:
        """Whether a thread's loop stands in the function of a place, as far as stacks tell: that of the loop,
        the top level of a script, or, of a trace, a function of which one call holds all that is judged.
        """
        function, file = self.loop_of(pid, tid)
        if place.function == TOP_LEVEL:
            return True
        if function and (place.function, place.file) == (function, short(file)):
            return True
        if (pid, tid) not in self._functions or self.window is None:
            return False
        calls = self._functions[pid, tid]
        low, high = self.window
        long = calls[((calls["start_ns"] <= low) & (calls["end_ns"] >= high)).to_numpy(np.bool_)]
        found = [_KINETO.match(str(name)) for name in long["name"]]
        return (place.function, place.file) in {(m["function"], short(m["file"])) for m in found if m}

    def loop_of(self, pid: int, tid: int) -> tuple[str, str]:
        """The function of the program, and its file, that holds a thread's loop; ('', '') where unknown.

        Seen from the outside, it is the first whose line differs between the stacks of what is judged: all
        above it stand still at the call that leads into the loop. A loop of one line cannot be told so.
        """
        key = pid, tid
        if key not in self._loops:
            self._loops[key] = self._loop(*self._stacks[key][:2]) if key in self._stacks else ("", "")
        return self._loops[key]

    def _loop(self, at: Ints, path: Ints) -> tuple[str, str]:
        if self.window is not None:
            path = path[(at >= self.window[0]) & (at < self.window[1])]
        distinct = np.unique(path)
        own = [[frame for frame in self._paths[one] if own_file(frame[1])] for one in distinct.tolist()]
        found: tuple[str, str] = ("", "")
        for depth in range(max(map(len, own), default=0)):
            lines = {frames[depth] for frames in own if len(frames) > depth}
            if len({line[:2] for line in lines}) > 1:
                return found
            found = next(iter(lines))[:2]
            if len(lines) > 1:
                return found
        return "", ""

    # ---- nsys

    @cached_property
    def _stacks(self) -> dict[tuple[int, int], tuple[Ints, Ints, Ints]]:
        """Of each thread: when its stacks were taken, which path each is, and whether a sample."""
        if not isinstance(self.report, SampledReport):
            return {}
        self._paths: list[tuple[tuple[str, str, int], ...]] = []
        parts = []
        for key, stacks, frames in (
            ("backtrace", self.report.python_backtraces, self.report.python_backtrace_frames),
            ("sample", self.report.python_samples, self.report.python_frames),
        ):
            found = stacks()
            if not len(found):
                continue
            table = frames().sort_values([key, "depth"], ascending=[True, False], kind="stable")
            numbers = table[key].to_numpy(np.int64)
            first = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)])
            rows = list(
                zip(table["function"].tolist(), table["file"].tolist(), table["line"].tolist(), strict=True)
            )
            known: dict[int, int] = {}
            distinct: dict[tuple[tuple[str, str, int], ...], int] = {}
            for low, high in itertools.pairwise([*first.tolist(), len(rows)]):
                path = tuple(rows[low:high])
                if path not in distinct:
                    distinct[path] = len(self._paths)
                    self._paths.append(path)
                known[int(numbers[low])] = distinct[path]
            parts.append(
                pd.DataFrame(
                    {
                        "pid": found["pid"],
                        "tid": found["tid"],
                        "at": found["start_ns"],
                        "path": found[key].map(known).fillna(-1).astype("int64"),
                        "sampled": np.int64(key == "sample"),
                    }
                )
            )
        if not parts:
            return {}
        every = pd.concat(parts, ignore_index=True)
        every = every[every["path"] >= 0].sort_values("at", kind="stable")
        columns = [every[c].to_numpy(np.int64) for c in ("at", "path", "sampled")]
        pids, tids = every["pid"].to_numpy(np.int64), every["tid"].to_numpy(np.int64)
        return {
            (int(pids[rows[0]]), int(tids[rows[0]])): (columns[0][rows], columns[1][rows], columns[2][rows])
            for rows in every.groupby(["pid", "tid"]).indices.values()
        }

    @cached_property
    def _waiting(self) -> dict[tuple[int, int], Ints]:
        """Of each thread: the times of samples in which it waits."""
        if not isinstance(self.report, SampledReport):
            return {}
        table = self.report.python_samples()
        table = table[table["thread_state"].isin(WAITING).to_numpy(np.bool_)]
        at, pids, tids = (table[name].to_numpy(np.int64) for name in ("start_ns", "pid", "tid"))
        rows = table.groupby(["pid", "tid"]).indices.values()
        return {(int(pids[one[0]]), int(tids[one[0]])): at[one] for one in rows}

    # ---- traces

    @cached_property
    def _functions(self) -> dict[tuple[int, int], pd.DataFrame]:
        if not isinstance(self.report, FunctionsReport):
            return {}
        table = self.report.python_functions()
        table = table[["start_ns", "end_ns", "pid", "tid", "name"]]
        pids, tids = table["pid"].to_numpy(np.int64), table["tid"].to_numpy(np.int64)
        return {
            (int(pids[rows[0]]), int(tids[rows[0]])): table.iloc[rows]
            for rows in table.groupby(["pid", "tid"]).indices.values()
        }

    # ---- both

    def _between(self, table: pd.DataFrame, *, inside: bool) -> list[Place]:
        found = [NOWHERE] * len(table)
        if not len(table) or not self.known:
            return found
        low, high = spans(table)
        pids, tids = table["pid"].to_numpy(np.int64), table["tid"].to_numpy(np.int64)
        for places_of in table.groupby(["pid", "tid"]).indices.values():
            rows = np.asarray(places_of, np.int64)
            key = int(pids[rows[0]]), int(tids[rows[0]])
            if key in self._stacks:
                places = [self._of_stacks(key, int(low[row]), int(high[row]), inside) for row in rows]
            elif key in self._functions:
                places = _of_functions(self._functions[key], low[rows], high[rows])
            else:
                continue
            for row, place in zip(rows.tolist(), places, strict=True):
                found[row] = place
        return found

    def _of_stacks(self, key: tuple[int, int], low: int, high: int, inside: bool) -> Place:
        at, path, sampled = self._stacks[key]
        first, last = np.searchsorted(at, low, "left"), np.searchsorted(at, high, "left")
        taken = path[first:last][sampled[first:last] == 1] if inside else path[first:last]
        if len(taken):
            values, counts = np.unique(taken, return_counts=True)
            return place_of([self._paths[v] for v in values.tolist()], counts.tolist(), self.loop_of(*key))
        if not first or last == len(at):
            return NOWHERE
        before, after = self._paths[int(path[first - 1])], self._paths[int(path[last])]
        found = place_of([_common(before, after)], [1])
        line = next((n for f, p, n in reversed(after) if (f, short(p)) == (found.function, found.file)), 0)
        return replace(found, until=0 if line == found.line else line, seen=False)


@functools.lru_cache(maxsize=65_536)
def _of_backward(path: tuple[tuple[str, str, int], ...]) -> bool:
    """Whether a stack is of the backward pass."""
    return any(BACKWARD.search(f"{file}:{function}") for function, file, _ in path)


@functools.lru_cache(maxsize=65_536)
def _told(function: str, file: str, line: int) -> tuple[bool, bool]:
    """Whether a frame loads data, and whether it compiles."""
    loads = bool(DATA.search(function) or DATA.search(file))
    return loads, bool(_COMPILES.search(f"{file}({line}): {function}"))


def place_of(
    paths: Sequence[Sequence[tuple[str, str, int]]],
    counts: Sequence[int],
    loop: tuple[str, str] | None = None,
) -> Place:
    """The place most of some stacks (frames from the outermost on) are at.

    ``loop`` is the function of the loop, whose line is told, too; where that is unknown (two empty texts),
    the function that called the innermost one stands for it.
    """
    weights: dict[tuple[str, str, int], int] = {}
    loads = waits = compiles = 0
    for path, count in zip(paths, counts, strict=True):
        told = [_told(*frame) for frame in path]
        loads += count * any(loading for loading, _ in told)
        compiles += count * any(making for _, making in told)
        waits += count * bool(path and WAITS.search(f"{path[-1][1]}:{path[-1][0]}"))
        inner = next(((f, p, n) for f, p, n in reversed(path) if own_file(p)), None)
        if inner is not None:
            weights[inner] = weights.get(inner, 0) + count
    loading, waiting, compiling = (2 * one > sum(counts) for one in (loads, waits, compiles))
    if not weights:
        return Place(loads=loading, waits=waiting, compiles=compiling)
    functions: dict[tuple[str, str], int] = {}
    for (function, file, _), count in weights.items():
        functions[function, file] = functions.get((function, file), 0) + count
    best = max(functions, key=lambda one: functions[one])
    line = max((one for one in weights if one[:2] == best), key=lambda one: weights[one])
    calls: dict[tuple[str, str, int], int] = {}
    for path, count in zip(paths, counts, strict=True):
        frame = _caller(path, line, loop) if loop is not None else None
        if frame is not None:
            calls[frame] = calls.get(frame, 0) + count
    most = max(calls, key=lambda one: calls[one], default=None)
    called = f"`{most[0]}`, {short(most[1])}:{most[2]}" if most else ""
    return Place(best[0], short(best[1]), line[2], loading, waits=waiting, compiles=compiling, loop=called)


def _caller(
    path: Sequence[tuple[str, str, int]], line: tuple[str, str, int], loop: tuple[str, str]
) -> tuple[str, str, int] | None:
    """The frame of the loop above a line of a stack, or of what called its function; None without one."""
    above = [one for one in path[: path.index(line)] if own_file(one[1])] if line in path else []
    others = [one for one in above if one[:2] != line[:2] and (one[:2] == loop or not loop[0])]
    return others[-1] if others and line[:2] != loop else None


def _gap(pair: tuple[int, int]) -> int:
    return pair[1] - pair[0]


def _together(
    places: Sequence[Place], weight: Floats, part_of: Callable[[str, str, int], int] | None = None
) -> list[tuple[Place, float]]:
    """Places by function, each with the line that has most of it, and shares; the most first.

    ``part_of`` tells functions of one name apart; without it a line is that of the function's head.
    """
    sums: dict[Place, float] = {}
    for place, one in zip(places, weight.tolist(), strict=True):
        sums[place] = sums.get(place, 0.0) + one
    functions: dict[tuple[str, str, int], list[Place]] = {}
    for place in sums:
        part = part_of(place.function, place.file, place.line) if part_of is not None else place.line
        functions.setdefault((place.function, place.file, part), []).append(place)
    whole = max(sum(sums.values()), 1e-9)
    found = [
        (max(mine, key=lambda one: sums[one]), sum(sums[one] for one in mine) / whole)
        for mine in functions.values()
    ]
    return sorted(found, key=lambda one: -one[1])


def _spread(functions: pd.DataFrame, low: Ints, high: Ints) -> list[tuple[Place, float]]:
    """The innermost own functions during stretches together."""
    names = functions["name"].map(lambda name: _KINETO.match(str(name)))
    mine = np.array([one is not None and own_file(one["file"]) for one in names], np.bool_)
    start, end = spans(functions[mine])
    begun, ended, which = intervals.innermost(start, end)
    inside = intervals.covered_within(low, high, begun, ended)
    split = names[mine].to_numpy(object)
    places = [Place(split[w]["function"], short(split[w]["file"]), int(split[w]["line"])) for w in which]
    return _together(places, inside.astype(np.float64))


def _common(
    one: Sequence[tuple[str, str, int]], other: Sequence[tuple[str, str, int]]
) -> list[tuple[str, str, int]]:
    """What two stacks share from the outside; of the function in which they part, the line of the first."""
    shared = []
    for mine, theirs in zip(one, other, strict=False):
        if mine[:2] != theirs[:2]:
            break
        shared.append(mine)
        if mine != theirs:
            break
    return shared


def _of_functions(functions: pd.DataFrame, low: Ints, high: Ints) -> list[Place]:
    """The innermost own function for most of each stretch."""
    codes, names = codes_of(functions["name"])
    split = [_KINETO.match(str(name)) for name in names]
    mine = np.array([one is not None and own_file(one["file"]) for one in split] + [False], np.bool_)
    loading = np.array([bool(DATA.search(str(name))) for name in names] + [False], np.bool_)
    start, end = spans(functions)
    picked = np.flatnonzero(mine[codes])
    begun, ended, which = intervals.innermost(start[picked], end[picked])
    loads = intervals.covered_within(start[loading[codes]], end[loading[codes]], low, high)
    found = []
    for a, b, spent in zip(low.tolist(), high.tolist(), loads.tolist(), strict=True):
        first, last = np.searchsorted(ended, a, "right"), np.searchsorted(begun, max(b, a + 1), "left")
        best: dict[int, int] = {}
        for piece in range(int(first), int(min(last, first + 200))):
            code = int(codes[picked[which[piece]]])
            best[code] = best.get(code, 0) + min(int(ended[piece]), b) - max(int(begun[piece]), a)
        is_loading = 2 * spent > max(b - a, 1)
        if not best:
            found.append(Place(loads=is_loading))
            continue
        one = split[max(best, key=lambda code: best[code])]
        assert one is not None
        found.append(Place(one["function"], short(one["file"]), int(one["line"]), is_loading))
    return found
