"""Hidden cases of part b (the profiler's table): a generator or a capture in, cases out."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline import tree as kineto_tree
from labcode.grading.cases import Case, brief
from labcode.store import CaptureSet
from solutions.pytorch._shared import open_ranks_of

Rng = np.random.Generator
Row = dict[str, Any]
EXPERIMENT, RUN = "torch_profiler", "exam_baseline"
EVENTS = ["id", "tid", "name", "start_ns", "end_ns"]
KERNELS = ["event", "stream", "start_ns", "end_ns"]


class _Scene:
    """Events and kernels, put down one after another."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.events: list[Row] = []
        self.kernels: list[Row] = []
        self.free: dict[int, int] = {}
        self.inner_first = False

    def op(self, name: str, start: int, end: int, tid: int = 7) -> int:
        number = len(self.events) * 3 + 11
        self.events.append({"id": number, "tid": tid, "name": name, "start_ns": start, "end_ns": end})
        return number

    def kernel(self, event: int, length: int, *, after: int = 0, stream: int = 7) -> None:
        begin = max(self.free.get(stream, 0), after) + int(self.rng.integers(1, 40))
        self.free[stream] = begin + length
        self.kernels.append({"event": event, "stream": stream, "start_ns": begin, "end_ns": begin + length})

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        events = pd.DataFrame(self.events, columns=EVENTS)
        kernels = pd.DataFrame(self.kernels, columns=KERNELS)
        types = {name: "str" if name == "name" else "int64" for name in EVENTS}
        order = self.rng.permutation(len(events)), self.rng.permutation(len(kernels))
        if self.inner_first:
            order = np.arange(len(events))[::-1], order[1]
        return (
            events.astype(types).iloc[order[0]].reset_index(drop=True),
            kernels.astype("int64").iloc[order[1]].reset_index(drop=True),
        )


def _linear(scene: _Scene, at: int, *, tid: int = 7, stream: int = 7) -> int:
    """A layer: an operator with a matmul and a sum inside; where it ends."""
    rng = scene.rng
    a, b, c = (int(x) for x in rng.integers(5, 60, 3))
    end = at + 40 + a + b + c
    scene.op("aten::linear", at, end, tid)
    inner = scene.op("aten::addmm", at + 10, at + 30 + a + b, tid)
    product = scene.op("aten::mm", at + 15, at + 20 + a, tid)
    scene.kernel(product, int(rng.integers(50, 400)), after=at + 18, stream=stream)
    scene.kernel(inner, int(rng.integers(10, 60)), after=at + 25 + a, stream=stream)
    return end


def _scenes(rng: Rng) -> list[tuple[str, _Scene]]:
    one, several, same, threads, streams, empty, loose, together = (_Scene(rng) for _ in range(8))
    _linear(one, 10)
    at = 1000
    step = several.op("step", at, at + 5000)
    several.kernel(step, 30, after=at)
    for _ in range(4):
        at = _linear(several, at + int(rng.integers(1, 30)))
    outer = same.op("aten::to", 0, 500)
    middle = same.op("aten::to", 40, 400)
    inner = same.op("aten::copy_", 60, 60 + int(rng.integers(100, 300)))
    for number in (outer, middle, inner):
        same.kernel(number, int(rng.integers(20, 90)), after=100)
    threads.op("backward", 100, 2000, 7)
    for tid in (7, 9):
        at = 150
        for _ in range(3):
            at = _linear(threads, at + int(rng.integers(1, 30)), tid=tid, stream=tid)
    side = streams.op("aten::foreach", 0, 100)
    for stream in (7, 13, 17):
        for _ in range(3):
            streams.kernel(side, int(rng.integers(100, 300)), after=20, stream=stream)
    back = 0
    for _ in range(3):  # one begins where the last one ends
        end = back + int(rng.integers(20, 80))
        loose.kernel(loose.op("aten::add", back, end), int(rng.integers(5, 90)), after=back)
        back = end
    loose.op("aten::empty", back, back + 10)
    together.inner_first = True
    for at in (0, 600):  # inside, from its first moment and to its last
        middle_ns = at + int(rng.integers(100, 300))
        outside = together.op("aten::linear", at, at + 500)
        inside = together.op("aten::addmm", at, middle_ns), together.op("aten::add_", middle_ns, at + 500)
        for number in (outside, *inside):
            together.kernel(number, int(rng.integers(20, 90)), after=at)
    return [
        ("one layer", one),
        ("a range around several layers", several),
        ("an operator that calls one of its own name", same),
        ("two threads at the same time", threads),
        ("one operator, three streams", streams),
        ("operators that touch, and one without kernels", loose),
        ("events that begin or end together with the one around them", together),
        ("nothing recorded", empty),
    ]


def _case(name: str, events: pd.DataFrame, kernels: pd.DataFrame) -> Case:
    summary = f"{len(events)} events on {events['tid'].nunique()} threads, {len(kernels)} kernels"
    return Case(name, summary, "summary", (events, kernels), show=partial(brief, limit=500))


def _busy_case(name: str, kernels: pd.DataFrame) -> Case:
    summary = f"{len(kernels)} kernels on {kernels['stream'].nunique()} streams"
    return Case(name, summary, "busy_ns", (kernels,))


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, on the same scenes."""
    scenes = [(name, *scene.tables()) for name, scene in _scenes(rng)]
    return [
        *(_case(name, events, kernels) for name, events, kernels in scenes),
        *(_busy_case(name, kernels) for name, _, kernels in scenes),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """Operators and ranges of a trace, and what ran on the GPU with the event that launched it."""
    with open_ranks_of(captures, EXPERIMENT, RUN) as trace:
        tree = kineto_tree.build(trace, python=False)
        kept = tree.events["kind"].isin(["op", "annotation"])
        events = tree.events[kept].assign(id=np.flatnonzero(kept.to_numpy()))[EVENTS]
        ops = trace.gpu_ops().assign(event=tree.op_event)
    kernels = ops[ops["event"] >= 0][KERNELS]
    events, kernels = events.reset_index(drop=True), kernels.reset_index(drop=True)
    name = f"a trace you have not seen ({EXPERIMENT}, {RUN})"
    return [_case(name, events, kernels), _busy_case(name, kernels)]


def notes(_captures: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """What the table says about the trace."""
    (_, table), (_, busy) = answered
    first = max(table, key=lambda name: table[name][3])
    total = sum(row[4] for row in table.values())
    return [
        f"{first} launched {table[first][3] / busy:.0%} of what the GPU did; the column “device total” adds "
        f"up to {total / busy:.1f} times the time in which the GPU was busy"
    ]


def _busy_ns(kernels: pd.DataFrame) -> int:
    return intervals.total(kernels["start_ns"].to_numpy(np.int64), kernels["end_ns"].to_numpy(np.int64))


AGREES_WITH = {"busy_ns": _busy_ns}
