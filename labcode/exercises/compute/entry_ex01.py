"""compute-ex01, memory metrics: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="compute-ex01-memory-metrics",
    title="Memory metrics",
    summary="Work out what a warp's access moves, rank kernels by what they waste, then sum columns at the "
    "speed of the memory.",
    chapter="compute/memory-metrics",
    stars=2,
    minutes=60,
    parts=(
        Part(
            letter="a",
            title="sectors, by hand",
            file="a_sectors.py",
            grader="labcode.exercises.compute.ex01_sectors:SECTORS",
            hints=(
                "Which bytes does a lane want? Which numbers do their sectors have, counting from address 0?",
                "Byte b lies in sector b // 32. A lane of address a and size s wants bytes a to a + s "
                "- 1: the first and the last one may lie in different sectors.",
                "Put the numbers of all touched sectors into one set, lane by lane, and skip the "
                "lanes that are None: `set(range(a // 32, (a + size - 1) // 32 + 1))`.",
                "efficiency is the length of a set of wanted bytes over 32 * sectors(...). ranking: "
                "waste is max(0, 32 * sectors - wanted_bytes); sort by (-waste, kernel).",
            ),
        ),
        Part(
            letter="b",
            title="sum columns without waste",
            file="b_column_sums.cu",
            grader="labcode.exercises.compute.kernels_gpu:grade_column_sums",
            needs=("gpu", "nvcc"),
            beforehand="labcode.exercises.compute.kernels_gpu:check_column_sums",
            hints=(
                "Which addresses do the 32 lanes of a warp read in one go? How many sectors is that, "
                "and how many bytes of each are wanted?",
                "Give neighboring columns to neighboring lanes: then a warp reads 128 bytes of one "
                "row, four sectors, all of it wanted.",
                "There are only as many columns as the matrix is wide, too few threads for the GPU: "
                "cut the rows into groups as well, and let every group add its part with atomicAdd to "
                "an output that cudaMemsetAsync has set to 0.",
                "A thread that adds as it loads waits for each load. Load eight rows into an array of "
                "eight registers (unrolled), then add them. Mind the last columns and rows.",
            ),
        ),
    ),
)
