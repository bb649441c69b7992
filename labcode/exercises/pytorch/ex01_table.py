"""Hidden cases of pytorch-ex01, part b (the profiler's table): a generator or a capture in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline import tree as kineto_tree
from labcode.errors import LabError
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.reports.kineto.report import open_trace
from labcode.store import CaptureSet

Rng = np.random.Generator
Summary = dict[str, tuple[int, int, int, int, int]]
Row = dict[str, Any]
EXPERIMENT, RUN = "torch_profiler", "exam_baseline"
EVENTS = ["id", "tid", "name", "start_ns", "end_ns"]
KERNELS = ["event", "stream", "start_ns", "end_ns"]


def summary(
    events: pd.DataFrame,
    kernels: pd.DataFrame,
    *,
    by_thread: bool = True,
    direct: bool = True,
    own: bool = True,
    deep: bool = True,
    inside: bool = True,
    outermost: bool = False,
    merged: bool = False,
    waits: bool = False,
    longest_first: bool = True,
) -> Summary:
    """The table; the flags are the typical mistakes."""
    order = ["tid", "start_ns", "end_ns"] if by_thread else ["start_ns", "end_ns"]
    last = not longest_first
    ordered = events.sort_values(order, ascending=[*[True] * (len(order) - 1), last], kind="stable")
    rows: list[Row] = [dict(zip(EVENTS, row, strict=True)) for row in ordered[EVENTS].itertuples(index=False)]
    spent: dict[int, int] = {}
    for _, mine in kernels.groupby(kernels["event"].to_numpy(np.int64)):
        times = mine["start_ns"].to_numpy(np.int64), mine["end_ns"].to_numpy(np.int64)
        spent[int(mine["event"].iloc[0])] = (
            intervals.total(*times) if merged else int((times[1] - times[0]).sum())
        )
    open_rows: list[Row] = []
    for row in rows:
        while open_rows and (
            (by_thread and open_rows[-1]["tid"] != row["tid"]) or open_rows[-1]["end_ns"] <= row["start_ns"]
        ):
            open_rows.pop()
        row["around"] = list(open_rows)
        row["total"] = row["end_ns"] - row["start_ns"]
        row["device"] = spent.get(row["id"], 0)
        row["self"], row["device_total"] = row["total"], row["device"]
        open_rows.append(row)
    for row in rows:
        for place, outer in enumerate(reversed(row["around"])):
            if not own or (direct and place):
                pass
            else:
                outer["self"] -= row["total"]
            if inside and (deep or place == 0):
                outer["device_total"] += row["device"]
        if waits:
            row["self"] += row["device"]
    found: Summary = {}
    for row in rows:
        if outermost and any(outer["name"] == row["name"] for outer in row["around"]):
            values = (1, row["self"], 0, row["device"], 0)
        else:
            values = (1, row["self"], row["total"], row["device"], row["device_total"])
        before = found.get(row["name"], (0, 0, 0, 0, 0))
        a, b, c, d, e = (x + y for x, y in zip(before, values, strict=True))
        found[row["name"]] = (a, b, c, d, e)
    return found


def busy_ns(kernels: pd.DataFrame) -> int:
    """The length of the union."""
    return intervals.total(kernels["start_ns"].to_numpy(np.int64), kernels["end_ns"].to_numpy(np.int64))


class _Scene:
    """Events and kernels, put down one after another."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.events: list[Row] = []
        self.kernels: list[Row] = []
        self.free: dict[int, int] = {}

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
        return (
            events.astype(types).iloc[order[0]].reset_index(drop=True),
            kernels.astype("int64").iloc[order[1]].reset_index(drop=True),
        )


def _linear(scene: _Scene, at: int, *, tid: int = 7, stream: int = 7) -> int:
    """A layer: an operator with a product and a sum inside; where it ends."""
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


