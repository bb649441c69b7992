"""lm-ex07, memory counted by hand: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="lm-ex07-memory",
    title="Memory counted by hand",
    summary="From a decoder's sizes: the bytes of its parameters, gradients, AdamW's means and kept "
    "activations, the peak of a training step, and how many texts fit.",
    chapter="lm/memory",
    stars=3,
    minutes=25,
    parts=(
        Part(
            letter="a",
            title="memory by hand",
            file="a_count.py",
            grader="labcode.exercises.lm.ex07_memory:MEMORY",
            hints=(
                "Count floats, and make GB of them in the last line alone. Four sizes of tensors are enough: "
                "residual stream, inner width, scores, logits.",
                "A block keeps eight tensors of the residual stream, two of the inner width, one of scores. "
                "The page's 16 holds for d_ff = 4 * d_model only. The end keeps 2 * (residual + logits).",
                "Without checkpoints the peak is the larger of two sums: parameters, means and all that is "
                "kept (3 * parameters + kept), and the optimizer's parameters, gradients, means and list "
                "(5 * parameters).",
                "With checkpoints kept is layers * residual + the end. To max(3 * parameters + kept, 4 * "
                "parameters) comes the block in work, with three tensors of scores; and there is still the "
                "optimizer. For most_texts count upward from 0 while one text more fits.",
            ),
        ),
    ),
)
