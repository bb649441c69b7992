"""Hidden cases of part a (the streams of a capture): a generator or captures in, cases out.

Exports on which naive joins go wrong; the other parts ask about them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.errors import LabError
from labcode.grading.cases import Case
from labcode.grading.codec import Database
from labcode.grading.exam import open_run
from labcode.grading.inputs import Recorder, Row
from labcode.reports.nsys.report import MEASURED, open_report
from labcode.store import CaptureSet
from solutions.advanced._shared import DOMAIN, export_of

Rng = np.random.Generator
Rows = list[list[Any]]
EXAM = (("multi_gpu", "exam_improved"), ("timeline_basics", "exam_improved"))
COLUMNS = ("pid", "device", "context", "stream", "kernels", "total_ns")
NAMES = (
    "void gemm<float, 4>(float*, int)",
    "void gemm<half, 8>(half*, int)",
    "scale(float*)",
    "reduce(int, int)",
)


def asked(rng: Rng, columns: Sequence[str]) -> list[Case]:
    """Hidden exports, each a question for these columns."""
    return [_case(name, database, _about(database), columns) for name, database in _scenes(rng)]


def asked_of_captures(captures: CaptureSet, columns: Sequence[str]) -> list[Case]:
    """A capture that no page shows."""
    experiment, run = _exam_run(captures)
    with open_run(captures, experiment, run) as report:
        ops = report.gpu_ops()
        about = _words(len(ops), ops["pid"], ops["device"], len(report.api()), len(report.nvtx()))
    name = f"a capture you have not seen ({experiment})"
    return [_case(name, captures.path_of(experiment, run), about, columns)]


def cases(rng: Rng) -> list[Case]:
    """A case an export."""
    return asked(rng, COLUMNS)


def exam(captures: CaptureSet) -> list[Case]:
    """The same of a capture."""
    return asked_of_captures(captures, COLUMNS)


def _scenes(rng: Rng) -> list[tuple[str, Database]]:
    """Named exports, the plain one first."""
    plain = [_process(rng, 4100, 0, steps=3)]
    ranks = [_process(rng, pid, device, steps=3) for pid, device in ((310, 0), (77, 1), (70_012, 2))]
    shared = [_process(rng, pid, 1, steps=4) for pid in (901, 902)]
    graphs = [_process(rng, 660, 0, steps=2, graphs=3), _process(rng, 661, 1, steps=2, nodes=4)]
    contexts = [_process(rng, 50, 0, steps=3), _process(rng, 50, 0, steps=3, context=2, correlation=5000)]
    lost = [_process(rng, 1200, 0, steps=3), _process(rng, 1300, 3, steps=2)]
    around = [_process(rng, 88, 2, steps=2)]
    _lose_calls(rng, lost)
    made = [
        ("one process, one GPU", plain, {}),
        ("three processes that count their correlations from the same number, a GPU each", ranks, {}),
        ("two processes that share a GPU and run at once", shared, {}),
        ("graphs: some traced as a whole, some node by node", graphs, {}),
        ("two contexts in one process, with the same stream numbers", contexts, {}),
        ("launches that were not recorded, ranges that never ended", lost, {"unended": True}),
        ("GPUs that work only up to the window, or from its end on", around, {"around": True}),
    ]
    return [(name, _export(rng, recorders, **options)) for name, recorders, options in made]


def _process(
    rng: Rng, pid: int, device: int, *, steps: int, context: int = 1, correlation: int = 100, graphs: int = 0,
    nodes: int = 0,
) -> Recorder:  # fmt: skip
    """A thread that copies, launches on two streams, and sets memory, step by step."""
    cpu = Recorder(
        pid=pid, tid=pid, device=device, now=int(rng.integers(1000, 60_000)), correlation=correlation
    )
    for number in range(steps):
        with cpu.range(f"step {number}"):
            with cpu.range("load batch"):
                cpu.work(int(rng.integers(2000, 30_000)))
                cpu.copy(int(rng.integers(3000, 40_000)), int(rng.integers(1000, 10**6)), stream=13)
            with cpu.range("train"):
                for _ in range(int(rng.integers(3, 6))):
                    name = str(rng.choice(NAMES))
                    cpu.launch(int(rng.integers(2000, 40_000)), name, stream=int(rng.choice((7, 13))))
                cpu.memset(int(rng.integers(60_000, 150_000)), stream=20)
                for _ in range(graphs):
                    cpu.graph(int(rng.integers(20_000, 90_000)), stream=25)
                if nodes:
                    cpu.graph_nodes([int(rng.integers(2000, 9000)) for _ in range(nodes)], "node(int)")
        if graphs and number == 0:  # one that nothing else runs beside
            cpu.synchronize()
            cpu.graph(30_000, stream=25)
            cpu.synchronize()
        if rng.random() < 0.5:
            cpu.synchronize()
    for op in cpu.ops:
        op["context"] = context
    return cpu


def _lose_calls(rng: Rng, recorders: Sequence[Recorder]) -> None:
    """Some launches are not in the capture; of one kernel, none is."""
    for recorder in recorders:
        reduces = {op["correlation"] for op in recorder.ops if op["name"] == "reduce(int, int)"}
        recorder.calls = [
            call for call in recorder.calls if call["correlation"] not in reduces and rng.random() > 0.25
        ]


def _export(rng: Rng, recorders: list[Recorder], *, unended: bool = False, around: bool = False) -> Database:
    first = min(op["start_ns"] for r in recorders for op in r.ops)
    last = max(op["end_ns"] for r in recorders for op in r.ops)
    margin = (last - first) // 6
    pid, tid = recorders[0].pid, recorders[0].tid
    at = {"pid": pid, "tid": tid}
    extra: list[Row] = [
        {"start_ns": first, "end_ns": None, "name": "started", "event_type": "mark", **at},
        {"start_ns": 0, "end_ns": None, "name": "NCCL", "event_type": DOMAIN, "domain_id": 4, **at},
    ]
    for n in range(3):
        begin = first + n * margin
        extra.append(
            {"start_ns": begin, "end_ns": begin + 900 + n, "name": "upload", "event_type": "start_end", **at}
        )
    in_another = {"name": "upload", "event_type": "start_end", "domain_id": 4, **at}
    extra.append({"start_ns": first + margin // 2, "end_ns": first + margin // 2 + 700, **in_another})
    if unended:
        extra.append(
            {"start_ns": last - margin, "end_ns": None, "name": "train", "event_type": "push_pop", **at}
        )
        for begin, name in ((last - 90, "epoch"), (last - 9, "epoch"), (last - 7, "check")):
            extra.append({"start_ns": begin, "end_ns": None, "name": name, "event_type": "start_end", **at})
    processes = list(dict.fromkeys(recorder.pid for recorder in recorders))
    for number, one in enumerate(processes):  # the first to begin is the first to end
        begin, end = first + (2 + number) * margin // 2, last - (1 + len(processes) - number) * margin // 2
        measured = {"start_ns": begin, "end_ns": end, "name": MEASURED, "event_type": "push_pop"}
        extra.append({**measured, "pid": one, "tid": one})
    before = {"start_ns": first, "end_ns": first + margin // 4, "name": "lab:warmup"}
    extra.append({**before, "event_type": "push_pop", **at})
    if around:
        low, high = first + margin, last - margin
        for device, start, end in ((5, low - 900, low), (6, high, high + 900)):
            recorders[0].launch(0, device=device)
            recorders[0].ops[-1].update(start_ns=start, end_ns=end)
    return export_of(recorders, rng, extra_nvtx=extra)


def _case(name: str, export: Database | Path, summary: str, columns: Sequence[str]) -> Case:
    return Case(
        name, summary, "answer", (export, list(columns)), relative=1e-9, show=partial(_shown, columns)
    )


def _shown(columns: Sequence[str], rows: Any) -> str:
    first = "; ".join(
        ", ".join(f"{c} {_text(v)}" for c, v in zip(columns, row, strict=True)) for row in rows[:3]
    )
    return f"{len(rows)} row{'s' * (len(rows) != 1)}: {first}{'; …' if len(rows) > 3 else ''}"


def _text(value: Any) -> str:
    return "NULL" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _about(database: Database) -> str:
    tables = database.tables
    ops = pd.concat([table for table in tables.values() if "deviceId" in table.columns])
    calls = len(tables["CUPTI_ACTIVITY_KIND_RUNTIME"])
    return _words(len(ops), ops["globalPid"], ops["deviceId"], calls, len(tables["NVTX_EVENTS"]))


def _words(ops: int, pids: pd.Series[Any], devices: pd.Series[Any], calls: int, events: int) -> str:
    return (
        f"an export with {ops} GPU operations of {pids.nunique()} process(es) on "
        f"{devices.nunique()} GPU(s), {calls} calls, {events} NVTX events"
    )


def _exam_run(captures: CaptureSet) -> tuple[str, str]:
    """The first of `EXAM` that the set has: one GPU alone captures no run on several."""
    for experiment, run in EXAM:
        if experiment in captures.experiments and run in captures.experiments[experiment].runs:
            return experiment, run
    raise LabError(f"the capture set {captures.name!r} has no run {EXAM[-1][1]} of {EXAM[-1][0]}")


def rows_of(table: pd.DataFrame) -> Rows:
    """A table as the rows of an answer."""
    return [
        [None if pd.isna(value) else value for value in row]
        for row in table.astype(object).to_numpy().tolist()
    ]


def _streams(export: Path, _columns: Sequence[str]) -> Rows:
    with open_report(export) as report:
        kernels = report.kernels()
    kernels["ns"] = kernels["end_ns"] - kernels["start_ns"]
    table = kernels.groupby(["pid", "device", "context", "stream"])["ns"].agg(["size", "sum"])
    return rows_of(table.reset_index())


AGREES_WITH = {"answer": _streams}
