"""Analyses against plain loops that say the same, on inputs at their boundaries; no mutant of one agrees.

A mutant is a change of one place of a function (`tests.exercises.mutants`), or of a constant that it reads.
Each has to differ from the loops on some input; what cannot is named in `EQUIVALENT`, with the reason.
"""

import __future__

import ast
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labcode.analysis.ledger import ledger, lines, replay, steady
from labcode.analysis.ledger.lines import NOWHERE, Place
from labcode.analysis.ledger.replay import Program
from labcode.analysis.ledger.view import CODE, OWNERS
from labcode.analysis.lm import parts
from labcode.analysis.timeline import critical_path, iterations, overlap
from tests.analysis import pieces, walks
from tests.exercises import mutants

Inputs = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Subject:
    """A function, what says the same, the inputs that both get; constants with values they may not have."""

    module: ModuleType
    name: str
    plainly: Callable[..., Any]
    inputs: Callable[[], Inputs]
    constants: tuple[tuple[str, Any], ...] = ()
    told: Callable[..., Any] = lambda function, *given: function(*given)  # what of an answer is compared


# ---- iterations: the period of a sequence, warm-up, floating-point operations


def period(codes: Sequence[int]) -> int:
    """Each distance that is likely is looked at by itself."""
    count, likeness = len(codes), {}
    for length in iterations._distances(np.array(codes, np.int64)).tolist():
        if not 1 <= length <= count // 2:
            continue
        begin = max(min(count // 2, count - 2 * length), 0)
        pairs = [codes[i] == codes[i + length] for i in range(begin, count - length)]
        if len(pairs) >= (16 if count < 3 * length else 3):
            likeness[length] = sum(pairs) / len(pairs)
    most = max(likeness.values(), default=0.0)
    if most < 0.8 or likeness.get(1, 0.0) >= most - 0.03:
        return 0
    return min(length for length, like in likeness.items() if like >= most - 0.03)


def sequences() -> Inputs:
    rng = np.random.default_rng(3)
    made = [[1], [1, 1, 1, 1], [*range(6)] * 2, [*range(15)] * 2, [*range(16)] * 2, [*range(17)] * 2]
    made += [[*range(n)] * 3 for n in (1, 2, 3, 4, 5)] + [([*range(4)] * 3)[:-1], ([*range(20)] * 3)[1:]]
    made += [[9, 8, 7, 6, 5, *[0, 1, 2] * 5], [0, 1, 0, 2] * 8, [*[0] * 9, 1] * 6, [*[0] * 40, 1] * 3]
    for every in (4, 5, 6, 9):  # one of so many is another
        base = [0, 1, 2, 3, 4] * 12
        made.append([50 + i if i % every == 0 else code for i, code in enumerate(base)])
    for length in (3, 7, 20, 33):  # a short pattern within a longer one
        inner = [0, 1, 2] * length
        made += [[*inner, 77] * 4, [*inner, 77, 78, 79] * 3]
    for length, times in ((6, 4), (9, 5), (17, 2), (18, 2), (31, 3)):
        one = rng.integers(0, 5, length).tolist()
        made += [one * times, [*rng.integers(0, 5, 7).tolist(), *one * times], (one * times)[length // 2 :]]
        two = one * times
        two[-2] = 99
        made.append(two)
    made += [[1] * 12, [*[0] * 80, 1] * 4, [*range(34), *range(16)], [*range(33), *range(17)]]
    # exactly as much less alike as says nothing: 3 of 100 pairs
    made += [[int(i % 60 == 40) for i in range(201)], [9 if i % 60 == 42 else i % 3 for i in range(205)]]
    made += [[99 + i if i % 9 in (1, 5) and i > 50 else i % 9 for i in range(90)]]
    made += [[99 + i if i % 16 in (1, 9) else i % 4 for i in range(96)]]
    return [(np.array(codes, np.int64),) for codes in made]


def warming_up(spent: Sequence[int]) -> int:
    half = len(spent) // 2
    later = sorted(spent[half:])
    usual = float(np.median(later))
    allowed = max(0.1 * usual, 5 * float(np.median([abs(one - usual) for one in later])))
    leading = 0
    while leading < half and abs(spent[leading] - usual) > allowed:
        leading += 1
    pauses = [place + 1 for place in range(half) if spent[place] > sum(spent[place + 1 :])]
    return max([leading, *pauses]) if len(later) >= 16 else leading


def spans_of_iterations() -> Inputs:
    made = [
        [100],
        [100, 100],
        [200, 100],
        [110, 100, 100, 100],
        [111, 100, 100, 100],
        [89, 100, 100, 100],
        [90, 100, 100, 100],
        [300, 200, 100, 100, 100, 100],
        [300, 100, 200, 100, 100, 100, 100],
        *([100] * 3 + [pause] + [100] * 30 for pause in (2999, 3000, 3001, 5000)),
        *([100, 5000] + [100] * many for many in (28, 29, 30)),
        [100, 9000, 100, 5000] + [100] * 30,
        [300, 300, 300, 100, 9000] + [100] * 40,
        [9000, 300, 300, 100] + [100] * 40,
        [300, 200, 150, 100, 100, 100],
        [500, 400, 300, 200, 100],
        [120, 100, 104, 100, 96, 104, 96, 100],
        [121, 100, 104, 100, 96, 104, 96, 100],
        [119, 121, 120, 100, 104, 96, 104, 96],
        [140, 130, 90, 100, 110, 108, 92, 100, 400],
        [300, 300, 300, 300, 100, 102, 104, 106],
        [1000, 10, 10, 1000, 10, 10, 10, 10],
        [160, 160, 160, 160, 100, 100, 100, 100, 400],
        [122, 122, 122, 122, 96, 104, 96, 104],
        [120, 120, 120, 120, 100, 100, 100, 100, 140],
        [200, 200, 200, 300, 100, 100, 100],
    ]
    return [(np.array(one, np.int64),) for one in made]


FLOPS = {
    ("aten::mm", ((2, 3), (3, 5))): 2 * 2 * 3 * 5,
    ("aten::addmm", ((5,), (2, 3), (3, 5))): 2 * 2 * 3 * 5,
    ("aten::bmm", ((7, 2, 3), (7, 3, 5))): 2 * 7 * 2 * 3 * 5,
    ("aten::baddbmm", ((1, 1, 5), (7, 2, 3), (7, 3, 5))): 2 * 7 * 2 * 3 * 5,
    ("aten::addmm", ((1,), (2, 3), (3, 5))): 2 * 2 * 3 * 5,
    ("aten::mm", ((2, 3),)): 0,
    ("aten::cat", ((2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 8))): 0,
    ("aten::addmm", ((5,), (2, 3))): 0,
    ("aten::mm", ((), (3, 5))): 0,
    ("aten::mm", ((2, 3), ())): 0,
    ("aten::mm", ()): 0,
    ("aten::add", ((2, 3), (2, 3))): 0,
    # queries 2 × 4 × 6 × 8, keys of 10 positions: two matmuls of 6 × 10 × 8 for each of 2 × 4
    ("aten::_flash_attention", ((2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 8))): 4 * 2 * 4 * 6 * 8 * 10,
    ("aten::_scaled_dot_product_flash_attention", ((2, 4, 6, 8), (2, 4, 10, 8), (1,))): 4
    * 2
    * 4
    * 6
    * 8
    * 10,
    ("aten::_efficient_attention_forward", ((2, 4, 6, 8), (2, 4, 10, 8), (1,))): 4 * 2 * 4 * 6 * 8 * 10,
    # backward: the gradient comes first; five matmuls, four of them counted
    ("aten::_flash_attention_backward", ((9, 9, 9, 9), (2, 4, 6, 8), (2, 4, 10, 8))): 8 * 2 * 4 * 6 * 8 * 10,
    ("aten::_flash_attention", ((2, 4, 6, 8), (2, 4, 10, 8))): 0,
    ("aten::_flash_attention", ((2, 6, 8), (2, 4, 10, 8), (1,))): 0,
    ("aten::_flash_attention", ((2, 4, 6, 8), (2, 10, 8), (1,))): 0,
    ("aten::_flash_attention", ((2, 6, 8), (2, 10, 8), (1,))): 0,
}


def flops(op: str, sizes: list[list[int]]) -> float:
    return float(FLOPS[op, tuple(map(tuple, sizes))])


# ---- what is innermost


def innermost_at(starts: Any, ends: Any) -> tuple[list[int], list[int]]:
    """At each moment at which something begins or ends: which event is innermost from then on, or -1."""
    events = [
        (b, e, row) for row, (b, e) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)) if b < e
    ]
    times = sorted({time for begin, end, _ in events for time in (begin, end)})
    found = []
    for time in times:
        open_ = [(begin, -end, row) for begin, end, row in events if begin <= time < end]
        found.append(max(open_, default=(0, 0, -1))[2])
    return times, found


def nests() -> Inputs:
    big = 1 << 61
    made = [
        [],
        [(0, 9)],
        [(0, 9), (2, 5)],
        [(2, 5), (0, 9)],
        [(0, 9), (0, 9)],
        [(0, 9), (0, 4), (4, 9)],
        [(0, 9), (2, 9), (3, 9), (3, 4)],
        [(0, 4), (6, 9)],
        [(0, 4), (4, 9), (9, 9)],
        [(0, 9), (3, 3)],
        [(5, 5)],
        [(0, 20), (1, 10), (2, 9), (3, 8), (11, 19), (12, 12), (13, 18)],
        [(-30, -3), (-20, -4), (-20, -10)],
        [(0, big), (1, big - 1), (2, big - 2), (5, big - 2), (6, 9)],
        [(-big, big), (-big, 7), (0, 7), (0, 3)],
    ]
    made += [[(0, 3 << 60)], [(i << 58, (20 - i) << 58) for i in range(9)]]
    pairs = [np.array(one, np.int64).reshape(-1, 2) for one in made]
    return [(one[:, 0], one[:, 1]) for one in pairs]


def range_of_launch(ranges: pd.DataFrame, api: pd.DataFrame, rows: Any) -> list[int]:
    """Call by call: the innermost range of its own thread; of a thread without ranges that of another one."""
    found = []
    for row in rows.tolist():
        best = -1
        if row >= 0:
            call = api.iloc[row]
            around = [
                (range_.start_ns, -range_.end_ns, place, range_.tid)
                for place, range_ in enumerate(ranges.itertuples())
                if range_.pid == call["pid"] and range_.start_ns <= call["start_ns"] < range_.end_ns
            ]
            threads = set(zip(ranges["pid"], ranges["tid"], strict=True))
            own = [one for one in around if one[3] == call["tid"]]
            if own:
                best = max(own)[2]
            elif (call["pid"], call["tid"]) not in threads and around:
                first = min(one[3] for one in around)  # threads in the order of their numbers
                best = max(one for one in around if one[3] == first)[2]
        found.append(best)
    return found


def launches() -> Inputs:
    columns = ["start_ns", "end_ns", "pid", "tid"]
    rows = [(0, 50, 1, 1), (10, 20, 1, 1), (10, 15, 1, 1), (30, 90, 1, 2), (40, 45, 1, 2), (60, 60, 1, 3)]
    ranges = pd.DataFrame([*rows, (0, 99, 2, 1)], columns=columns)
    threads = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 9), (3, 1))
    moments = (12, -1, 0, 9, 10, 14, 15, 20, 29, 30, 40, 44, 45, 49, 50, 60, 89, 90, 99)
    api = pd.DataFrame([(at, at + 1, *thread) for thread in threads for at in moments], columns=columns)
    asked = np.append(np.arange(len(api)), [-1, 5, 5, -1])
    some = [(ranges, one) for one in (asked, asked[:1], asked[-1:], asked[:0])]
    some += [(ranges.iloc[:1], asked), (ranges.iloc[:0], asked)]
    return [(around, api, one) for around, one in some]


