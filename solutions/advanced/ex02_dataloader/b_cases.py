"""Hidden cases of part b (what bounds the run): a generator or captures in, cases out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.timeline import feed
from labcode.grading.cases import Case, brief
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
Window = tuple[int, int]
EXPERIMENT, RUNS = "dataloader", ("exam_baseline", "exam_disk")
STAGES = feed.STAGES
WAIT, MEASURED = "data wait", "lab:measured"
_RANGES = {"start_ns": "int64", "end_ns": "int64", "pid": "int64", "tid": "int64", "name": "str"}
_OPS = {"start_ns": "int64", "end_ns": "int64", "stream": "int64"}
_LOOP = (300, 305)
_US = 1000
_Rows = list[tuple[int, int, int, int, str]]


@dataclass(frozen=True)
class Run:
    """What part b gets: ranges (start_ns, end_ns, pid, tid, name), ops (start_ns, end_ns, stream), the
    window, and how many items a batch has."""

    ranges: pd.DataFrame
    ops: pd.DataFrame
    window: Window
    batch: int


@dataclass(frozen=True)
class Plan:
    """A made-up run: µs of each stage for an item, the GPU's µs a step, and what is odd about it."""

    stages: Mapping[str, int]
    gpu_us: int
    workers: int = 3
    batch: int = 6
    steps: int = 12
    ahead: int = 2
    odd: frozenset[str] = field(default_factory=frozenset)


def _scenes(rng: Rng) -> list[tuple[str, Run]]:
    """Runs that are bound by different things, easy ones first."""

    def near(us: int) -> int:
        return int(us * rng.uniform(0.9, 1.1))

    slow_transform = {"read": near(30), "decode": near(200), "transform": near(900)}
    slow_read = {"read": near(1200), "decode": near(150), "transform": near(180)}
    slow_decode = {"read": near(60), "decode": near(1000), "transform": near(500)}
    quick = {"read": near(30), "decode": near(100), "transform": near(120)}

    def plan(stages: Mapping[str, int], gpu_us: int, *odd: str, workers: int = 3) -> Run:
        return _run(rng, Plan(stages, near(gpu_us), workers, odd=frozenset(odd)))

    return [
        ("the transform is slow", plan(slow_transform, 1200)),
        ("the GPU is the slower side", plan(quick, 3000)),
        ("the loop makes its batches itself", plan(slow_decode, 1500, workers=0)),
        ("reading is slow, and another process reads, too", plan(slow_read, 1400, "reader")),
        ("copies overlap with kernels", plan(slow_decode, 1600, "overlap")),
        ("workers whose threads have the same number", plan(slow_transform, 1500, "same_tid", workers=4)),
        ("a second loop evaluates", plan(slow_read, 1100, "evaluation")),
        ("one read takes very long", plan(slow_decode, 900, "hiccup")),
        ("a single worker, with GPU work around the window", plan(slow_transform, 2500, "around", workers=1)),
        ("ranges that touch the window's ends, a feed exactly as fast as the GPU", _edges(rng)),
        ("ranges that the window's end cuts, and a stage of few long ranges", _edges(rng, cut=True)),
        ("no ranges of stages", plan(quick, 2000, "no_stages")),
        ("no step within the window", plan(quick, 2000, "no_steps")),
    ]


def _edges(rng: Rng, *, cut: bool = False) -> Run:
    """Two feeders; each range and operation where the rules have an end, or across it.

    ``cut``: and a process none of whose threads has all stages.
    """
    base, unit = int(rng.integers(10**6, 10**7)), int(rng.integers(500, 2000))
    waits = (-100, 0), (0, 50), (250, 300), (500, 600), (750, 760), (950, 1100) if cut else (1000, 1100)
    feeders = [((0, 60, 100, 180), 400), ((780, 800, 880, 1040 if cut else 1000), 401)]
    if cut:
        feeders.append(((400, 420, 500, 600), 401))
    rows = [(-70, 1090, *_LOOP, MEASURED), *((*wait, *_LOOP, WAIT) for wait in waits)]
    for times, pid in feeders:
        spans = zip(times, times[1:], STAGES, strict=False)
        rows += [(start, end, pid, pid, name) for start, end, name in spans]
    if cut:
        rows += [
            (200, 390, 402, 402, "read"),
            (390, 400, 402, 403, "decode"),
            (400, 410, 402, 403, "transform"),
        ]
    ranges = pd.DataFrame(rows, columns=list(_RANGES)).astype(_RANGES)
    ops = pd.DataFrame([(0, 500, 7), (400, 800, 13)], columns=list(_OPS)).astype(_OPS)
    for table in (ranges, ops):
        table[["start_ns", "end_ns"]] = base + unit * table[["start_ns", "end_ns"]]
    return Run(ranges, ops, (base, base + 1000 * unit), 2)


def run_of(captures: CaptureSet, run: str) -> Run:
    """A capture."""
    batch = int(captures.record(EXPERIMENT, run)["parameters"]["batch"])
    with open_run(captures, EXPERIMENT, run) as report:
        nvtx = report.nvtx()
        ranges = nvtx[nvtx["end_ns"].notna()][list(_RANGES)].astype(_RANGES).reset_index(drop=True)
        return Run(ranges, report.gpu_ops()[list(_OPS)].reset_index(drop=True), report.window(), batch)


