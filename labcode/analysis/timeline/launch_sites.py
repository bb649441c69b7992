"""From GPU operations to the lines that launched them: operations, calls, stacks and ranges in; sites out.

A stack that was taken at the launching call names the line. Kernels of a backward pass are launched by a
thread of the autograd engine, which runs no Python: there the autograd range names the operation, its
sequence number leads to the forward operation, and the stack of that one's launch to the line.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, launch_rows
from labcode.reports.columns import Ints

Frame = tuple[str, str, int | None]  # function, file, line; no line: another one in each of two stacks
Path = tuple[Frame, ...]  # the program's own frames, outermost first
Thread = tuple[int, int]  # pid, tid
_SEQUENCE = re.compile(r"^(?P<op>.+?), seq = (?P<seq>\d+)(?:,|$)")
_ENGINE = "autograd::engine::evaluate_function: "
_LIBRARY = r"(?:^|/)(?:site|dist)-packages/|(?:^|/)lib/python\d|^<(?:frozen|string|__)"
_SITE = ["function", "file", "line"]


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


def launch_sites(
    ops: pd.DataFrame,
    api: pd.DataFrame,
    backtraces: pd.DataFrame,
    frames: pd.DataFrame,
    nvtx: pd.DataFrame,
    *,
    library: str = _LIBRARY,
    between: bool = False,
) -> pd.DataFrame:
    """One row for each GPU operation: where in the program it comes from.

    kind, name, start_ns, duration_ns, pid, device (of the operation); call (API function that launched it, ''
    when it is not in the capture); autograd (innermost operation of PyTorch around the call, such as
    'AddmmBackward0', '' without autograd ranges); backtrace (Int64: whose stack it is); function, file, line
    (Int64): the innermost frame that is not in a library (``library`` is a pattern of file names), or the
    innermost frame when all are; how ('backtrace': the stack was taken at the launching call; 'forward': at
    the forward operation that this backward one belongs to; 'range': at another call of the same autograd
    range, for calls that nsys takes no stack at; 'none': not known). With ``between``, what would be 'none'
    is placed between its neighbors: 'between': the innermost function, and its line where that is the same
    (missing otherwise), that the stacks before and after it have in common.
    """
    rows = launch_rows(ops, api)
    found = rows >= 0
    table = ops[["kind", "name", "start_ns", "pid", "device"]].reset_index(drop=True)
    table.insert(3, "duration_ns", duration_ns(ops))
    calls = np.full(len(ops), "", object)
    calls[found] = api["name"].to_numpy(object)[rows[found]]
    table["call"] = pd.Series(calls, dtype="str")

    ranges = Ranges(autograd_ranges(nvtx))
    around = _innermost_range(api, ranges, rows)
    names = np.full(len(ops), "", object)
    inside = around >= 0
    names[inside] = ranges.op[around[inside]]
    table["autograd"] = pd.Series(names, dtype="str")

    stack = _backtrace_of_call(ops, backtraces)
    how = np.where(stack >= 0, "backtrace", "none").astype(object)
    need = (stack < 0) & inside
    neighbors = Neighbors(backtraces, frames, library)
    stack[need] = _backtrace_of_forward(ranges, backtraces, neighbors, around[need])
    how[need & (stack >= 0)] = "forward"
    need = (stack < 0) & inside
    stack[need] = _backtrace_of_range(ranges, backtraces, around[need])
    how[need & (stack >= 0)] = "range"
    table["backtrace"] = pd.arrays.IntegerArray(np.maximum(stack, 0), stack < 0)
    sites = site_of(frames, library=library)
    site = sites.reindex(stack).reset_index(drop=True)
    table["function"] = site["function"].fillna("").astype("str")
    table["file"] = site["file"].fillna("").astype("str")
    table["line"] = site["line"].astype("Int64")
    table["how"] = pd.Series(how, dtype="str")
    if between:
        _place_between(table, api, rows, ranges, around, neighbors)
    return table


def site_of(frames: pd.DataFrame, *, library: str = _LIBRARY) -> pd.DataFrame:
    """For each stack its innermost frame outside of libraries (or the innermost one): function, file, line.

    The index is the number of the stack (column ``backtrace`` or ``sample`` of ``frames``).
    """
    key = "backtrace" if "backtrace" in frames else "sample"
    foreign = frames["file"].str.contains(library, regex=True)
    ordered = frames.assign(foreign=foreign).sort_values([key, "foreign", "depth"], kind="stable")
    return ordered.drop_duplicates(key).set_index(key)[_SITE]


def summary(sites: pd.DataFrame) -> pd.DataFrame:
    """Operations by the line they come from, the most GPU time first.

    file, line (Int64), function; operations; gpu_ns (the sum of their durations), gpu_share (of all);
    median_ns; backward (operations known through their forward one); names (how many different kernels).
    Operations of unknown origin are one row with file ''.
    """
    grouped = sites.assign(back=sites["how"] == "forward").groupby(
        ["file", "line", "function"], dropna=False, as_index=False, sort=False
    )
    table = grouped.agg(
        operations=("name", "size"),
        gpu_ns=("duration_ns", "sum"),
        median_ns=("duration_ns", "median"),
        backward=("back", "sum"),
        names=("name", "nunique"),
    )
    whole = int(sites["duration_ns"].sum())
    table.insert(5, "gpu_share", table["gpu_ns"] / whole if whole else np.nan)
    table = table.astype(
        {"backward": "int64", "names": "int64", "median_ns": "float64", "gpu_share": "float64"}
    )
    return table.sort_values(["gpu_ns", "operations"], ascending=False, kind="stable", ignore_index=True)


def autograd_ranges(nvtx: pd.DataFrame) -> pd.DataFrame:
    """The ranges that PyTorch's autograd opens, by start: start_ns, end_ns, pid, tid, op, seq.

    ``op`` is the operation ('aten::addmm' forward, 'AddmmBackward0' backward), ``seq`` its sequence number
    (-1 for operations that have none); a forward operation and its backward one share it.
    """
    closed = nvtx[(nvtx["event_type"] == "push_pop") & nvtx["end_ns"].notna()]
    names = closed["name"]
    is_op = names.str.contains(r", (?:seq|op_id) = \d+", regex=True)
    closed = closed[is_op].sort_values("start_ns", kind="stable")
    split = closed["name"].str.extract(_SEQUENCE)
    return pd.DataFrame(
        {
            "start_ns": closed["start_ns"].to_numpy(np.int64),
            "end_ns": closed["end_ns"].astype("int64").to_numpy(),
            "pid": closed["pid"].to_numpy(np.int64),
            "tid": closed["tid"].to_numpy(np.int64),
            "op": np.array([name.partition(", ")[0] for name in closed["name"]], object),
            "seq": pd.to_numeric(split["seq"]).fillna(-1).to_numpy(np.int64),
        }
    )


class Ranges:
    """`autograd_ranges` with their columns at hand, which are asked for again and again."""

    def __init__(self, table: pd.DataFrame) -> None:
        """Take the columns."""
        self.table = table
        self.pid, self.tid, self.seq = (table[name].to_numpy(np.int64) for name in ("pid", "tid", "seq"))
        self.start, self.end = (table[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        self.op = table["op"].to_numpy(object)


def _innermost_range(api: pd.DataFrame, ranges: Ranges, rows: Ints) -> Ints:
    """For each operation the innermost autograd range around its launching call; -1: none."""
    result = np.full(len(rows), -1, np.int64)
    at = api["start_ns"].to_numpy(np.int64)
    have = np.flatnonzero(rows >= 0)
    threads = api.iloc[rows[have]].groupby(["pid", "tid"]).indices
    of_thread = ranges.table.groupby(["pid", "tid"]).indices
    for thread, places in threads.items():
        if thread not in of_thread:
            continue
        mine = np.asarray(of_thread[thread], np.int64)
        low, high, which = intervals.innermost(ranges.start[mine], ranges.end[mine])
        when = at[rows[have[places]]]
        stretch = np.searchsorted(low, when, "right") - 1
        inside = (stretch >= 0) & (when < high[stretch])
        result[have[places[inside]]] = mine[which[stretch[inside]]]
    return result


def _backtrace_of_call(ops: pd.DataFrame, backtraces: pd.DataFrame) -> Ints:
    """The stack taken at the call with the operation's correlation in its process; -1: none."""
    known = backtraces[backtraces["correlation"].notna()].drop_duplicates(["pid", "correlation"])
    numbers = known.set_index([known["pid"], known["correlation"].astype("int64")])["backtrace"]
    wanted = pd.MultiIndex.from_arrays([ops["pid"], ops["correlation"]])
    found = np.array(numbers.reindex(wanted).fillna(-1), np.int64)
    found[ops["correlation"].to_numpy() == 0] = -1
    return found