# ---- the ledger


def usual_ones(kernels: Any) -> list[bool]:
    if len(kernels) < 3:
        return [True] * len(kernels)
    kinds: list[list[int]] = []
    for one in sorted(kernels.tolist()):
        if kinds and one - kinds[-1][-1] <= 0.25 * one:
            kinds[-1].append(one)
        else:
            kinds.append([one])
    most = max(kinds, key=len)
    return [one in most for one in kernels.tolist()]


def kernel_counts() -> Inputs:
    made = [[], [5], [5, 900], [5, 5, 900], [10, 11, 12, 12], [100, 125, 126, 75, 74, 100], [0, 0, 1, 0]]
    made += [[20, 18, 22, 50, 50, 23, 17], [200, 30, 30, 30, 33, 27, 34], [7, 8, 9], [9, 30, 60, 61, 5]]
    made += [[100, 140, 140], [100, 100, 140], [75, 100, 75], [76, 100, 76, 100], [60, 60, 80, 100, 120]]
    made += [[7] * 999 + [90] * 1300, [30, 35, 40, 50, 60, 70, 90, 200, 200]]
    return [(np.array(one, np.int64),) for one in made]


def longest_stretch(usual: Any) -> list[bool]:
    best: tuple[int, int, int] = (0, 0, -1)
    places = [place for place, one in enumerate(usual.tolist()) if one]
    stretch: list[int] = []
    for place in places:
        stretch = [*stretch, place] if stretch and place - stretch[-1] <= steady.BREAK else [place]
        if len(stretch) > best[0]:
            best = len(stretch), stretch[0], stretch[-1]
    return [best[1] <= place <= best[2] for place in range(len(usual))]


