"""Grades part c on two GPUs: a reduction in; gradients, then hidden share and step time."""

from pathlib import Path

from labcode.grading import gpu
from labcode.grading.records import Pace, Verdict

HARNESS = Path(__file__).with_name("c_harness.py")
LEAST_HIDDEN = 0.5  # of the time with a collective
MOST_TIME = 1.05  # of a step with the plain reduction


def grade(file: Path) -> Verdict:
    """The verdict on a learner's reduction."""
    record = gpu.measure_python(HARNESS, file)
    hidden = gpu.hidden_share(record["learner_operations"])
    before = gpu.hidden_share(record["baseline_operations"])
    time = record["learner_ms"] / record["baseline_ms"]
    if hidden is None or before is None:
        return gpu.unmeasured("the communication")
    line = f"hidden communication: {hidden:.3f}, {before:.3f} before (at least {LEAST_HIDDEN} is asked for)"
    return gpu.against(
        [
            (hidden >= LEAST_HIDDEN, line),
            (
                time <= MOST_TIME,
                gpu.ratio_line("step time", time, MOST_TIME, "× that with the plain reduction"),
            ),
        ],
        Pace(1 / time, "the plain reduction", hidden, "all communication hidden"),
    )
