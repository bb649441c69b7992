"""Grades part b on a GPU: a pipeline in; its texts, then its time beside the slow one, and what is left."""

from dataclasses import replace
from pathlib import Path

from labcode.analysis.serving.pipeline import diagnosis, ladder
from labcode.grading import gpu
from labcode.grading.records import Pace, Verdict

HARNESS = Path(__file__).with_name("b_harness.py")
MOST_TIME = 0.125  # of the slow pipeline's time


def grade(file: Path) -> Verdict:
    """The verdict on a learner's pipeline."""
    record = gpu.measure_python(HARNESS, file)
    time = record["learner_ms"] / record["baseline_ms"]
    line = gpu.ratio_line("time", time, MOST_TIME, "× that of the slow pipeline")
    verdict = gpu.against([(time <= MOST_TIME, line)], Pace(1 / time, "the slow pipeline"))
    left = [f"still slow: {flaw}" for flaw in diagnosis(record["counts"], record["least"])]
    drawn = ladder(record["counts"], record["least"]) if left else []
    return replace(verdict, details=(*verdict.details, *left, *drawn))
