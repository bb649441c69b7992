"""Grades part c on a GPU: a CUDA file in; results, then the time beside the slowest stage alone."""

from pathlib import Path

from labcode.grading import gpu
from labcode.grading.records import Pace, Verdict

HARNESS = Path(__file__).with_name("c_harness.cu")
MOST_TIME = 1.25  # of the slowest stage alone


def grade(file: Path) -> Verdict:
    """The verdict on a learner's pipeline."""
    record = gpu.measure_cuda(HARNESS, file)
    stages = {"copy in": record["h2d_us"], "kernel": record["kernel_us"], "copy out": record["d2h_us"]}
    slowest = max(stages, key=lambda name: stages[name])
    time = record["learner_us"] / stages[slowest]
    serial = record["baseline_us"] / stages[slowest]
    text = gpu.ratio_line("time", time, MOST_TIME, f"× that of the slowest stage alone ({slowest})")
    pace = Pace(serial / time, "one stage after another", 1 / time, "the slowest stage alone")
    return gpu.against([(time <= MOST_TIME, f"{text}; one after another takes {serial:.2f} ×")], pace)
