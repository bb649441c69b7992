"""compute-ex05, access patterns: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="compute-ex05-access-patterns",
    title="Which access pattern is it?",
    summary="Launches without names: prove by their counters how each of them reads memory. Graded on "
    "reports of Nsight Compute that no page shows.",
    chapter="compute/memory-metrics",
    stars=3,
    minutes=45,
    parts=(
        Part(
            letter="a",
            title="prove it by counters",
            file="a_patterns.py",
            grader="labcode.exercises.compute.ex05_patterns:PATTERNS",
            hints=(
                "Which of the counters would differ between a copy and the same copy with a stride? Which "
                "between a copy and one that takes its sectors in any order?",
                "A sector has 32 bytes: the loads moved 32 * load_sectors of them into the L1. What share of "
                "that did the launch want? What did the DRAM read for it?",
                "Sixteen sectors a request are bad for lanes that want 4 bytes and the best there is for "
                "lanes that want 16. So look at the share first, at the sectors a request last.",
                "`waits`: stall_cycles * instructions are all cycles of waiting; divide by load_requests. "
                "In `patterns`, compute the stores' share as wanted_write_bytes / (32 * store_sectors).",
            ),
        ),
    ),
)
