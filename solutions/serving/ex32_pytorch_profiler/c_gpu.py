"""Grades part c on a GPU: a decoding in; right tokens, then its time beside the slow loop, out."""

from pathlib import Path

from labcode.grading import gpu
from labcode.grading.records import Verdict

HARNESS = Path(__file__).with_name("c_harness.py")
MOST_TIME = 0.25  # of the slow loop's time


def grade(file: Path) -> Verdict:
    """The verdict on a learner's decoding."""
    record = gpu.measure_python(HARNESS, file)
    time = record["learner_ms"] / record["baseline_ms"]
    line = gpu.ratio_line("time", time, MOST_TIME, "× that of the slow loop")
    return gpu.against([(time <= MOST_TIME, line)])
