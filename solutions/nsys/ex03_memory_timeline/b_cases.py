"""Hidden cases of part b (a model of the pipeline): a generator or captures in, cases out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case, brief, duration
from labcode.grading.exam import open_run
from labcode.grading.inputs import Row, ops_table
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, FROM, TO = "memory_timeline", "exam_pinned", "exam_pipelined"


def _finish_cases(rng: Rng) -> list[Case]:
    def times(*shape: int) -> list[list[float]]:
        return [[float(x) for x in row] for row in rng.integers(5, 90, shape)]

    even = [[float(x) for x in rng.integers(5, 90, 3)]] * 4
    scenes = {
        "one chunk, three stages": times(1, 3),
        "equal chunks": even,
        "chunks of different lengths": times(5, 3),
        "one stage only": times(4, 1),
        "five stages": times(6, 5),
        "a first chunk that is slow to arrive": [[500.0, 3.0, 2.0], *times(3, 3)],
    }
    return [_finish_case(name, stages) for name, stages in scenes.items()]


def _finish_case(name: str, stages: list[list[float]]) -> Case:
    summary = f"{len(stages)} chunk(s), {len(stages[0])} stage(s): stage_ns = {brief(stages)}"
    return Case(name, summary, "finish_times", (stages,))


def _wholes(rng: Rng) -> list[tuple[str, list[float], int, float]]:
    def around(low: int, high: int) -> float:
        return float(rng.integers(low, high))

    return [
        ("one chunk: no overlap", [around(10, 90) * 1e5, around(10, 90) * 1e5, around(10, 90) * 1e5], 1, 0.0),
        (
            "the kernel is the slowest stage",
            [2e6, 9e6 + around(0, 9) * 1e5, 1e6],
            int(rng.integers(2, 12)),
            0.0,
        ),
        (
            "the copy in is the slowest stage",
            [9e6 + around(0, 9) * 1e5, 2e6, 1e6],
            int(rng.integers(2, 12)),
            0.0,
        ),
        (
            "the copy out is the slowest stage",
            [2e6, 1e6, 9e6 + around(0, 9) * 1e5],
            int(rng.integers(2, 12)),
            0.0,
        ),
        (
            "each chunk has an overhead",
            [3e6, 5e6 + around(0, 9) * 1e5, 3e6],
            int(rng.integers(4, 40)),
            around(5, 60) * 1e3,
        ),
        ("two stages only", [4e6, around(10, 90) * 1e5], int(rng.integers(3, 9)), around(1, 9) * 1e3),
    ]


def _pipelined_case(name: str, whole: list[float], chunks: int, overhead: float) -> Case:
    summary = f"whole = {whole}, chunks = {chunks}, overhead_ns = {overhead}"
    return Case(name, summary, "pipelined_ns", (whole, chunks, overhead), show=_shown_time)


def _best_case(name: str, whole: list[float], overhead: float, most: int) -> Case:
    summary = f"whole = {whole}, overhead_ns = {overhead}, most = {most}"
    return Case(name, summary, "best_chunks", (whole, overhead, most))


def _predict_case(name: str, ops: pd.DataFrame, repetitions: int, chunks: int) -> Case:
    summary = f"{len(ops)} operations, repetitions = {repetitions}, chunks = {chunks}"
    return Case(name, summary, "predict_ns", (ops, repetitions, chunks), show=_shown_time)


def _shown_time(value: float) -> str:
    return f"{value:.6g} ({duration(value)})"


def _serial_ops(rng: Rng, repetitions: int, pieces: int) -> pd.DataFrame:
    """Repetitions of copy in, memset, kernels, copy out, one after another."""
    rows: list[Row] = []
    now = int(rng.integers(10**6, 10**9))
    for _ in range(repetitions):
        steps = [("memcpy", "memcpy H2D", 4_000_000), ("memset", "memset", 300_000)]
        steps += [("kernel", f"stage {p}", 6_000_000 // pieces) for p in range(pieces)]
        steps += [("memcpy", "memcpy D2H", 3_000_000), ("memcpy", "memcpy D2D", 500_000)]
        for kind, name, ns in steps:
            lasts = int(ns * rng.uniform(0.9, 1.1))
            rows.append({"kind": kind, "name": name, "start_ns": now, "end_ns": now + lasts})
            now += lasts + int(rng.integers(1000, 90_000))
    return ops_table(rows)


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    # Twelfths in whole numbers: the times of one to four chunks are exact, so that equal ones are equal.
    exact = [12.0 * float(rng.integers(10**3, 10**5)) for _ in range(3)]
    tie = (sum(exact) - max(exact)) / 6
    best = [
        ("no overhead", [4e6, 5e6, 3e6], 0.0, int(rng.integers(5, 20))),
        ("a large overhead", [4e6, 5e6, 3e6], float(rng.integers(2, 4)) * 1e6, 16),
        (
            "some overhead",
            [4e6, float(rng.integers(5, 9)) * 1e6, 3e6],
            float(rng.integers(20, 90)) * 1e3,
            200,
        ),
        ("one stage", [4e6], 1e4, 9),
        ("two and three chunks are equally good", exact, tie, 4),
        ("one stage, no overhead: all are equally good", exact[:1], 0.0, 4),
    ]
    captures = [
        ("one repetition", _serial_ops(rng, 1, 1), 1, int(rng.integers(2, 20))),
        ("several repetitions, several kernels in each", _serial_ops(rng, 4, 3), 4, int(rng.integers(2, 20))),
    ]
    return [
        *_finish_cases(rng),
        *(_pipelined_case(*scene) for scene in _wholes(rng)),
        *(_best_case(*scene) for scene in best),
        *(_predict_case(*scene) for scene in captures),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """The prediction for a capture, with the number of chunks of the pipelined one."""
    ops = open_run(captures, EXPERIMENT, FROM).gpu_ops()
    open_run(captures, EXPERIMENT, TO)
    repetitions = int(captures.record(EXPERIMENT, FROM)["parameters"]["repetitions"])
    chunks = int(captures.record(EXPERIMENT, TO)["parameters"]["chunks"])
    return [_predict_case(f"a capture you have not seen ({EXPERIMENT}, {FROM})", ops, repetitions, chunks)]


def notes(captures: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """The model beside the measurement."""
    ((_, model),) = answered
    took = 1e3 * float(captures.record(EXPERIMENT, TO, clean=True)["results"]["total_us"])
    return [
        f"in the capture you have not seen: your model says {duration(model)} a repetition, "
        f"the pipelined program took {duration(took)} ({took / model:.3f} ×)"
    ]
