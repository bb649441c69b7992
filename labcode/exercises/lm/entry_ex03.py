"""lm-ex03, what is no product: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="lm-ex03-not-products",
    title="What is no product",
    summary="Put the forward pass's GPU time into buckets and say which of them, apart from products of "
    "matrices, count.",
    chapter="lm/kernels",
    stars=2,
    minutes=25,
    parts=(
        Part(
            letter="a",
            title="what is no product",
            file="a_others.py",
            grader="labcode.exercises.lm.ex03_rest:REST",
            hints=(
                "bucket_of(name, path, kind) knows what a kernel is for. What is left is choosing "
                "rows and dividing by the right whole.",
                "Rows: those with forward among the names of their path, of all kinds. The whole "
                "is their time, products included.",
                "Leave out the bucket matmul, and every bucket below least, except other, which "
                "is in the answer even with [0.0, 0.0].",
                "for bucket, ns in sums.items(): if bucket != 'matmul' and (ns / whole >= least "
                "or bucket == 'other'): found[bucket] = [ns / 1e6 / steps, ns / whole]; at last "
                "found.setdefault('other', [0.0, 0.0]).",
            ),
        ),
    ),
)
