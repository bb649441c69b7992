"""Hidden cases of part b (what kernels waited for): a generator or captures in, cases out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.grading.inputs import Recorder, Row, kernels_of, table, tables_of
from labcode.store import CaptureSet

Rng = np.random.Generator
Tables = tuple[pd.DataFrame, pd.DataFrame]
EXPERIMENT, RUN = "kernel_overlap", "exam_streams"
SLACK_NS = 20_000
_ORDER = ["launch_bound_share", "waited_for", "diagnose"]


def _play(rng: Rng, kind: str, *, pid: int = 4000, device: int = 0, correlation: int = 100) -> Recorder:
    """A thread that launches kernels which wait for mostly one thing."""
    start = int(rng.integers(10**6, 10**8))
    count = int(rng.integers(30, 50))
    cpu = Recorder(
        pid=pid,
        tid=pid,
        device=device,
        now=start,
        correlation=correlation,
        room=3 if kind == "room" else 1000,
    )
    for index in range(count):
        if kind == "launch":  # tiny kernels on four streams, over before the next launch returns
            cpu.launch(int(rng.integers(1200, 2200)), "tiny", stream=(7, 13, 20, 25)[index % 4])
        elif kind == "slow":  # tiny kernels with CPU work between their launches
            cpu.work(int(rng.integers(5000, 9000)))
            cpu.launch(int(rng.integers(1200, 2200)), "tiny", stream=7)
        elif kind == "stream":  # long kernels on two streams, launched far ahead
            cpu.launch(int(rng.integers(40_000, 60_000)), "advance", stream=(13, 20)[index % 2])
        elif kind == "room":  # long kernels on many streams, three of which fit at once
            cpu.launch(int(rng.integers(90_000, 130_000)), "wide", stream=30 + index, grid_x=2000)
        else:  # overlap limited by the launches: a stream is always free when a kernel arrives
            cpu.work(int(rng.integers(2000, 4000)))
            cpu.launch(int(rng.integers(15_000, 18_000)), "advance", stream=30 + index % 8)
    return cpu


def _tables(recorders: list[Recorder], rng: Rng) -> Tables:
    ops, api, _ = tables_of(recorders)
    wanted = "pid", "correlation", "grid_x"
    grids: list[Row] = [{key: row[key] for key in wanted if key in row} for r in recorders for row in r.ops]
    kernels = kernels_of(ops, grids)
    return kernels.iloc[rng.permutation(len(kernels))].reset_index(drop=True), api


def _situations(rng: Rng) -> list[tuple[str, Tables]]:
    made = [
        ("tiny kernels", [_play(rng, "launch")]),
        ("long kernels, launched ahead on two streams", [_play(rng, "stream")]),
        ("kernels that overlap as fast as they are launched", [_play(rng, "fast")]),
        ("many streams with kernels that fill the GPU", [_play(rng, "room")]),
        (
            "two processes count their correlations from the same number",
            [_play(rng, "launch", pid=310), _play(rng, "slow", pid=77)],
        ),
        (
            "two processes on two devices, with the same stream numbers",
            [_play(rng, "stream", pid=310), _play(rng, "slow", pid=77, device=3)],
        ),
    ]
    situations = []
    for name, recorders in made:
        _align(recorders)
        situations.append((name, _tables(recorders, rng)))
    kernels, api = situations[1][1]
    keep = rng.random(len(api)) > 0.4
    situations.append(("some launches were not recorded", (kernels, api[keep].reset_index(drop=True))))
    situations.append(
        ("no launch was recorded, as with a graph", (kernels, api.iloc[:0].reset_index(drop=True)))
    )
    return situations


def _align(recorders: list[Recorder]) -> None:
    """Let all recorders begin at the same time, so that they run beside one another."""
    first = min(r.calls[0]["start_ns"] for r in recorders)
    for number, recorder in enumerate(recorders):
        shift = recorder.calls[0]["start_ns"] - first - 777 * number
        for row in (*recorder.calls, *recorder.ops):
            row["start_ns"] -= shift
            row["end_ns"] -= shift


def _summary(tables: Tables) -> str:
    kernels, api = tables
    streams = len(kernels.groupby(["pid", "device", "stream"]))
    return (
        f"{len(kernels)} kernels on {streams} stream(s), {kernels['pid'].nunique()} process(es); "
        f"{len(api)} calls"
    )


def _share_case(name: str, tables: Tables, relative: float = 1e-6) -> Case:
    return Case(name, _summary(tables), "launch_bound_share", tables, relative=relative, share=True)


def _waited_case(name: str, tables: Tables, slack_ns: int) -> Case:
    summary = f"{_summary(tables)}; slack_ns = {slack_ns}"
    return Case(name, summary, "waited_for", (*tables, slack_ns))


def _diagnose_case(name: str, tables: Tables) -> Case:
    return Case(name, _summary(tables), "diagnose", tables)


def _launched(rows: list[tuple[int, int, int, Row]]) -> Tables:
    """Kernels by when their launch returned, when they started and ended, and where."""
    kernels: list[Row] = []
    api: list[Row] = []
    for number, (launched, start, end, where) in enumerate(rows, start=1):
        kernels.append({"start_ns": start, "end_ns": end, "correlation": number, **where})
        api.append({"start_ns": launched - 900, "end_ns": launched, "correlation": number})
    return table(kernels, "kernels"), table(api, "api")


def _edges(rng: Rng) -> list[Case]:
    """Kernels for which one rule alone decides, and times that are exactly at a limit."""
    at, unit = int(rng.integers(10**6, 10**8)), int(rng.integers(1000, 3000))

    def scene(*rows: tuple[int, int, int, Row]) -> Tables:
        return _launched([(*(at + time * unit for time in times), where) for *times, where in rows])

    exactly = scene((0, 1, 10, {}), (10, 12, 20, {}), (19, 21, 30, {}))
    outlasted = scene((0, 1, 60, {}), (2, 3, 10, {"stream": 13}), (30, 32, 40, {"stream": 20}))
    devices = scene((0, 1, 50, {}), (2, 3, 40, {"device": 3}), (45, 46, 49, {"device": 3}))
    same = "one process uses a stream of the same number on two devices"
    inside = "on one stream a later kernel is over before the one before it"
    some, api = scene((0, 1, 10, {}), (12, 13, 20, {}), (22, 23, 30, {}), (25, 31, 40, {}))
    cases = [
        _share_case("a launch returns when the GPU falls empty", exactly),
        _share_case("a long kernel outlasts a later one", outlasted),
        _share_case(same, devices),
        _share_case("one of the launches was not recorded", (some, api.drop(index=2))),
        _waited_case("a launch returns when its stream falls empty; exactly the slack", exactly, 2 * unit),
        _waited_case("a little more than the slack", exactly, 2 * unit - 1),
        _waited_case(same, devices, 10 * unit),
        _waited_case(inside, scene((0, 1, 60, {}), (2, 3, 10, {}), (30, 32, 40, {})), 10 * unit),
    ]
    for name, late in (("a kernel starts exactly 20 µs late", 0), ("a kernel starts 1 ns more late", 1)):
        start = at + SLACK_NS + late
        cases.append(_diagnose_case(name, _launched([(at, start, start + unit, {})])))
    return cases


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    situations = _situations(rng)
    shares = [_share_case(name, tables) for name, tables in situations]
    waits = [_waited_case(name, tables, int(rng.integers(10_000, 18_000))) for name, tables in situations]
    diagnoses = [_diagnose_case(name, tables) for name, tables in situations]
    return sorted([*_edges(rng), *shares, *waits, *diagnoses], key=lambda case: _ORDER.index(case.function))


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to a capture."""
    report = open_run(captures, EXPERIMENT, RUN)
    tables, name = (report.kernels(), report.api()), f"a capture you have not seen ({EXPERIMENT})"
    return [
        _share_case(name, tables, 0.02),
        _waited_case(name, tables, SLACK_NS),
        _diagnose_case(name, tables),
    ]


def notes(_: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """What the kernels of the capture waited for."""
    (counts,) = (answer for case, answer in answered if case.function == "waited_for")
    found = ", ".join(f"{name} {count}" for name, count in counts.items())
    return [f"in the capture you have not seen, kernels waited for: {found}"]
