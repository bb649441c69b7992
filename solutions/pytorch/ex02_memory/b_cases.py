"""Hidden cases of part b (find the leak): a generator or a capture in, cases out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.memory.history import site
from labcode.grading.cases import Case, brief
from labcode.store import CaptureSet
from solutions.pytorch._shared import open_history_of

Rng = np.random.Generator
EXPERIMENT, RUNS = "torch_memory", ("exam_hook", "exam_cache")
STACKS = (
    ["site-packages/torch/nn/modules/linear.py:130 forward", "model.py:12 forward", "train.py:40 step"],
    ["model.py:14 forward", "train.py:40 step"],
    ["model.py:14 forward", "train.py:55 evaluate"],
    ["torch/optim/adamw.py:120 step", "train.py:42 step"],
    ["cache.py:8 put", "train.py:61 lookup"],
)
LINEAR, TRAINED, EVALUATED, STATE, CACHE = range(len(STACKS))


@dataclass
class _Scene:
    """A loop of steps that keeps what it is told to."""

    rng: Rng
    rows: list[tuple[int, str, int, int, int]] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    now: int = 0
    next: int = 50

    def tick(self) -> int:
        self.now += int(self.rng.integers(3, 30))
        return self.now

    def alloc(self, stack: int, size: int = 0) -> tuple[int, int, int]:
        if self.idle:
            addr = self.idle.pop(0)
        else:
            self.next += 1
            addr = self.next
        size = size or 512 * int(self.rng.integers(4, 40))
        self.rows.append((self.tick(), "alloc", addr, size, stack))
        return addr, size, stack

    def free(self, block: tuple[int, int, int], *, completed: bool = True) -> None:
        addr, size, stack = block
        self.rows.append((self.tick(), "free_requested", addr, size, stack))
        if completed:
            self.rows.append((self.tick(), "free_completed", addr, size, stack))
            self.idle.append(addr)

    def table(self) -> pd.DataFrame:
        made = pd.DataFrame(self.rows, columns=["t_us", "action", "addr", "size", "stack"])
        kinds = {name: "str" if name == "action" else "int64" for name in made.columns}
        return made.astype(kinds)


def _loop(
    rng: Rng,
    *,
    steps: int = 12,
    keep: Sequence[int] = (),
    keep_of_many: bool = False,
    fills: int = 0,
    state: bool = False,
    carried: bool = False,
    begin: int = 0,
    never_completed: bool = False,
) -> _Scene:
    """Steps with a sawtooth; ``keep``: stacks of which a block stays in each step; ``fills``: steps in which
    a cache grows; ``state``: an optimizer's, in the first step; ``carried``: a block is freed one step later;
    ``begin``: time of the first event; ``never_completed``: the last frees are only requested."""
    scene = _Scene(rng, now=begin)
    before: tuple[int, int, int] | None = None
    for step in range(steps):
        made = [scene.alloc(LINEAR) for _ in range(3)] + [scene.alloc(TRAINED) for _ in range(2)]
        if state and step == 0:
            for _ in range(4):
                scene.alloc(STATE, 512 * 100)
        for stack in keep:
            scene.alloc(stack)
        if step < fills:
            scene.alloc(CACHE, 512 * 64)
        stays = made.pop(1) if keep_of_many else None
        for block in reversed(made):
            scene.free(block, completed=not (never_completed and block is made[-1]))
        if carried:
            following = scene.alloc(EVALUATED)
            if before is not None:
                scene.free(before)
            before = following
        del stays
    scene.rows.append((scene.tick() + 1, "snapshot", 0, 0, 0))
    return scene


def _scenes(rng: Rng) -> list[tuple[str, pd.DataFrame]]:
    small = _Scene(rng)
    for place in range(8):
        small.rows.append(
            (10 * place, "alloc", place, 100 + int(rng.integers(9)), 0 if place % 2 == 0 else 1)
        )
    small.rows.append((80, "snapshot", 0, 0, 0))
    border = _Scene(rng)
    size = 512 * int(rng.integers(2, 9))
    for at in (0, 25, 50, 100):  # 100 is the last event, and in the last quarter
        border.rows.append((at, "alloc", at + 1, size, CACHE))
    end = _Scene(rng, rows=[*border.rows[:3], (80, "alloc", 81, size, CACHE), border.rows[3]])
    alike = _Scene(rng)
    for at in range(8):
        alike.rows.append((10 * at, "alloc", at + 1, size, (CACHE, TRAINED)[at % 2]))
    apart = _Scene(rng)
    for at, stack in [(at, stack) for at in range(4) for stack in range(5) if at != stack]:
        apart.rows.append((10 * at + stack, "alloc", 10 * at + stack, size, stack))
    apart.rows.append((40, "snapshot", 0, 0, 0))
    many = _Scene(rng)
    for at in range(8):
        many.rows.append((10 * at, "alloc", at, 512, CACHE))
        if at % 2 == 0:
            many.rows.append((10 * at + 5, "alloc", 100 + at, 20 * size, TRAINED))
    marked = _Scene(rng, rows=[(at, "alloc", at, size, CACHE) for at in (40, 45, 50, 55)])
    marked.rows = [(0, "snapshot", 0, 0, 0), *marked.rows, (100, "snapshot", 0, 0, 0)]
    at_once = _Scene(rng, rows=[(7, "alloc", number, size, CACHE) for number in range(4)])
    early = _loop(rng, keep=(EVALUATED,), begin=10**6 + int(rng.integers(10**5)))
    return [
        ("eight blocks, none freed", small.table()),
        ("four blocks long after the first event and before the last", marked.table()),
        ("a loop that leaks nothing", _loop(rng).table()),
        ("one stack leaks", _loop(rng, keep=(EVALUATED,)).table()),
        ("two stacks leak, one of many small blocks", _loop(rng, keep=(TRAINED, CACHE, CACHE)).table()),
        ("of a stack most blocks are freed", _loop(rng, keep_of_many=True).table()),
        ("a cache that fills up, and an optimizer's state", _loop(rng, fills=5, state=True).table()),
        ("a leak beside a larger cache", _loop(rng, keep=(TRAINED,), fills=6, state=True).table()),
        ("a block that lives for one step longer", _loop(rng, carried=True).table()),
        ("a recording that begins late", early.table()),
        ("frees that are never completed", _loop(rng, keep=(CACHE,), never_completed=True).table()),
        ("blocks on the borders of quarters", border.table()),
        ("the last event is an allocation, and not the only one of its quarter", end.table()),
        ("two stacks of which as many bytes stay", alike.table()),
        ("stacks that each lack another quarter, and one that lacks none", apart.table()),
        ("many small blocks of one stack, few large ones of another", many.table()),
        ("all events at one moment", at_once.table()),
        ("no event", _Scene(rng).table()),
    ]


def _leak_case(name: str, history: pd.DataFrame, stacks: Sequence[Sequence[str]]) -> Case:
    summary = f"{len(history)} events, {history['stack'].nunique()} stacks"
    arguments = history, [list(stack) for stack in stacks]
    return Case(name, summary, "leaks", arguments, show=partial(brief, limit=400), limit_s=30.0)


def _left_case(name: str, history: pd.DataFrame, stacks: Sequence[Sequence[str]], free: int) -> Case:
    summary = f"{len(history)} events, {free:,} bytes free"
    arguments = history, [list(stack) for stack in stacks], free
    return Case(name, summary, "time_left", arguments, limit_s=30.0)


def _caller_cases(rng: Rng) -> list[Case]:
    number = int(rng.integers(10, 90))
    frames = {
        "a library inside": [*STACKS[LINEAR][:1], f"model.py:{number} forward", "train.py:40 step"],
        "no library": [f"model.py:{number} forward", "train.py:55 evaluate"],
        "PyTorch's own file": [f"torch/optim/adamw.py:{number} step", f"train.py:{number} step"],
        "built-in code": [
            "<frozen runpy>:88 _run_code",
            f"tools/torch/fast.py:{number} run",
            "main.py:3 run",
            "main.py:9 <module>",
        ],
        "libraries alone": ["<string>:1 <lambda>", f"site-packages/numpy/core.py:{number} sum"],
        "no frame": [],
    }
    return [Case(name, f"frames: {stack}", "caller", (stack,)) for name, stack in frames.items()]


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    scenes = _scenes(rng)
    return [
        *(_leak_case(name, history, STACKS) for name, history in scenes),
        *_caller_cases(rng),
        *(_left_case(name, history, STACKS, int(rng.integers(10**6, 10**9))) for name, history in scenes),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to the histories of two captures."""
    found = []
    for run in RUNS:
        history = open_history_of(captures, EXPERIMENT, run)
        table = history.events[["t_us", "action", "addr", "size", "stack"]]
        name = f"a history you have not seen ({EXPERIMENT}, {run})"
        found.append(_leak_case(name, table, history.stacks))
        found.append(_left_case(name, table, history.stacks, 10**10))
    return found


def notes(captures: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """What leaks in the histories, and whom to ask next."""
    lines, leaking = [], (answer for case, answer in answered if case.function == "leaks")
    for run, found in zip(RUNS, leaking, strict=True):
        if not found:
            lines.append(f"{run}: nothing leaks by this rule")
            continue
        number, blocks, size = found[0]
        maker = site(open_history_of(captures, EXPERIMENT, run).stacks[number])
        lines.append(
            f"{run}: {blocks} blocks of {size // blocks:,} bytes stay, allocated by {maker}. "
            "That is who made them; who keeps them is for you to find: "
            + ("a forward hook" if "hook" in run else "a dictionary of outputs")
        )
    return lines
