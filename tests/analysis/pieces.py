"""Plain loops for the pieces of the critical path and for where stacks say that a program was.

`test_mutants` compares them with the analyses themselves.
"""

import itertools
import math
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.buckets import own_file
from labcode.analysis.ledger import lines
from labcode.analysis.ledger.lines import NOWHERE, Lines, Place
from labcode.analysis.timeline import critical_path, intervals
from tests.analysis import walks
from tests.analysis.walks import LAUNCH, OTHER, Inputs, Rank, Tables, calls_of

COPY, SYNC, ASK = "cudaMemcpyAsync", "cudaDeviceSynchronize", "cudaEventQuery"
KINDS = critical_path.KINDS
Frame = tuple[str, str, int]


def rows_of(function: Callable[..., Any], *given: Any) -> list[list[Any]]:
    """A table as rows; what is no number as nothing."""
    rows = function(*given).to_numpy(object).tolist()
    return [[None if isinstance(v, float) and math.isnan(v) else v for v in row] for row in rows]


def pieces_of(function: Callable[..., Any], *given: Any) -> list[list[Any]]:
    """The pieces of a path that take time."""
    return [row for row in rows_of(function, *given) if row[1] > 0]


# ---- the critical path: when a thread worked, which calls wait, the pieces


def at_work(self: Rank, table: pd.DataFrame) -> list[list[int]]:
    until = 0 if len(self._of("ops")) else 19_999
    found: list[list[int]] = []
    for low, high in sorted(zip(table["start_ns"].tolist(), table["end_ns"].tolist(), strict=True)):
        if low >= high + until:
            continue
        if found and low <= found[-1][1]:
            found[-1][1] = max(found[-1][1], high + until)
        else:
            found.append([low, high + until])
    return [[low for low, _ in found], [high - until for _, high in found]]


def working() -> Inputs:
    rows = [(1, OTHER, 0, 10_000), (1, OTHER, 10_000, 12_000), (1, OTHER, 32_499, 33_000)]
    rows += [
        (1, OTHER, 12_001, 12_500),
        (1, OTHER, 53_000, 53_500),
        (1, OTHER, 80_000, 90_000),
        (1, OTHER, 82_000, 83_000),
    ]
    some, none = calls_of((1, OTHER, 0, 1)), calls_of()
    return [(Tables(tables={"ops": one}), calls_of(*rows)) for one in (some, none)]


def may_wait(self: Rank) -> list[list[Any]]:
    found = []
    for call in self.calls.itertuples():
        target = Rank._done_by(self, np.array([call.end_ns])).tolist()[0]
        if call.name == COPY:
            same = [n for n, op in enumerate(self.ops.itertuples()) if op.correlation == call.correlation]
            found.append([call.tid, call.start_ns, call.end_ns, same[0] if same else -1])
        elif call.name == SYNC or (call.name == LAUNCH and call.end_ns - call.start_ns >= 100_000):
            found.append([call.tid, call.start_ns, call.end_ns, target])
    for tid, low, high in walks.asked_long(self.calls, self._of("ops")):
        found.append([tid, low, high, Rank._done_by(self, np.array([high])).tolist()[0]])
    return found


def may_waits() -> Inputs:
    begun, ended = np.array([0, 40_000, 200_000]), np.array([30_000, 190_000, 260_000])
    ops = pd.DataFrame({"pid": 1, "correlation": [3, 4, 7]})
    rows = [(1, LAUNCH, 0, 99_999), (1, LAUNCH, 100_000, 200_000), (2, COPY, 10_000, 35_000)]
    rows += [(2, COPY, 40_000, 41_000), (1, SYNC, 210_000, 270_000), (2, OTHER, 50_000, 250_000)]
    polls = [(3, ASK, 60_000 + 50_000 * n, 61_000 + 50_000 * n) for n in range(4)]
    made: Inputs = []
    for calls in (rows, rows + polls, polls, []):
        for many in (3, 0):
            api = calls_of(*calls).assign(pid=1, correlation=[n + 1 for n in range(len(calls))])
            order = np.argsort(ended[:many], kind="stable")
            made.append(
                (
                    Tables(
                        calls=api,
                        ops=ops.iloc[:many],
                        tables={"ops": calls_of()},
                        ended=ended[:many],
                        by_end=order,
                        ends=ended[order],
                        begun=begun[:many],
                    ),
                )
            )
    return made


class Cut(Tables):
    """The same, with where an operation ran."""

    def _where(self, rows: Any) -> dict[str, Any]:
        return {"stream": self.streams[rows], "tid": -1}


def on_gpu(self: Cut, legs: list[Any]) -> list[list[Any]]:
    found, gaps = [], []
    names, streams = self.ops["short_name"].tolist(), self.streams.tolist()
    for leg in legs:
        run = range(int(self.head[leg.op]), leg.op + 1)
        for k in run:
            start = max(int(self.begun[k]), leg.start)
            then = max(int(self.begun[k + 1]), leg.start) if k < leg.op else leg.end
            end = max(min(int(self.ended[k]), leg.end, then), start)
            what = {"memcpy": "copy", "memset": "memset"}.get(self.ops["kind"].iloc[k], "kernel")
            if self.ops["kind"].iloc[k] == "kernel" and names[k].startswith("nccl"):
                what = "communication"
            found.append([start, end - start, what, names[k], streams[k], -1])
            if then > end and k < leg.op:
                gaps.append([end, then - end, "gap on the GPU", names[k + 1], streams[k + 1], -1])
    return [one for one in found + gaps if one[1] > 0]


def runs() -> Inputs:
    rng, made = np.random.default_rng(41), Inputs()
    leg = critical_path._Leg
    for _ in range(25):
        many = int(rng.integers(2, 7))
        begun = np.sort(rng.integers(0, 20, many)) * 10
        ended = begun + rng.integers(0, 5, many) * 10
        kinds = rng.choice(["kernel", "memcpy", "memset", "graph"], many).tolist()
        names = [str(rng.choice(["mm", "ncclAllReduce"])) for _ in kinds]
        ops = pd.DataFrame({"kind": kinds, "name": names, "short_name": names})
        head = np.array([int(rng.integers(0, k + 1)) for k in range(many)])
        legs = []
        for op in rng.integers(0, many, 2).tolist():
            end = int(max(ended[op], begun[op] + 10)) - int(rng.integers(0, 2)) * 5
            legs.append(leg(max(int(begun[head[op]]), 20), max(end, 20), -1, op))
        self = Cut(ops=ops, begun=begun, ended=ended, head=head, streams=np.arange(many) * 7)
        made += [(self, legs), (self, legs[:1]), (self, [])]
    return made


