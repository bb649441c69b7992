"""Hidden exports of advanced-ex04: a random generator in, exports on which naive joins go wrong out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labcode.exercises.advanced.exports import DOMAIN, export_of
from labcode.grading.codec import Database
from labcode.grading.inputs import Recorder, Row

Rng = np.random.Generator
NAMES = (
    "void gemm<float, 4>(float*, int)",
    "void gemm<half, 8>(half*, int)",
    "scale(float*)",
    "reduce(int, int)",
)


def scenes(rng: Rng) -> list[tuple[str, Database]]:
    """Named exports, the plain one first."""
    plain = [_process(rng, 4100, 0, steps=3)]
    ranks = [_process(rng, pid, device, steps=3) for pid, device in ((310, 0), (77, 1), (5012, 2))]
    shared = [_process(rng, pid, 1, steps=4) for pid in (901, 902)]
    graphs = [_process(rng, 660, 0, steps=2, graphs=3), _process(rng, 661, 1, steps=2, nodes=4)]
    contexts = [_process(rng, 50, 0, steps=3), _process(rng, 50, 0, steps=3, context=2, correlation=5000)]
    lost = [_process(rng, 1200, 0, steps=3), _process(rng, 1300, 3, steps=2)]
    _lose_calls(rng, lost)
    made = [
        ("one process, one GPU", plain, {}),
        ("three processes that count their correlations from the same number, a GPU each", ranks, {}),
        ("two processes that share a GPU and run at once", shared, {}),
        ("graphs: some traced as a whole, some node by node", graphs, {}),
        ("two contexts in one process, with the same stream numbers", contexts, {}),
        ("launches that were not recorded, ranges that never ended", lost, {"unended": True}),
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


def _export(rng: Rng, recorders: list[Recorder], *, unended: bool = False) -> Database:
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
    if unended:
        extra.append(
            {"start_ns": last - margin, "end_ns": None, "name": "train", "event_type": "push_pop", **at}
        )
        extra.append({"start_ns": last - 9, "end_ns": None, "name": "epoch", "event_type": "start_end", **at})
    return export_of(recorders, rng, window=(first + margin, last - margin), extra_nvtx=extra)
