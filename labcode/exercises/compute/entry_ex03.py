"""compute-ex03, roofline practice: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="compute-ex03-roofline",
    title="Roofline practice",
    summary="Put kernels under the roofline from their counters, then bring one to the roof of the memory.",
    chapter="compute/roofline",
    stars=3,
    minutes=60,
    parts=(
        Part(
            letter="a",
            title="points under the roofline",
            file="a_roofline.py",
            grader="labcode.exercises.compute.ex03_roofline:ROOFLINE",
            hints=(
                "Two numbers place a kernel: operations over bytes, and operations over seconds. "
                "Which counters are operations?",
                "flop = 2 * ffma + fadd + fmul; bytes = read + written; the duration is in ns.",
                "The ridge is at compute / memory FLOP/byte. A kernel below 0.6 of min(intensity * "
                "memory, compute) is limited by neither roof.",
                "first: duration * (1 - rate / roof) is the time it could save; take the kernel with "
                "the largest, however bad the share of another may be.",
            ),
        ),
        Part(
            letter="b",
            title="a polynomial at the roof",
            file="b_polynomial.cu",
            grader="labcode.exercises.compute.kernels_gpu:grade_polynomial",
            needs=("gpu", "nvcc"),
            beforehand="labcode.exercises.compute.kernels_gpu:check_polynomial",
            hints=(
                "How many multiply-adds does a polynomial of degree 16 need, if no power is computed twice?",
                "Horner: ((c16 x + c15) x + c14) x + … + c0. That is one fmaf a term.",
                "After that the memory is the roof. A thread that loads one number, computes and "
                "stores has one load under way.",
                "Let each thread take four numbers a block's width apart: load all four, then run the "
                "loop over the terms on all of them, then store those that exist.",
            ),
        ),
    ),
)
