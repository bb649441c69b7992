"""Plain loops for what walks through a recording: the replay, an idle GPU, stacks, the critical path.

`test_mutants` compares them with the analyses themselves.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.buckets import own_file
from labcode.analysis.ledger import lines
from labcode.analysis.ledger.lines import Place
from labcode.analysis.ledger.replay import Program
from labcode.analysis.ledger.view import CODE, OWNERS
from labcode.analysis.timeline import critical_path

Inputs = list[tuple[Any, ...]]
NEVER = np.iinfo(np.int64).min


# ---- the replay of a round


def played(given: Program) -> float:
    count = len(given.length)
    room, free, ended = (
        min(1000, max(count - 1, 1)),
        dict.fromkeys([0, *given.stream.tolist()], 0.0),
        {-1: 0.0},
    )
    began: list[float] = []  # of all rounds, in the order of the launches
    cpu, ends = 0.0, []
    for number in range(3):
        began += [0.0] * count
        for i, code in enumerate(given.gap.tolist()):
            if given.due[i] < 0:
                cpu += code
            else:
                cpu = max(cpu + min(code, 5_000), number * given.period + given.due[i])
            mine = range(given.first[i], given.last[i])
            graph = max(free.values()) if len(mine) > 1 else 0.0
            if len(mine) == 1 and (count > 1000 or mine[0] < room):
                earlier = number * count + mine[0] - room
                cpu = max(cpu, began[earlier] if earlier >= 0 else 0.0)
            for k in mine:
                stream, after = int(given.stream[k]), int(given.after[k])
                ready = max(cpu + given.made[k], graph, free[stream], ended.get(after, 0.0))
                began[number * count + k] = ready + given.latency[k]
                ended[k] = free[stream] = began[number * count + k] + given.length[k]
            cpu += given.spent[i]
            target = int(given.target[i])
            if given.waits[i]:
                done = {1: free.get(target, 0.0), 2: ended.get(target, 0.0), 3: max(free.values())}
                cpu = max(cpu, done[int(given.waits[i])] + given.tail[i])
        ends.append(max(cpu, *free.values()))
    return float((ends[2] - ends[1]) / max(given.count, 1))


def rounds() -> Inputs:
    rng = np.random.default_rng(5)

    def made(calls: int, launched: list[int], code: int, work: int, waits: int = 4, **more: Any) -> Program:
        count = sum(launched)
        last = np.cumsum(np.array(launched, np.int64))
        floats = {
            name: rng.integers(0, most, number).astype(float)
            for name, most, number in (
                *(("gap", code, calls), ("spent", code, calls), ("tail", 20, calls)),
                *(("made", 30, count), ("latency", 30, count), ("length", work, count)),
            )
        }
        how, stream = rng.integers(0, waits, calls), rng.integers(0, 3, count)
        target = np.where(how == 1, rng.integers(0, 3, calls), rng.integers(0, max(count, 1), calls))
        target = np.where(how == 1, np.minimum(target, stream.max(initial=0)), target)
        after = np.where(rng.random(count) < 0.3, rng.integers(-1, max(count, 1), count), -1)
        found = dict(
            **floats, waits=how if count else np.zeros(calls, np.int64), target=target, stream=stream,
            after=after, row=np.arange(calls), first=last - np.array(launched, np.int64), last=last,
            op=np.arange(count), due=np.full(calls, -1.0), count=int(rng.integers(1, 4)),
            period=float(rng.integers(500, 4000)),
        )  # fmt: skip
        return Program(**{**found, **more})

    programs = []
    for _ in range(24):
        launched = rng.choice([0, 1, 1, 2, 3], int(rng.integers(2, 7))).tolist()
        work = int(rng.choice([50, 500, 3000]))
        programs.append(made(len(launched), launched, int(rng.choice([20, 200, 2000])), work))
    for code in (30, 9_000):  # a batch that is there late, or early, or at the begin
        for due in (0.0, 900.0, 6_500.0):
            programs.append(made(3, [1, 0, 1], code, 50, 1, due=np.array([-1.0, due, -1.0]), period=1000.0))
    for count in (0, 1, 2, 3):  # the queue holds a round, and no more
        programs += [made(count or 2, [1 if count else 0] * (count or 2), 9, most, 1) for most in (900, 9)]
    for count in (1000, 1001, 1003):
        programs += [
            made(count, [1] * count, 3, most, 1, stream=np.zeros(count, np.int64), after=np.full(count, -1))
            for most in (9, 90)
        ]
    for _ in range(12):  # the CPU is ahead, until the queue is full
        launched = rng.choice([1, 2, 3], 3).tolist()
        programs.append(made(3, launched, 900, int(rng.choice([50, 500])), 1))
    programs.append(replace(programs[0], count=0))
    for count, slow, late in ((1003, 1, 1002), (1003, 1, 1001), (1000, 999, 999)):  # room for 1000, no more
        one = made(count, [1] * count, 3, 2, 1, stream=np.zeros(count, np.int64), after=np.full(count, -1))
        length, spent = one.length.copy(), one.spent.copy()
        length[slow], spent[late] = 9e6, 5e6
        programs.append(replace(one, length=length, spent=spent))
    # the second round begins when the first is done, the third when its batch is there
    none = np.zeros(3)
    programs += [
        replace(
            made(3, [1, 0, 1], 1, 1, 1), gap=none, spent=none, tail=none, waits=np.array([how, 0, 0]),
            target=np.zeros(3, np.int64), made=none[:2], latency=none[:2], length=np.array([60.0, long]),
            stream=np.array([0, 1]), after=np.array(after), due=np.array([-1.0, 0, -1]), count=1,
            period=100.0,
        )
        for how, long, after in ((3, 0, [-1, -1]), (3, 0, [1, -1]), (0, 30, [-1, 0]), (0, 30, [-1, -1]))
    ]  # fmt: skip
    # the last begins late: who waits for room waits for that, a graph does not, nor who has just the room
    for launched, late in (([2, 1], 2), ([1, 1], 1), ([1] * 1000, 0)):
        count, calls = sum(launched), len(launched)
        one = made(calls, launched, 1, 1, 1, stream=np.arange(count) % 3, after=np.full(count, -1))
        latency, spent = one.latency.copy(), one.spent.copy()
        latency[late], spent[0 if late else calls - 1] = 8e6, 5e6
        programs.append(replace(one, latency=latency, spent=spent))
    one = made(1, [1], 1, 1, 1)  # its launch takes long, and it begins late
    programs.append(replace(one, made=np.array([7e6]), latency=np.array([8e6])))
    return [(one,) for one in programs]


# ---- who owns a stretch in which a GPU is idle


class Idle(SimpleNamespace):
    """What `_Idle.parts` reads; what it leaves to the CPU has an owner of its own."""

    def _called(self, _: Any) -> Any:
        return self.called

    def _of_cpu(self, start: Any, end: Any) -> Iterator[tuple[Any, Any, int]]:
        yield start, end, -1


def idles() -> Inputs:
    rng = np.random.default_rng(7)
    made = []
    for number in range(30):
        begin = np.cumsum(rng.integers(5, 40, 6)) * 1000
        end = begin + rng.integers(1, 5, 6) * 1000
        api = pd.DataFrame({"end_ns": np.concatenate((begin, end, begin + 1000))[rng.permutation(18)]})
        called = np.where(rng.random(6) < 0.25, -1, rng.integers(0, 18, 6))
        near = np.argmin(
            np.abs(api["end_ns"].to_numpy()[:, None] - begin - rng.integers(0, 2, 6) * 1000), axis=0
        )
        called = np.where((called >= 0) & (rng.random(6) < 0.7), near, called)
        some = slice(0, 0 if number == 0 else 6)
        window = 0, int(end[-1]) + (0 if number % 3 else -1000 if number % 2 else 1000)
        host = SimpleNamespace(start=[] if number in (1, 2, 3) else [1], patience_ns=2000)
        free = begin[some], end[some]
        made.append(
            (Idle(free=free, called=called[some], window=window, host=host, view=SimpleNamespace(api=api)),)
        )
    return made


def idle_parts(given: Idle) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}

    def add(owner: str | int, low: int, high: int) -> None:
        if low < high:
            found.setdefault(CODE[owner] if isinstance(owner, str) else owner, []).append((low, high))

    returns = given.view.api["end_ns"].tolist()
    for begin, end, call in zip(*map(np.ndarray.tolist, (*given.free, given.called)), strict=True):
        returned = returns[call] if call >= 0 else end
        if not given.host.start:
            add("queued" if call >= 0 and returned <= begin else "unknown", begin, end)
        elif call < 0 and end < given.window[1]:
            add("unknown", begin, end)
        elif returned <= begin:
            add("queued", begin, end)
        else:
            cut = min(returned, end)
            add(-1, begin, cut)
            add("launch" if end - cut < given.host.patience_ns else "queued", cut, end)
    return {owner: sorted(spans) for owner, spans in sorted(found.items())}


def told_parts(function: Callable[..., Any], *given: Any) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for start, end, owner in function(*given):
        pairs = list(zip(start.tolist(), end.tolist(), strict=True))
        if pairs:
            found.setdefault(owner, []).extend(pairs)
    assert all(owner < len(OWNERS) for owner in found)
    return {owner: sorted(spans) for owner, spans in sorted(found.items())}


# ---- stacks

Frame = tuple[str, str, int]


def placed(
    paths: Sequence[Sequence[Frame]], counts: Sequence[int], loop: tuple[str, str] | None = None
) -> Place:
    stacks = [(list(path), count) for path, count in zip(paths, counts, strict=True)]

    def mostly(test: Callable[[list[Frame]], object]) -> bool:
        return sum(count for path, count in stacks if test(path)) > sum(counts) / 2

    loads = mostly(
        lambda path: [one for one in path if lines.DATA.search(one[0]) or lines.DATA.search(one[1])]
    )
    waits = mostly(lambda path: path and lines.WAITS.search(f"{path[-1][1]}:{path[-1][0]}"))
    makes = mostly(lambda path: [(f, p, n) for f, p, n in path if lines._COMPILES.search(f"{p}({n}): {f}")])
    functions: Counter[tuple[str, str]] = Counter()
    frames: Counter[Frame] = Counter()
    for path, count in stacks:
        own = [one for one in path if own_file(one[1])]
        if own:
            functions[own[-1][:2]] += count
            frames[own[-1]] += count
    if not frames:
        return Place(loads=loads, waits=waits, compiles=makes)
    best = functions.most_common(1)[0][0]
    line = next(one for one, _ in frames.most_common() if one[:2] == best)
    calls: Counter[Frame] = Counter()
    for path, count in stacks:
        if loop is not None and line in path and best != loop:
            above = [one for one in path[: path.index(line)] if own_file(one[1]) and one[:2] != best]
            above = [one for one in above if one[:2] == loop or loop[0] == ""]
            if above:
                calls[above[-1]] += count
    called = ""
    if calls:
        (function, file, number), _ = calls.most_common(1)[0]
        called = f"`{function}`, {lines.short(file)}:{number}"
    return Place(best[0], lines.short(best[1]), line[2], loads, 0, True, waits, makes, called)


def sampled() -> Inputs:
    main, loop, step, other = (
        ("main", "/w/a.py", 9),
        ("loop", "/w/a.py", 4),
        ("step", "/w/b.py", 2),
        ("f", "/w/c.py", 1),
    )
    later, again, deep = ("loop", "/w/a.py", 5), ("step", "/w/b.py", 3), ("main", "/w/a.py", 7)
    data, dataset = ("__getitem__", "/w/d.py", 6), ("f", "torch/utils/data/x.py", 6)
    wait, compiles = ("wait", "threading.py", 3), ("go", "triton/compiler/compiler.py", 8)
    torch = ("forward", "torch/nn/x.py", 1)
    stacks: list[tuple[list[list[Frame]], list[int]]] = [
        ([], []), ([[]], [1]), ([[torch]], [2]), ([[main]], [1]), ([[main, loop, step, torch]], [3]),
        ([[main, loop, step], [main, later, step], [main, later, again]], [1, 1, 3]),
        ([[main, loop, step], [main, loop, again], [main, loop, other]], [2, 2, 3]),
        ([[main, loop, other], [main, loop, again], [main, loop, step]], [3, 2, 2]),
        ([[main, later, step], [main, loop, step], [loop, other]], [2, 1, 1]),
        ([[main, loop, step, wait], [main, loop]], [1, 1]), ([[main, wait], [main, loop]], [2, 1]),
        ([[wait, main]], [1]), ([[main, data], [main]], [1, 1]), ([[main, data], [main, loop]], [2, 1]),
        ([[dataset], [main]], [3, 2]), ([[compiles, torch], [main]], [2, 1]), ([[compiles], [main]], [1, 1]),
        ([[main, loop, deep], [main, loop, deep]], [1, 2]), ([[loop, main, step, loop, step]], [1]),
        ([[main, loop], [main, later], [main, loop, other]], [1, 1, 3]),
        ([[main, torch, step], [torch, step]], [1, 2]), ([[main, loop, step, again]], [2]),
        ([[main, loop, again], [main, deep, again], [main, later, again]], [2, 1, 2]),
    ]  # fmt: skip
    return [
        (*one, within)
        for one in stacks
        for within in (None, ("", ""), ("loop", "/w/a.py"), ("main", "/w/a.py"))
    ]


# ---- the critical path


def calls_of(*rows: tuple[int, str, int, int]) -> pd.DataFrame:
    table = pd.DataFrame(list(rows), columns=["tid", "name", "start_ns", "end_ns"])
    return table.astype({"tid": "int64", "name": "str", "start_ns": "int64", "end_ns": "int64"})


ASK, LAUNCH, SYNC, RECORD = "cudaEventQuery", "cudaLaunchKernel", "cudaDeviceSynchronize", "cudaEventRecord"
OTHER, HOLD = "cudaGetDevice", "cudaStreamWaitEvent"


def asking(api: pd.DataFrame, ops: pd.DataFrame, annotations: pd.DataFrame) -> list[int]:
    found = []
    for tid in sorted(set(api["tid"])):
        names = api.loc[api["tid"] == tid, "name"].tolist()
        busy = any(name in (LAUNCH, SYNC, RECORD, HOLD) for name in names)
        works = tid in set(ops["tid"]) | set(annotations["tid"])
        if names.count(ASK) >= len(names) / 2 and not busy and not works:
            found.append(int(tid))
    return found


def askers() -> Inputs:
    def of(tid: int, *names: str) -> list[tuple[int, str, int, int]]:
        return [(tid, name, 10 * i, 10 * i + 5) for i, name in enumerate(names)]

    some = [*of(1, ASK), *of(2, ASK, OTHER), *of(3, ASK, OTHER, OTHER), *of(4, ASK, ASK, LAUNCH)]
    some += [
        *of(5, ASK, ASK, ASK, SYNC),
        *of(6, ASK, RECORD),
        *of(7, OTHER),
        *of(8, ASK),
        *of(9, ASK),
        *of(10, HOLD, ASK),
    ]
    some += of(11, ASK, OTHER, ASK, OTHER, OTHER)
    none, mine = calls_of(), calls_of((8, "aten::mm", 0, 9))
    noted = calls_of((9, "step", 0, 9))
    return [
        (calls_of(*some), none, none), (calls_of(*some), mine, noted), (calls_of(*some), noted, mine),
        (calls_of(*of(7, OTHER), *of(4, LAUNCH)), none, none), (none, none, none),
    ]  # fmt: skip


def asked_long(api: pd.DataFrame, ops: pd.DataFrame) -> list[tuple[int, int, int]]:
    found = []
    for tid in sorted(set(api.loc[api["name"] == ASK, "tid"])):
        mine = [
            (row.start_ns, row.end_ns, row.name == ASK)
            for row in api[api["tid"] == tid].itertuples(index=False)
        ]
        mine += [(row.start_ns, row.end_ns, False) for row in ops[ops["tid"] == tid].itertuples(index=False)]
        run: list[tuple[int, int, bool]] = []
        for one in [*sorted(mine, key=lambda one: one[0]), (0, 0, False)]:
            if one[2]:
                run.append(one)
                continue
            if len(run) >= 3 and max(end for _, end, _ in run) - run[0][0] >= 100_000:
                found.append((int(tid), int(run[0][0]), int(max(end for _, end, _ in run))))
            run = []
    return found


def told_waits(function: Callable[..., Any], *given: Any) -> list[tuple[int, int, int]]:
    table = function(*given)
    assert list(table.columns) == ["tid", "start_ns", "end_ns"]
    assert list(table.index) == list(range(len(table)))
    return [
        tuple(map(int, row))
        for row in table[["tid", "start_ns", "end_ns"]].itertuples(index=False, name=None)
    ]


def askings() -> Inputs:
    def run(
        tid: int, begin: int, count: int, width: int, last: int = 1000
    ) -> list[tuple[int, str, int, int]]:
        step = (width - last) // max(count - 1, 1)
        return [(tid, ASK, begin + i * step, begin + i * step + last) for i in range(count)]

    whole, short, few = run(1, 0, 5, 100_001), run(2, 50, 4, 100_000), run(3, 0, 2, 400_000)
    brief = [(4, ASK, 0, 90_000), (4, ASK, 95_000, 99_000), (4, ASK, 99_000, 99_999)]
    three = [(5, ASK, 0, 90_000), (5, ASK, 95_000, 99_000), (5, ASK, 99_000, 100_000)]
    inner = [(6, ASK, 0, 150_000), (6, ASK, 10_000, 20_000), (6, ASK, 30_000, 40_000)]
    none = calls_of()
    cut = calls_of((1, "aten::mm", 60_000, 61_000))
    first = calls_of((2, OTHER, 0, 10))
    return [
        (calls_of(*whole), none), (calls_of(*whole, *short, *few, *brief, *three, *inner), none),
        (calls_of(*whole, (1, OTHER, 60_000, 61_000)), none), (calls_of(*whole, *short), cut), (none, none),
        (calls_of(*whole[::-1], (9, LAUNCH, 0, 5)), first), (calls_of((9, LAUNCH, 0, 5)), cut),
        (calls_of(*run(1, 0, 4, 99_000), *run(2, 99_500, 4, 90_000)), none),
        (calls_of(*run(1, 0, 5, 300_000), *run(1, 500_000, 5, 300_000), (1, LAUNCH, 400_000, 400_010)), none),
    ]  # fmt: skip


class Rank(SimpleNamespace):
    """What methods of the walk read and write."""

    def _done_by(self, times: Any) -> Any:
        done = [[k for k in self.by_end.tolist() if self.ended[k] <= time] for time in times.tolist()]
        return np.array([one[-1] if one else -1 for one in done], np.int64)


def reasons(self: Rank, row: Any) -> dict[str, Any]:
    found: dict[str, Any] = {name: [] for name in ("free", "made", "via", "other", "head", "launched")}
    count = len(self.begun)
    by_end = sorted(range(count), key=lambda k: self.ended[k])
    asked = [int(call.start_ns) for call in self.calls.itertuples() if call.name == HOLD]
    called = [int(self.calls["start_ns"].iloc[one]) if one >= 0 else NEVER for one in row.tolist()]
    for k in range(count):
        before = [j for j in range(k) if self.stream[j] == self.stream[k]]
        free = max((int(self.ended[j]) for j in before), default=NEVER)
        made = min(int(self.calls["end_ns"].iloc[row[k]]), int(self.begun[k])) if row[k] >= 0 else NEVER
        since = called[before[-1]] if before else NEVER
        waited = any(since <= at < called[k] for at in asked)
        if row[k] < 0:
            waited = waited or self.begun[k] - (free if before else self.low) > 5_000
        done = [j for j in by_end if self.ended[j] <= self.begun[k]]
        last = done[-1] if done else -1
        other = (
            bool(done) and waited and self.ended[last] > max(free, made) and self.begun[last] < self.begun[k]
        )
        launched = made > free and not other
        found["free"].append(free)
        found["made"].append(made)
        found["via"].append(int(self.calls["tid"].iloc[row[k]]) if row[k] >= 0 else -1)
        found["other"].append(last if other else -1)
        found["head"].append(k if not before or launched or other else found["head"][-1])
        found["launched"].append(launched)
    return found


def told_reasons(function: Callable[..., Any], self: Rank, row: Any) -> dict[str, Any]:
    mine = Rank(**vars(self))
    function(mine, row)
    return {
        name: getattr(mine, name).tolist() for name in ("free", "made", "via", "other", "head", "launched")
    }


def reasoned() -> Inputs:
    rng = np.random.default_rng(11)
    made: Inputs = []
    for number in range(45):
        count, many = int(rng.integers(1, 7)), int(rng.integers(1, 5))
        stream = np.sort(rng.integers(0, int(rng.integers(1, 4)), count))
        stream = np.unique(stream, return_inverse=True)[1]
        begun = rng.integers(0, 14, count) * 1000
        begun = begun[np.lexsort((begun, stream))]
        ended = begun + rng.choice([0, 1000, 3000, 9000], count)
        start = np.sort(rng.integers(0, 12, many)) * 1000
        rows = [
            (int(rng.integers(1, 3)), HOLD if rng.random() < 0.4 else LAUNCH, int(at), int(at) + 1000)
            for at in start
        ]
        row = np.where(rng.random(count) < 0.3, -1, rng.integers(0, many, count))
        row = row if number else np.full(count, -1)
        made.append(
            (Rank(ops=begun, stream=stream, begun=begun, ended=ended, calls=calls_of(*rows), low=-2000), row)
        )
    # one that waited for another stream, launched late; one whose stream was asked to wait earlier
    two, three = np.array([0, 1]), np.array([0, 0, 1])
    begun, ended = np.array([9000, 0]), np.array([10_000, 1000])
    made.append(
        (Rank(ops=two, stream=two, begun=begun, ended=ended, calls=calls_of(), low=0), np.array([-1, -1]))
    )
    begun, ended = np.array([3000, 12_000, 4000]), np.array([4000, 13_000, 11_000])
    for at in (1000, 4000):
        api = calls_of((1, HOLD, at, at + 10), *[(1, LAUNCH, one, one + 1000) for one in (2000, 5000, 3000)])
        one = Rank(ops=three, stream=three, begun=begun, ended=ended, calls=api, low=0)
        made.append((one, np.array([1, 2, 3])))
    nothing = np.zeros(0, np.int64)
    made.append(
        (Rank(ops=nothing, stream=nothing, begun=nothing, ended=nothing, calls=calls_of(), low=0), nothing)
    )
    return made


def ranks(count: int, seed: int) -> Iterator[tuple[np.random.Generator, dict[str, Any]]]:
    """Some with operations: by_end, ends, begun, ended."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        number = int(rng.integers(0, 6))
        begun = rng.integers(0, 20, number) * 10
        ended = begun + rng.integers(0, 5, number) * 10
        by_end = np.argsort(ended, kind="stable")
        yield (
            rng,
            {"begun": begun, "ended": ended, "by_end": by_end, "ends": ended[by_end], "low": 20, "high": 170},
        )


