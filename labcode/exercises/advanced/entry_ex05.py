"""advanced-ex05, CPU sampling: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="advanced-ex05-cpu-sampling",
    title="CPU sampling",
    summary="Make a profile out of samples, with the error of its shares; then find what starves a GPU, and "
    "have the scheduler confirm it.",
    chapter="advanced/cpu-sampling",
    stars=3,
    minutes=50,
    parts=(
        Part(
            letter="a",
            title="from samples to a profile",
            file="a_profile.py",
            grader="labcode.exercises.advanced.ex05_profile:PROFILE",
            hints=(
                "Three steps: choose samples, bring each one's frames into order, count equal stacks.",
                "`frames.sort_values(['sample', 'depth'], ascending=[True, False])` puts the root of each "
                "sample first; `groupby('sample')` then gives one stack at a time.",
                "times can be computed from folded alone: `key.split(';')` gives the labels back. The last "
                "one is innermost.",
                "For the total, go over `set(labels)`: a label that stands twice in a stack counts once. In "
                "interval, answer `(0.0, 1.0)` before dividing by a count of 0.",
            ),
        ),
        Part(
            letter="b",
            title="find and prove the cause",
            file="b_cause.py",
            grader="labcode.exercises.advanced.ex05_cause:CAUSE",
            hints=(
                "Who could be too slow? Not a thread that waits for others: begin with the threads that have "
                "no time left.",
                "`running['end_ns'].clip(upper=end) - running['start_ns'].clip(lower=begin)` cuts intervals "
                "to the window; what becomes negative lies outside: `.clip(lower=0)`. Add up by "
                "`groupby(['pid', 'tid'])`.",
                "Choose samples by four conditions: a busy thread (the pair of pid and tid), not before the "
                "window, before its end, and running.",
                "Of their frames keep those with `file.str.startswith(own)`; sorted by depth, "
                "`drop_duplicates('sample')` leaves each sample's innermost one. Divide by `len(chosen)`, "
                "not by the samples that are left.",
            ),
        ),
    ),
)
