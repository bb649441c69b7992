"""Made-up training loops for nsys-ex01b: a random generator in; named tables of what they did out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.grading.inputs import Recorder, tables_of

Window = tuple[int, int]
Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]
Rng = np.random.Generator


def _loop(
    rng: Rng, why: str, *, pid: int = 4000, correlation: int = 100, steps: int = 4, device: int = 0
) -> Recorder:
    """A training loop whose GPU is idle for one main reason: CPU work, waiting, or calls."""
    us = 1000
    cpu = Recorder(
        pid=pid, tid=pid, device=device, now=int(rng.integers(10**6, 10**8)), correlation=correlation
    )
    scale = int(rng.integers(2, 6))
    with cpu.range("lab:measured"):
        for step in range(steps):
            with cpu.range(f"step {step}"):
                with cpu.range("load batch"):
                    cpu.work((400 * scale if why == "computing" else 5) * us + int(rng.integers(us)))
                with cpu.range("copy to GPU"):
                    cpu.copy(40 * us, 1 << 20)
                with cpu.range("forward"):
                    for _ in range(4):
                        cpu.work(int(rng.integers(2, 4)) * us)
                        cpu.launch(30 * us + int(rng.integers(us)), "gemm")
                with cpu.range("backward"):
                    if why == "calling":
                        cpu.call("cudaMalloc", 300 * scale * us)
                    for _ in range(4):
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
        for _ in range(60):
            other.work(int(rng.integers(10_000, 30_000)))
            other.launch(int(rng.integers(5_000, 9_000)))
    return [other, main]


def situations(rng: Rng) -> list[tuple[str, Tables, Window]]:
    """What is special about each loop; its tables ``gpu_ops``, ``api`` and ``nvtx``; the window to judge."""
    loops = {why: _loop(rng, why) for why in ("computing", "waiting", "calling")}
    made = [
        ("a loop with one thread", [loops["computing"]]),
        ("a loop that waits on the CPU for the GPU", [loops["waiting"]]),
        ("a loop that makes long calls", [loops["calling"]]),
        ("another thread of the process is in ranges of its own", _with_worker(rng, _loop(rng, "computing"))),
        (
            "another process counts its correlations from the same number",
            _with_process(rng, _loop(rng, "waiting", pid=310)),
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
    return found


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
