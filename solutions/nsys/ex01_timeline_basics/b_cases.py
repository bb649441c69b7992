"""Hidden cases of part b (what the CPU did in gaps): a generator or captures in, cases out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline.utilization import idle_gaps
from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.grading.inputs import Recorder, Row, ops_table, table, tables_of
from labcode.store import CaptureSet

Window = tuple[int, int]
Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]
Rng = np.random.Generator
Stretch = tuple[str, str, int]  # a range ("" for none), an activity, how long
EXPERIMENT, RUN = "timeline_basics", "exam_baseline"
_ORDER = ["launching_thread", "range_at", "idle_by_range", "what_it_did", "diagnose"]
_CALLS = {"waiting": "cudaStreamSynchronize", "calling": "cudaMalloc"}


def _loop(
    rng: Rng, why: str, *, pid: int = 4000, tid: int = 4000, correlation: int = 100, steps: int = 2
) -> Recorder:
    """A training loop whose GPU is idle for one main reason: CPU work, waiting, or calls."""
    us = 1000
    cpu = Recorder(pid=pid, tid=tid, now=int(rng.integers(10**6, 10**8)), correlation=correlation)
    scale = int(rng.integers(2, 6))
    with cpu.range("lab:measured"):
        for step in range(steps):
            with cpu.range(f"step {step}"):
                with cpu.range("load batch"):
                    cpu.work((400 * scale if why == "computing" else 5) * us + int(rng.integers(us)))
                with cpu.range("copy to GPU"):
                    cpu.copy(40 * us, 1 << 20)
                with cpu.range("forward"):
                    for _ in range(2):
                        cpu.work(int(rng.integers(2, 4)) * us)
                        cpu.launch(30 * us + int(rng.integers(us)), "gemm")
                with cpu.range("backward"):
                    if why == "calling":
                        cpu.call("cudaMalloc", 300 * scale * us)
                    for _ in range(2):
                        cpu.launch(40 * us + int(rng.integers(us)), "gemm")
                with cpu.range("read loss"):
                    cpu.read_back()
                    if why == "waiting":
                        cpu.call("cudaStreamSynchronize", 250 * scale * us)
    return cpu


def _with_worker(rng: Rng, main: Recorder) -> list[Recorder]:
    """The same process has another thread, in ranges and calls of its own, which launches nothing."""
    other = Recorder(
        pid=main.pid,
        tid=main.tid + 9,
        now=main.ranges[0]["start_ns"] - 500,
        correlation=main.correlation + 5000,
    )
    end = max(row["end_ns"] for row in main.ranges)
    with other.range("loader"):
        while other.now < end + 1000:
            with other.range("prepare next batch"):
                other.work(int(rng.integers(50_000, 90_000)))
            other.call("cudaEventSynchronize", int(rng.integers(2000, 9000)))
    return [main, other]


def _with_process(rng: Rng, main: Recorder) -> list[Recorder]:
    """Another process on another GPU whose correlations are the same numbers."""
    other = Recorder(
        pid=main.pid + 77, tid=main.tid + 77, device=1, now=main.ranges[0]["start_ns"] + 1111, correlation=100
    )
    with other.range("other process"):
        for _ in range(10):
            other.work(int(rng.integers(10_000, 30_000)))
            other.launch(int(rng.integers(5_000, 9_000)))
    return [other, main]


def _situations(rng: Rng) -> list[tuple[str, Tables, Window]]:
    """What is special about each loop; its tables ``gpu_ops``, ``api`` and ``nvtx``; the window to judge."""
    loops = {why: _loop(rng, why) for why in ("computing", "waiting", "calling")}
    made = [
        ("a loop with one thread", [loops["computing"]]),
        ("a loop that waits on the CPU for the GPU", [loops["waiting"]]),
        ("a loop that makes long calls", [loops["calling"]]),
        ("a loop on a thread that is not the main one", [_loop(rng, "computing", tid=4023)]),
        ("another thread of the process is in ranges of its own", _with_worker(rng, _loop(rng, "computing"))),
        (
            "another process counts its correlations from the same number",
            _with_process(rng, _loop(rng, "waiting", pid=310, tid=311)),
        ),
    ]
    found = []
    for name, recorders in made:
        ops, api, nvtx = tables_of(recorders)
        window = int(ops["start_ns"].min()) - 2000, int(ops["end_ns"].max()) + 5000
        found.append((name, (ops, api, nvtx), window))
    name, (ops, api, nvtx), window = found[0]
    lost = api.drop(index=api[api["name"] == "cudaMemcpyAsync"].index[-2:]).reset_index(drop=True)
    found.append(("two launches were not recorded", (ops, lost, nvtx), window))
    still_open = nvtx.copy()
    still_open.loc[nvtx["name"] == "lab:measured", "end_ns"] = pd.NA
    found.append(("a range that never ended, and a mark", (ops, api, _marked(still_open)), window))
    never = nvtx.copy()
    never.loc[nvtx["name"].isin(["forward", "load batch"]), "end_ns"] = pd.NA
    found.append(("ranges within a step that never ended", (ops, api, never), window))
    return [*found, *((name, *_stretches(rng, stretches)) for name, stretches in _BY_HAND)]


# What a thread did in each gap. The numbers are chosen so that one rule alone decides.
_BY_HAND: list[tuple[str, list[Stretch]]] = [
    (
        "neither the longest gap of a range nor all gaps of all ranges say what it is",
        [
            ("load batch", "waiting", 900),
            ("load batch", "computing", 600),
            ("load batch", "computing", 700),
            ("backward", "calling", 1800),
            ("load batch", "calling", 400),
        ],
    ),
    (
        "most of the idle time has no launch that was recorded, much has no range",
        [
            ("forward", "lost", 2500),
            ("", "waiting", 1500),
            ("forward", "lost", 2500),
            ("load batch", "calling", 900),
            ("", "waiting", 1500),
            ("forward", "computing", 500),
        ],
    ),
    (
        "most of the idle time is in no range",
        [
            ("", "computing", 3000),
            ("forward", "waiting", 800),
            ("", "computing", 900),
            ("backward", "calling", 700),
        ],
    ),
    (
        "the range with the longest gap is not the one with the most idle time",
        [("backward", "waiting", 1500), *[("forward", "computing", 600)] * 4, ("", "waiting", 50)],
    ),
]


def _stretches(rng: Rng, stretches: list[Stretch]) -> tuple[Tables, Window]:
    """One thread whose GPU is idle once for each stretch: ``lost`` is one whose launch was not recorded."""
    unit, now = int(rng.integers(900, 3000)), int(rng.integers(10**6, 10**8))
    where: Row = {"pid": 4000, "tid": 4023}
    ops: list[Row] = [{"start_ns": now - 50 * unit, "end_ns": now, "pid": 4000, "correlation": 99}]
    api: list[Row] = [{"start_ns": now - 60 * unit, "end_ns": now - 59 * unit, "correlation": 99, **where}]
    nvtx: list[Row] = []
    for number, (name, what, length) in enumerate(stretches, start=100):
        end = now + length * unit
        if name:
            nvtx.append({"start_ns": now - 7, "end_ns": end + 7, "name": name, **where})
        if what in _CALLS:
            api.append({"start_ns": now - 3, "end_ns": end - 9 * unit, "name": _CALLS[what], **where})
        if what != "lost":
            api.append({"start_ns": end - 2 * unit, "end_ns": end - unit, "correlation": number, **where})
        now = end + 40 * unit
        ops.append({"start_ns": end, "end_ns": now, "pid": 4000, "correlation": number})
    tables = ops_table(ops), table(api, "api"), table(nvtx, "nvtx")
    return tables, (int(ops[0]["start_ns"]), now)


def _marked(nvtx: pd.DataFrame) -> pd.DataFrame:
    """The ranges, and marks and start/end ranges that began later: neither says what a thread is in."""
    loads = nvtx[nvtx["name"] == "load batch"]
    far = pd.array([int(nvtx["start_ns"].max()) + 10**9] * len(loads), dtype="Int64")
    spans = loads.assign(
        event_type="start_end", name="whole epoch", start_ns=loads["start_ns"] + 1, end_ns=far
    )
    marks = loads.assign(event_type="mark", name="epoch", start_ns=loads["start_ns"] + 2)
    marks["end_ns"] = pd.array([pd.NA] * len(loads), dtype="Int64")
    return pd.concat([nvtx, spans, marks], ignore_index=True)


def _summary(tables: Tables, window: Window) -> str:
    ops, api, nvtx = tables
    return (
        f"{len(ops)} operations, {len(api)} calls, {len(nvtx)} ranges of {api['pid'].nunique()} "
        f"process(es); window = {window}"
    )


def _questions(name: str, tables: Tables, window: Window, *, slow: bool = False) -> list[Case]:
    """All functions on a scene: the longest gaps, and one whose launch is unknown."""
    ops, api, nvtx = tables
    found = idle_gaps(ops, window)
    rows = zip(*(found[column].tolist() for column in ("device", "start_ns", "end_ns")), strict=True)
    gaps = sorted(
        (gap for gap in rows if gap[2] != window[1]), key=lambda gap: (gap[1] - gap[2], gap[1], gap[0])
    )
    threads = _launchers(ops, api, gaps)
    unknown = [gap for gap in gaps if threads[gap] is None]
    summary = _summary(tables, window)
    cases = []
    for device, _, end in [*gaps[:2], *unknown[:1]]:
        text = f"{summary}; device = {device}, time_ns = {end}"
        cases.append(Case(name, text, "launching_thread", (ops, api, device, end)))
    for gap in gaps[:2]:
        if (thread := threads[gap]) is not None:
            (pid, tid), (_, start, end) = thread, gap
            text = f"{len(api)} calls; pid = {pid}, tid = {tid}, start_ns = {start}, end_ns = {end}"
            cases.append(Case(name, text, "what_it_did", (api, pid, tid, start, end)))
            cases.append(_range_case(name, nvtx, pid, tid, (start + end) // 2))
    for function, limit_s in (("idle_by_range", 120.0), ("diagnose", 180.0)):
        arguments = ops, api, nvtx, list(window)
        cases.append(Case(name, summary, function, arguments, limit_s=limit_s if slow else None))
    return cases


def _range_case(name: str, nvtx: pd.DataFrame, pid: int, tid: int, time_ns: int) -> Case:
    text = f"{len(nvtx)} ranges; pid = {pid}, tid = {tid}, time_ns = {time_ns}"
    return Case(name, text, "range_at", (nvtx, pid, tid, time_ns))


def _launchers(
    ops: pd.DataFrame, api: pd.DataFrame, gaps: Sequence[tuple[int, int, int]]
) -> dict[tuple[int, int, int], tuple[int, int] | None]:
    """The thread that ends each gap, if its call is there; of several operations or calls the first."""

    def first(table: pd.DataFrame, *keys: str) -> dict[tuple[int, int], tuple[int, ...]]:
        rows = list(zip(*(table[key].tolist() for key in keys), strict=True))
        return {row[:2]: row[2:] for row in reversed(rows)}

    begun = first(ops, "device", "start_ns", "pid", "correlation")
    calls = first(api, "pid", "correlation", "pid", "tid")
    return {gap: calls.get(begun[gap[0], gap[2]]) for gap in gaps}


def _edges(rng: Rng) -> list[Case]:
    """The moments at which ranges begin and end, and the launch of an operation that does not begin there."""
    at, unit = int(rng.integers(10**6, 10**8)), int(rng.integers(10, 90))
    spans = {"step": (0, 100), "load batch": (10, 40), "copy to GPU": (40, 60)}
    rows = [
        {"start_ns": at + a * unit, "end_ns": at + b * unit, "name": name, "pid": 71, "tid": 75}
        for name, (a, b) in spans.items()
    ]
    elsewhere = [
        {**rows[1], **other} for other in ({"tid": 71, "name": "other thread"}, {"pid": 9, "name": "other"})
    ]
    nvtx = table([*rows, *({**row, "start_ns": at + 11 * unit} for row in elsewhere)], "nvtx")
    moments = [
        ("begins", 10),
        ("is open, as are others elsewhere", 20),
        ("ends", 60),
        ("ends, and another begins", 40),
        ("ends, the last one", 100),
    ]
    cases = [_range_case(f"the moment a range {words}", nvtx, 71, 75, at + n * unit) for words, n in moments]
    ops = ops_table(
        [{"start_ns": at, "end_ns": at + 5, "device": d, "pid": 71, "correlation": d} for d in (2, 3)]
    )
    api = table([{"start_ns": at - 9, "pid": 71, "tid": 70 + d, "correlation": d} for d in (2, 3)], "api")
    at_once = "operations begin on two devices at once"
    for device, time_ns, name in (
        (3, at, at_once),
        (2, at, at_once),
        (2, at + 1, "no operation begins there"),
    ):
        text = f"2 operations, 2 calls; device = {device}, time_ns = {time_ns}"
        cases.append(Case(name, text, "launching_thread", (ops, api, device, time_ns)))
    calls = [
        (5, 20, "cudaStreamSynchronize"),
        (20, 30, "cudaLaunchKernel"),
        (95, 120, "cudaEventSynchronize"),
    ]
    api = table(
        [
            {"start_ns": at + a * unit, "end_ns": at + b * unit, "name": n, "pid": pid, "tid": tid}
            for pid, tid in ((71, 75), (9, 75), (71, 71))
            for a, b, n in calls
        ],
        "api",
    )
    for start, end, name in (
        (20, 95, "a stretch that begins and ends where calls do"),
        (10, 100, "calls cross both ends of the stretch"),
        (40, 90, "no call in the stretch"),
    ):
        begin, stop = at + start * unit, at + end * unit
        text = f"9 calls of three threads; pid = 71, tid = 75, start_ns = {begin}, end_ns = {stop}"
        cases.append(Case(name, text, "what_it_did", (api, 71, 75, begin, stop)))
    return cases


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    found = [*_edges(rng), *(case for scene in _situations(rng) for case in _questions(*scene))]
    return sorted(found, key=lambda case: _ORDER.index(case.function))


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to a capture, of which a twentieth holds a step, and is quick to go through."""
    report = open_run(captures, EXPERIMENT, RUN)
    begin, end = report.window()
    window = begin, begin + (end - begin) // 20
    ops, api, nvtx = (
        frame[frame["start_ns"] < window[1]].reset_index(drop=True)
        for frame in (report.gpu_ops(), report.api(), report.nvtx())
    )
    return _questions(f"a capture you have not seen ({EXPERIMENT})", (ops, api, nvtx), window, slow=True)


def notes(_: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """What the diagnosis of the capture is, with its evidence."""
    found = {case.function: answer for case, answer in answered}
    (place, what), idle = found["diagnose"], found["idle_by_range"]
    share = idle[place] / sum(idle.values())
    return [
        f"in the capture you have not seen, {share:.0%} of the idle time falls to “{place}”, "
        f"where the thread is {what}"
    ]