def stretches() -> Inputs:
    gap = "0" * steady.BREAK
    made = ["", "0", "1", "000", "111", "0110", "1101", f"1{gap[1:]}1", f"1{gap}1", f"{gap}1"]
    made += [f"{one}{gap}{other}" for one, other in (("11", "11"), ("11", "111"), ("111", "11"))]
    return [(np.array([one == "1" for one in text], np.bool_),) for text in made]


def together(places: Sequence[Place], weight: Any, part_of: Any = None) -> list[tuple[Place, float]]:
    functions: dict[tuple[str, str, int], dict[Place, float]] = {}
    for place, one in zip(places, weight.tolist(), strict=True):
        part = part_of(place.function, place.file, place.line) if part_of else place.line
        mine = functions.setdefault((place.function, place.file, part), {})
        mine[place] = mine.get(place, 0.0) + one
    whole = max(sum(sum(mine.values()) for mine in functions.values()), 1e-9)
    ordered = sorted(functions.values(), key=lambda mine: -sum(mine.values()))
    return [(max(mine, key=lambda one: mine[one]), sum(mine.values()) / whole) for mine in ordered]


A, B, C, D = Place("f", "a.py", 1), Place("f", "a.py", 2), Place("g", "a.py", 3), Place("f", "b.py", 4)
E = Place("f", "b.py", 9)


def weighed() -> Inputs:
    made: list[tuple[list[Place], list[float]]] = [
        ([], []),
        ([A], [4.0]),
        ([A, B, C], [1.0, 2.0, 2.5]),
        ([C, B, A, A], [2.5, 2.0, 1.5, 1.0]),
        ([A, B, C, D, C], [1.0, 1.0, 0.5, 4.0, 0.25]),
        ([NOWHERE, A], [0.0, 0.0]),
        ([A, C], [0.25, 0.5]),
    ]
    head = ("f", "b.py", 4)
    some = ([A, B, C, D, E, A, B], np.array([1.0, 2.0, 0.5, 4.0, 3.0, 0.5, 0.25]))
    return [(places, np.array(weight)) for places, weight in made] + [
        (*some, part_of) for part_of in (lambda *place: place == head, lambda *_: 0)
    ]


Frames = list[tuple[str, str, int]]


def shared_frames(one: Frames, other: Frames) -> Frames:
    found = []
    for mine, theirs in zip(one, other, strict=False):
        if (mine[0], mine[1]) != (theirs[0], theirs[1]):
            return found
        found.append(mine)
        if mine[2] != theirs[2]:
            return found
    return found


def stacks() -> Inputs:
    main, loop, step = ("main", "a.py", 9), ("loop", "a.py", 4), ("step", "b.py", 2)
    later, same = ("loop", "a.py", 5), ("main", "b.py", 9)
    return [
        ([], []),
        ([main], []),
        ([main, loop, step], [main, loop, step]),
        ([main, loop, step], [main, later, step]),
        ([main, loop], [main, step, loop]),
        ([main, loop, step], [main, loop]),
        ([main, step], [same, step]),
    ]


def program() -> Program:
    """Four calls with 1, 0, 3 and 1 operations; the third launches a graph, the last copies."""
    floats, ints = (lambda *given: np.array(given, np.float64)), (lambda *given: np.array(given, np.int64))
    return Program(
        gap=floats(10, 200, 12, 14), spent=floats(5, 90_000, 8, 7_000), waits=ints(0, 2, 1, 3),
        target=ints(0, 4, 0, 0), tail=floats(0, 3, 2, 1), row=ints(7, 8, 9, 11), first=ints(0, 1, 1, 4),
        last=ints(1, 1, 4, 5), made=floats(2, 3, 4, 5, 6_000), latency=floats(20, 30, 3, 50, 9),
        length=floats(100, 200, 300, 400, 500), stream=ints(0, 0, 1, 1, 2), after=ints(-1, 4, 0, -1, 2),
        op=ints(3, 4, 5, 6, 9), due=floats(-1, 30, -1, 40), count=2, period=50.0,
    )  # fmt: skip


def as_lists(given: Program) -> dict[str, Any]:
    return {one.name: np.asarray(getattr(given, one.name)).tolist() for one in fields(given)}


CALL_OF = [0, 2, 2, 2, 3]


def calls_of(_: Program) -> list[int]:
    return CALL_OF


def no_code(given: Program, some: Any, keep: float = 0.0) -> dict[str, Any]:
    found = as_lists(given)
    for call in np.flatnonzero(some).tolist():
        found["gap"][call] *= keep
        found["due"][call] = -1.0
    return found


