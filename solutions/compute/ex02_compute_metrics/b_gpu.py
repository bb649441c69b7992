"""Grades part b on a GPU: scores of rows in; right scores, time, then the threads at work, out."""

from pathlib import Path

from solutions.compute._shared import INSTRUCTIONS, Counted, Kernel

_THREADS = "smsp__thread_inst_executed_pred_on.sum"

KERNEL = Kernel(
    Path(__file__).with_name("b_harness.cu"),
    0.87,
    Counted(
        (_THREADS, INSTRUCTIONS),
        lambda found, record: found[_THREADS] / found[INSTRUCTIONS],
        "threads of a warp at work in the average instruction",
        24,
        at_least=True,
    ),
    operations=3 * 512,  # a square, a function and an addition for each column of what is timed
)
grade, beforehand = KERNEL.grade, KERNEL.beforehand