def cut(self: Rank, tid: int, low: Any, high: Any, events: pd.DataFrame) -> list[list[Any]]:
    found = []
    happened = [one for one in events.itertuples() if one.end_ns > one.start_ns]
    back = list(zip(*map(np.ndarray.tolist, self.waits[tid]), strict=True)) if tid in self.waits else []
    for a, b in zip(low.tolist(), high.tolist(), strict=True):
        met = [one for one in happened if one.start_ns < b and one.end_ns > a]
        edges = sorted({a, b, *(t for e in met for t in (e.start_ns, e.end_ns) if a < t < b)})
        for start, end in itertools.pairwise(edges):
            around = [
                (e.start_ns, -e.end_ns, n, e) for n, e in enumerate(met) if e.start_ns <= start < e.end_ns
            ]
            event = max(around, key=lambda one: one[:3], default=(0, 0, 0, None))[3]
            what = KINDS[event.code] if event is not None else "host"
            waits = next((one for one in back if one[0] >= end), None)
            if what == "CUDA call" and start == a and waits is not None and waits[1] < start:
                what = "wait ends"
            found.append([start, end - start, what, event.name if event is not None else "", tid])
    return found


def cuts() -> Inputs:
    rng, made = np.random.default_rng(43), Inputs()
    for number in range(60):
        nested: list[tuple[int, int]] = []
        for _ in range(int(rng.integers(0, 6))):
            a, b = sorted((rng.choice(22, 2) * 10).tolist())
            if all(b <= c or a >= d or (c <= a and b <= d) or (a <= c and d <= b) for c, d in nested):
                nested.append((a, b))
        events = pd.DataFrame(nested, columns=["start_ns", "end_ns"], dtype="int64")
        events = events.assign(
            name=[f"e{n}" for n in range(len(events))],
            code=rng.choice([6, 7, 7, 9, 10], len(events)).astype(np.int64),
        )
        edges = np.sort(rng.choice(np.arange(0, 24), 4, replace=False)) * 10 - 5 * int(number % 2)
        self = Tables(waits={}, low=int(edges[0]) - int(rng.integers(0, 2)) * 10)
        if number % 3:
            back = np.sort(rng.choice(24, 2, replace=False)) * 10
            self.waits = {5: (back, back - rng.integers(1, 8, 2) * 10, back)}
        many = int(rng.integers(0, 3))
        made.append((self, 5, edges[::2][:many], edges[1::2][:many], events))
    call = pd.DataFrame({"start_ns": [50], "end_ns": [150], "name": ["wait"], "code": [7]})
    self = Tables(low=0, waits={5: (np.array([100]), np.array([50]), np.array([0]))})
    for low, high in ((50, 100), (60, 100), (60, 150), (60, 90)):
        made.append((self, 5, np.array([low]), np.array([high]), call))
    return made


def shared_out(table: pd.DataFrame, keys: list[str]) -> list[list[Any]]:
    rows = table.to_dict("records")
    for row in rows:
        whole = sum(one["total_ns"] for one in rows if one["rank"] == row["rank"])
        row["share"] = row["total_ns"] / whole if whole else None
        row["at_most"] = 1 / (1 - row["share"]) if whole and row["share"] < 1 else None
    rows.sort(key=lambda row: (row["rank"], -row["total_ns"], *(row[key] for key in keys[1:])))
    return [list(row.values()) for row in rows]


def summed() -> Inputs:
    rows = [
        (0, "host", "b", 3, 50),
        (1, "kernel", "a", 1, 9),
        (0, "kernel", "z", 2, 50),
        (0, "kernel", "a", 2, 50),
    ]
    rows += [(0, "copy", "q", 1, 700), (2, "host", "x", 1, 0)]
    table = pd.DataFrame(rows, columns=["rank", "kind", "name", "pieces", "total_ns"])
    return [
        (table.copy(), ["rank", "kind", "name"]),
        (table.iloc[::-1].drop(columns="name"), ["rank", "kind"]),
    ]


def told_shares(function: Callable[..., Any], table: pd.DataFrame, keys: list[str]) -> list[list[Any]]:
    return rows_of(function, table.copy(), keys)  # it writes into what it gets


def against(path: pd.DataFrame, ops: pd.DataFrame, of: str) -> list[str]:
    found = []
    for rank in sorted(set(path["rank"])):
        mine = [one for one in path.itertuples() if one.rank == rank]
        begin = min(one.start_ns for one in mine)
        end = max(one.start_ns + one.duration_ns for one in mine)
        there = [one for one in ops.itertuples() if one.rank == rank]
        if not there or end <= begin:
            continue
        busy = {}
        for device in sorted({one.device for one in there}):
            here = [one for one in there if one.device == device]
            computes = sum(
                any(
                    o.start_ns <= t < o.end_ns and o.kind == "kernel" and not o.name.startswith("nccl")
                    for o in here
                )
                for t in range(begin, end)
            )
            idle = sum(not any(o.start_ns <= t < o.end_ns for o in here) for t in range(begin, end))
            busy[device] = computes, idle
        device = max(busy, key=lambda one: busy[one][0])
        kinds: dict[str, float] = {}
        for one in sorted(mine, key=lambda one: KINDS.index(one.kind)):
            kinds[one.kind] = kinds.get(one.kind, 0) + one.duration_ns
        computing, idle = (one / (end - begin) for one in busy[device])
        on_path = kinds.pop("kernel", 0) / (end - begin)
        if abs(computing - on_path) <= 0.1:
            continue
        most = max(kinds, key=lambda one: kinds[one], default="")
        what = f"; most of the path is {most}, {kinds[most] / (end - begin):.0%}" if most else ""
        found.append(f"{of} {rank}: {on_path:.0%}, GPU {device} {computing:.0%}, {idle:.0%}{what}")
    return found


