"""Grades part b on a GPU: a blur in; right pixels, time, then instructions, out."""

from pathlib import Path

from solutions.compute._shared import Kernel, instructions_each

KERNEL = Kernel(
    Path(__file__).with_name("b_harness.cu"),
    0.02,
    instructions_each("instructions a pixel", 250),
    operations=60,  # along the row and down the column, fifteen multiplications with an addition each
)
grade, beforehand = KERNEL.grade, KERNEL.beforehand