def waited(self: Rank, calls: pd.DataFrame) -> list[list[int]]:
    found = []
    for row in calls.itertuples():
        done = int(self.ended[row.target]) if row.target >= 0 else NEVER
        if row.start_ns < done <= row.end_ns:
            found.append((row.end_ns, row.start_ns, row.target))
    found.sort(key=lambda one: one[0])
    return [[one[place] for one in found] for place in range(3)]


def waiting() -> Inputs:
    made = []
    for rng, columns in ranks(25, 13):
        start = rng.integers(0, 20, 6) * 10
        table = pd.DataFrame({"start_ns": start, "end_ns": start + rng.integers(0, 9, 6) * 10})
        target = rng.integers(-1, max(len(columns["ended"]), 1), 6) if len(columns["ended"]) else -1
        made.append((Rank(**columns), table.assign(target=target)))
    return made


def as_columns(function: Callable[..., Any], *given: Any) -> list[list[int]]:
    return [column.tolist() for column in function(*given)]


def done_by(self: Rank, times: Any) -> list[int]:
    return Rank._done_by(self, times).tolist()  # type: ignore[no-any-return]


def times() -> Inputs:
    return [(Rank(**columns), np.arange(0, 260, 10)) for _, columns in ranks(8, 31)]


def handed(self: Rank, tid: int) -> list[list[int]]:
    starts, ends = (column.tolist() for column in self.busy[tid])
    gaps = [(low, high) for low, high in zip(ends[:-1], starts[1:], strict=True) if high - low >= 20_000]
    if starts:
        gaps.insert(0, (self.low, max(starts[0], self.low)))
    found = []
    for low, high in gaps:
        best = (NEVER, -1)
        for other, (begins, stops) in self.busy.items():
            if other == tid:
                continue
            pairs = list(zip(begins.tolist(), stops.tolist(), strict=True))
            worked = sum(max(min(stop, high) - max(begin, low), 0) for begin, stop in pairs)
            done = max((stop for _, stop in pairs if stop <= high), default=NEVER)
            if pairs and 2 * worked >= high - low and done > max(low, best[0]):
                best = done, other
        if best[1] >= 0:
            found.append((high, *best))
    return [[one[place] for one in found] for place in range(3)]


