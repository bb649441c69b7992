"""Grades the kernels of the exercises on Nsight Compute: a CUDA file in; results, time, then counters, out.

The counters are looked at where ncu is at hand and permitted; elsewhere the verdict says that they were not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from labcode.exercises.cases import Verdict, brief
from labcode.grading import gpu

Record = Mapping[str, Any]
WARP = 32
_THREADS = "smsp__thread_inst_executed_pred_on.sum"
_INSTRUCTIONS = "smsp__inst_executed.sum"


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


BLUR = Kernel(
    gpu.HARNESS / "blur.cu",
    0.02,
    Counted(
        (_INSTRUCTIONS,),
        lambda found, record: found[_INSTRUCTIONS] * WARP / record["outputs"],
        "instructions a pixel",
        250,
    ),
)


def grade(kernel: Kernel, file: Path) -> Verdict:
    """The verdict on a learner's kernel."""
    try:
        record = gpu.measure_kernel(kernel.program, file, kernel.counted.metrics)
    except gpu.StoppedError as stopped:
        return stopped.verdict
    time = record["learner_us"] / record["baseline_us"]
    line = gpu.ratio_line("time", time, kernel.most_time, "× that of the kernel you began with")
    requirements = [(time <= kernel.most_time, line)]
    if "counters" in record:
        requirements.append(_judged(kernel.counted, record))
        return gpu.against(requirements)
    verdict = gpu.against(requirements)
    left = f"– counters: not looked at ({record['no_counters']})"
    return Verdict(verdict.status, verdict.headline, (*verdict.details, left))


def _judged(counted: Counted, record: Record) -> tuple[bool, str]:
    value = counted.value(record["counters"], record)
    met = value >= counted.bound if counted.at_least else value <= counted.bound
    asked = f"{'at least' if counted.at_least else 'at most'} {brief(counted.bound)} is asked for"
    return met, f"{counted.text}: {brief(round(value, 2))} ({asked})"


grade_blur = partial(grade, BLUR)
check_blur = partial(gpu.check_compiles, BLUR.program)
