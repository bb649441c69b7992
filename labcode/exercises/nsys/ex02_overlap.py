"""Grades nsys-ex02c on a GPU: a CUDA file in; results, then the time beside the one-stream loop."""

from __future__ import annotations

from pathlib import Path

from labcode.exercises.cases import Verdict
from labcode.grading import gpu

MOST_TIME = 0.5  # of the one-stream loop's time


def grade(file: Path) -> Verdict:
    """The verdict on a learner's overlap."""
    try:
        record = gpu.measure_cuda(gpu.HARNESS / "overlap.cu", file)
    except gpu.StoppedError as stopped:
        return stopped.verdict
    time = record["learner_us"] / record["baseline_us"]
    return gpu.against(
        [(time <= MOST_TIME, gpu.ratio_line("time", time, MOST_TIME, "× that of the one-stream loop"))]
    )