def handing() -> Inputs:
    rng = np.random.default_rng(17)
    made: Inputs = []
    busy = {
        1: (np.array([0, 29_999]), np.array([10_000, 40_000])),
        2: (np.array([10_000]), np.array([29_000])),
    }
    made.append((Rank(busy=busy, low=0), 1))
    for _ in range(40):
        busy = {}
        for tid in (1, 0, 3):
            edges = np.sort(rng.choice(40, 2 * int(rng.integers(0, 5)), replace=False)) * 5_000
            busy[tid] = edges[::2], edges[1::2]
        made.append((Rank(busy=busy, low=int(rng.choice([0, 30_000]))), 1))
    return made


def along(self: Rank, tid: int, at: int) -> tuple[Any, ...]:
    stop, op, to = self.low, -1, -1
    waits = list(zip(*map(np.ndarray.tolist, self.waits[tid]), strict=True)) if tid in self.waits else []
    done = [one for one in waits if one[0] <= at]
    if done:
        op = done[-1][2]
        stop = int(self.ended[op])
    if len(done) < len(waits) and waits[len(done)][1] < at:
        inner = Rank._done_by(self, np.array([at - 1])).tolist()[0]
        if inner >= 0 and self.ended[inner] > max(waits[len(done)][1], stop):
            stop, op = int(self.ended[inner]), inner
    gone = list(zip(*map(np.ndarray.tolist, self.handed[tid]), strict=True)) if tid in self.handed else []
    before = [one for one in gone if one[0] <= at]
    if before and stop < before[-1][1] < at:
        stop, op, to = before[-1][1], -1, before[-1][2]
    if stop >= at:
        stop, op, to = self.low, -1, -1
    stop = max(stop, self.low)
    return (stop, at, tid, -1, -1), op, to if to >= 0 else tid, stop


