"""Hidden cases of part a (does the GPU wait for the program?): a generator or captures in, cases out."""

import statistics
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.lm.parts import operations_asked
from labcode.analysis.timeline import intervals
from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.store import CaptureSet
from solutions.lm._shared import NAMES

Rng = np.random.Generator
Given = tuple[pd.DataFrame, int, dict[str, float], float, float]
PASSES = ("forward", "backward", "optimizer")
EXAMS = (
    ("lm_large", "train", "the large model in fp32"),
    ("lm_ladder", "compiled", "the medium model in bf16, compiled"),
    ("lm_ladder", "flash", "the medium model in bf16, compiled, with the flash kernel"),
)
_COLUMNS = ["kind", "name", "start_ns", "end_ns", "device", "stream", "asked_ns", "path"]


def _case(name: str, given: Given) -> Case:
    ops, steps, clean_ms, faster, much = given
    clean = ", ".join(f"{key} {value:.4g} ms" for key, value in clean_ms.items())
    summary = (
        f"{len(ops)} operations of {steps} step(s) on {ops['stream'].nunique()} stream(s); {clean}; "
        f"faster = {faster:g}, much = {much:g}"
    )
    table = ops.drop(columns=["name", "device"]) if len(ops) else None
    return Case(name, summary, "who_waits", given, table=table, show=_show)


def _show(value: Any) -> str:
    """An answer as text: each pass's four words and numbers."""
    return "; ".join(
        f"{name}: late {one['late']:.4g}, idle {one['idle']:.4g}, {one['verdict']}, gain {one['gain']:.4g}"
        for name, one in sorted(value.items())
    )


def _table(rng: Rng, rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    ops = pd.DataFrame([rows[i] for i in rng.permutation(len(rows))], columns=_COLUMNS)
    return ops.astype({name: "str" if name in ("kind", "name", "path") else "int64" for name in _COLUMNS})


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
    again: float = 0.0,
) -> Given:
    """A program that asks for one operation after another and waits after each pass.

    ``ask`` and ``work`` are the times to ask for an operation and to do it; ``side`` the share on a second
    stream, where an operation is long; ``ties`` the share asked for at the moment that the GPU is done;
    ``head`` a time at the start of each pass in which the program does something else; ``again`` the share of
    the backward pass in which a block is computed again.
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
                if again and name == "backward" and rng.random() < again:
                    path += "/forward"
                rows.append((kind, label, start, free[stream], 0, stream, now, path))
            now = max(now, *free.values()) + int(rng.integers(3_000, 9_000))
            spent[name] = spent.get(name, 0.0) + (now - begin) / 1e6 / steps
    ops = _table(rng, rows)
    faster, much = float(rng.choice([1.5, 2.0, 3.0, 4.0])), float(rng.choice([0.15, 0.2, 0.25]))
    clean_ms = {}
    for name in passes:
        mine = ops[ops["path"].str.split("/").str[1] == name]
        starts, stops = intervals.union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        busy = float((stops - starts).sum()) / 1e6 / steps
        idle = spent[name] - busy
        clean_ms[name] = busy + idle * (clean or {}).get(name, float(rng.uniform(0.4, 0.9)))
    return ops, steps, clean_ms, faster, much


def _nothing(rng: Rng) -> Given:
    """A pass in which the GPU does nothing: gradients are added up, the optimizer is left for later."""
    ops, steps, clean_ms, faster, much = _scene(rng, passes=("forward", "backward"))
    return ops, steps, {**clean_ms, "optimizer": float(rng.uniform(0.01, 0.05))}, faster, much


def _held_back(rng: Rng) -> Given:
    """A copy waits for something, and what is asked for after it runs before it."""
    unit, begin = int(rng.integers(1_000, 9_000)), int(rng.integers(10**6, 10**9))
    times = (("tn", 0, 2, 3), ("memcpy", 1, 20, 22), ("add", 9, 10, 11), ("norm", 10, 11, 13))
    rows = [
        (
            "memcpy" if name == "memcpy" else "kernel",
            NAMES[name],
            begin + start * unit,
            begin + stop * unit,
            0,
        )
        + (13 if name == "memcpy" else 7, begin + asked * unit, "step 0/forward")
        for name, asked, start, stop in times
    ]
    return _table(rng, rows), 1, {"forward": 12 * unit / 1e6}, 2.0, 0.25


def _exactly(rng: Rng) -> Given:
    """Passes of four operations that are idle for a quarter of the time, or hardly less.

    One of four is late in the forward pass, one is asked for as the GPU is done in the backward pass, and
    three are late in the optimizer's step, which is the one that is idle for less.
    """
    part = int(rng.integers(2, 12))
    lasts, now, rows = 46_875 * part, int(rng.integers(10**6, 10**9)), []  # in ms, four of them have no rest
    for name, asked in zip(PASSES, ((-5_000, -9, 700, -9), (-9, 0, -7, -9), (-9, 500, 1, 900)), strict=True):
        for after in asked:
            start = max(now, now + after) + 1_000
            rows.append(("kernel", NAMES["tn"], start, start + lasts, 0, 7, now + after, f"step 0/{name}"))
            now = start + lasts
    clean_ms = {"forward": 0.25 * part, "backward": 0.25 * part, "optimizer": 0.2499 * part}
    return _table(rng, rows), 1, clean_ms, float(rng.choice([2.0, 4.0])), 0.25


def cases(rng: Rng) -> list[Case]:
    """Programs that are ahead of the GPU, or behind it, or both in turn."""
    fast, slow = 1_500.0, 15_000.0
    long_optimizer = {"forward": fast, "backward": fast, "optimizer": slow}
    return [
        _case("a step of few operations", _scene(rng, count=3, work=4_000.0)),
        _case("a GPU that is always behind", _scene(rng, steps=2, count=40, work=slow)),
        _case("a GPU that is always ahead", _scene(rng, steps=2, count=40, work=fast)),
        _case("passes that differ", _scene(rng, count=60, work=long_optimizer)),
        _case("blocks are computed again in the backward pass", _scene(rng, count=40, again=0.5)),
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
        _case("exactly as much as is much", _exactly(rng)),
        _case("one that waits for others asked for later", _held_back(rng)),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """Training steps of other models and precisions than the pages'."""
    found = []
    for experiment, run, words in EXAMS:
        with open_run(captures, experiment, run) as report:
            ops = operations_asked(report)
        steps = captures.record(experiment, run)["parameters"]["window"]
        clean = captures.record(experiment, run, clean=True)["results"]
        clean_ms = {name: float(statistics.median(clean[f"{name}_host_ms"])) for name in PASSES}
        found.append(_case(f"a training step of {words}", (ops, steps, clean_ms, 2.0, 0.2)))
    return found


def notes(captures: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """What the answer says about the captures."""
    says = [f"{case.name}: {_show(right)}" for case, right in answered]
    return [*says, "a count of late operations says nothing about time: one may cost more than a hundred"]
