"""Hidden cases of lm-ex06 (does the GPU wait for the program?): a generator or captures in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.lm.asked import PASSES, clean_passes, operations_asked
from labcode.exercises.lm.scenes import FORBIDDEN, NAMES
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
Given = tuple[pd.DataFrame, int, dict[str, float], float, float]
EXAMS = (
    ("lm_large", "train", "the large model in fp32"),
    ("lm_ladder", "compiled", "the medium model in bf16, compiled"),
    ("lm_ladder", "flash", "the medium model in bf16, compiled, with the flash kernel"),
)
_COLUMNS = ["kind", "name", "start_ns", "end_ns", "device", "stream", "asked_ns", "path"]


def answer(
    ops: pd.DataFrame,
    steps: int,
    clean_ms: dict[str, float],
    faster: float,
    much: float,
    *,
    in_order: bool = True,
    union_in_order: bool = True,
    largest_end: bool = True,
    tie_is_late: bool = False,
    by_start: bool = False,
    by_pass: bool = False,
    by_stream: bool = False,
    first_late: bool = False,
    kernels_only: bool = False,
    summed: bool = False,
    one_step: bool = True,
    endless: bool = False,
    verdict_by: str = "both",
) -> dict[str, dict[str, Any]]:
    """The answer; the flags are the typical mistakes."""
    table = ops[ops["kind"] == "kernel"] if kernels_only else ops
    table = table.sort_values("start_ns", kind="stable") if in_order else table
    passes = table["path"].str.split("/").str[1]
    group = passes if by_pass else table["stream"] if by_stream else pd.Series(0, index=table.index)
    ends = table.groupby(group)["end_ns"]
    reached = (ends.cummax() if largest_end else table["end_ns"]).groupby(group).shift()
    at = table["start_ns" if by_start else "asked_ns"]
    late = (at >= reached if tie_is_late else at > reached) | (first_late & reached.isna())
    found: dict[str, dict[str, Any]] = {}
    for name, clean in clean_ms.items():
        mine = table[passes == name]
        if summed:
            busy_ns = (mine["end_ns"] - mine["start_ns"]).sum()
        elif union_in_order:
            starts, stops = intervals.union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
            busy_ns = (stops - starts).sum()
        else:
            free = np.maximum(mine["start_ns"], mine["end_ns"].cummax().shift().fillna(0))
            busy_ns = (mine["end_ns"] - free).clip(lower=0).sum()
        busy = float(busy_ns) / 1e6 / (steps if one_step else 1)
        share = float(late[passes == name].mean()) if len(mine) else 0.0
        idle = 1 - busy / clean
        waits = idle >= much if verdict_by != "late" else share >= much
        launches = share >= much if verdict_by != "idle" else True
        rest = clean - busy
        found[name] = {
            "late": share,
            "idle": idle,
            "verdict": ("launch-bound" if launches else "something else") if waits else "GPU-bound",
            "gain": clean / (rest if endless else rest + busy / faster),
        }
    return found


_UNSORTED = "the rows are in no particular order: sort them by start_ns before you look back"
_WRONG: dict[str, dict[str, Any]] = {
    _UNSORTED: {"in_order": False},
    "an operation before the last one may end later: compare with the largest end so far": {
        "largest_end": False
    },
    "what is asked for at the very moment of the last end is in time": {"tie_is_late": True},
    "late is said of the call, asked_ns; an operation may start late though it was asked for in time": {
        "by_start": True
    },
    "the GPU has one past: operations of earlier passes count as those before, too": {"by_pass": True},
    "late means that the GPU had finished what was on all streams, not on its own alone": {"by_stream": True},
    "the very first operation has none before it, and is in time": {"first_late": True},
    "only kernels are counted: the GPU is busy while it copies, and copies are asked for, too": {
        "kernels_only": True
    },
    "where two operations run at once that time counts once: add up the union, not durations": {
        "summed": True
    },
    "the operations are those of all steps, clean_ms is one step": {"one_step": False},
    "the GPU is faster, not endlessly fast: its busy time is divided, not gone": {"endless": True},
    "the verdict looks at idle first: late operations do not matter where hardly anything is idle": {
        "verdict_by": "late"
    },
    "an idle GPU is not yet launch-bound: its operations must have been asked for late": {
        "verdict_by": "idle"
    },
}


def _case(name: str, given: Given, *, exam: bool = False) -> Case:
    ops, steps, clean_ms, faster, much = given
    mistakes = (
        *(Mistake(says, answer(*given, **flags)) for says, flags in _WRONG.items()),
        Mistake(_UNSORTED, answer(*given, in_order=False, union_in_order=False)),
    )
    clean = ", ".join(f"{key} {value:.4g} ms" for key, value in clean_ms.items())
    summary = (
        f"{len(ops)} operations of {steps} step(s) on {ops['stream'].nunique()} stream(s); {clean}; "
        f"faster = {faster:g}, much = {much:g}"
    )
    table = ops.drop(columns=["name", "device"]) if len(ops) else None
    return Case(
        name, summary, "who_waits", given, answer(*given), mistakes, table=table, show=_show, exam=exam
    )


def _show(value: Any) -> str:
    """An answer as text: each pass's four words and numbers."""
    return "; ".join(
        f"{name}: late {one['late']:.4g}, idle {one['idle']:.4g}, {one['verdict']}, gain {one['gain']:.4g}"
        for name, one in sorted(value.items())
    )