def told_along(function: Callable[..., Any], *given: Any) -> tuple[Any, ...]:
    leg, *rest = function(*given)
    return (leg.start, leg.end, leg.tid, leg.op, leg.kind), *rest


def threads() -> Inputs:
    ended = np.array([40, 65, 100])
    self = Rank(ended=ended, by_end=np.arange(3), ends=ended, low=20)
    self.waits = {2: (np.array([50, 90, 130]), np.array([30, 60, 120]), np.arange(3))}
    made: Inputs = []
    for done, at in ((10, 45), (10, 66), (70, 70), (67, 70)):  # within a call that waits; handed on at once
        made.append(
            (Rank(**vars(self), handed={2: (np.array([70]), np.array([done]), np.array([0]))}), 2, at)
        )
    for rng, columns in ranks(60, 19):
        end = np.sort(rng.integers(2, 20, 3)) * 10
        start = end - rng.integers(0, 12, 3) * 10
        many = len(columns["ended"])
        waits = {2: (end, start, rng.integers(0, many, 3))} if many and rng.random() < 0.9 else {}
        on = np.sort(rng.integers(2, 20, 2)) * 10
        hands = (
            {2: (on, on - rng.integers(0, 4, 2) * 10, rng.integers(0, 9, 2))} if rng.random() < 0.4 else {}
        )
        self = Rank(**{**columns, "low": int(rng.choice([-1000, 20, 60]))}, waits=waits, handed=hands)
        made += [(self, 2, int(at)) for at in rng.integers(2, 20, 4) * 10]
    return made


