"""compute-ex07, which roof binds: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="compute-ex07-which-roof",
    title="Which roof binds?",
    summary="Place the launches of a .ncu-rep under a hierarchical roofline from raw counters, and say "
    "which roof holds each of them, if any does.",
    chapter="compute/roofline",
    stars=4,
    minutes=60,
    parts=(
        Part(
            letter="a",
            title="roofs, points, verdicts",
            file="a_roofs.py",
            grader="labcode.exercises.compute.ex07_roofs:ROOFS",
            hints=(
                "Begin with a dictionary for each launch: "
                "`dict(zip(rows['name'], rows['value']))` for `launch, rows in metrics.groupby('launch')`.",
                "A roof is what a unit can do in a cycle, times its cycles in a second. The L2 and the DRAM "
                "do not run at the SMs' clock.",
                "Operations in a cycle: add up the three names of the precision as they stand. The derived "
                "ones count a multiply-add as its operations already.",
                "A launch can use two precisions, and the compiler loads constants with half-precision "
                "instructions. Divide each rate by its own peak before you choose.",
                "What is used of a roof is bytes a second ÷ bandwidth, or FLOP/s ÷ peak. The largest of the "
                "four shares names the roof, also for a copy; below 0.6 none of them holds the launch.",
            ),
        ),
    ),
)