def _scene(
    rng: Rng,
    *,
    steps: int = 1,
    count: int = 12,
    ask: float = 4_000.0,
    work: dict[str, float] | float = 8_000.0,
    side: float = 0.0,
    copies: float = 0.15,
    ties: float = 0.0,
    head: float = 0.0,
    clean: dict[str, float] | None = None,
    passes: tuple[str, ...] = PASSES,
) -> Given:
    """A program that asks for one operation after another and waits after each pass.

    ``ask`` and ``work`` are the times to ask for an operation and to do it; ``side`` the share on a second
    stream, where an operation is long; ``ties`` the share asked for at the moment that the GPU is done;
    ``head`` a time at the start of each pass in which the program does something else.
    ``clean`` gives by pass what part of the recorded idle time remains without a profiler.
    """
    rows: list[tuple[Any, ...]] = []
    now, taken = 10**9, set[int]()
    spent: dict[str, float] = {}
    free = {7: now, 13: now}
    for step in range(steps):
        for name in passes:
            begin = now
            now += int(head)
            mean = work[name] if isinstance(work, dict) else work
            for _ in range(count):
                now += int(ask * rng.uniform(0.7, 1.3))
                done = max(free.values())
                if rng.random() < ties and done >= now:
                    now = done
                stream = 13 if rng.random() < side else 7
                kind = "memcpy" if rng.random() < copies else "kernel"
                start = max(now + int(rng.integers(900, 1500)), free[stream])
                while start in taken:
                    start += 1
                taken.add(start)
                free[stream] = start + int(mean * rng.uniform(0.6, 1.4) * (4 if stream == 13 else 1))
                label = NAMES["memcpy" if kind == "memcpy" else str(rng.choice(["tn", "add", "norm"]))]
                path = f"step {step}/{name}/block {int(rng.integers(3))}"
                rows.append((kind, label, start, free[stream], 0, stream, now, path))
            now = max(now, *free.values()) + int(rng.integers(3_000, 9_000))
            spent[name] = spent.get(name, 0.0) + (now - begin) / 1e6 / steps
    ops = pd.DataFrame([rows[i] for i in rng.permutation(len(rows))], columns=_COLUMNS)
    ops = ops.astype({name: "str" if name in ("kind", "name", "path") else "int64" for name in _COLUMNS})
    faster, much = float(rng.choice([1.5, 2.0, 3.0, 4.0])), float(rng.choice([0.15, 0.2, 0.25]))
    recorded = answer(ops, steps, spent, faster, much)
    clean_ms = {}
    for name in passes:
        idle = recorded[name]["idle"] * spent[name]
        clean_ms[name] = spent[name] - idle + idle * (clean or {}).get(name, float(rng.uniform(0.4, 0.9)))
    return ops, steps, clean_ms, faster, much


def _nothing(rng: Rng) -> Given:
    """A pass in which the GPU does nothing: gradients are added up, the optimizer is left for later."""
    ops, steps, clean_ms, faster, much = _scene(rng, passes=("forward", "backward"))
    return ops, steps, {**clean_ms, "optimizer": float(rng.uniform(0.01, 0.05))}, faster, much


def _cases(rng: Rng) -> list[Case]:
    fast, slow = 1_500.0, 15_000.0
    long_optimizer = {"forward": fast, "backward": fast, "optimizer": slow}
    return [
        _case("a step of few operations", _scene(rng, count=3, work=4_000.0)),
        _case("a GPU that is always behind", _scene(rng, steps=2, count=40, work=slow)),
        _case("a GPU that is always ahead", _scene(rng, steps=2, count=40, work=fast)),
        _case("passes that differ", _scene(rng, count=60, work=long_optimizer)),
        _case("two streams", _scene(rng, steps=2, count=40, work=3_500.0, side=0.25)),
        _case("asked for as the GPU is done", _scene(rng, count=40, work=5_000.0, ties=0.4)),
        _case(
            "late in the recording, hardly idle without",
            _scene(rng, count=40, work=3_000.0, clean=dict.fromkeys(PASSES, 0.05)),
        ),
        _case(
            "idle, but asked in time",
            _scene(rng, steps=3, count=30, work=slow, head=300_000.0),
        ),
        _case("a single operation", _scene(rng, count=1, passes=("forward",))),
        _case("a pass without operations", _nothing(rng)),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    cases = []
    for experiment, run, words in EXAMS:
        with open_run(captures, experiment, run) as report:
            ops = operations_asked(report)
        steps = captures.record(experiment, run)["parameters"]["window"]
        clean = clean_passes(captures.record(experiment, run, clean=True))
        cases.append(_case(f"a training step of {words}", (ops, steps, clean, 2.0, 0.2), exam=True))
    return cases


def notes(captures: CaptureSet) -> list[str]:
    """What the answer says about the captures."""
    says = [f"{case.name}: {_show(case.expected)}" for case in _exam(captures)]
    return [*says, "a count of late operations says nothing about time: one may cost more than a hundred"]


WAITS = Task(
    _cases,
    _exam,
    notes=notes,
    forbidden=(*FORBIDDEN, "labcode.analysis.timeline.launch", "labcode.analysis.timeline.intervals"),
)
