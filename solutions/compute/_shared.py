"""What exercises on Nsight Compute share: reports that no page shows, and how kernels are graded.

A kernel's CUDA file comes in; results, time, then counters, come out. The counters are looked at where ncu is
at hand and permitted; elsewhere the verdict says that they were not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labcode.errors import LabError
from labcode.grading import gpu
from labcode.grading.accesses import drawn
from labcode.grading.cases import brief
from labcode.grading.records import Pace, Verdict
from labcode.reports.ncu.report import NcuReport, open_report
from labcode.store import CaptureSet

Record = Mapping[str, Any]
WARP = 32
FLOAT = 4  # bytes
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
    """A kernel to improve: the measuring program, the most time (of the baseline's), the counters.

    ``operations`` are those in FP32 that an output takes at least: with the bytes that are read and written
    once they make the roof.
    """

    program: Path
    most_time: float
    counted: Counted
    operations: float

    def grade(self, file: Path) -> Verdict:
        """The verdict on a learner's kernel."""
        record = gpu.measure_kernel(self.program, file, self.counted.metrics)
        time = record["learner_us"] / record["baseline_us"]
        line = gpu.ratio_line("time", time, self.most_time, "× that of the kernel you began with")
        requirements, pace = [(time <= self.most_time, line)], self.pace(record)
        if "counters" in record:
            requirements.append(_judged(self.counted, record))
            verdict = gpu.against(requirements, pace)
            return replace(verdict, details=(*verdict.details, *drawn(record.get("accesses", ()))))
        verdict = gpu.against(requirements, pace)
        left = f"– counters: not looked at ({record['no_counters']})"
        return replace(verdict, details=(*verdict.details, left))

    def pace(self, record: Record) -> Pace:
        """How fast a kernel is beside the one that the learner began with, and beside the nearer roof."""
        times = record["baseline_us"] / record["learner_us"]
        rates = record.get("memory_bytes_us"), record.get("fp32_operations_us")
        if not all(rates):
            return Pace(times, "the kernel you began with")
        needed = FLOAT * (record["elements"] + record["outputs"]), self.operations * record["outputs"]
        least = {what: n / rate for what, n, rate in zip(("memory", "FP32"), needed, rates, strict=True)}
        nearer = max(least, key=lambda what: least[what])
        return Pace(times, "the kernel you began with", least[nearer] / record["learner_us"], nearer)

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
