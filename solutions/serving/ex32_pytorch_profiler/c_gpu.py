"""Grades part c with PyTorch, on a GPU or a CPU: a decoding in; right tokens, then its time beside the slow
loop's, out.
"""

from pathlib import Path

from labcode.grading import gpu
from labcode.grading.records import Pace, Verdict

HARNESS = Path(__file__).with_name("c_harness.py")
# Of the slow loop's time. The prompt in one pass leaves two thirds of the passes, and half of the launches in
# each is enough for a third. A CPU also has to compute what is launched, so less of the time can go there.
MOST_TIME = {"cuda": 1 / 3, "cpu": 0.5}


def grade(file: Path) -> Verdict:
    """The verdict on a learner's decoding."""
    record = gpu.measure_python(HARNESS, file)
    most, time = MOST_TIME[record["device"]], record["learner_ms"] / record["baseline_ms"]
    line = gpu.ratio_line("time", time, most, f"× that of the slow loop ({record['name']})")
    roof = record["roof_ms"] / record["learner_ms"] if "roof_ms" in record else None
    return gpu.against([(time <= most, line)], Pace(1 / time, "the slow loop", roof, "memory"))