def _backtrace_of_forward(ranges: Ranges, backtraces: pd.DataFrame, neighbors: Neighbors, rows: Ints) -> Ints:
    """For each backward range the first stack taken inside the forward range with its sequence number.

    Where that range has none, a stack of an earlier range with the same number counts if it passes through
    what the stacks before and after the range have in common, and otherwise one of the ranges around it.
    """
    result = np.full(len(rows), -1, np.int64)
    stacks = _by_thread(backtraces)
    by_number = _by_number(ranges)
    for row in np.unique(rows).tolist():
        forward = _forward(ranges, by_number, row)
        if not forward:
            continue
        around = _outwards(ranges, forward[0])
        found = _first_stack(stacks, ranges, forward[:1])
        if found < 0 and len(forward) > 1:
            earlier = _first_stack(stacks, ranges, forward[1:])
            path = neighbors.between(*_span(ranges, around[-1]))
            found = earlier if neighbors.agrees(earlier, path) else -1
        result[rows == row] = found if found >= 0 else _first_stack(stacks, ranges, around[1:])
    return result


def _forward(ranges: Ranges, by_number: dict[object, Ints], row: int) -> list[int]:
    """The forward ranges that a backward one belongs to, the last first.

    Operations before it that record nothing for the backward pass show its number too: the last is it.
    """
    pid, tid, seq, start, end = ranges.pid, ranges.tid, ranges.seq, ranges.start, ranges.end
    # operations that a backward function calls have numbers of their own: the outermost range is it
    outer = next((one for one in _outwards(ranges, row)[::-1] if seq[one] >= 0), -1)
    if outer < 0:
        outer = _evaluated(ranges, row)
    if outer < 0:
        return []
    same = by_number.get((pid[row], seq[outer]), np.empty(0, np.int64))
    return [one for one in same[::-1].tolist() if end[one] <= start[row] and tid[one] != tid[row]]


