"""lm-ex04, what training changes: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="lm-ex04-training-share",
    title="What training changes",
    summary="Compare a forward pass with a training step: the share of products in each, without the "
    "optimizer, and how the time of products grows.",
    chapter="lm/training",
    stars=2,
    minutes=25,
    parts=(
        Part(
            letter="a",
            title="what training changes",
            file="a_change.py",
            grader="labcode.exercises.lm.ex04_training:TRAINING",
            hints=(
                "One function for the share of products in any table makes three of the four numbers.",
                "Shares are of time (end_ns - start_ns) and of everything that the GPU did, copies included.",
                "Without the optimizer: keep rows with forward or backward among the names of their path.",
                "Growth: time of products by the number of steps, training over inference. The "
                "two runs may have different numbers of steps.",
            ),
        ),
    ),
)
