"""lm-ex05, softmax against products: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="lm-ex05-softmax",
    title="Softmax against products",
    summary="Softmax against the two products of attention: by time, by operations, and the rate that "
    "explains the difference.",
    chapter="lm/attention",
    stars=3,
    minutes=30,
    parts=(
        Part(
            letter="a",
            title="softmax against products",
            file="a_softmax.py",
            grader="labcode.exercises.lm.ex05_softmax:SOFTMAX",
            hints=(
                "Four numbers: two ratios of times, one of operations, one rate. Times come from "
                "ranges, operations and bytes from the model's shape.",
                "The innermost range is the last name of the path, the pass is one of the names "
                "before: forward, not backward. The loss computes a softmax too, in a range of "
                "its own.",
                "The ranges scores and values hold copies, too. For time_products keep those with "
                "bucket_of(name, path, kind) == 'matmul'.",
                "pairs = batch * heads * context**2. Operations: 5 * pairs over 2 products of 2 * "
                "pairs * d_model / heads. Bytes: pairs * 4 read and as many written, in each "
                "layer and step; bytes over ns are GB/s.",
            ),
        ),
    ),
)