def _run(rng: Rng, plan: Plan) -> Run:
    """Workers make batches by the rules of the loader; the loop takes them and feeds the GPU."""
    total = plan.steps + 6
    parts = np.array([plan.stages[name] for name in STAGES], np.float64) * _US
    times = parts * rng.uniform(0.75, 1.25, (total * plan.batch, len(STAGES)))
    if "hiccup" in plan.odd:
        times[(total // 2) * plan.batch, 0] = 3.0 * times.mean() * len(STAGES)
    cost = times.sum(axis=1).reshape(total, plan.batch).sum(axis=1)
    step = plan.gpu_us * _US + 60.0 * _US
    begin = float(rng.integers(1_000_000, 9_000_000))
    made = feed.delivered(cost, step, plan.workers, plan.ahead)
    rows: _Rows = []
    for index, worker, start in zip(
        *(made[name].tolist() for name in ("index", "worker", "start_ns")), strict=True
    ):
        now = begin + start
        for item in times[index * plan.batch :][: plan.batch].tolist():
            for name, ns in zip(STAGES, item, strict=True):
                rows.append((int(now), int(now + 0.99 * ns), *_thread(plan, worker), name))
                now += ns
    had = begin + made["taken_ns"].to_numpy(np.float64)
    asked = had - made["waited_ns"].to_numpy(np.float64)
    rows += [(int(a), int(b) + 2000, *_LOOP, WAIT) for a, b in zip(asked, had, strict=True)]
    first, last = 3, 3 + plan.steps
    window = int(asked[first]) - 500, int(asked[last]) - 500
    around = _US if "same_tid" in plan.odd else 0  # the window lies within
    rows.append((window[0] - around, window[1] + around, *_LOOP, MEASURED))
    _add_odd(rng, plan, rows, window)
    kept = [row for row in rows if row[0] <= window[1] and row[1] >= window[0]]
    if "no_stages" in plan.odd:
        kept = [row for row in kept if row[4] not in STAGES]
    if "no_steps" in plan.odd:
        kept = [row for row in kept if row[4] != WAIT]
    ranges = pd.DataFrame([kept[i] for i in rng.permutation(len(kept))], columns=list(_RANGES))
    ops = _gpu_work(rng, plan, had, window)
    return Run(ranges.astype(_RANGES), ops, window, plan.batch)


def _thread(plan: Plan, worker: int) -> tuple[int, int]:
    if not plan.workers:
        return _LOOP
    pid = 400 + 13 * worker
    return pid, 7 if "same_tid" in plan.odd else pid


def _add_odd(rng: Rng, plan: Plan, rows: _Rows, window: Window) -> None:
    """Threads that have nothing to do with the feed, but ranges of the same names."""
    width = window[1] - window[0]
    if "reader" in plan.odd:  # sends logs away
        for at in range(window[0], window[1], width // 9):
            rows.append((at, at + width // 10, 900, 900, "read"))
    if "evaluation" in plan.odd:
        threads = (910, 910), (_LOOP[0], 911), (910, _LOOP[1])
        for number, at in enumerate(range(window[0] + 5000, window[1], width // 7)):
            rows.append((at, at + int(width / rng.uniform(9, 12)), *threads[number % 3], WAIT))


def _gpu_work(rng: Rng, plan: Plan, had: NDArray[np.float64], window: Window) -> pd.DataFrame:
    """A copy and kernels a step; those of steps outside the window count only where "around" is odd."""
    rows: list[tuple[int, int, int]] = []
    for at in had.tolist():
        start = int(at) + 15 * _US
        if not ("around" in plan.odd or window[0] <= start < window[1]):
            continue
        rest = plan.gpu_us * _US
        copied = int(0.2 * rest) if "overlap" in plan.odd else 8 * _US
        rows.append((start, start + copied, 13 if "overlap" in plan.odd else 7))
        now = start + (int(0.5 * copied) if "overlap" in plan.odd else copied)
        end = start + rest
        for share in rng.dirichlet(np.full(5, 8.0)).tolist():
            length = int(share * (end - start - copied))
            rows.append((now, now + length, 7))
            now += length
    return pd.DataFrame([rows[i] for i in rng.permutation(len(rows))], columns=list(_OPS)).astype(_OPS)


def _describe(run: Run) -> str:
    """The input in words."""
    names = run.ranges["name"].value_counts()
    counts = ", ".join(f"{names.get(name, 0)} {name!r}" for name in (*STAGES, WAIT))
    threads = len(run.ranges.drop_duplicates(["pid", "tid"]))
    return (
        f"ranges of {threads} threads ({counts}), {len(run.ops)} operations; batch = {run.batch}, "
        f"window = {run.window}"
    )


def _case(name: str, run: Run) -> Case:
    return Case(
        name=name,
        summary=_describe(run),
        function="bound",
        arguments=(run.ranges, run.ops, run.window, run.batch),
        show=lambda answer: brief(answer, 400),
    )


def cases(rng: Rng) -> list[Case]:
    """A case a run."""
    return [_case(name, run) for name, run in _scenes(rng)]


def exam(captures: CaptureSet) -> list[Case]:
    """Captures that no page shows."""
    name = "a capture you have not seen"
    return [_case(f"{name} ({EXPERIMENT}, {run})", run_of(captures, run)) for run in RUNS]


def notes(captures: CaptureSet, answered: Sequence[tuple[Case, Any]]) -> list[str]:
    """What the answers say about the captures of the exam."""
    return [
        f"{run}: the loop waits for data {found['wait_share']:.0%} of the time; {found['stage']} "
        f"costs most, without it a step would be {found['gain']:.1f} times as fast at most; the "
        f"two rates explain {found['explained']:.0%} of a step, the rest is handing over and waiting "
        "for a turn"
        for run, (_, found) in zip(RUNS, answered, strict=True)
        if found is not None
    ]