def no_calls(given: Program, some: Any, keep: float = 0.0) -> dict[str, Any]:
    found = as_lists(given)
    for call in np.flatnonzero(some).tolist():
        found["spent"][call] *= keep
        found["waits"][call] *= bool(keep)
    return found


def no_waits(given: Program, some: Any) -> dict[str, Any]:
    found = as_lists(given)
    found["waits"] = [0 if out else how for how, out in zip(found["waits"], some.tolist(), strict=True)]
    return found


def cheap_launches(given: Program, some: Any, factor: float, latency_ns: float) -> dict[str, Any]:
    found = as_lists(given)
    for call in np.flatnonzero(some).tolist():
        found["gap"][call] *= factor
        found["spent"][call] *= factor
        for op in range(found["first"][call], found["last"][call]):
            found["latency"][op] = min(found["latency"][op], latency_ns)
    return found


def unblocked(given: Program, ops: Any) -> dict[str, Any]:
    found = as_lists(given)
    for call in range(4):
        waited = found["waits"][call] == 2 and bool(ops[found["target"][call]])
        if waited or any(ops[op] and CALL_OF[op] == call for op in range(5)):
            found["spent"][call] = min(found["spent"][call], 5_000.0)
        found["waits"][call] = 0 if waited else found["waits"][call]
    found["made"] = [min(one, 5_000.0) if some else one for one, some in zip(found["made"], ops, strict=True)]
    return found


def apart(given: Program, ops: Any) -> dict[str, Any]:
    found = unblocked(given, ops)
    for op, some in enumerate(ops.tolist()):
        waited_for = given.after[op] >= 0 and bool(ops[given.after[op]])
        found["stream"][op] = int(max(given.stream)) + 1 if some else found["stream"][op]
        found["latency"][op] = 0.0 if some else found["latency"][op]
        found["after"][op] = -1 if some or waited_for else found["after"][op]
    return found


def unlaunched(given: Program, ops: Any) -> dict[str, Any]:
    found = as_lists(given)
    usual = float(np.median([found["gap"][call] for call in (0, 2, 3)]))
    for call in (0, 2, 3):
        if all(ops[op] for op in range(5) if CALL_OF[op] == call):
            found["spent"][call] = 0.0
            found["gap"][call] = 0.0 if found["gap"][call] <= 10 * usual else found["gap"][call]
    for op, some in enumerate(ops.tolist()):
        found["length"][op] = 0.0 if some else found["length"][op]
        found["latency"][op] = 0.0 if some else found["latency"][op]
    return found


def masks(count: int) -> list[Any]:
    return [np.array([bool(number >> bit & 1) for bit in range(count)]) for number in range(1 << count)]


def one_stream() -> list[Program]:
    return [program(), program().change(stream=np.zeros(5, np.int64))]


def a_long_gap() -> list[Program]:
    one = program()
    return [one, *(one.change(gap=np.array(gap, np.float64)) for gap in ([10, 1, 120, 12], [1, 9, 101, 10]))]


def book() -> "ledger.Ledger":
    """Two iterations of 100 ns, with 20 ns between them that are of none."""
    rows = [(0, 30, "matmul"), (30, 40, "launch"), (40, 70, "matmul"), (70, 100, "communication")]
    rows += [(100, 120, "sync"), (120, 125, "copy-in"), (125, 160, "matmul"), (160, 220, "launch")]
    pieces = pd.DataFrame(
        {
            "start_ns": [one[0] for one in rows],
            "end_ns": [one[1] for one in rows],
            "owner": [CODE[one[2]] for one in rows],
            "place": [NOWHERE] * len(rows),
            "range": "",
        }
    )
    return ledger.Ledger(0, 1, (0, 220), (np.array([0, 120]), np.array([100, 220])), pieces)


def short_book(rows: int) -> "ledger.Ledger":
    """An iteration of one ns."""
    columns = {"start_ns": [0], "end_ns": [1], "owner": [CODE["matmul"]], "place": [NOWHERE], "range": [""]}
    pieces = pd.DataFrame(columns).iloc[:rows]
    return ledger.Ledger(0, 1, (0, 1), (np.array([0]), np.array([1])), pieces)


SIDES = {one.id: one.side for one in OWNERS}


TYPES = ["str", "str", "str", "int64", *["float64"] * 4]


def shares(given: "ledger.Ledger") -> tuple[list[str], dict[str, Any]]:
    if given.window == (0, 1):
        return TYPES, {"matmul": (1.0,) * 5} if len(given.pieces) else {}
    total = {"matmul": 95, "communication": 30, "copy-in": 5, "launch": 70}
    low_high = {"matmul": (37.5, 57.5), "communication": (3, 27), "copy-in": (0.5, 4.5), "launch": (15, 55)}
    each = {name: (ns, ns / 2, ns / 200, *low_high[name]) for name, ns in total.items()}
    return TYPES, {name: each[name] for name in sorted(each, key=lambda one: CODE[one])}


def told_shares(table: pd.DataFrame) -> tuple[list[str], dict[str, Any]]:
    columns = ["total_ns", "each_ns", "share", "low_ns", "high_ns"]
    found = {row["owner"]: tuple(float(row[one]) for one in columns) for _, row in table.iterrows()}
    return [str(one) for one in table.dtypes], found


def of_each(_: Any, *owners: str) -> float:
    each = {"matmul": 47.5, "communication": 15, "copy-in": 2.5, "launch": 35}
    return float(sum(each.get(one, 0) for one in owners))


def of_side(self: Any, side: str) -> float:
    return of_each(self, *[one for one in SIDES if SIDES[one] == side])


# ---- collectives in which GPUs wait for each other

RING, RING_2 = "ncclDevKernel_AllReduce_Sum", "ncclDevKernel_AllReduce_Max"
ROOT = "ncclDevKernel_Broadcast"