def _case(name: str, events: pd.DataFrame, kernels: pd.DataFrame, *, exam: bool = False) -> Case:
    wrong: tuple[tuple[str, dict[str, bool]], ...] = (
        ("an event lies inside another one of its own thread only", {"by_thread": False}),
        ("CPU self leaves out the direct children; what is inside of those is already in them",
         {"direct": False}),
        ("CPU self is without what lies inside", {"own": False}),
        ("device total has the kernels of everything inside, however deep", {"deep": False}),
        ("device total has the kernels of the events inside, too", {"inside": False}),
        ("an operator inside one of its own name counts, too (as in PyTorch's table)", {"outermost": True}),
        ("device times are sums of durations, also of kernels that run side by side", {"merged": True}),
        ("the CPU does not wait for kernels: their time is no time of the CPU", {"waits": True}),
        ("of events that begin together the longer one is around the other", {"longest_first": False}),
    )  # fmt: skip
    return Case(
        name=name,
        summary=f"{len(events)} events on {events['tid'].nunique()} threads, {len(kernels)} kernels",
        function="summary",
        arguments=(events, kernels),
        expected=summary(events, kernels),
        mistakes=tuple(Mistake(says, summary(events, kernels, **flags)) for says, flags in wrong),
        exam=exam,
        show=lambda answer: brief(answer, 500),
        limit_s=60.0 if exam else 10.0,
    )


def _busy_case(name: str, kernels: pd.DataFrame, *, exam: bool = False) -> Case:
    spent = kernels["end_ns"] - kernels["start_ns"]
    span = int(kernels["end_ns"].max() - kernels["start_ns"].min()) if len(kernels) else 0
    return Case(
        name=name,
        summary=f"{len(kernels)} kernels on {kernels['stream'].nunique()} streams",
        function="busy_ns",
        arguments=(kernels,),
        expected=busy_ns(kernels),
        mistakes=(
            Mistake("this is the sum of durations: what runs side by side counts once", int(spent.sum())),
            Mistake("this is from the first start to the last end: the gaps are in it", span),
        ),
        exam=exam,
    )


def _cases(rng: Rng) -> list[Case]:
    scenes = [(name, *scene.tables()) for name, scene in _scenes(rng)]
    return [
        *(_case(name, events, kernels) for name, events, kernels in scenes),
        *(_busy_case(name, kernels) for name, _, kernels in scenes),
    ]


def exam_tables(captures: CaptureSet) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Operators and ranges of the unseen trace, and what ran on the GPU with the event that launched it."""
    if EXPERIMENT not in captures.experiments or RUN not in captures.experiments[EXPERIMENT].runs:
        raise LabError(f"the capture set {captures.name!r} has no run {RUN} of {EXPERIMENT}")
    with open_trace(captures.path_of(EXPERIMENT, RUN, ".trace.json.gz")) as trace:
        tree = kineto_tree.build(trace, python=False)
        kept = tree.events["kind"].isin(["op", "annotation"])
        events = tree.events[kept].assign(id=np.flatnonzero(kept.to_numpy()))[EVENTS]
        ops = trace.gpu_ops().assign(event=tree.op_event)
    kernels = ops[ops["event"] >= 0][KERNELS]
    return events.reset_index(drop=True), kernels.reset_index(drop=True)


def _exam(captures: CaptureSet) -> list[Case]:
    events, kernels = exam_tables(captures)
    name = f"a trace you have not seen ({EXPERIMENT}, {RUN})"
    return [_case(name, events, kernels, exam=True), _busy_case(name, kernels, exam=True)]


def _notes(captures: CaptureSet) -> list[str]:
    """What the table says about the trace of the exam."""
    events, kernels = exam_tables(captures)
    table = summary(events, kernels)
    first = max(table, key=lambda name: table[name][3])
    busy = busy_ns(kernels)
    total = sum(row[4] for row in table.values())
    return [
        f"{first} launched {table[first][3] / busy:.0%} of what the GPU did; the column «device total» adds "
        f"up to {total / busy:.1f} times the time in which the GPU was busy"
    ]


TABLE = Task(_cases, _exam, _notes)