def _by_number(ranges: Ranges) -> dict[object, Ints]:
    groups = ranges.table.groupby(["pid", "seq"]).indices
    return {key: np.asarray(rows, np.int64) for key, rows in groups.items()}


def _span(ranges: Ranges, row: int) -> tuple[Thread, int, int]:
    thread = int(ranges.pid[row]), int(ranges.tid[row])
    return thread, int(ranges.start[row]), int(ranges.end[row])


def _place_between(
    table: pd.DataFrame,
    api: pd.DataFrame,
    rows: Ints,
    ranges: Ranges,
    around: Ints,
    neighbors: Neighbors,
) -> None:
    """Give operations of unknown origin what the stacks around their launch have in common, in place.

    The launch is that of the operation itself on a thread that has stacks, elsewhere that of its forward one.
    """
    by_number = _by_number(ranges)
    known: dict[tuple[Thread, int, int], Path] = {}
    spans: dict[int, tuple[Thread, int, int] | None] = {}  # by the range around a launch
    ends: dict[int, Frame] = {}
    starts = api[["pid", "tid", "start_ns"]].to_numpy(np.int64)
    for op in np.flatnonzero((table["how"] == "none").to_numpy() & (rows >= 0)).tolist():
        pid, tid, start = starts[rows[op]].tolist()
        inner = int(around[op])
        if inner < 0:
            span = ((pid, tid), start, start) if neighbors.known((pid, tid)) else None
        elif inner in spans:
            span = spans[inner]
        else:
            forward = [inner] if neighbors.known((pid, tid)) else _forward(ranges, by_number, inner)
            span = _span(ranges, _outwards(ranges, forward[0])[-1]) if forward else None
            spans[inner] = span
        if span is None:
            continue
        if span not in known:
            known[span] = neighbors.between(*span)
        if known[span]:
            ends[op] = known[span][-1]
    if ends:
        at = table.index[list(ends)]
        for place, name in enumerate(_SITE):
            table.loc[at, name] = pd.Series(
                [end[place] for end in ends.values()], index=at, dtype=table[name].dtype
            )
        table.loc[at, "how"] = "between"


def _backtrace_of_range(ranges: Ranges, backtraces: pd.DataFrame, rows: Ints) -> Ints:
    """For each range the first stack taken inside it, or inside the nearest range around it that has one."""
    result = np.full(len(rows), -1, np.int64)
    stacks = _by_thread(backtraces)
    for row in np.unique(rows).tolist():
        result[rows == row] = _first_stack(stacks, ranges, _outwards(ranges, row))
    return result


def _evaluated(ranges: Ranges, row: int) -> int:
    """The backward function that the engine was evaluating, for work it does beside it; -1: none."""
    pid, tid, seq, start, end, op = ranges.pid, ranges.tid, ranges.seq, ranges.start, ranges.end, ranges.op
    for around in _outwards(ranges, row):
        name = op[around].removeprefix(_ENGINE)
        if name != op[around]:
            inside = (tid == tid[around]) & (pid == pid[around]) & (seq >= 0) & (op == name)
            inside &= (start >= start[around]) & (end <= end[around])
            return int(inside.argmax()) if inside.any() else -1
    return -1


def _outwards(ranges: Ranges, row: int) -> list[int]:
    """A range and those around it on its thread, the innermost first."""
    pid, tid, start, end = ranges.pid, ranges.tid, ranges.start, ranges.end
    around = (tid == tid[row]) & (pid == pid[row]) & (start <= start[row]) & (end >= end[row])
    places: list[int] = np.flatnonzero(around)[::-1].tolist()
    return places


def _by_thread(backtraces: pd.DataFrame) -> dict[object, pd.DataFrame]:
    parts = backtraces.sort_values("start_ns", kind="stable").groupby(["pid", "tid"])
    return dict(iter(parts))


def _first_stack(stacks: dict[object, pd.DataFrame], ranges: Ranges, rows: list[int]) -> int:
    """The first stack within the first of these ranges that has one; -1: none has."""
    pid, tid, start, end = ranges.pid, ranges.tid, ranges.start, ranges.end
    for row in rows:
        part = stacks.get((pid[row], tid[row]))
        if part is None:
            continue
        at = part["start_ns"].to_numpy(np.int64)
        place = int(np.searchsorted(at, start[row], "left"))
        if place < len(at) and at[place] < end[row]:
            return int(part["backtrace"].iloc[place])
    return -1
