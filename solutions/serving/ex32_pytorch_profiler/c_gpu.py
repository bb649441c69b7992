"""Grades part c on a GPU: a decoding in; right tokens, then its time beside the slow loop, out."""

from pathlib import Path

from labcode.grading import gpu
from labcode.grading.records import Pace, Verdict

HARNESS = Path(__file__).with_name("c_harness.py")
MOST_TIME = 0.25  # of the slow loop's time


def grade(file: Path) -> Verdict:
    """The verdict on a learner's decoding."""
    record = gpu.measure_python(HARNESS, file)
    time = record["learner_ms"] / record["baseline_ms"]
    line = gpu.ratio_line("time", time, MOST_TIME, "× that of the slow loop")
    roof = record["roof_ms"] / record["learner_ms"] if "roof_ms" in record else None
    return gpu.against([(time <= MOST_TIME, line)], Pace(1 / time, "the slow loop", roof, "memory"))