def latest(self: Rank) -> tuple[int, int, int]:
    op, at, tid = -1, self.low, -1
    inside = [k for k in range(len(self.begun)) if self.begun[k] < self.high]
    if inside:
        op = max(inside, key=lambda k: min(self.ended[k], self.high))
        at = int(min(self.ended[op], self.high))
    for table in (self.calls, self.tables["ops"], self.tables["annotations"]):
        rows = [one for one in table.itertuples() if one.start_ns < self.high and one.tid not in self.pollers]
        best = max(rows, key=lambda one: min(one.end_ns, self.high), default=None)
        if best is not None and min(best.end_ns, self.high) >= at:
            op, tid, at = -1, int(best.tid), int(min(best.end_ns, self.high))
    return op, tid, at


class Tables(Rank):
    """The same, with tables of its rank."""

    def _of(self, name: str) -> pd.DataFrame:
        return self.tables[name]  # type: ignore[no-any-return]


def lasts() -> Inputs:
    made = []
    for rng, columns in ranks(50, 23):

        def table(most: int, rng: np.random.Generator = rng) -> pd.DataFrame:
            start = rng.integers(0, 20, int(rng.integers(0, most))) * 10
            return calls_of(
                *[
                    (int(rng.integers(1, 4)), OTHER, int(at), int(at + 10 * rng.integers(0, 5)))
                    for at in start
                ]
            )

        tables = {"ops": table(3), "annotations": table(3)}
        pollers = frozenset([3]) if rng.random() < 0.6 else frozenset()
        high = int(rng.choice([60, 120, 170, 300]))
        made.append((Tables(**{**columns, "high": high}, calls=table(5), tables=tables, pollers=pollers),))
    return made


