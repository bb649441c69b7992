"""compute-ex02, compute metrics: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="compute-ex02-compute-metrics",
    title="Compute metrics",
    summary="Write the occupancy calculator, then bring the lanes of a warp back together.",
    chapter="compute/occupancy",
    stars=3,
    minutes=75,
    parts=(
        Part(
            letter="a",
            title="an occupancy calculator",
            file="a_occupancy.py",
            grader="labcode.exercises.compute.ex02_occupancy:OCCUPANCY",
            hints=(
                "Four resources, four questions: how many blocks would fit if this were the only limit?",
                "Needs are rounded up: threads to whole warps, registers of a warp to register_unit, "
                "shared memory with reserved_bytes to shared_unit. Room is rounded down.",
                "Registers: a part of the file holds registers // 4 // (registers of a warp) warps; "
                "four parts hold four times that; divide by the warps of a block.",
                'occupancy: min of the four times the warps of a block, over sm["warps"]. '
                "most_registers: try 255, 254, … and return the first that reaches it.",
            ),
        ),
        Part(
            letter="b",
            title="one path at a time",
            file="b_row_scores.cu",
            grader="labcode.exercises.compute.kernels_gpu:grade_row_scores",
            needs=("gpu", "nvcc"),
            beforehand="labcode.exercises.compute.kernels_gpu:check_row_scores",
            hints=(
                "How many lanes of a warp take the path of the exponential at a time? What do the "
                "others do meanwhile?",
                "Let each lane take an even and an odd column: all lanes then compute the exponential "
                "together, and the logarithm together.",
                "Sums over a warp need neither shared memory nor a barrier: __shfl_down_sync with 16, "
                "8, 4, 2, 1. A row of a few hundred columns is work for one warp.",
                "A warp a row, eight rows a block; a lane begins at column 2 * lane and goes on by "
                "64; four pairs loaded before they are used; __expf and __logf. Mind an odd number of "
                "columns.",
            ),
        ),
    ),
)
