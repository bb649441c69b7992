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
SECTOR_BYTES, WARP = 32, 32
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
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


COLUMN_SUMS = Kernel(
    gpu.HARNESS / "column_sums.cu",
    0.25,
    Counted(
        (_SECTORS,),
        lambda found, record: found[_SECTORS] * SECTOR_BYTES / (4 * record["elements"]),
        "bytes of the sectors loaded ÷ bytes of the matrix",
        1.2,
    ),
)
ROW_SCORES = Kernel(
    gpu.HARNESS / "row_scores.cu",
    0.87,
    Counted(
        (_THREADS, _INSTRUCTIONS),
        lambda found, record: found[_THREADS] / found[_INSTRUCTIONS],
        "threads of a warp at work in the average instruction",
        24,
        at_least=True,
    ),
)
POLYNOMIAL = Kernel(
    gpu.HARNESS / "polynomial.cu",
    0.125,
    Counted(
        (_INSTRUCTIONS,),
        lambda found, record: found[_INSTRUCTIONS] * WARP / record["outputs"],
        "instructions a number",
        60,
    ),
)
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


grade_column_sums = partial(grade, COLUMN_SUMS)
grade_row_scores = partial(grade, ROW_SCORES)
grade_polynomial = partial(grade, POLYNOMIAL)
grade_blur = partial(grade, BLUR)
check_column_sums = partial(gpu.check_compiles, COLUMN_SUMS.program)
check_row_scores = partial(gpu.check_compiles, ROW_SCORES.program)
check_polynomial = partial(gpu.check_compiles, POLYNOMIAL.program)
check_blur = partial(gpu.check_compiles, BLUR.program)