def told_against(function: Callable[..., Any], *given: Any) -> list[str]:
    pattern = (
        r"critical path of (\w+ \d+): (\d+%) computing, while (GPU \d+) computes for (\d+%) of that time "
        r"and is idle for (\d+%)(.*); either .*"
    )
    return [re.sub(pattern, r"\1: \2, \3 \4, \5\6", line) for line in function(*given)]


def opposed() -> Inputs:
    rng, made = np.random.default_rng(47), Inputs()
    columns = ["rank", "start_ns", "end_ns", "device", "kind", "name"]
    kinds = {"kind": pd.CategoricalDtype(pd.Index(KINDS, dtype="str"))}
    for number in range(40):
        path, ops, at = [], [], int(rng.integers(0, 40))
        for rank in (3, 1)[: 1 + number % 2]:
            for _ in range(int(rng.integers(1, 5))):
                length = int(rng.choice([0, 10, 20, 40]))
                path.append((rank, at, length, str(rng.choice(["kernel", "host", "copy", "kernel"]))))
                at += length
            for _ in range(int(rng.integers(0, 6))):
                low = int(rng.integers(0, 12)) * 10
                kind = str(rng.choice(["kernel", "kernel", "memcpy"]))
                name = str(rng.choice(["mm", "mm", "ncclAllReduce"]))
                ops.append(
                    (rank, low, low + int(rng.integers(1, 6)) * 10, int(rng.choice([5, 2])), kind, name)
                )
        table = pd.DataFrame(path, columns=["rank", "start_ns", "duration_ns", "kind"])
        made.append((table.astype(kinds), pd.DataFrame(ops, columns=columns), "rank"))
    whole = pd.DataFrame([(0, 0, 100, "host")], columns=["rank", "start_ns", "duration_ns", "kind"])
    part = pd.DataFrame([(0, 0, 60, "kernel"), (0, 60, 40, "host")], columns=whole.columns)
    for path_, busy in (
        (whole, 10),
        (whole, 11),
        (part, 50),
        (part, 49),
        (part, 70),
        (part, 71),
        (part.iloc[:1], 5),
    ):
        made.append(
            (path_.astype(kinds), pd.DataFrame([(0, 0, busy, 0, "kernel", "mm")], columns=columns), "process")
        )
    return made


# ---- stacks

FILES = ("a/train.py", "a/model.py", "site-packages/torch/nn.py")


