"""compute-ex04, the optimization loop: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="compute-ex04-optimization-loop",
    title="The optimization loop",
    summary="Read from a profile what to do next and what it can bring at most, then "
    "take a blur through the loop.",
    chapter="compute/optimization-loop",
    stars=4,
    minutes=120,
    parts=(
        Part(
            letter="a",
            title="what a profile says to do next",
            file="a_stalls.py",
            grader="labcode.exercises.compute.ex04_stalls:STALLS",
            hints=(
                "Which states cost time, and which only say that there was work to choose from?",
                "Divide by the cycles of all states, those of selected and not_selected included; "
                "then leave these two out of the list.",
                "A scheduler that issues in 80 % of its cycles has no time left to win by waiting "
                "less: ask for fewer instructions.",
                "bound: the largest stall has share s. Without it the same instructions take 1 - s of "
                "the cycles: a factor 1 / (1 - s), but no more than 1 / issued.",
            ),
        ),
        Part(
            letter="b",
            title="a blur, round by round",
            file="b_blur.cu",
            grader="labcode.exercises.compute.kernels_gpu:grade_blur",
            needs=("gpu", "nvcc"),
            beforehand="labcode.exercises.compute.kernels_gpu:check_blur",
            hints=(
                "Profile it. Which lanes read neighboring pixels? How often is the same exponential "
                "computed?",
                "Swap rows and columns among the lanes, so that a warp reads along a row. Then take "
                "the weights out of the loops: they depend on dx and dy alone.",
                "exp(-(dx² + dy²)/18) is a product of one factor in dx and one in dy: first blur "
                "along the rows, then down the columns of what came out, 30 taps instead of 225.",
                "Keep both passes in one kernel: a block loads its tile with seven pixels of margin "
                "into shared memory, blurs along the rows into a second array there, waits, and goes "
                "down the columns, four pixels a thread so that each value is read once.",
            ),
        ),
    ),
)