class Walk(Rank):
    """The same, with a walk along threads that goes by a table."""

    def _last(self) -> tuple[int, int, int]:
        return self.begins  # type: ignore[no-any-return]

    def _thread(self, tid: int, at: int) -> tuple[Any, int, int, int]:
        stop = max(at - 15, self.low)
        op = next((k for k in self.by_end.tolist()[::-1] if self.ended[k] <= stop), -1)
        if op >= 0 and tid % 2:
            stop = max(int(self.ended[op]), self.low)
        else:
            op = -1
        return critical_path._Leg(stop, at, tid), op, tid + 1, stop


def walked(self: Walk) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    op, tid, at = self._last()
    while at > self.low:
        if op < 0:
            leg, op, tid, at = self._thread(tid, at)
            found.append((leg.start, leg.end, leg.tid, leg.op, leg.kind))
            continue
        head = int(self.head[op])
        begun = min(int(self.begun[head]), at)
        found.append((max(begun, self.low), at, -1, op, -1))
        if self.launched[head]:
            at = min(int(self.made[head]), begun)
            found.append((max(at, self.low), begun, -1, head, critical_path._LATENCY))
            op, tid = -1, int(self.via[head])
        elif self.other[head] >= 0:
            op = int(self.other[head])
            at = int(self.ended[op])
            found.append((max(at, self.low), begun, -1, head, critical_path._GAP))
        else:
            break
    return found