def met(ops: pd.DataFrame, launched: Any) -> tuple[list[list[tuple[int, ...]]], str]:
    """Set by set: when the last came, who waited until then; and why there is nothing to be told."""
    talk = [
        (row.start_ns, row.end_ns, row.device, row.short_name, number)
        for number, row in enumerate(ops.itertuples())
        if row.kind == "kernel" and row.short_name in (RING, RING_2, ROOT)
    ]
    talk.sort(key=lambda one: one[0])

    def gpus(some: list[Any]) -> list[int]:
        return sorted({one[2] for one in some})

    def even(some: list[Any]) -> bool:
        counts = Counter((one[3], one[2]) for one in some)
        return all(len({counts[name, gpu] for gpu in gpus(some)}) == 1 for name in {one[3] for one in some})

    one_way = [one for one in talk if one[3] == ROOT]
    if not even(one_way) or len(gpus(one_way)) == 1:
        talk = [one for one in talk if one[3] != ROOT]
    if len(gpus(talk)) < 2:
        return [], "fewer than two GPUs"
    if not even(talk):
        talk = [one for one in talk if launched[one[4]] >= 0]
    if not even(talk) or len(gpus(talk)) < 2:
        return [], "the GPUs ran different numbers"
    sets: dict[tuple[str, int], list[Any]] = {}
    nth: Counter[tuple[str, int]] = Counter()
    for one in talk:
        sets.setdefault((one[3], nth[one[3], one[2]]), []).append(one)
        nth[one[3], one[2]] += 1
    together = [
        max(one[0] for one in each) < min(one[1] for one in each)
        for (name, _), each in sets.items()
        for _ in each
        if name != ROOT
    ]
    if not together or sum(together) / len(together) < 0.9:
        return [], f"only {100 * sum(together) / max(len(together), 1):.1f} % of"
    found = []
    for (name, _), each in sets.items():
        came, first = max(one[0] for one in each), min(one[0] for one in each)
        rows = []
        for start, end, device, _, number in each:
            until = start if name == ROOT and end < came else min(came, end)
            rows.append((number, device, start, end, until, int(start == came and first < start)))
        found.append(sorted(rows))
    return sorted(found), ""


def told_met(table: pd.DataFrame, why: str) -> tuple[list[list[tuple[int, ...]]], str]:
    columns = ["row", "device", "start_ns", "end_ns", "until_ns", "last"]
    sets: dict[Any, list[tuple[int, ...]]] = {}
    for number, *row in table[["set", *columns]].itertuples(index=False, name=None):
        sets.setdefault(number, []).append(tuple(map(int, row)))
    begins = ("fewer than two GPUs", "the GPUs ran different numbers", why.partition(" % of")[0] + " % of")
    return sorted(map(sorted, sets.values())), next(
        (one for one in begins if why and why.startswith(one)), ""
    )


def collectives() -> Inputs:
    def ops(*rows: tuple[int, int, int, str]) -> pd.DataFrame:
        columns = ["start_ns", "end_ns", "device", "short_name"]
        return pd.DataFrame([*rows, (0, 5, 0, "gemm")], columns=columns).assign(kind="kernel")

    pair = [(10, 50, 0, RING), (30, 50, 1, RING)]
    later = [(110, 150, 1, RING), (140, 150, 0, RING)]
    root = [(60, 70, 0, ROOT), (80, 95, 1, ROOT)]
    apart = [(200, 209, 0, RING), (210, 220, 1, RING)]
    three = [(10, 40, 0, RING), (15, 40, 1, RING), (20, 40, 2, RING)]
    tenth = [(300 + 20 * k, 310 + 20 * k, gpu, RING) for k in range(9) for gpu in (0, 1)]
    crossed = [(10, 90, 0, RING), (20, 90, 0, RING_2), (12, 90, 1, RING_2), (22, 90, 1, RING)]
    mixed = [later[1], *pair, later[0]]
    made = [ops(*one) for one in (mixed, pair + later + root, pair + root[:1], root, pair[:1], three)]
    made += [
        ops(*pair, *later, *apart),
        ops(*tenth, *apart),
        ops(*pair, (55, 58, 0, RING)),
        ops(),
        ops(*crossed),
    ]
    made += [ops(*pair, *root, (96, 99, 0, ROOT)), ops(*pair, (60, 70, 0, ROOT), (70, 95, 1, ROOT))]
    made += [
        ops(*[(20, 40, gpu, RING) for gpu in (0, 1)]),
        ops(*pair, (200, 210, 0, RING), (210, 220, 1, RING)),
    ]
    found = [(one, np.zeros(len(one), np.int64)) for one in made]
    for rows, left in ((made[8], [2]), (made[8], [1]), (made[8], [0, 1, 2]), (made[8], [0]), (made[0], [0])):
        launched = np.zeros(len(rows), np.int64)
        launched[left] = -1
        found.append((rows, launched))
    return found