def traced(*rows: tuple[int, int, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["start_ns", "end_ns", "name"])


def functions(rng: np.random.Generator) -> pd.DataFrame:
    rows = []
    for n in range(int(rng.integers(0, 7))):
        low = int(rng.integers(0, 20))
        name = f"{rng.choice(FILES)}({n + 1}): {rng.choice(['step', 'load_batch', 'run'])}"
        rows.append((low, low + int(rng.integers(0, 12)), name if rng.random() < 0.9 else "no name"))
    return traced(*rows).astype({"start_ns": "int64", "end_ns": "int64", "name": "str"})


def own_pieces(table: pd.DataFrame) -> list[tuple[int, int, Place]]:
    """The stretches in which a function of the program is innermost of those, by time."""
    mine = [(one, re.match(r"(.+)\((\d+)\): (.+)", one.name)) for one in table.itertuples()]
    own = [(one, m) for one, m in mine if m is not None and own_file(m[1])]
    starts, ends = (np.array([getattr(o, c) for o, _ in own], np.int64) for c in ("start_ns", "end_ns"))
    begun, ended, which = intervals.innermost(starts, ends)
    return [
        (int(a), int(b), Place(own[w][1][3], lines.short(own[w][1][1]), int(own[w][1][2])))
        for a, b, w in zip(begun, ended, which, strict=True)
    ]


def spread(table: pd.DataFrame, low: Any, high: Any) -> list[tuple[Place, float]]:
    places, weights = [], []
    for a, b, place in own_pieces(table):
        places.append(place)
        weights.append(
            sum(max(min(b, y) - max(a, x), 0) for x, y in zip(low.tolist(), high.tolist(), strict=True))
        )
    return lines._together(places, np.array(weights, np.float64))


def spreads() -> Inputs:
    rng, made = np.random.default_rng(53), Inputs()
    for _ in range(30):
        edges = np.sort(rng.choice(32, 4, replace=False))
        made.append((functions(rng), edges[::2], edges[1::2]))
    return made


def innermost_of(table: pd.DataFrame, low: Any, high: Any) -> list[Place]:
    found = []
    for a, b in zip(low.tolist(), high.tolist(), strict=True):
        spent: dict[Place, int] = {}
        reached = [one for one in own_pieces(table) if one[1] > a and one[0] < max(b, a + 1)]
        for x, y, place in reached[:200]:
            spent[place] = spent.get(place, 0) + min(y, b) - max(x, a)
        loading = [one for one in table.itertuples() if "load_batch" in one.name]
        loads = 2 * sum(any(o.start_ns <= t < o.end_ns for o in loading) for t in range(a, b)) > max(b - a, 1)
        best = max(spent, key=lambda one: spent[one], default=NOWHERE)
        found.append(Place(best.function, best.file, best.line, loads))
    return found


def innermosts() -> Inputs:
    rng, made = np.random.default_rng(59), Inputs()
    for _ in range(40):
        low = np.sort(rng.integers(0, 30, 3))
        made.append((functions(rng), low, low + rng.integers(0, 9, 3)))
    made.append((traced((5, 9, "a/train.py(3): step")), np.array([5, 9]), np.array([5, 9])))
    many = [
        (2 * n, 2 * n + 1, f"a/train.py({n % 40}): f") for n in range(199)
    ]  # no more than 200 are looked at
    many += [(400, 420, "a/train.py(90): g"), (500, 999, "b.py(9): g")]
    made.append((traced(*many), np.array([0]), np.array([999])))
    return made


STACKS: tuple[tuple[Frame, ...], ...] = (
    (("<module>", "train.py", 9), ("step", "train.py", 4)),
    (("<module>", "train.py", 9), ("step", "train.py", 5), ("linear", "site-packages/torch/nn.py", 8)),
    (("<module>", "train.py", 9), ("step", "train.py", 5), ("block", "model.py", 2)),
    (("<module>", "train.py", 9), ("backward", "torch/autograd/graph.py", 3), ("hook", "model.py", 7)),
    (("run", "loader.py", 1), ("get", "lib/python3.12/queue.py", 2)),
    (("<module>", "train.py", 8), ("other", "model.py", 2)),
    (("<module>", "train.py", 9), ("step", "model.py", 4)),
    (("<module>", "train.py", 9),),
)


def program(rng: np.random.Generator, window: tuple[int, int] | None = None) -> Lines:
    """What is read of a report: two threads with stacks, a third with functions."""
    self = object.__new__(Lines)
    self.window, self._loops, self._paths = window, {}, list(STACKS)
    stacks = {}
    for tid in (1, 2):
        many = int(rng.integers(1, 9))
        at = np.sort(rng.integers(0, 40, many)) * 50_000
        path = rng.integers(0, int(rng.integers(1, 9)), many)
        stacks[7, tid] = (
            at,
            path,
            rng.integers(0, 2, many) if rng.random() < 0.8 else np.zeros(many, np.int64),
        )
    self.__dict__.update(_stacks=stacks, _functions={(7, 3): functions(rng)}, known=True)
    self.__dict__["_waiting"] = {}
    return self


def programs(count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    for number in range(count):
        window = (0, 2_000_000) if number % 3 == 0 else (int(rng.integers(0, 20)) * 50_000, 1_500_000)
        yield rng, program(rng, None if number % 3 == 1 else window)


def samples(self: Lines, pid: int, tid: int, window: tuple[int, int]) -> int:
    if (pid, tid) not in self._stacks:
        return 0
    return sum(
        window[0] <= at < window[1] and taken == 1
        for at, _, taken in zip(*self._stacks[pid, tid], strict=True)
    )


def sampled() -> Inputs:
    made: Inputs = [(self, 7, 1, (500_000, 1_200_000)) for _, self in programs(30, 61)]
    first = made[0][0]
    first._stacks[7, 1] = np.arange(3), np.zeros(3, np.int64), np.ones(3, np.int64)
    return [*made, (first, 7, 4, (0, 9)), *((first, 7, 1, (0, at)) for at in range(4))]


def loop(self: Lines, at: Any, path: Any) -> tuple[str, str]:
    kept = {
        int(p)
        for t, p in zip(at, path, strict=True)
        if not self.window or self.window[0] <= t < self.window[1]
    }
    own = [[f for f in self._paths[p] if own_file(f[1])] for p in sorted(kept)]
    best = ("", "")
    for depth in range(max(map(len, own), default=0)):
        here = {frames[depth] for frames in own if depth < len(frames)}
        if len({f[:2] for f in here}) > 1:
            return best
        best = next(iter(here))[:2]
        if len(here) > 1:
            return best
    return "", ""


def loops() -> Inputs:
    made: Inputs = [(self, *self._stacks[7, tid][:2]) for _, self in programs(60, 67) for tid in (1, 2)]
    for at in ([0, 50, 100], [50, 60, 99], [50, 99, 100]):  # at the edges of what is judged
        one = program(np.random.default_rng(0), (50, 100))
        made += [
            (one, np.array(at), np.array(path))
            for path in ([0, 1, 0], [0, 0, 1], [1, 0, 0], [7, 0, 1], [0, 6, 6])
        ]
    return made


def weighed(
    self: Lines, key: tuple[int, int], paths: list[int], weight: list[float]
) -> list[tuple[Place, float]]:
    sums: dict[int, float] = {}
    for path, one in sorted(zip(paths, weight, strict=True)):
        sums[path] = sums.get(path, 0.0) + one
    ahead = {p: w for p, w in sums.items() if not any("autograd" in f[1] for f in self._paths[p])}
    if sum(ahead.values()) >= 0.1 * sum(sums.values()) > 0:
        sums = ahead
    places = [lines.place_of([self._paths[p]], [1], self.loop_of(*key)) for p in sums]
    return lines._together(places, np.array(list(sums.values()), np.float64), self.part_of)


def told_weighed(function: Callable[..., Any], self: Lines, key: Any, paths: Any, weight: Any) -> Any:
    return function(self, key, np.array(paths, np.int64), np.array(weight, np.float64))


def weights() -> Inputs:
    made: Inputs = []
    for rng, self in programs(25, 71):
        many = int(rng.integers(0, 7))
        made.append(
            (self, (7, 1), rng.integers(0, 6, many).tolist(), rng.integers(0, 4, many).astype(float).tolist())
        )
    for back, part in ((9.0, 1.0), (9.0, 0.9), (9.0, 10.0), (0.0, 0.0)):
        made.append((self, (7, 1), [3, 0], [back, part]))
    return made


def over(self: Lines, pid: int, tid: int, start: Any, end: Any) -> list[tuple[Place, float]]:
    if not len(start):
        return []
    if (pid, tid) in self._functions:
        low, high = intervals.union(start, end)
        return spread(self._functions[pid, tid], low, high)
    if (pid, tid) not in self._stacks:
        return []
    both = list(zip(start.tolist(), end.tolist(), strict=True))
    rows = [
        (int(p), s)
        for t, p, s in zip(*self._stacks[pid, tid], strict=True)
        if any(a <= t < b for a, b in both)
    ]
    only = bool(self._stacks[pid, tid][2].any())
    kept = [p for p, s in rows if s == 1 or not only]
    return weighed(self, (pid, tid), kept, [1.0] * len(kept))


def overs() -> Inputs:
    made: Inputs = []
    for rng, self in programs(30, 73):
        start = rng.integers(0, 30, 2) * 50_000
        for tid in (1, 3, 4):
            scale = 50_000 if tid == 3 else 1
            made.append((self, 7, tid, start // scale, (start + rng.integers(1, 9, 2) * 50_000) // scale))
    return [*made, (self, 7, 1, start[:0], start[:0])]


def nearest(
    self: Lines, pid: int, tid: int, calls: Any, weight: Any, repeated: Any = None
) -> list[tuple[Place, float]]:
    if not len(calls):
        return []
    if (pid, tid) in self._functions:
        return lines._together(innermost_of(self._functions[pid, tid], calls, calls + 1), weight)
    if (pid, tid) not in self._stacks:
        return []
    if repeated and len(repeated[0]) and (together := folded(self, (pid, tid), calls, weight, *repeated)):
        return together
    at, path, _ = self._stacks[pid, tid]
    found = []
    for call, one in zip(calls.tolist(), weight.tolist(), strict=True):
        first = int(np.searchsorted(at, call, "left"))
        before, after = max(first - 1, 0), min(first, len(at) - 1)
        best = before if abs(int(at[before]) - call) <= abs(int(at[after]) - call) else after
        found.append((abs(int(at[best]) - call), int(path[best]), one))
    for near in (300_000, 1_500_000):
        kept = [one for one in found if one[0] <= near]
        if kept:
            return weighed(self, (pid, tid), [one[1] for one in kept], [one[2] for one in kept])
    return []


def folded(
    self: Lines, key: tuple[int, int], calls: Any, weight: Any, ends: Any, number: Any
) -> list[tuple[Place, float]]:
    """The stacks of all iterations, each by the call that it was before or in; each call's weight to those of
    its number, where it has none to the nearest number that has.
    """
    of_call = list(zip(ends.tolist(), number.tolist(), strict=True))
    stacks: dict[int, list[int]] = {}
    for at, path in zip(*(column.tolist() for column in self._stacks[key][:2]), strict=True):
        if of_call[0][0] < at <= of_call[-1][0]:
            stacks.setdefault(next(n for end, n in of_call if end >= at), []).append(path)
    if sum(map(len, stacks.values())) < max(number) + 1:
        return []
    owed: dict[int, float] = {}
    for call, one in zip(calls.tolist(), weight.tolist(), strict=True):
        mine = next((n for end, n in of_call if end > call), None)
        if mine is not None and one:
            near = min(stacks, key=lambda n: (abs(n - mine), n < mine))
            owed[near] = owed.get(near, 0.0) + one
    each = [(path, one / len(stacks[n])) for n, one in sorted(owed.items()) for path in stacks[n]]
    return weighed(self, key, [path for path, _ in each], [one for _, one in each])


def repeats() -> Inputs:
    made: Inputs = []
    for rng, self in programs(40, 83):
        many = int(rng.integers(2, 5))
        ends = np.sort(rng.choice(60, 2 * many, replace=False)) * 25_000
        calls = np.sort(rng.integers(-4, 64, 3)) * 25_000
        made.append(
            (self, (7, 1), calls, rng.integers(0, 5, 3).astype(float), ends, np.tile(np.arange(many), 2))
        )
    at = np.array([410, 420, 510, 520, 610, 620])  # of calls 0, 1 and 5 of six
    self._stacks[7, 1] = at, np.array([0, 2, 1, 2, 0, 1]), np.zeros(6, np.int64)
    ends = np.arange(13) * 100
    made += [
        (self, (7, 1), np.array([call, 350]), np.array([2.0, 1.0]), ends, np.arange(13) % 6)
        for call in (50, 150, 250)
    ]
    return made


def calling() -> Inputs:
    made: Inputs = []
    for rng, self in programs(30, 79):
        calls = np.sort(rng.integers(-10, 60, 3)) * 25_000
        for tid in (1, 3, 4):
            made.append(
                (self, 7, tid, calls // (25_000 if tid == 3 else 1), rng.integers(1, 5, 3).astype(float))
            )
        late = self._stacks[7, 2][0].max() + np.array([[300_000], [300_001], [1_500_000], [1_500_001]])
        made += [(self, 7, 2, np.append(one, one + 9_000_000), np.array([1.0, 2.0])) for one in late[:4]]
    self._stacks[7, 1] = np.array([0, 100_000]), np.array([0, 2]), np.array([0, 0])
    for call in (50_000, 50_001, 90_000):
        made.append((self, 7, 1, np.array([call]), np.ones(1)))
    again = [
        (self, *key, *two, tuple(rows))
        for self, key, *two, ends, number in repeats()
        for rows in [(ends, number)]
    ]
    return [*made, *again, (*again[0][:-1], (calls[:0], calls[:0])), (self, 7, 1, calls[:0], np.zeros(0))]


def named(self: Lines, pid: int, tid: int, start: Any, end: Any, pattern: str) -> tuple[float, Any]:
    if not len(start) or (pid, tid) not in self._stacks:
        return 0.0, []
    both = list(zip(start.tolist(), end.tolist(), strict=True))
    taken = [
        int(p)
        for t, p, s in zip(*self._stacks[pid, tid], strict=True)
        if s == 1 and any(a <= t < b for a, b in both)
    ]
    mine = [p for p in taken if any(re.search(pattern, f"{f[1]}:{f[0]}") for f in self._paths[p])]
    return (len(mine) / len(taken), weighed(self, (pid, tid), mine, [1.0] * len(mine))) if mine else (0.0, [])


def naming() -> Inputs:
    return [(*given, "model\\.py:|queue") for given in overs()]


def busy(
    self: Lines, pid: int, without: Any, window: tuple[int, int], stuck: bool = False
) -> list[tuple[int, Place, int]]:
    found = []
    for (process, tid), (at, path, taken) in self._stacks.items():
        waits = set(map(int, self._waiting.get((process, tid), ())))
        mine = [
            int(p)
            for t, p, s in zip(at, path, taken, strict=True)
            if window[0] <= t < window[1] and s == 1 and int(t) not in waits
        ]
        inner = [self._paths[p][-1] for p in mine]
        own = any(own_file(f[1]) for f in inner)
        most = max(map(inner.count, inner), default=0)
        if process == pid and tid not in without and own and (stuck or most < 0.9 * len(inner)):
            found.append((tid, lines.place_of([self._paths[p] for p in mine], [1] * len(mine)), len(mine)))
    return sorted(found, key=lambda one: -one[2])


def busies() -> Inputs:
    made: Inputs = []
    for rng, self in programs(40, 83):
        self._stacks[8, 1] = self._stacks[7, 1]
        made.append(
            (self, 7, [] if rng.random() < 0.7 else [1], (int(rng.integers(0, 9)) * 50_000, 1_700_000))
        )
    at = np.arange(20) * 50_000
    self._stacks[7, 1] = at, np.array([1, 4] * 10), np.ones(20, np.int64)  # nothing of its own
    made.append((program(rng), 7, [2], (0, 1_000_000)))
    made[-1][0].__dict__["_stacks"] = dict(self._stacks)
    for stuck in (17, 18, 19, 9, 10):  # of 20, or of 10 that are asked about
        self._stacks[7, 1] = at, np.where(np.arange(20) < stuck, 0, 2), np.ones(20, np.int64)
        one = program(rng)
        one.__dict__["_stacks"] = dict(self._stacks)
        made += [(one, 7, [2], (0, 1_000_000)), (one, 7, [2], (0, 500_000))]
        made += [(one, 7, [2], (0, 1_000_000), stuck == 19)]
        other = program(rng)
        other.__dict__.update(one.__dict__, _waiting={(7, 1): at[stuck:]})
        made += [(other, 7, [2], (0, 1_000_000)), (other, 7, [2], (0, 1_000_000), True)]
    return made


def between(self: Lines, key: tuple[int, int], low: int, high: int, inside: bool) -> Place:
    at, path, taken = self._stacks[key]
    rows = [(int(p), s) for t, p, s in zip(at, path, taken, strict=True) if low <= t < high]
    kept = sorted(p for p, s in rows if s == 1 or not inside)
    if kept:
        distinct = sorted(set(kept))
        counts = [kept.count(p) for p in distinct]
        return lines.place_of([self._paths[p] for p in distinct], counts, self.loop_of(*key))
    earlier, later = [int(p) for p in path[at < low]], [int(p) for p in path[at >= high]]
    if not earlier or not later:
        return NOWHERE
    before, after = self._paths[earlier[-1]], self._paths[later[0]]
    place = lines.place_of([lines._common(before, after)], [1])
    line = next((n for f, p, n in after[::-1] if (f, lines.short(p)) == (place.function, place.file)), 0)
    until = 0 if line == place.line else line
    return Place(
        place.function,
        place.file,
        place.line,
        place.loads,
        until,
        False,
        place.waits,
        place.compiles,
        place.loop,
    )


def stretches() -> Inputs:
    made: Inputs = []
    for rng, self in programs(60, 89):
        low = int(rng.integers(0, 36)) * 50_000
        for inside in (True, False):
            made.append((self, (7, 2), low, low + int(rng.integers(0, 5)) * 50_000, inside))
    return made


# ---- what is read of a report, and what hands on to the pieces


def single(self: Cut, legs: list[Any]) -> list[list[Any]]:
    names, streams = self.ops["short_name"].tolist(), self.streams.tolist()
    return [
        [leg.start, leg.end - leg.start, KINDS[leg.kind], names[leg.op], streams[leg.op], -1] for leg in legs
    ]


def singles() -> Inputs:
    leg = critical_path._Leg
    gap, latency = KINDS.index("gap on the GPU"), KINDS.index("launch latency")
    self = Cut(ops=pd.DataFrame({"short_name": ["mm", "copy", "add"]}), streams=np.array([7, 9, 8]))
    legs = [leg(50, 90, -1, 2, gap), leg(30, 31, -1, 0, latency), leg(5, 5, -1, 1, gap)]
    return [(self, legs), (self, legs[:1]), (self, [])]


def happenings(self: Tables) -> list[list[Any]]:
    found = []
    kinds = (("ops", "operator"), ("annotations", "host"), ("python_functions", "Python"))
    for name, kind in kinds:  # what comes later is within, where two take the same time
        for row in self.tables[name].itertuples():
            found.append([row.start_ns, row.end_ns, row.tid, row.name, KINDS.index(kind)])
    for row in self.calls.itertuples():
        found.append([row.start_ns, row.end_ns, row.tid, row.name, KINDS.index("CUDA call")])
    return found


def happened() -> Inputs:
    op, mark = calls_of((1, "aten::mm", 3, 9), (2, "aten::add", 1, 2)), calls_of((1, "step", 0, 50))
    function, call = calls_of((1, "a.py(3): f", 2, 30)), calls_of((2, LAUNCH, 4, 6), (1, COPY, 5, 6))
    none = calls_of()
    names = ("ops", "annotations", "python_functions")
    return [
        (
            Tables(
                tables={n: t.assign(rank=0) for n, t in zip(names, three, strict=True)},
                calls=call.assign(pid=4),
            ),
        )
        for three in ((op, mark, function), (op, none, function), (none, none, none))
    ]


class Threads(Tables):
    """The same, with what all threads did, and stretches of one cut as the walk cuts them."""

    def _events(self) -> pd.DataFrame:
        return self.events  # type: ignore[no-any-return]

    def _cut(self, *given: Any) -> pd.DataFrame:
        return critical_path._Rank._cut(self, *given)  # type: ignore[arg-type]


def on_cpu(self: Threads, legs: list[Any]) -> tuple[list[list[Any]], str]:
    found = []
    for leg in sorted(legs, key=lambda leg: (leg.tid, leg.start)):
        mine = self.events[[one.tid == leg.tid for one in self.events.itertuples()]]
        found += cut(self, leg.tid, np.array([leg.start]), np.array([leg.end]), mine)
    # of many pieces the kinds stay numbers
    return [[*row, -1, -1, -1] for row in found], "category" if found else "object"


def told_on_cpu(function: Callable[..., Any], *given: Any) -> tuple[list[list[Any]], str]:
    table = function(*given)
    return rows_of(lambda: table), str(table["kind"].dtype)


def threaded() -> Inputs:
    leg, made = critical_path._Leg, Inputs()
    rows = [(5, 0, 60, "a", 6), (9, 0, 100, "z", 9), (5, 10, 40, "b", 7), (9, 50, 70, "y", 7)]
    rows += [(2, 0, 100, "other", 7), (5, 70, 90, "c", 9)]
    events = pd.DataFrame(rows, columns=["tid", "start_ns", "end_ns", "name", "code"])
    events = events.iloc[[4, *range(4), 5]]  # the index is not that of the rows
    waits = {5: (np.array([30]), np.array([5]), np.array([0]))}
    legs = [leg(80, 100, 5), leg(55, 80, 9), leg(40, 55, 5), leg(20, 40, 3), leg(10, 20, 5), leg(0, 10, 9)]
    for some in (legs, legs[:1], legs[3:4], legs[1:3], []):
        made.append((Threads(low=0, waits=waits, events=events), some))
        made.append((Threads(low=0, waits={}, events=events.iloc[:0]), some))
    return made


Stacks = dict[tuple[int, int], list[tuple[int, tuple[Frame, ...], int]]]


def read(self: Any) -> tuple[Stacks, list[tuple[Frame, ...]]]:
    """Of each thread when a stack was taken, its frames from the outside, whether a sample; each kind's
    stacks, each once.
    """
    if not hasattr(self.report, "python_samples"):
        return {}, []
    rows: list[tuple[int, tuple[int, int], tuple[Frame, ...], int]] = []
    paths: list[tuple[Frame, ...]] = []
    calls = self.report.python_backtraces(), self.report.python_backtrace_frames()
    taken = self.report.python_samples(), self.report.python_frames()
    for sample, key, (stacks, frames) in ((0, "backtrace", calls), (1, "sample", taken)):
        distinct = set()
        for one in stacks.itertuples():
            mine = [row for row in frames.itertuples() if getattr(row, key) == getattr(one, key)]
            path = tuple((f.function, f.file, f.line) for f in sorted(mine, key=lambda f: -f.depth))
            if path:
                rows.append((one.start_ns, (one.pid, one.tid), path, sample))
                distinct.add(path)
        paths += distinct
    found: Stacks = {}
    for at, thread, path, sample in sorted(rows, key=lambda row: row[0]):
        found.setdefault(thread, []).append((at, path, sample))
    return dict(sorted(found.items())), sorted(paths)


def told_read(function: Callable[..., Any], self: Any) -> tuple[Stacks, list[tuple[Frame, ...]]]:
    mine = SimpleNamespace(report=self.report)  # it keeps the paths there
    found = {
        key: [(t, mine._paths[p], s) for t, p, s in zip(*map(np.ndarray.tolist, columns), strict=True)]
        for key, columns in function(mine).items()
    }
    return dict(sorted(found.items())), sorted(getattr(mine, "_paths", []))


def reports() -> Inputs:
    rng, made = np.random.default_rng(97), Inputs()
    columns = ["depth", "function", "file", "line"]
    for number in range(12):
        tables: dict[str, pd.DataFrame] = {}
        for key, missing in (("backtrace", number == 1), ("sample", number == 2)):
            many = 0 if missing or number == 3 else int(rng.integers(1, 9))
            stacks = pd.DataFrame({key: rng.permutation(many) * 3, "start_ns": rng.integers(0, 9, many) * 10})
            tables[key] = stacks.assign(
                pid=rng.choice([1, 2], many), tid=rng.choice([1, 2], many), ignored=-1
            )
            frames = [
                (one, depth, *frame)
                for one in stacks[key].tolist()
                if rng.random() < 0.8  # of others nothing is known
                for depth, frame in enumerate(STACKS[int(rng.integers(0, 4))][::-1])
            ]
            table = pd.DataFrame(frames, columns=[key, *columns])
            tables[f"{key}s"] = table.iloc[rng.permutation(len(table))[: 0 if number == 4 else None]]
        methods = ("backtrace", "python_backtraces"), ("backtraces", "python_backtrace_frames")
        methods += ("sample", "python_samples"), ("samples", "python_frames")
        report = SimpleNamespace(**{name: lambda table=tables[key]: table for key, name in methods})
        made.append((SimpleNamespace(report=report),))
    return [*made, (SimpleNamespace(report=SimpleNamespace()),)]


def listed(self: Any) -> dict[tuple[int, int], list[list[Any]]]:
    found: dict[tuple[int, int], list[list[Any]]] = {}
    if hasattr(self.report, "python_functions"):
        for row in self.report.python_functions().itertuples():
            mine = found.setdefault((row.pid, row.tid), [])
            mine.append([row.start_ns, row.end_ns, row.pid, row.tid, row.name])
    return dict(sorted(found.items()))


def told_listed(function: Callable[..., Any], self: Any) -> dict[tuple[int, int], list[list[Any]]]:
    return {key: rows_of(lambda table=table: table) for key, table in sorted(function(self).items())}


def traces() -> Inputs:
    table = traced((0, 90, "a.py(1): f"), (3, 9, "b.py(2): g"), (1, 2, "a.py(1): f"), (0, 5, "c.py(9): h"))
    table = table.assign(rank=0, pid=[1, 1, 2, 1], tid=[4, 3, 4, 4]).iloc[::-1]
    made: Inputs = [(SimpleNamespace(report=SimpleNamespace()),)]
    for one in (table, table.iloc[:1], table.iloc[:0]):
        report = SimpleNamespace(python_functions=lambda one=one: one, ops=list, annotations=list)
        made.append((SimpleNamespace(report=report),))
    return made


def among(self: Lines, table: pd.DataFrame, inside: bool) -> list[Place]:
    found = []
    for row in table.itertuples():
        key = row.pid, row.tid
        if key in self._stacks:
            found.append(between(self, key, row.start_ns, row.end_ns, inside))
        elif key in self._functions:
            found += innermost_of(self._functions[key], np.array([row.start_ns]), np.array([row.end_ns]))
        else:
            found.append(NOWHERE)
    return found


def told_among(function: Callable[..., Any], self: Lines, table: pd.DataFrame, inside: bool) -> list[Place]:
    return function(self, table, inside=inside)  # type: ignore[no-any-return]


def stretches_of_threads() -> Inputs:
    made: Inputs = []
    for rng, self in programs(8, 101):
        self._stacks[8, 1], self._functions[8, 3] = self._stacks[7, 2], functions(rng)
        pid, tid = rng.choice([7, 8], 12), rng.choice([1, 2, 3, 4], 12)
        start = np.where(tid == 3, rng.integers(0, 25, 12), rng.integers(0, 36, 12) * 50_000)
        long = np.where(tid == 3, rng.integers(0, 9, 12), rng.integers(0, 5, 12) * 50_000)
        table = pd.DataFrame({"start_ns": start, "end_ns": start + long, "pid": pid, "tid": tid})
        table.index = rng.permutation(12)
        made += [(self, table, inside) for inside in (True, False)]
    return [*made, (self, table.iloc[:1], False), (self, table.iloc[:0], False)]


def loop_known(self: Lines, pid: int, tid: int) -> tuple[str, str]:
    if (pid, tid) in self._loops:  # looked for once
        return self._loops[pid, tid]
    return loop(self, *self._stacks[pid, tid][:2]) if (pid, tid) in self._stacks else ("", "")


def told_loop(function: Callable[..., Any], self: Lines, pid: int, tid: int) -> Any:
    mine = object.__new__(Lines)
    mine.__dict__.update({**vars(self), "_loops": dict(self._loops)})  # it writes there
    found = function(mine, pid, tid)
    return found if mine._loops[pid, tid] == found else "another one is kept"


def threads_with_loops() -> Inputs:
    made: Inputs = []
    for _, self in programs(12, 103):
        made += [(self, 7, tid) for tid in (1, 2, 3)]
    known = program(np.random.default_rng(0))
    known._loops = {(7, 1): ("found", "before.py")}
    return [*made, (known, 7, 1), (known, 7, 4)]


def holds(self: Lines, pid: int, tid: int, place: Place) -> bool:
    asked = place.function, place.file
    if place.function == "<module>":
        return True
    function, file = loop_known(self, pid, tid)
    if function and asked == (function, file.rpartition("/")[2]):
        return True
    if self.window is None or (pid, tid) not in self._functions:
        return False
    for one in self._functions[pid, tid].itertuples():
        named = re.match(r"(.+)\((\d+)\): (.+)", one.name)
        whole = one.start_ns <= self.window[0] and one.end_ns >= self.window[1]
        if whole and named and asked == (named[3], named[1].rpartition("/")[2]):
            return True
    return False


def held() -> Inputs:
    rng, made = np.random.default_rng(107), Inputs()
    rows = [(50, 90, "a/x.py(1): exact"), (49, 91, "a/x.py(2): around"), (51, 99, "a/x.py(3): late")]
    rows += [(0, 89, "a/x.py(4): early"), (50, 90, "no name"), (60, 70, "a/x.py(5): inner")]
    names = ["exact", "around", "late", "early", "inner"]
    for window in ((50, 90), None):
        self = program(rng, window)
        self._stacks[7, 1] = np.array([50, 60, 89]), np.array([0, 1, 2]), np.ones(3, np.int64)
        self.__dict__["_functions"] = {(7, 3): traced(*rows)}
        places = [Place(name, "x.py", 9) for name in names] + [Place("exact", "y.py", 1), NOWHERE]
        places += [Place("<module>", "any.py", 9), Place("step", "train.py", 4), Place("step", "model.py", 2)]
        places += [Place("other", "train.py", 9)]
        made += [(self, 7, tid, place) for tid in (1, 3, 4) for place in places]
    deep = program(rng, None)
    deep._loops = {(7, 2): ("step", "/w/a/train.py")}
    return [*made, (deep, 7, 2, Place("step", "train.py", 4)), (deep, 7, 2, Place("step", "a/train.py", 4))]


Cuts = dict[tuple[str, str], list[int]]


def parted(self: Lines) -> Cuts:
    if not self._stacks:
        return {}
    known: dict[tuple[str, str], set[int]] = {}
    pairs: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for path in self._paths:
        own = [((f, file.rpartition("/")[2]), line) for f, file, line in path if own_file(file)]
        for place, (name, line) in enumerate(own):
            known.setdefault(name, set()).add(line)
            called = [other for its, other in own[place + 1 :] if its == name]
            pairs.setdefault(name, set()).update((min(line, one), max(line, one)) for one in called)
    found: Cuts = {}
    for name, both in sorted(pairs.items()):
        every, cuts = sorted(known[name]), []
        if any(low == high for low, high in both):
            continue
        for width in range(max(every)):  # the closest first, of those as close the last
            for low in every[::-1]:
                high = low + width
                if (low, high) in both and not any(low < one <= high for one in cuts):
                    gaps = [(b - a, -b) for a, b in itertools.pairwise(every) if low <= a and b <= high]
                    cuts.append(-max(gaps)[1])
        if cuts:
            found[name] = sorted(cuts)
    return found


def told_parted(function: Callable[..., Any], self: Lines) -> Cuts:
    return {name: cuts for name, cuts in sorted(function(self).items()) if cuts}


def methods() -> Inputs:
    rng, made = np.random.default_rng(109), Inputs()
    files = ("a/model.py", "b/model.py", "site-packages/torch/model.py")
    for _ in range(80):
        most = int(rng.choice([12, 40]))
        paths = []
        for _ in range(int(rng.integers(1, 6))):
            picked = rng.choice(most, int(rng.integers(1, 4)), replace=rng.random() < 0.1) + 1
            paths.append(
                tuple(
                    (
                        "forward" if rng.random() < 0.8 else "run",
                        files[int(rng.choice(3, p=[0.8, 0.1, 0.1]))],
                        n,
                    )
                    for n in picked.tolist()
                )
            )
        made.append((SimpleNamespace(_stacks={(1, 1): ()}, _paths=paths),))
    # two of one width, which one line parts; one that calls itself
    some = [[(a, a + 4), (a + 2, a + 6)] for a in range(1, 9)] + [[(3, 9, 3)], [(3, 3), (3, 9)]]
    for one in some:
        for each in (one, one[::-1]):
            stacks = [tuple(("f", "m.py", line) for line in lines_) for lines_ in each]
            made.append((SimpleNamespace(_stacks={(1, 1): ()}, _paths=stacks),))
    return [*made, (SimpleNamespace(_stacks={}),)]  # of a trace no paths are read


def part(self: Any, function: str, file: str, line: int) -> int:
    return sum(one <= line for name, cuts in self._parted.items() if name == (function, file) for one in cuts)


def parts_asked() -> Inputs:
    self = SimpleNamespace(_parted={("f", "a.py"): [3, 9], ("g", "a.py"): []})
    names = ("f", "a.py"), ("g", "a.py"), ("f", "b.py")
    return [(self, *name, line) for name in names for line in (1, 2, 3, 4, 8, 9, 10)]
