"""Hidden cases of part a (an expert rule): a generator or captures in, cases out.

Captures on which the rule must fire, must not fire, and must say that it cannot know.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labcode.errors import LabError
from labcode.grading.cases import Case, brief
from labcode.grading.codec import Database
from labcode.grading.inputs import Recorder
from labcode.store import CaptureSet
from solutions.advanced._shared import export_of

Rng = np.random.Generator
EXAM = (
    ("memory_timeline", "exam_pinned"),
    ("memory_timeline", "exam_pipelined"),
)


def _loop(
    rng: Rng, *, pid: int = 4000, device: int = 0, copy: float = 0.5, back: bool = True, chunks: int = 1,
    kind: str = "H2D", graph: bool = False, rounds: int = 6, start: int | None = None, memset: bool = False,
) -> Recorder:  # fmt: skip
    """Copy in, compute, copy back, round by round; with chunks on streams of their own, so that they overlap.

    ``copy`` is the length of all copies of a round, in parts of its kernel's.
    """
    cpu = Recorder(
        pid=pid, tid=pid, device=device, now=int(rng.integers(1000, 9000)) if start is None else start
    )
    for _ in range(rounds):
        kernel = int(rng.integers(300_000, 400_000))
        each = int(copy * kernel / chunks / (2 if back else 1))
        for chunk in range(chunks):
            stream = 13 + chunk
            cpu.copy(each, 4 * each, kind, stream=stream)
            if memset:
                cpu.memset(2 * each, stream=40)
            if graph:
                cpu.graph(kernel // chunks, stream=stream)
            else:
                cpu.launch(kernel // chunks, "work(int)", stream=stream)
            if back:
                cpu.copy(each, 4 * each, "D2H" if kind == "H2D" else kind, stream=stream)
        cpu.synchronize()
    return cpu


def _beside(rng: Rng, pid: int, device: int, like: Recorder) -> Recorder:
    """Another process whose kernels fill a GPU for as long as ``like`` runs."""
    until = max(op["end_ns"] for op in like.ops)
    cpu = Recorder(pid=pid, tid=pid, device=device, now=0)
    while cpu.now < until:
        row = cpu.launch(int(rng.integers(200_000, 400_000)), "other(int)")
        cpu.now = row["end_ns"] - 5_000
    return cpu


def _lost_graphs(rng: Rng) -> list[Recorder]:
    cpu = _loop(rng, copy=0.6, rounds=2)
    for _ in range(8):
        cpu.call("cudaGraphLaunch", 5_000)
        cpu.work(200_000)
        cpu.copy(20_000, 10**6)
    return [cpu]


def _no_work() -> list[Recorder]:
    cpu = Recorder(now=1000)
    for _ in range(5):
        cpu.call("cudaGetDevice", 500)
        cpu.work(10_000)
    return [cpu]


def _setup_first(rng: Rng) -> tuple[list[Recorder], tuple[int, int]]:
    """Long copies before the measured part, and none of weight in it."""
    cpu = Recorder(now=2000)
    for _ in range(4):
        cpu.copy(int(rng.integers(400_000, 700_000)), 10**7)
    cpu.synchronize()
    begin = cpu.now
    for _ in range(8):
        cpu.launch(int(rng.integers(200_000, 300_000)), "work(int)")
        cpu.copy(2_000, 4_000, "D2H")
    cpu.synchronize()
    return [cpu], (begin, cpu.now)


def _exactly(rng: Rng, width: int = 110) -> tuple[list[Recorder], tuple[int, int]]:
    """Copies of 11 parts of the window, of ``width`` a tenth to the nanosecond, the longest in the middle, of
    the fewest bytes."""
    unit = int(rng.integers(10**4, 10**5))
    cpu = Recorder(now=2000)
    for length in (2, 5, 1, 3):
        cpu.copy(length * unit, (9 - length) * unit)
        cpu.launch(3 * unit, "work(int)")
    cpu.synchronize()
    begin = cpu.ops[0]["start_ns"]
    return [cpu], (begin, begin + width * unit)


def _captures(rng: Rng) -> list[tuple[str, tuple[Database, str]]]:
    """What is special about each, the capture, and what it has in words."""

    def made(*recorders: Recorder, window: tuple[int, int] | None = None) -> tuple[Database, str]:
        ends = [row["end_ns"] for r in recorders for row in (*r.ops, *r.calls)]
        starts = [row["start_ns"] for r in recorders for row in (*r.ops, *r.calls)]
        window = window or (min(starts), max(ends))
        return export_of(recorders, rng, window=window), _summary(recorders, window)

    covered = _loop(rng, pid=901, copy=0.8)
    setup, window = _setup_first(rng)
    exact, tenth = _exactly(rng)
    near, under = _exactly(rng, 112)
    both = [_loop(rng, pid=310, device=0, copy=0.1), _loop(rng, pid=77, device=1, copy=1.2)]
    little = [_loop(rng, pid=600 + gpu, device=gpu, copy=0.07, start=1000) for gpu in range(3)]
    return [
        ("copy, compute, copy back, one after the other", made(_loop(rng, copy=0.8))),
        ("a little more than the limit", made(_loop(rng, copy=0.18))),
        ("a little less than the limit", made(_loop(rng, copy=0.07))),
        ("exactly the limit", made(*exact, window=tenth)),
        ("hardly less than the limit", made(*near, window=under)),
        ("copies in chunks, hidden by the kernels of other chunks", made(_loop(rng, copy=0.4, chunks=24))),
        (
            "copies in both directions at once",
            made(_loop(rng, pid=51, copy=1.0), _loop(rng, pid=52, copy=1.0)),
        ),
        ("two GPUs, of which one copies much", made(*both)),
        ("three GPUs, of which each copies a little", made(*little)),
        ("kernels of another process hide the copies", made(covered, _beside(rng, 902, 0, covered))),
        ("kernels on another GPU hide nothing", made(covered, _beside(rng, 902, 1, covered))),
        ("graphs that were traced as a whole", made(_loop(rng, copy=0.3, chunks=24, graph=True))),
        ("copies within the GPU", made(_loop(rng, copy=0.8, kind="D2D"))),
        ("memsets beside the copies", made(_loop(rng, copy=0.8, memset=True))),
        ("long copies before the measured part", made(*setup, window=window)),
        ("graph launches that left no trace", made(*_lost_graphs(rng))),
        ("no operation of any GPU", made(*_no_work())),
    ]


def _case(name: str, capture: Database | Path, summary: str) -> Case:
    return Case(name, summary, "say", (capture,), show=_show, limit_s=30.0)


def _show(said: object) -> str:
    return brief(said, 300)


def _summary(recorders: Sequence[Recorder], window: tuple[int, int]) -> str:
    ops = [row for recorder in recorders for row in recorder.ops]
    kinds = Counter(row["kind"] for row in ops).most_common()
    return (
        f"a capture with {', '.join(f'{count} × {kind}' for kind, count in kinds) or 'nothing'} on "
        f"{len({row['device'] for row in ops})} GPU(s), of {len({r.pid for r in recorders})} process(es); "
        f"window of {(window[1] - window[0]) / 1e6:.3g} ms"
    )


def cases(rng: Rng) -> list[Case]:
    """Each made-up capture."""
    return [_case(name, database, summary) for name, (database, summary) in _captures(rng)]


def exam(captures: CaptureSet) -> list[Case]:
    """Captures that no page shows, those that the set has."""
    made = []
    for experiment, run in _there(captures):
        path = captures.path_of(experiment, run)
        made.append(_case(f"a capture you have not seen ({experiment})", path, f"{experiment}, {run}"))
    if not made:
        raise LabError(f"the capture set {captures.name!r} has no run {EXAM[0][1]} of {EXAM[0][0]}")
    return made


def notes(captures: CaptureSet, answered: Sequence[tuple[Case, Any]]) -> list[str]:
    """What the rule says about the captures of the exam."""
    return [
        f"{experiment}, {run}: {said['status']} ({said['share']:.1%} of the window)"
        for (experiment, run), (_, said) in zip(_there(captures), answered, strict=True)
    ]


def _there(captures: CaptureSet) -> list[tuple[str, str]]:
    return [
        pair
        for pair in EXAM
        if pair[0] in captures.experiments and pair[1] in captures.experiments[pair[0]].runs
    ]
