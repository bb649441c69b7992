"""What exercises on Nsight Compute share: reports that no page shows, and how kernels are graded.

A kernel's CUDA file comes in; results, time, then counters, come out. The counters are looked at where ncu is
at hand and permitted; elsewhere the verdict says that they were not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labcode.errors import LabError
from labcode.grading import gpu
from labcode.grading.cases import brief
from labcode.grading.records import Verdict
from labcode.reports.ncu.report import NcuReport, open_report
from labcode.store import CaptureSet

Record = Mapping[str, Any]
WARP = 32
INSTRUCTIONS = "smsp__inst_executed.sum"


def open_ncu(captures: CaptureSet, experiment: str, run: str) -> NcuReport:
    """The report of a run; `LabError` in the grader's words when the set has no such capture."""
    if experiment not in captures.experiments or run not in captures.experiments[experiment].runs:
        raise LabError(f"the capture set {captures.name!r} has no run {run} of {experiment}")
    return open_report(captures.path_of(experiment, run, ".ncu-rep"))


@dataclass(frozen=True)
class Counted:
    """What the counters are asked for: their names, a number from them, its bound."""

    metrics: tuple[str, ...]
    value: Callable[[Mapping[str, float], Record], float]
    text: str
    bound: float
    at_least: bool = False


@dataclass(frozen=True)
class Kernel:
    """A kernel to improve: the measuring program, the most time (of the baseline's), the counters."""

    program: Path
    most_time: float
    counted: Counted

    def grade(self, file: Path) -> Verdict:
        """The verdict on a learner's kernel."""
        record = gpu.measure_kernel(self.program, file, self.counted.metrics)
        time = record["learner_us"] / record["baseline_us"]
        line = gpu.ratio_line("time", time, self.most_time, "× that of the kernel you began with")
        requirements = [(time <= self.most_time, line)]
        if "counters" in record:
            requirements.append(_judged(self.counted, record))
            return gpu.against(requirements)
        verdict = gpu.against(requirements)
        left = f"– counters: not looked at ({record['no_counters']})"
        return Verdict(verdict.status, verdict.headline, (*verdict.details, left))

    def beforehand(self, file: Path) -> Verdict | None:
        """What the compiler alone can say of a learner's file."""
        return gpu.check_compiles(self.program, file)


def instructions_each(text: str, bound: float) -> Counted:
    """The instructions of a thread for each of the outputs."""
    return Counted(
        (INSTRUCTIONS,),
        lambda found, record: found[INSTRUCTIONS] * WARP / record["outputs"],
        text,
        bound,
    )


def _judged(counted: Counted, record: Record) -> tuple[bool, str]:
    value = counted.value(record["counters"], record)
    met = value >= counted.bound if counted.at_least else value <= counted.bound
    asked = f"{'at least' if counted.at_least else 'at most'} {brief(counted.bound)} is asked for"
    return met, f"{counted.text}: {brief(round(value, 2))} ({asked})"
