"""Hidden cases of pytorch-ex02, part a (in use, and at the peak): a generator or a capture in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.memory.history import site
from labcode.errors import LabError
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.reports.memory.history import MemoryHistory, open_history
from labcode.store import CaptureSet

Rng = np.random.Generator
Event = tuple[str, int, int, str]
EXPERIMENT, RUNS = "torch_memory", ("exam_hook", "exam_cache")
BEFORE = "before"
SITES = ("model.py:12 forward", "model.py:31 loss", "train.py:44 step", "optim.py:9 update")


def states(
    before: pd.DataFrame,
    events: pd.DataFrame,
    *,
    late: bool = False,
    twice: bool = False,
    segments: bool = False,
    initial: bool = True,
    unknown: bool = False,
    reused: bool = True,
) -> list[dict[str, int]]:
    """Bytes by site before the first event and after each; the flags are the typical mistakes."""
    held: dict[str, int] = {}
    blocks: dict[int, list[tuple[int, str]]] = {}
    for addr, size in before[["addr", "size"]].itertuples(index=False) if initial else ():
        blocks[addr] = [(size, BEFORE)]
        held[BEFORE] = held.get(BEFORE, 0) + size
    found = [dict(held)]
    frees = ("free_completed",) if late else ("free_requested", "free_completed") if twice else (
        "free_requested",
    )  # fmt: skip
    for action, addr, size, place in events[["action", "addr", "size", "site"]].itertuples(index=False):
        if action == "alloc":
            blocks.setdefault(addr, []).append((size, place))
            held[place] = held.get(place, 0) + size
        elif action in frees:
            mine = blocks.get(addr)
            if mine:
                gone = mine if reused else mine[:1]
                for freed, owner in gone:
                    held[owner] -= freed
                if not twice:
                    blocks.pop(addr)
            elif unknown:
                held["?"] = held.get("?", 0) - size
        elif segments and action in ("segment_alloc", "segment_free"):
            held["?"] = held.get("?", 0) + (size if action == "segment_alloc" else -size)
        found.append({key: value for key, value in held.items() if value})
    return found


def live(before: pd.DataFrame, events: pd.DataFrame, **flags: bool) -> list[int]:
    """Bytes in use before the first event and after each."""
    return [sum(held.values()) for held in states(before, events, **flags)]


class _Scene:
    """Events put down one after another; addresses are used again as the allocator does."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.events: list[Event] = []
        self.before: list[tuple[int, int]] = []
        self.idle: list[int] = []
        self.next = 100
        self.sizes: dict[int, int] = {}

    def address(self) -> int:
        if self.idle:
            return self.idle.pop()
        self.next += int(self.rng.integers(1, 9))
        return self.next

    def base(self, count: int) -> list[int]:
        made = []
        for _ in range(count):
            addr = self.address()
            self.sizes[addr] = 512 * int(self.rng.integers(2, 40))
            self.before.append((addr, self.sizes[addr]))
            made.append(addr)
        return made

    def alloc(self, place: str, size: int = 0) -> int:
        addr = self.address()
        self.sizes[addr] = size or 512 * int(self.rng.integers(1, 60))
        self.events.append(("alloc", addr, self.sizes[addr], place))
        return addr

    def free(self, addr: int, *, completed: bool = True) -> None:
        self.events.append(("free_requested", addr, self.sizes[addr], ""))
        if completed:
            self.complete(addr)

    def complete(self, addr: int) -> None:
        self.events.append(("free_completed", addr, self.sizes[addr], ""))
        self.idle.append(addr)

    def mark(self, action: str, size: int = 1 << 21) -> None:
        self.events.append((action, 9, size, ""))

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        events = pd.DataFrame(self.events, columns=["action", "addr", "size", "site"])
        before = pd.DataFrame(self.before, columns=["addr", "size"])
        kinds = {"action": "str", "addr": "int64", "size": "int64", "site": "str"}
        return before.astype("int64"), events.astype(kinds)


def _step(scene: _Scene, layers: int) -> None:
    """A forward pass that piles up and a backward pass that takes down."""
    made = [scene.alloc(SITES[0]) for _ in range(layers)]
    made.append(scene.alloc(SITES[1]))
    for addr in reversed(made):
        gradient = scene.alloc(SITES[2], 512)
        scene.free(addr)
        scene.free(gradient)


