"""Hidden cases of nsys-ex03, part b (a model of the pipeline): a generator or captures in, cases out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task, brief, duration
from labcode.exercises.nsys import expected
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
    right = expected.finish_times(stages)
    alone = np.cumsum(np.array(stages), axis=1)
    serial = np.cumsum(np.array(stages).ravel()).reshape(np.shape(stages))
    columns = np.cumsum(np.array(stages), axis=0)
    starts = (np.array(right) - np.array(stages)).tolist()
    return Case(
        name=name,
        summary=f"{len(stages)} chunk(s), {len(stages[0])} stage(s): stage_ns = {brief(stages)}",
        function="finish_times",
        arguments=(stages,),
        expected=right,
        mistakes=(
            Mistake(
                "every chunk is timed as if it were alone: it also waits for the chunk before to "
                "leave the engine",
                alone.tolist(),
            ),
            Mistake(
                "nothing overlaps here: a chunk waits for the chunk before in the SAME stage only",
                serial.tolist(),
            ),
            Mistake("a chunk starts a stage only after it has finished the stage before", columns.tolist()),
            Mistake("these are the times at which the stages begin; asked for is when they end", starts),
        ),
    )


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
    stages = [ns / chunks + overhead for ns in whole]
    return Case(
        name=name,
        summary=f"whole = {whole}, chunks = {chunks}, overhead_ns = {overhead}",
        function="pipelined_ns",
        arguments=(whole, chunks, overhead),
        expected=expected.pipelined_ns(whole, chunks, overhead),
        mistakes=(
            Mistake("the stages are added up: with several chunks they overlap", sum(whole)),
            Mistake("the stages are added up: with several chunks they overlap", chunks * sum(stages)),
            Mistake(
                "this is the slowest stage alone: the first chunk's way in and the last one's way"
                " out come on top",
                max(whole),
            ),
            Mistake(
                "this is the slowest stage alone: the first chunk's way in and the last one's way"
                " out come on top",
                chunks * max(stages),
            ),
            Mistake(
                "the overhead is left out: each stage of each chunk pays it",
                expected.pipelined_ns(whole, chunks, 0.0),
            ),
            Mistake(
                "the overhead is paid once only: each stage of each chunk pays it",
                expected.pipelined_ns(whole, chunks, 0.0) + overhead,
            ),
            Mistake(
                "the overhead is divided by the number of chunks: every chunk pays it whole",
                expected.pipelined_ns([ns + overhead for ns in whole], chunks, 0.0),
            ),
            Mistake(
                "one chunk too many behind the first: n chunks are one, and n − 1 behind it",
                sum(stages) + chunks * max(stages),
            ),
        ),
        show=_shown_time,
    )


def _best_case(name: str, whole: list[float], overhead: float, most: int) -> Case:
    right = expected.best_chunks(whole, overhead, most)
    return Case(
        name=name,
        summary=f"whole = {whole}, overhead_ns = {overhead}, most = {most}",
        function="best_chunks",
        arguments=(whole, overhead, most),
        expected=right,
        mistakes=(
            Mistake("more chunks are not always better: each one pays the overhead", most),
            Mistake(
                "`most` itself may be the answer: the range ends after it",
                expected.best_chunks(whole, overhead, most - 1),
            ),
            Mistake(
                "this is the slowest choice",
                int(np.argmax([expected.pipelined_ns(whole, n, overhead) for n in range(1, most + 1)])) + 1,
            ),
        ),
    )


def _predict_case(
    name: str, ops: pd.DataFrame, repetitions: int, chunks: int, *, exam: bool = False, measured: str = ""
) -> Case:
    whole = expected.stage_ns(ops, repetitions)
    all_copies = [whole[0] + whole[2], whole[1]]
    last = float(ops["end_ns"].max() - ops["start_ns"].min()) / repetitions
    more = ops[ops["kind"].isin(["memset"])]
    with_memsets = [
        whole[0],
        whole[1] + float((more["end_ns"] - more["start_ns"]).sum()) / repetitions,
        whole[2],
    ]
    return Case(
        name=name,
        summary=f"{len(ops)} operations, repetitions = {repetitions}, chunks = {chunks}{measured}",
        function="predict_ns",
        arguments=(ops, repetitions, chunks),
        expected=expected.pipelined_ns(whole, chunks, 0.0),
        mistakes=(
            Mistake(
                "this is for all repetitions: divide each stage by their number",
                expected.pipelined_ns([ns * repetitions for ns in whole], chunks, 0.0),
            ),
            Mistake(
                "copies in and copies out are taken for one stage: they have an engine each",
                expected.pipelined_ns(all_copies, chunks, 0.0),
            ),
            Mistake("this is what the capture took; predict what it would take with overlap", last),
            Mistake("this is what the capture took; predict what it would take with overlap", sum(whole)),
            Mistake(
                "memsets are no kernels: leave them out", expected.pipelined_ns(with_memsets, chunks, 0.0)
            ),
            Mistake("this is the slowest stage alone", max(whole)),
        ),
        show=_shown_time,
        exam=exam,
        limit_s=60.0 if exam else 10.0,
    )


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


def _cases(rng: Rng) -> list[Case]:
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


def _exam(captures: CaptureSet) -> list[Case]:
    ops = open_run(captures, EXPERIMENT, FROM).gpu_ops()
    open_run(captures, EXPERIMENT, TO)
    repetitions = int(captures.record(EXPERIMENT, FROM)["parameters"]["repetitions"])
    chunks = int(captures.record(EXPERIMENT, TO)["parameters"]["chunks"])
    name = f"a capture you have not seen ({EXPERIMENT}, {FROM})"
    return [_predict_case(name, ops, repetitions, chunks, exam=True)]


def _notes(captures: CaptureSet) -> list[str]:
    """The model beside the measurement."""
    ops = open_run(captures, EXPERIMENT, FROM).gpu_ops()
    repetitions = int(captures.record(EXPERIMENT, FROM)["parameters"]["repetitions"])
    record = captures.record(EXPERIMENT, TO, clean=True)
    model = expected.pipelined_ns(
        expected.stage_ns(ops, repetitions), int(record["parameters"]["chunks"]), 0.0
    )
    took = 1e3 * float(record["results"]["total_us"])
    return [
        f"in the capture you have not seen: your model says {duration(model)} a repetition, "
        f"the pipelined program took {duration(took)} ({took / model:.3f} ×)"
    ]


PIPELINE = Task(_cases, _exam, _notes)