def told_legs(function: Callable[..., Any], *given: Any) -> list[tuple[int, ...]]:
    found = []
    for leg in function(*given):
        found.append((leg.start, leg.end, leg.tid, leg.op, leg.kind))
        assert len(found) < 200, "it does not end"
    return found


def walks() -> Inputs:
    made = []
    for rng, columns in ranks(60, 29):
        order = np.argsort(columns["begun"], kind="stable")
        begun, ended = columns["begun"][order], columns["ended"][order]
        by_end = np.argsort(ended, kind="stable")
        many = len(begun)
        launched = rng.random(many) < 0.5
        later = [
            [j for j in range(many) if ended[j] <= begun[k] and begun[j] < begun[k]] for k in range(many)
        ]
        other = np.array(
            [int(rng.choice(one)) if one and rng.random() < 0.8 else -1 for one in later], np.int64
        )
        head = np.array(
            [k if launched[k] or other[k] >= 0 else int(rng.integers(0, k + 1)) for k in range(many)],
            np.int64,
        )
        op = int(rng.integers(-1, many))
        self = Walk(
            **{**columns, "begun": begun, "ended": ended, "by_end": by_end, "ends": ended[by_end]},
            launched=launched, other=other, head=head, via=rng.integers(1, 5, many),
            made=begun - rng.integers(-1, 9, many) * 10,
            begins=(op, 1 if op < 0 else -1, int(ended[op]) if op >= 0 and rng.random() < 0.8 else 150),
        )  # fmt: skip
        made.append((self,))
    return made