def _scenes(rng: Rng) -> list[tuple[str, _Scene]]:
    small, steps, late, lost, down, marks, nothing = (_Scene(rng) for _ in range(7))
    small.base(1)
    kept = small.alloc(SITES[0])
    small.alloc(SITES[1])
    small.free(kept)
    small.alloc(SITES[2])
    steps.base(3)
    for _ in range(int(rng.integers(2, 4))):
        _step(steps, 4)
    late.base(1)
    waiting = [late.alloc(SITES[0], 512 * int(rng.integers(20, 60))) for _ in range(3)]
    for addr in waiting:  # another stream still reads them
        late.free(addr, completed=False)
    late.alloc(SITES[2], 512 * 30)
    for addr in waiting:
        late.complete(addr)
    late.alloc(SITES[3])
    lost.base(1)
    for _ in range(2):  # blocks of which the recording never saw the allocation
        lost.sizes[77] = 512 * int(rng.integers(3, 30))
        lost.events.append(("free_requested", 77, lost.sizes[77], ""))
        lost.alloc(SITES[1])
    for addr in down.base(4):
        down.free(addr)
        down.alloc(SITES[3], 512)
    marks.base(1)
    marks.mark("segment_alloc")
    freed = marks.alloc(SITES[0])
    marks.mark("snapshot", 0)
    marks.mark("segment_alloc", 1 << 22)
    marks.free(freed)
    marks.mark("segment_free")
    marks.alloc(SITES[1])
    nothing.base(2)
    return [
        ("one block freed", small),
        ("steps that pile up and take down", steps),
        ("frees that are completed late", late),
        ("frees of blocks that were never seen", lost),
        ("the most was in use before the first event", down),
        ("segments and marks between", marks),
        ("no event at all", nothing),
    ]


_MISTAKES: tuple[tuple[str, dict[str, bool]], ...] = (
    ("a block is out of use when its free is requested, not when it is completed", {"late": True}),
    ("a free is requested and completed: take it off once", {"twice": True}),
    ("segments are what the driver gave, not what tensors use", {"segments": True}),
    ("blocks of `before` are in use, too, until they are freed", {"initial": False}),
    ("a free of an address that is not in use says nothing", {"unknown": True}),
)


def _of(sums: list[int]) -> tuple[int, int]:
    return max(sums), sums.index(max(sums)) - 1


def _case(
    name: str, function: str, before: pd.DataFrame, events: pd.DataFrame, *, exam: bool = False
) -> Case:
    right = states(before, events)
    sums = live(before, events)
    top, row = _of(sums)
    wrong: list[tuple[str, Any]]
    answer: Any
    if function == "live_bytes":
        answer = sums[1:]
        wrong = [(says, live(before, events, **flags)[1:]) for says, flags in _MISTAKES]
        wrong.append(("the list has one number for each event: what is in use after it", sums))
        wrong.append(("this is before each event; after it is asked for", sums[:-1]))
    elif function == "peak":
        answer = (top, row)
        wrong = [(says, _of(live(before, events, **flags))) for says, flags in _MISTAKES]
        wrong.append(("rows count from 0; -1 is before the first event", (top, row + 1)))
        last = len(sums) - 1 - sums[::-1].index(top)
        wrong.append(("the first time it was so", (top, last - 1)))
    else:
        answer = right[row + 1]
        wrong = []
        for says, flags in _MISTAKES:
            place = _of(live(before, events, **flags))[1] + 1
            wrong.append((says, states(before, events, **flags)[place]))
        wrong.append(("this is at the end; asked for is the peak", right[-1]))
        wrong.append(("at the peak, after that event: not before it", right[max(row, 0)]))
        made = events[events["action"] == "alloc"].groupby("site")["size"].sum()
        wrong.append(
            ("this is all that was ever allocated; what was freed by then is not held", made.to_dict())
        )
    return Case(
        name=name,
        summary=f"{len(events)} events, {len(before)} blocks before",
        function=function,
        arguments=(before, events),
        expected=answer,
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        exam=exam,
        show=lambda value: brief(value, 400),
        limit_s=60.0 if exam else 10.0,
    )


FUNCTIONS = ("live_bytes", "peak", "holders")


def _cases(rng: Rng) -> list[Case]:
    scenes = [(name, *scene.tables()) for name, scene in _scenes(rng)]
    return [_case(name, function, *tables) for function in FUNCTIONS for name, *tables in scenes]


def exam_history(captures: CaptureSet, run: str) -> MemoryHistory:
    """The history of a run that no page shows."""
    if EXPERIMENT not in captures.experiments or run not in captures.experiments[EXPERIMENT].runs:
        raise LabError(f"the capture set {captures.name!r} has no run {run} of {EXPERIMENT}")
    return open_history(captures.path_of(EXPERIMENT, run, ".memory.json"))


def _exam(captures: CaptureSet) -> list[Case]:
    cases = []
    for run in RUNS:
        history = exam_history(captures, run)
        places = [site(stack) for stack in history.stacks]
        events = history.events.assign(site=[places[stack] for stack in history.events["stack"]])
        events = events[["action", "addr", "size", "site"]].astype({"site": "str"})
        name = f"a history you have not seen ({EXPERIMENT}, {run})"
        cases += [
            _case(name, function, history.live_before[["addr", "size"]], events, exam=True)
            for function in FUNCTIONS
        ]
    return cases


def _notes(captures: CaptureSet) -> list[str]:
    """What holds the most at the peak of each unseen history."""
    lines = []
    for case in _exam(captures):
        if case.function == "holders":
            held = {key: size for key, size in case.expected.items() if key != BEFORE}
            first = max(held, key=lambda key: held[key])
            lines.append(
                f"{case.name.rpartition(', ')[2].rstrip(')')}: {first} holds "
                f"{held[first] / sum(case.expected.values()):.0%} of the peak"
            )
    return lines


LIVE = Task(_cases, _exam, _notes)
