"""compute-ex06, diagnosis: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="compute-ex06-diagnosis",
    title="Diagnosis of kernels",
    summary="Say what is wrong with each kernel of four unseen reports, and give the number that proves it.",
    chapter="compute/compute-metrics",
    stars=3,
    minutes=45,
    parts=(
        Part(
            letter="a",
            title="the cause and its proof",
            file="a_diagnosis.py",
            grader="labcode.exercises.compute.ex06_diagnosis:DIAGNOSIS",
            hints=(
                "For each waste: what is the whole, and which part of it would a good kernel not have? "
                "A share of the whole, not a ratio.",
                "Lanes: thread_instructions of 32 * instructions were on. Turns: one a load is needed, "
                "the rest of shared_wavefronts is not; mind kernels without shared memory.",
                "Look for waste before you look at `issued`: instructions that do nothing useful keep a "
                "scheduler just as busy.",
                "Of the states, selected and not_selected are no stalls, but belong to the sum that a "
                "stall's share is taken of.",
                "first: share * duration_ns; for a stall min(share, 1 - issued), for 'issue' 0.",
            ),
        ),
    ),
)
