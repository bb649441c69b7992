"""Grades part c on a GPU: a CUDA file in; results, then the time beside the one-stream loop."""

from pathlib import Path

from labcode.grading import gpu
from labcode.grading.records import Pace, Verdict

HARNESS = Path(__file__).with_name("c_harness.cu")
MOST_TIME = 0.5  # of the one-stream loop's time


def grade(file: Path) -> Verdict:
    """The verdict on a learner's overlap."""
    record = gpu.measure_cuda(HARNESS, file)
    time = record["learner_us"] / record["baseline_us"]
    return gpu.against(
        [(time <= MOST_TIME, gpu.ratio_line("time", time, MOST_TIME, "× that of the one-stream loop"))],
        Pace(1 / time, "the one-stream loop"),
    )
