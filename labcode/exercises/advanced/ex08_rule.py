"""Hidden cases of advanced-ex08 (an expert rule): a generator or captures in, cases out.

Captures on which the rule must fire, must not fire, and must say that it cannot know.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.rules import CannotJudgeError, Tables
from labcode.analysis.timeline import intervals
from labcode.errors import LabError
from labcode.exercises.advanced.exports import export_of, opened
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.grading.codec import Database
from labcode.grading.exam import open_run
from labcode.grading.inputs import Recorder
from labcode.reports.nsys.report import NsysReport
from labcode.store import CaptureSet

Rng = np.random.Generator
Said = dict[str, Any]
Spans = tuple[Any, Any]
THRESHOLD = 0.1
HOST = ("H2D", "D2H")
UNKNOWN: Said = {"status": "could not judge", "share": None, "gain": None, "evidence": None}
EXAM = (
    ("memory_timeline", "exam_pinned"),
    ("memory_timeline", "exam_pipelined"),
    ("kernel_overlap", "exam_streams"),
    ("timeline_basics", "exam_baseline"),
    ("timeline_basics", "exam_improved"),
)


def expected(
    tables: Tables,
    *,
    kinds: Sequence[str] = HOST,
    work: Sequence[str] = ("kernel", "graph"),
    union: bool = True,
    hidden: bool = True,
    whole: bool = False,
    by_process: bool = False,
    any_gpu: bool = False,
    guess: bool = False,
) -> Said:
    """What the rule says; the flags are the typical mistakes."""
    try:
        tables.need_busy()
    except CannotJudgeError:
        if not guess:
            return UNKNOWN
    ops, copies, width = tables.ops, tables.memcpys, tables.width
    if whole:
        ops, copies = tables.every_op, tables.report.memcpys()
        times = ops[["start_ns", "end_ns"]]
        width = max(int(times["end_ns"].max() - times["start_ns"].min()), 1) if len(ops) else 1
    copies = copies[copies["copy_kind"].isin(kinds)]
    hiding = ops[ops["kind"].isin(work)] if hidden else ops.iloc[:0]
    each = [0]
    for gpu in sorted(ops["device"].unique()):
        mine, over = copies[copies["device"] == gpu], hiding if any_gpu else hiding[hiding["device"] == gpu]
        if by_process:
            parts = [
                _left(mine[mine["pid"] == pid], over[over["pid"] == pid], union)
                for pid in mine["pid"].unique()
            ]
            each.append(sum(parts))
        else:
            each.append(_left(mine, over, union))
    share, found = max(each) / width, max(each) / width >= THRESHOLD
    return {
        "status": "found" if found else "not found",
        "share": share,
        "gain": min(sum(each) / width, 1.0),
        "evidence": len(copies) > 0,
    }


def _left(copies: pd.DataFrame, work: pd.DataFrame, union: bool) -> int:
    if union:
        return int(intervals.total(*intervals.subtract(*_spans(copies), *_spans(work))))
    starts, ends = _spans(copies)
    return sum(
        int(intervals.total(*intervals.subtract(np.array([a]), np.array([b]), *_spans(work))))
        for a, b in zip(starts, ends, strict=True)
    )


def _spans(table: pd.DataFrame) -> Spans:
    return table["start_ns"].to_numpy(np.int64), table["end_ns"].to_numpy(np.int64)


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


def _captures(rng: Rng) -> list[tuple[str, Database]]:
    def made(*recorders: Recorder, window: tuple[int, int] | None = None) -> Database:
        ends = [row["end_ns"] for r in recorders for row in (*r.ops, *r.calls)]
        starts = [row["start_ns"] for r in recorders for row in (*r.ops, *r.calls)]
        return export_of(recorders, rng, window=window or (min(starts), max(ends)))

    covered = _loop(rng, pid=901, copy=0.8)
    setup, window = _setup_first(rng)
    both = [_loop(rng, pid=310, device=0, copy=0.1), _loop(rng, pid=77, device=1, copy=1.2)]
    return [
        ("copy, compute, copy back, one after the other", made(_loop(rng, copy=0.8))),
        ("a little more than the limit", made(_loop(rng, copy=0.18))),
        ("a little less than the limit", made(_loop(rng, copy=0.07))),
        ("copies in chunks, hidden by the kernels of other chunks", made(_loop(rng, copy=0.4, chunks=24))),
        (
            "copies in both directions at once",
            made(_loop(rng, pid=51, copy=1.0), _loop(rng, pid=52, copy=1.0)),
        ),
        ("two GPUs, of which one copies much", made(*both)),
        ("kernels of another process hide the copies", made(covered, _beside(rng, 902, 0, covered))),
        ("kernels on another GPU hide nothing", made(covered, _beside(rng, 902, 1, covered))),
        ("graphs that were traced as a whole", made(_loop(rng, copy=0.3, chunks=24, graph=True))),
        ("copies within the GPU", made(_loop(rng, copy=0.8, kind="D2D"))),
        ("memsets beside the copies", made(_loop(rng, copy=0.8, memset=True))),
        ("long copies before the measured part", made(*setup, window=window)),
        ("no copies at all", made(_beside(rng, 31, 0, covered))),
        ("graph launches that left no trace", made(*_lost_graphs(rng))),
        ("no operation of any GPU", made(*_no_work())),
    ]


def _case(name: str, capture: Database | Path, report: NsysReport, *, exam: bool = False) -> Case:
    tables = Tables(report)
    right = expected(tables)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("whole graphs are work, too: kind 'graph' beside 'kernel'", {"work": ("kernel",)}),
        ("a memset hides no copy: only kernels and whole graphs do", {"work": ("kernel", "graph", "memset")}),
        ("copies within the GPU are not looked for: only H2D and D2H", {"kinds": (*HOST, "D2D")}),
        ("copies back to the host count, too: H2D and D2H", {"kinds": ("H2D",)}),
        ("copies that run at once count twice: take their union", {"union": False}),
        ("these are all copies; only the time without a kernel counts", {"hidden": False}),
        (
            "only the window counts (tables.ops, tables.memcpys, tables.width), not the whole capture",
            {"whole": True},
        ),
        ("kernels of another process on the same GPU hide a copy as well", {"by_process": True}),
        ("kernels of another GPU hide nothing: compare GPU by GPU", {"any_gpu": True}),
        (
            "nobody can know this: call tables.need_busy() first, and do not catch what it raises",
            {"guess": True},
        ),
    ]
    mistakes = [Mistake(says, expected(tables, **flags)) for says, flags in wrong]
    if right["gain"] is not None:
        mistakes += [
            Mistake(
                "the gain adds up over all GPUs; this is that of the worst", {**right, "gain": right["share"]}
            ),
            Mistake("the gain is missing", {**right, "gain": None}),
            Mistake(
                "gain and share are shares from 0 to 1", {**right, "gain": min(100 * right["gain"], 1.0)}
            ),
            Mistake("the evidence is missing: a table with the copies", {**right, "evidence": False}),
            Mistake(
                "the numbers are right, and the answer is not: found means at least a tenth of the window",
                {**right, "status": "not found" if right["status"] == "found" else "found"},
            ),
        ]
    else:
        mistakes.append(
            Mistake(wrong[-1][0], {"status": "not found", "share": 0.0, "gain": 0.0, "evidence": False})
        )
    return Case(
        name=name,
        summary=_summary(report),
        function="say",
        arguments=(capture,),
        expected=right,
        mistakes=tuple(mistakes),
        exam=exam,
        show=lambda said: brief(said, 300),
        limit_s=30.0,
    )


def _summary(report: NsysReport) -> str:
    ops, window = report.gpu_ops(), report.window()
    kinds = ", ".join(f"{count} × {kind}" for kind, count in ops["kind"].value_counts().items()) or "nothing"
    return (
        f"a capture with {kinds} on {ops['device'].nunique()} GPU(s), of {ops['pid'].nunique()} process(es); "
        f"window of {(window[1] - window[0]) / 1e6:.3g} ms"
    )


def _cases(rng: Rng) -> list[Case]:
    cases = []
    for name, database in _captures(rng):
        with opened(database) as report:
            cases.append(_case(name, database, report))
    return cases


def _exam(captures: CaptureSet) -> list[Case]:
    cases = []
    for experiment, run in EXAM:
        if experiment in captures.experiments and run in captures.experiments[experiment].runs:
            with open_run(captures, experiment, run) as report:
                path = captures.path_of(experiment, run)
                cases.append(_case(f"a capture you have not seen ({experiment})", path, report, exam=True))
    if not cases:
        raise LabError(f"the capture set {captures.name!r} has no run {EXAM[0][1]} of {EXAM[0][0]}")
    return cases


def _notes(captures: CaptureSet) -> list[str]:
    """What the rule says about the captures of the exam."""
    lines = []
    for experiment, run in EXAM:
        if experiment in captures.experiments and run in captures.experiments[experiment].runs:
            with open_run(captures, experiment, run) as report:
                said = expected(Tables(report))
                lines.append(f"{experiment}, {run}: {said['status']} ({said['share']:.1%} of the window)")
    return lines


RULE = Task(_cases, _exam, _notes, forbidden=("labcode.exercises",))
