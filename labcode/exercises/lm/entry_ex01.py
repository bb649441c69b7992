"""lm-ex01, forward time by range and by clock: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="lm-ex01-timing",
    title="Forward time by two clocks",
    summary="From a program's own times and the profiler's ranges: mean and deviation after any warm-up, and "
    "whether the two clocks agree.",
    chapter="lm/timing",
    stars=2,
    minutes=25,
    parts=(
        Part(
            letter="a",
            title="forward time by range and by clock",
            file="a_forward_time.py",
            grader="labcode.exercises.lm.ex01_timing:TIMING",
            hints=(
                "Two separate things: a mean over steps that the program timed, and a comparison "
                "of the few steps that the profiler saw.",
                "Steps after a warm-up of any length: put the warm-up's times before the measured "
                "ones, then cut [warm_up : warm_up + steps].",
                "Ranges: the name must be forward, and the start must lie in the window. There "
                "are as many as steps were recorded; compare them with as many of the last "
                "entries of forward_host_ms.",
                "statistics.stdev divides by n - 1. range_ms is (end_ns - start_ns).mean() / 1e6, "
                "and difference is range_ms / host_ms - 1.",
            ),
        ),
    ),
)