SUBJECTS = {
    "the replay": Subject(
        replay,
        "Program.play",
        walks.played,
        walks.rounds,
        (("ROOM", 999), ("ROOM", 1001), ("ROUNDS", 2), ("OF_ITSELF_NS", 4_000), ("OF_ITSELF_NS", 6_000)),
    ),
    "owners of idle time": Subject(
        ledger, "_Idle.parts", walks.idle_parts, walks.idles, told=walks.told_parts
    ),
    "the place of stacks": Subject(lines, "place_of", walks.placed, walks.sampled),
    "threads that ask": Subject(
        critical_path,
        "pollers",
        walks.asking,
        walks.askers,
        (("POLLS", 0.4), ("POLLS", 0.6)),
        told=lambda function, *given: sorted(function(*given)),
    ),
    "waits by asking": Subject(
        critical_path,
        "polled_waits",
        walks.asked_long,
        walks.askings,
        (("POLLED", 2), ("POLLED", 4), ("POLLED_NS", 99_999), ("POLLED_NS", 100_001)),
        told=walks.told_waits,
    ),
    "what an operation waited for": Subject(
        critical_path,
        "_Rank._reasons",
        walks.reasons,
        walks.reasoned,
        (("UNASKED_NS", 4_999), ("UNASKED_NS", 6_000)),
        told=walks.told_reasons,
    ),
    "calls that waited": Subject(
        critical_path, "_Rank._waits", walks.waited, walks.waiting, told=walks.as_columns
    ),
    "what was done by a time": Subject(critical_path, "_Rank._done_by", walks.done_by, walks.times),
    "what set a thread going": Subject(
        critical_path,
        "_Rank._handed",
        walks.handed,
        walks.handing,
        (("ALONE_NS", 19_999), ("ALONE_NS", 20_001), ("HANDED", 0.4), ("HANDED", 0.6)),
        told=walks.as_columns,
    ),
    "back along a thread": Subject(
        critical_path, "_Rank._thread", walks.along, walks.threads, told=walks.told_along
    ),
    "where the walk begins": Subject(critical_path, "_Rank._last", walks.latest, walks.lasts),
    "the walk": Subject(critical_path, "_Rank._walk", walks.walked, walks.walks, told=walks.told_legs),
    "when a thread worked": Subject(
        critical_path, "_Rank._at_work", pieces.at_work, pieces.working, told=walks.as_columns
    ),
    "calls that may wait": Subject(
        critical_path,
        "_Rank._waiting",
        pieces.may_wait,
        pieces.may_waits,
        (("QUEUED_NS", 99_999), ("QUEUED_NS", 100_001)),
        told=pieces.rows_of,
    ),
    "pieces on a GPU": Subject(
        critical_path, "_Rank._on_gpu", pieces.on_gpu, pieces.runs, told=pieces.pieces_of
    ),
    "pieces on a thread": Subject(
        critical_path, "_Rank._cut", pieces.cut, pieces.cuts, told=pieces.pieces_of
    ),
    "shares of a path": Subject(
        critical_path, "_shares", pieces.shared_out, pieces.summed, told=pieces.told_shares
    ),
    "what speaks against a path": Subject(
        critical_path,
        "_contradictions",
        pieces.against,
        pieces.opposed,
        (("APART", 0.09), ("APART", 0.11)),
        told=pieces.told_against,
    ),
    "functions during stretches": Subject(lines, "_spread", pieces.spread, pieces.spreads),
    "functions of stretches": Subject(lines, "_of_functions", pieces.innermost_of, pieces.innermosts),
    "samples of a thread": Subject(lines, "Lines.samples", pieces.samples, pieces.sampled),
    "the loop": Subject(lines, "Lines._loop", pieces.loop, pieces.loops),
    "shares of paths": Subject(
        lines,
        "Lines._shares",
        pieces.weighed,
        pieces.weights,
        (("SOME", 0.09), ("SOME", 0.11)),
        told=pieces.told_weighed,
    ),
    "where a thread was": Subject(lines, "Lines.spread", pieces.over, pieces.overs),
    "where a thread launched": Subject(
        lines, "Lines.launched", pieces.nearest, pieces.calling, (("NEAR_NS", 299_999), ("NEAR_NS", 300_001))
    ),
    "calls that iterations repeat": Subject(
        lines, "Lines._folded", pieces.folded, pieces.repeats, (("FOLDED", 2),)
    ),
    "stacks like a pattern": Subject(lines, "Lines.naming", pieces.named, pieces.naming),
    "busy threads": Subject(
        lines, "Lines.busy_threads", pieces.busy, pieces.busies, (("STUCK", 0.84), ("STUCK", 0.96))
    ),
    "between stacks": Subject(lines, "Lines._of_stacks", pieces.between, pieces.stretches),
    "single pieces": Subject(
        critical_path, "_Rank._single", pieces.single, pieces.singles, told=pieces.rows_of
    ),
    "what threads did": Subject(
        critical_path, "_Rank._events", pieces.happenings, pieces.happened, told=pieces.rows_of
    ),
    "pieces on all threads": Subject(
        critical_path, "_Rank._on_cpu", pieces.on_cpu, pieces.threaded, told=pieces.told_on_cpu
    ),
    "stacks that are read": Subject(
        lines, "Lines._stacks", pieces.read, pieces.reports, told=pieces.told_read
    ),
    "functions that are read": Subject(
        lines, "Lines._functions", pieces.listed, pieces.traces, told=pieces.told_listed
    ),
    "places of stretches": Subject(
        lines, "Lines._between", pieces.among, pieces.stretches_of_threads, told=pieces.told_among
    ),
    "the loop of a thread": Subject(
        lines, "Lines.loop_of", pieces.loop_known, pieces.threads_with_loops, told=pieces.told_loop
    ),
    "who holds the loop": Subject(lines, "Lines.holds_loop", pieces.holds, pieces.held),
    "methods of one name": Subject(
        lines, "Lines._parted", pieces.parted, pieces.methods, told=pieces.told_parted
    ),
    "which of one name": Subject(lines, "Lines.part_of", pieces.part, pieces.parts_asked),
    "collectives that wait": Subject(
        overlap,
        "waits",
        met,
        collectives,
        (("TOGETHER", 0.95), ("TOGETHER", 0.5)),
    ),
    "period": Subject(
        iterations,
        "_period",
        lambda codes: period(codes.tolist()),
        sequences,
        (("EVIDENCE", 15), ("EVIDENCE", 17), ("FEWEST", 2), ("FEWEST", 4), ("ALIKE", 0.7), ("ALIKE", 0.9)),
    ),
    "warming up": Subject(
        iterations,
        "_warming_up",
        lambda spent: warming_up(spent.tolist()),
        spans_of_iterations,
        (("WARM", 0.09), ("WARM", 0.12)),
    ),
    "flops": Subject(
        iterations, "_flops", flops, lambda: [(op, [list(one) for one in sizes]) for op, sizes in FLOPS]
    ),
    "innermost of a thread": Subject(critical_path, "_innermost", innermost_at, nests),
    "innermost of a launch": Subject(parts, "_innermost", range_of_launch, launches),
    "usual iterations": Subject(
        steady, "alike", usual_ones, kernel_counts, (("ALIKE_OPS", 0.2), ("ALIKE_OPS", 0.3))
    ),
    "the longest stretch": Subject(steady, "_longest", longest_stretch, stretches),
    "places together": Subject(lines, "_together", together, weighed),
    "frames in common": Subject(lines, "_common", shared_frames, stacks),
    "calls of operations": Subject(replay, "call_of", calls_of, lambda: [(program(),)]),
    "without code": Subject(
        replay,
        "without_code",
        no_code,
        lambda: [(program(), one, keep) for one in masks(4) for keep in (0.0, 0.25)],
    ),
    "without calls": Subject(
        replay,
        "without_calls",
        no_calls,
        lambda: [(program(), one, keep) for one in masks(4) for keep in (0.0, 0.25)],
    ),
    "without waits": Subject(
        replay, "without_waits", no_waits, lambda: [(program(), one) for one in masks(4)]
    ),
    "cheaper launches": Subject(
        replay, "cheaper_launches", cheap_launches, lambda: [(program(), one, 0.5, 25.0) for one in masks(4)]
    ),
    "not blocking": Subject(
        replay, "not_blocking", unblocked, lambda: [(program(), one) for one in masks(5)]
    ),
    "own stream": Subject(
        replay, "own_stream", apart, lambda: [(p, one) for p in one_stream() for one in masks(5)]
    ),
    "without operations": Subject(
        replay,
        "without_ops",
        unlaunched,
        lambda: [(p, one) for p in a_long_gap() for one in masks(5)],
        (("PACE", 9), ("PACE", 13)),
    ),
    "the ledger's table": Subject(
        ledger, "Ledger.table", shares, lambda: [(book(),), (short_book(1),), (short_book(0),)]
    ),
    "of each owner": Subject(
        ledger,
        "Ledger.each",
        of_each,
        lambda: [(book(), *one) for one in ((), ("matmul",), ("matmul", "launch"), ("sync",))],
    ),
    "of a side": Subject(
        ledger, "Ledger.side", of_side, lambda: [(book(), one) for one in ("computing", "moving", "idle")]
    ),
}
FASTER = "both ways sort alike, the single integers faster; at spans of decades alone they would not fit"
APART = "the ranks of what ends and of what begins stay apart, and within what a moment has of them"
NEVER_READ = "it is read only where a range is around"
NONE_AROUND = "without ranges or launches the loop finds none either"
OF_ITS_OWN = "a thread with a range of its own has ranges; where none is around, -1 takes the place of -1"
EQUAL = "what is as late or as early takes its own place"
WITHIN = "if place + 1 < len(ends) and starts[place + 1] < at:"
LATER = "what was done before is no cause of a call that begins later"
EMPTY = "of nothing the same comes out"
MASKED = "what stands at -1 is not read: it is none"
UNKNOWN = "where no stacks are known there are none; of nothing the same comes out"
ALONE = "all weigh alike"
INDEX = "the index is not read"
NOTHING = "-1 stands for none, of a call that waits for nothing and an operation that comes after none"
EQUIVALENT: dict[str, dict[str, tuple[int, str]]] = {  # how a mutant begins: how many there are, and why
    "the replay": {
        "streams = ": (2, "a stream without operations is free from the begin"),
        "room = ": (2, EMPTY),
        "if (full or": (1, EQUAL),
        "if high > low: ": (2, EMPTY),
        "if barrier > at": (1, EQUAL),
        "if free[s] > at": (1, EQUAL),
        "if after[k] >= 0 and ended[after[k]] > at: -> if after[k] >= 0 and ended[after[k]] >=": (1, EQUAL),
        "if done > cpu": (1, EQUAL),
    },
    "owners of idle time": {
        "if not len(start)": (1, EMPTY),
        "ends = ": (1, MASKED),
        "returned = ": (1, MASKED),
        "early = ": (1, "an operation without a call counts as launched when the stretch ended"),
    },
    "the place of stacks": {
        "functions[function, file] = ": (1, "each has one more"),
        "calls[frame] = ": (1, "each has one more"),
    },
    "threads that ask": {
        "if not asks.any()": (1, "where nobody asks, no share is large enough"),
        "share, busy = ": (1, "of yes and no the median is yes or between where half are"),
    },
    "waits by asking": {"table = pd.concat": (1, INDEX)},
    "what an operation waited for": {
        "low = ": (2, "it is taken away again"),
        "width = ": (5, "streams lie apart, however far"),
        "starts, ends, tids = ": (1, MASKED),
        "candidate = ": (4, MASKED),
        "other &= ": (1, MASKED),
        "self.head = ": (1, EMPTY),
    },
    "calls that waited": {"real = ": (1, "what waits for nothing has nothing done before")},
    "what was done by a time": {"return ": (1, EMPTY)},
    "what set a thread going": {
        "gap_high = ": (1, "before all that is looked at nothing was done after it"),
        "best, which = ": (1, MASKED),
        "if other == tid": (1, "a thread does nothing in its own pauses"),
    },
    "back along a thread": {
        "stop, op, to = ": (2, MASKED),
        f"{WITHIN} -> if place + 1 < len(ends):": (1, LATER),
        f"{WITHIN} -> if place + 1 < len(ends) and starts[place + 1] <=": (1, LATER),
    },
    "the walk": {"op, tid, at = ": (1, "below 0 is none")},
    "calls that may wait": {
        "own = ": (1, EMPTY),
        "return pd.concat": (2, "the index is not read, and of no rows nothing is added"),
    },
    "pieces on a GPU": {
        "run, op = ": (3, MASKED),
        "following = ": (1, MASKED),
        "late = ": (2, "a gap of no time is no piece"),
        "return pd.DataFrame": (2, EMPTY),
    },
    "pieces on a thread": {
        "met = ": (1, "what only touches a stretch takes no time in it"),
        "back, began, _ = ": (1, "no piece ends by the begin"),
    },
    "shares of a path": {"return table": (1, INDEX)},
    "functions of stretches": {
        "mine = ": (1, MASKED),
        "loading = ": (1, MASKED),
        "best[code] = ": (1, "each has one more"),
        "is_loading = ": (2, "in no time nothing is spent"),
    },
    "samples of a thread": {"if not self.known": (1, UNKNOWN)},
    "shares of paths": {"places = ": (1, ALONE)},
    "where a thread was": {"if not self.known": (4, UNKNOWN)},
    "where a thread launched": {
        "if not self.known": (4, UNKNOWN),
        "if repeated is not None": (1, "as many numbers as times"),
    },
    "calls that iterations repeat": {"share = ": (1, "what no stack has is not asked for")},
    "stacks like a pattern": {"if not self.known": (2, UNKNOWN)},
    "busy threads": {
        "for (process, tid)": (1, UNKNOWN),
        "if not inner": (1, EMPTY),
        "place = ": (1, ALONE),
    },
    "between stacks": {"found = place_of": (1, ALONE)},
    "what threads did": {"return pd.concat": (1, INDEX)},
    "pieces on all threads": {"whole = ": (1, INDEX)},
    "stacks that are read": {
        "if not len(found)": (1, EMPTY),
        "table = frames()": (1, "a path may have any number"),
        "parts.append": (1, "below 0 is none"),
        "every = pd.concat": (1, INDEX),
    },
    "places of stretches": {"if not len(table)": (4, UNKNOWN)},
    "methods of one name": {"for low, high in sorted": (1, "of one width, what begins later ends later")},
    "collectives that wait": {
        "none = ": (3, "what it gives to no rows"),
        "if not len(talk)": (1, "without rows there are no GPUs"),
        "talk = talk.assign(set=": (4, "the numbers of the sets are apart, whatever they are"),
    },
    "period": {
        "lengths = ": (2, "a distance is 1 or more"),
        "first = ": (1, "of a length of at most half, twice as much is at most all"),
        "if most < ALIKE": (1, "distance 1 is tried wherever another one is"),
    },
    "flops": {
        "backward = ": (1, "what the name ends with is in its last part"),
        "return (8.0": (1, "of four sizes the third is the last but one"),
    },
    "innermost of a thread": {
        "outer = ": (1, "of nothing nothing is picked"),
        "first, width = ": (6, APART),
        "ranks = ": (1, APART),
        "if (int(times": (9, FASTER),
        "rows = ": (3, APART),
    },
    "innermost of a launch": {
        "if len(ranges) == 0": (4, NONE_AROUND),
        "found = ": (3, NEVER_READ),
        "others = ": (4, OF_ITS_OWN),
    },
    "not blocking": {"waited = ": (1, NOTHING)},
    "own stream": {"after = ": (1, NOTHING)},
    "without operations": {"paced = ": (2, "without operations no call is left out")},
    "the ledger's table": {
        "share = ": (2, "where an owner has time there is some"),
        "types = ": (1, "the type of the total is said again"),
    },
}


