"""Hidden cases of pytorch-ex02, part b (find the leak): a generator or a capture in, cases out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.exercises.pytorch.ex02_live import EXPERIMENT, RUNS, exam_history
from labcode.store import CaptureSet

Rng = np.random.Generator
Found = list[tuple[int, int, int]]
QUARTERS = 4
STACKS = (
    ["site-packages/torch/nn/modules/linear.py:130 forward", "model.py:12 forward", "train.py:40 step"],
    ["model.py:14 forward", "train.py:40 step"],
    ["model.py:14 forward", "train.py:55 evaluate"],
    ["torch/optim/adamw.py:120 step", "train.py:42 step"],
    ["cache.py:8 put", "train.py:61 lookup"],
)
LINEAR, TRAINED, EVALUATED, STATE, CACHE = range(len(STACKS))


def leaks(
    history: pd.DataFrame,
    *,
    reused: bool = True,
    late: bool = False,
    quarters: bool = True,
    clean_only: bool = False,
    all_allocated: bool = False,
    by_blocks: bool = False,
    ascending: bool = False,
    last_apart: bool = True,
    as_met: bool = False,
) -> Found:
    """The stacks that leak; the flags are the typical mistakes."""
    if len(history) == 0:
        return []
    first, last = int(history["t_us"].min()), int(history["t_us"].max())
    live: dict[int, tuple[int, int, int]] = {}
    ever: dict[int, list[int]] = {}
    freed: set[int] = set()
    seen_free: set[int] = set()
    free = "free_completed" if late else "free_requested"
    rows: list[tuple[int, int, int]] = []
    columns = ["t_us", "action", "addr", "size", "stack"]
    for t_us, action, addr, size, stack in history[columns].itertuples(index=False):
        if action == "alloc":
            live[addr] = (t_us, size, stack)
            ever.setdefault(stack, []).append(size)
            rows.append((t_us, size, stack))
            if addr in seen_free and not reused:
                del live[addr]
        elif action == free and addr in live:
            freed.add(live.pop(addr)[2])
            seen_free.add(addr)
    stays: dict[int, list[int]] = {}
    parts: dict[int, set[int]] = {}
    for t_us, size, stack in live.values():
        stays.setdefault(stack, []).append(size)
        part = QUARTERS * (t_us - first) // max(last - first, 1)
        parts.setdefault(stack, set()).add(min(part, QUARTERS - 1) if last_apart else part)
    found = [
        (stack, len(ever[stack]), sum(ever[stack])) if all_allocated else (stack, len(sizes), sum(sizes))
        for stack, sizes in stays.items()
        if (not quarters or parts[stack] >= set(range(QUARTERS))) and not (clean_only and stack in freed)
    ]
    key = 1 if by_blocks else 2
    return sorted(found, key=lambda row: (row[key] if ascending else -row[key], 0 if as_met else row[0]))


def caller(
    frames: Sequence[str], *, innermost: bool = True, library: bool = True, cache: bool = True
) -> str | None:
    """The innermost frame of the program; the flags are the typical mistakes."""
    for frame in frames if innermost else list(reversed(frames)):
        inside = "site-packages/" in frame or (cache and frame.startswith(("torch/", "<")))
        if not (library and inside):
            return frame
    return None


def time_left(
    history: pd.DataFrame, free: int, found: Found | None = None, *, whole: bool = True
) -> float | None:
    """Microseconds until ``free`` bytes are used up."""
    rows = leaks(history) if found is None else found
    lost = sum(size for _, _, size in rows)
    lasted = int(history["t_us"].max()) - (int(history["t_us"].min()) if whole else 0) if len(history) else 0
    return free / (lost / lasted) if lost and lasted else None


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
    early = _loop(rng, keep=(EVALUATED,), begin=10**6 + int(rng.integers(10**5)))
    return [
        ("eight blocks, none freed", small.table()),
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
        ("no event", _Scene(rng).table()),
    ]


def _leak_case(
    name: str, history: pd.DataFrame, stacks: Sequence[Sequence[str]], *, exam: bool = False
) -> Case:
    wrong: tuple[tuple[str, dict[str, bool]], ...] = (
        ("an address is used again: a free ends the block that lies there now", {"reused": False}),
        ("a block is free when that is requested; some frees are completed later", {"late": True}),
        ("not all that stays leaks: only what stays from each quarter", {"quarters": False}),
        ("that other blocks of a stack are freed does not acquit it", {"clean_only": True}),
        ("count the blocks that stay, not all that the stack allocated", {"all_allocated": True}),
        ("the order is by bytes, not by the number of blocks", {"by_blocks": True}),
        ("the most bytes come first", {"ascending": True}),
        ("the last event belongs to the last quarter", {"last_apart": False}),
        ("stacks of as many bytes come in the order of their numbers", {"as_met": True}),
    )
    return Case(
        name=name,
        summary=f"{len(history)} events, {history['stack'].nunique()} stacks",
        function="leaks",
        arguments=(history, [list(stack) for stack in stacks]),
        expected=leaks(history),
        mistakes=tuple(Mistake(says, leaks(history, **flags)) for says, flags in wrong),
        exam=exam,
        show=lambda answer: brief(answer, 400),
        limit_s=30.0,
    )


def _left_case(
    name: str, history: pd.DataFrame, stacks: Sequence[Sequence[str]], free: int, *, exam: bool = False
) -> Case:
    right, found = time_left(history, free), leaks(history)
    everything = leaks(history, quarters=False)
    wrong: list[tuple[str, Any]] = [
        ("only what leaks goes on growing, not all that stays", time_left(history, free, everything)),
        ("all leaking stacks together use the memory up", time_left(history, free, found[:1])),
        ("the recording lasts from the first event to the last", time_left(history, free, whole=False)),
        ("without a leak the memory lasts: None", 0.0),
    ]
    if right is not None:
        lasted = int(history["t_us"].max()) - int(history["t_us"].min())
        wrong.append(("counted from the last event on", right - lasted))
    return Case(
        name=name,
        summary=f"{len(history)} events, {free:,} bytes free",
        function="time_left",
        arguments=(history, [list(stack) for stack in stacks], free),
        expected=right,
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        exam=exam,
        limit_s=30.0,
    )


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
    cases = []
    for name, stack in frames.items():
        wrong = (
            ("the innermost one of the program, not the outermost", caller(stack, innermost=False)),
            ("files that begin with `torch/` or `<` are of a library, too", caller(stack, cache=False)),
            ("this frame is of a library", caller(stack, library=False)),
            ("a file is PyTorch's when it begins with `torch/`; a folder of the program may bear the name",
             next((f for f in stack if "torch/" not in f and "packages/" not in f and f[0] != "<"), None)),
        )  # fmt: skip
        cases.append(
            Case(
                name=name,
                summary=f"frames: {stack}",
                function="caller",
                arguments=(stack,),
                expected=caller(stack),
                mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
            )
        )
    return cases


def _cases(rng: Rng) -> list[Case]:
    scenes = _scenes(rng)
    return [
        *(_leak_case(name, history, STACKS) for name, history in scenes),
        *_caller_cases(rng),
        *(_left_case(name, history, STACKS, int(rng.integers(10**6, 10**9))) for name, history in scenes),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    cases = []
    for run in RUNS:
        history = exam_history(captures, run)
        table = history.events[["t_us", "action", "addr", "size", "stack"]]
        name = f"a history you have not seen ({EXPERIMENT}, {run})"
        cases.append(_leak_case(name, table, history.stacks, exam=True))
        cases.append(_left_case(name, table, history.stacks, 10**10, exam=True))
    return cases


def _notes(captures: CaptureSet) -> list[str]:
    """What leaks in the histories of the exam, and whom to ask next."""
    lines = []
    for run in RUNS:
        history = exam_history(captures, run)
        found = leaks(history.events)
        if not found:
            lines.append(f"{run}: nothing leaks by this rule")
            continue
        number, blocks, size = found[0]
        lines.append(
            f"{run}: {blocks} blocks of {size // blocks:,} bytes stay, allocated by "
            f"{caller(history.stacks[number])}. That is who made them; who keeps them is for you to find: "
            + ("a forward hook" if "hook" in run else "a dictionary of outputs")
        )
    return lines


LEAK = Task(_cases, _exam, _notes)
