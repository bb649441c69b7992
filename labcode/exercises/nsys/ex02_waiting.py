"""Hidden cases of nsys-ex02, part b (what kernels waited for): a generator or captures in, cases out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.nsys import expected
from labcode.grading.exam import open_run
from labcode.grading.inputs import Recorder, Row, kernels_of, tables_of
from labcode.store import CaptureSet

Rng = np.random.Generator
Tables = tuple[pd.DataFrame, pd.DataFrame]
EXPERIMENT, RUN = "kernel_overlap", "exam_streams"
SLACK_NS = 20_000
_ADVICE = {
    "launch": "the launches come late: the GPU could have started the kernels earlier",
    "stream": "most kernels wait for the one before them on their stream",
    "room": "most kernels wait though their launch and their stream are ready: the GPU has no room",
    "unknown": "no launch is known, so nothing can be said",
}


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


def _share_case(name: str, tables: Tables, *, exam: bool = False) -> Case:
    kernels, api = tables
    right = expected.launch_bound_share(kernels, api)
    by_stream = kernels.assign(device=kernels.groupby(["device", "stream"]).ngroup())
    return Case(
        name=name,
        summary=_summary(tables),
        function="launch_bound_share",
        arguments=(kernels, api),
        expected=right,
        mistakes=(
            Mistake(
                "launches are matched without the process: match the pid as well as the correlation",
                expected.launch_bound_share(kernels, api, process=False),
            ),
            Mistake(
                "compare with when the launching call returned (its end), not when it began",
                expected.launch_bound_share(kernels, api, at="start_ns"),
            ),
            Mistake(
                "compare with the kernel's start? It always starts after its launch: look at the launch",
                expected.launch_bound_share(kernels, api, at="kernel"),
            ),
            Mistake(
                "the latest end of ALL kernels before counts, not of the last one only",
                expected.launch_bound_share(kernels, api, latest=False),
            ),
            Mistake(
                "the first kernel of a device is left out: there is nothing before it",
                expected.launch_bound_share(kernels, api, first=True),
            ),
            Mistake(
                "the GPU is empty when no stream runs anything: compare over all streams of the device",
                _regrouped(expected.launch_bound_share(by_stream, api), kernels, by_stream),
            ),
        ),
        exam=exam,
        share=True,
        relative=0.02 if exam else 1e-6,
        limit_s=60.0 if exam else 10.0,
    )


def _regrouped(shares: dict[int, float], kernels: pd.DataFrame, by_stream: pd.DataFrame) -> dict[int, float]:
    groups = {
        d: sorted(set(by_stream.loc[kernels["device"] == d, "device"])) for d in kernels["device"].unique()
    }
    return {device: float(np.mean([shares[g] for g in members])) for device, members in groups.items()}


def _waited_case(name: str, tables: Tables, slack_ns: int, *, exam: bool = False) -> Case:
    kernels, api = tables
    right = expected.waited_for(kernels, api, slack_ns)
    return Case(
        name=name,
        summary=f"{_summary(tables)}; slack_ns = {slack_ns}",
        function="waited_for",
        arguments=(kernels, api, slack_ns),
        expected=right,
        mistakes=(
            Mistake(
                "launches are matched without the process: match the pid as well as the correlation",
                expected.waited_for(kernels, api, slack_ns, process=False),
            ),
            Mistake(
                "a stream is a process, a device and a number: streams of the same number are mixed up",
                expected.waited_for(kernels, api, slack_ns, keys=("stream",)),
            ),
            Mistake(
                "the kernel before on the SAME stream counts, not any kernel before",
                expected.waited_for(kernels, api, slack_ns, keys=("device",)),
            ),
            Mistake(
                "the slack is forgotten: starting takes a few µs even when nothing stands in the way",
                expected.waited_for(kernels, api, 0),
            ),
            Mistake(
                "kernels whose launch is not known are left out of the counts",
                expected.waited_for(kernels, api, slack_ns, unknown=True),
            ),
            Mistake(
                "keys without a kernel are missing: always return all three",
                {k: n for k, n in right.items() if n},
            ),
            Mistake(
                "these are shares; asked for are counts",
                {k: n / max(1, sum(right.values())) for k, n in right.items()},
            ),
        ),
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _diagnose_case(name: str, tables: Tables, *, exam: bool = False) -> Case:
    kernels, api = tables
    right = expected.overlap_diagnosis(kernels, api, SLACK_NS)
    counts = expected.waited_for(kernels, api, SLACK_NS)
    others = [answer for answer in _ADVICE if answer != right]
    evidence = ", ".join(f"{k}: {n}" for k, n in counts.items())
    return Case(
        name=name,
        summary=_summary(tables),
        function="diagnose",
        arguments=(kernels, api),
        expected=right,
        mistakes=tuple(Mistake(f"{_ADVICE[right]} ({evidence})", other) for other in others),
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


def _cases(rng: Rng) -> list[Case]:
    situations = _situations(rng)
    shares = [_share_case(name, tables) for name, tables in situations]
    waits = [_waited_case(name, tables, int(rng.integers(10_000, 18_000))) for name, tables in situations]
    return [*shares, *waits, *(_diagnose_case(name, tables) for name, tables in situations)]


def _exam(captures: CaptureSet) -> list[Case]:
    report = open_run(captures, EXPERIMENT, RUN)
    tables = report.kernels(), report.api()
    name = f"a capture you have not seen ({EXPERIMENT})"
    return [
        _share_case(name, tables, exam=True),
        _waited_case(name, tables, SLACK_NS, exam=True),
        _diagnose_case(name, tables, exam=True),
    ]


def _notes(captures: CaptureSet) -> list[str]:
    """What the kernels of the capture waited for."""
    report = open_run(captures, EXPERIMENT, RUN)
    counts = expected.waited_for(report.kernels(), report.api(), SLACK_NS)
    found = ", ".join(f"{name} {count}" for name, count in counts.items())
    return [f"in the capture you have not seen, kernels waited for: {found}"]


WAITING = Task(_cases, _exam, _notes)