def comparable(value: Any) -> Any:
    """An answer as lists and numbers, so that it can be compared."""
    if isinstance(value, Program):
        return as_lists(value)
    if isinstance(value, pd.DataFrame):
        return told_shares(value)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], pd.DataFrame):
        return told_met(*value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return (
        tuple(map(comparable, value)) if isinstance(value, tuple) and not hasattr(value, "_fields") else value
    )


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
    return bool(one == other)


def found_in(tree: ast.AST, name: str) -> ast.FunctionDef:
    """A function, or a method ``Class.method``, of a module."""
    outer, _, inner = name.rpartition(".")
    within = (
        next(one for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and one.name == outer)
        if outer
        else tree
    )
    return next(one for one in ast.walk(within) if isinstance(one, ast.FunctionDef) and one.name == inner)


def made(node: ast.FunctionDef, subject: Subject, **constants: Any) -> Callable[..., Any]:
    """A function by its tree, with the names of its module."""
    alone = ast.FunctionDef(**{field: getattr(node, field) for field in node._fields})
    alone.decorator_list = []
    tree = ast.fix_missing_locations(ast.Module([ast.copy_location(alone, node)], []))
    names = {**vars(subject.module), **constants}
    exec(compile(tree, "mutant", "exec", __future__.annotations.compiler_flag), names)
    function = names[node.name]
    assert callable(function)
    return function  # type: ignore[no-any-return]


def variants(subject: Subject) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The mutants of a subject, each with its name."""
    source = inspect.getsource(subject.module)
    node = found_in(ast.parse(source), subject.name)
    body = node.body[1:] if ast.get_docstring(node) else node.body
    region = set(range(body[0].lineno, (node.end_lineno or 0) + 1))
    seen: dict[str, int] = {}
    for name, changed, _ in mutants._of_python(source, region):
        tree = ast.parse(changed) if isinstance(changed, str) else changed
        seen[name] = seen.get(name, 0) + 1
        label = name.partition(": ")[2] + (f" #{seen[name]}" if seen[name] > 1 else "")
        yield label, made(found_in(tree, subject.name), subject)
    for constant, value in subject.constants:
        yield f"{constant} = {value}", made(node, subject, **{constant: value})


def answers(subject: Subject) -> list[tuple[tuple[Any, ...], Any]]:
    return [(given, comparable(subject.plainly(*given))) for given in subject.inputs()]


def differs(
    subject: Subject, function: Callable[..., Any], expected: list[tuple[tuple[Any, ...], Any]]
) -> bool:
    for given, right in expected:
        try:
            if not alike(right, comparable(subject.told(function, *given))):
                return True
        except Exception:
            return True
    return False


@pytest.mark.parametrize("name", SUBJECTS)
def test_it_says_what_plain_loops_say(name: str) -> None:
    subject = SUBJECTS[name]
    node = found_in(ast.parse(inspect.getsource(subject.module)), subject.name)
    function = made(node, subject)
    for given, right in answers(subject):
        assert alike(right, comparable(subject.told(function, *given))), (
            given,
            right,
            comparable(subject.told(function, *given)),
        )


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.filterwarnings("ignore")
def test_no_mutant_says_the_same(name: str) -> None:
    subject = SUBJECTS[name]
    expected = answers(subject)
    survivors = [label for label, function in variants(subject) if not differs(subject, function, expected)]
    reasons = EQUIVALENT.get(name, {})
    counted = {begin: sum(one.startswith(begin) for one in survivors) for begin in reasons}
    assert [one for one in survivors if not one.startswith(tuple(reasons))] == []
    assert counted == {begin: count for begin, (count, _) in reasons.items()}
