"""Hidden cases of part a (in use, and at the peak): a generator or a capture in, cases out."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.memory.history import site
from labcode.grading.cases import Case, brief
from labcode.store import CaptureSet
from solutions.pytorch._shared import open_history_of

Rng = np.random.Generator
Event = tuple[str, int, int, str]
EXPERIMENT, RUNS = "torch_memory", ("exam_hook", "exam_cache")
BEFORE = "before"
FUNCTIONS = ("live_bytes", "peak", "holders")
SITES = ("model.py:12 forward", "model.py:31 loss", "train.py:44 step", "optim.py:9 update")


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

    def mark(self, action: str, size: int = 1 << 21, addr: int = 9) -> None:
        self.events.append((action, addr, size, ""))

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
    small, steps, late, lost, down, marks, twice, again, nothing, empty = (_Scene(rng) for _ in range(10))
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
    marks.mark("snapshot", 0, freed)
    marks.mark("segment_alloc", 1 << 22, freed)
    marks.free(freed)
    marks.mark("segment_free")
    marks.alloc(SITES[1])
    size = 512 * int(rng.integers(60, 90))
    twice.base(1)
    twice.free(twice.alloc(SITES[0], size))
    twice.alloc(SITES[1], size)
    again.free(again.base(1)[0])
    again.alloc(SITES[2], again.before[0][1])
    nothing.base(2)
    empty.mark("segment_alloc")
    empty.mark("snapshot", 0)
    return [
        ("one block freed", small),
        ("steps that pile up and take down", steps),
        ("frees that are completed late", late),
        ("frees of blocks that were never seen", lost),
        ("the most was in use before the first event", down),
        ("segments and marks between", marks),
        ("as much is in use a second time", twice),
        ("as much is in use as before the first event", again),
        ("no event at all", nothing),
        ("nothing is ever in use", empty),
    ]


def _case(name: str, function: str, before: pd.DataFrame, events: pd.DataFrame) -> Case:
    summary = f"{len(events)} events, {len(before)} blocks before"
    return Case(name, summary, function, (before, events), show=partial(brief, limit=400))


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, on the same scenes."""
    scenes = [(name, *scene.tables()) for name, scene in _scenes(rng)]
    return [_case(name, function, *tables) for function in FUNCTIONS for name, *tables in scenes]


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to the histories of two captures."""
    found = []
    for run in RUNS:
        history = open_history_of(captures, EXPERIMENT, run)
        places = [site(stack) for stack in history.stacks]
        events = history.events.assign(site=[places[stack] for stack in history.events["stack"]])
        events = events[["action", "addr", "size", "site"]].astype({"site": "str"})
        before = history.live_before[["addr", "size"]]
        name = f"a history you have not seen ({EXPERIMENT}, {run})"
        found += [_case(name, function, before, events) for function in FUNCTIONS]
    return found


def notes(_: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """What holds the most at the peak of each history."""
    lines, found = [], (answer for case, answer in answered if case.function == "holders")
    for run, held in zip(RUNS, found, strict=True):
        first = max(held.keys() - {BEFORE}, key=lambda key: held[key])
        lines.append(f"{run}: {first} holds {held[first] / sum(held.values()):.0%} of the peak")
    return lines
