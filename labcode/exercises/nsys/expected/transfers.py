"""ex03: copies, operations and times of stages in; rates, hidden shares and the model of a pipeline out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.analysis.timeline.overlap import copy_compute_overlap
from labcode.analysis.timeline.transfers import transfer_summary


def achieved_gb_per_s(memcpys: pd.DataFrame) -> dict[tuple[str, str], float]:
    """ex03: the rate of the copies by direction and kind of host memory."""
    summary = transfer_summary(memcpys[memcpys["copy_kind"].isin(["H2D", "D2H"])])
    keys = zip(summary["copy_kind"], summary["host_memory"], strict=True)
    return dict(zip(keys, summary["gb_per_s"].tolist(), strict=True))


def hidden_copy_share(ops: pd.DataFrame) -> dict[int, float]:
    """ex03: per device that copies, the share of its copying time with a kernel beside it."""
    overlap = copy_compute_overlap(ops[ops["kind"] != "graph"])
    copying = overlap[overlap["copy_ns"] > 0]
    return dict(zip(copying["device"].tolist(), copying["hidden_share"].tolist(), strict=True))


def finish_times(stage_ns: list[list[float]]) -> list[list[float]]:
    """ex03: when each chunk leaves each stage."""
    free = [0.0] * max((len(times) for times in stage_ns), default=0)
    for_chunk = []
    for times in stage_ns:
        arrived = 0.0
        for stage, ns in enumerate(times):
            arrived = free[stage] = max(arrived, free[stage]) + ns
        for_chunk.append(list(free[: len(times)]))
    return for_chunk


def pipelined_ns(whole: list[float], chunks: int, overhead_ns: float) -> float:
    """ex03: one chunk through all stages, the others behind it at the pace of the slowest."""
    stages = [ns / chunks + overhead_ns for ns in whole]
    return sum(stages) + (chunks - 1) * max(stages)


def best_chunks(whole: list[float], overhead_ns: float, most: int) -> int:
    """ex03: the number of chunks with the shortest time."""
    times = np.array([pipelined_ns(whole, chunks, overhead_ns) for chunks in range(1, most + 1)])
    return int(np.argmin(times)) + 1


def stage_ns(ops: pd.DataFrame, repetitions: int) -> list[float]:
    """ex03: the time that one repetition spends in each of the three stages."""
    lasts = ops["end_ns"] - ops["start_ns"]
    copies = ops["kind"] == "memcpy"
    stages = (
        copies & (ops["name"] == "memcpy H2D"),
        ops["kind"] == "kernel",
        copies & (ops["name"] == "memcpy D2H"),
    )
    return [float(lasts[stage].sum()) / repetitions for stage in stages]
