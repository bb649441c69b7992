"""lm-ex02, the most expensive kernel: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="lm-ex02-top-kernel",
    title="The most expensive kernel",
    summary="Find the kernel with the most GPU time in the forward pass, and in forward and backward pass "
    "together, with its calls and its share.",
    chapter="lm/kernels",
    stars=2,
    minutes=25,
    parts=(
        Part(
            letter="a",
            title="the most expensive kernel",
            file="a_most_expensive.py",
            grader="labcode.exercises.lm.ex02_top_kernel:TOP_KERNEL",
            hints=(
                "Three steps: which operations count, what they add up to by name, which name has the most.",
                "The pass is a whole name between the slashes of a path: 'forward' in "
                "path.split('/'). Parts like feed-forward are no passes, so that text search "
                "misleads.",
                "Only rows whose kind is kernel. Group by name, sum end_ns - start_ns, take the "
                "largest sum; its calls are the size of the group divided by steps.",
                "The share divides by the time of all kernels of the same pass or passes. Return "
                "a list of name, calls, share for each of the two keys.",
            ),
        ),
    ),
)
