"""Grades part c on a GPU: a training loop in; losses, then time and idle share beside the plain loop."""

from pathlib import Path

from labcode.grading import gpu
from labcode.grading.records import Pace, Verdict

HARNESS = Path(__file__).with_name("c_harness.py")
MOST_TIME = 0.67  # of the plain loop's time
MOST_IDLE = 0.5  # of the plain loop's idle share


def grade(file: Path) -> Verdict:
    """The verdict on a learner's loop."""
    record = gpu.measure_python(HARNESS, file)
    time = record["learner_ms"] / record["baseline_ms"]
    idle, plain = gpu.idle_share(record["learner_operations"]), gpu.idle_share(record["baseline_operations"])
    if idle is None or plain is None:
        return gpu.unmeasured("the GPU's idle share")
    line = (
        f"GPU idle share: {idle:.3f}, {plain:.3f} in the plain loop (at most {MOST_IDLE} × that is asked for)"
    )
    return gpu.against(
        [
            (time <= MOST_TIME, gpu.ratio_line("time", time, MOST_TIME, "× that of the plain loop")),
            (idle <= MOST_IDLE * plain, line),
        ],
        Pace(1 / time, "the plain loop", 1 - idle, "a GPU that never waits"),
    )
