"""pytorch-ex01, the PyTorch profiler: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="pytorch-ex01-profiler",
    title="What was recorded, and whose time is it?",
    summary="Write down which steps a schedule records, with and without prof.step(); then make the "
    "profiler's table out of a trace: self and total, CPU and device, and what the GPU really did.",
    chapter="pytorch/profiler",
    stars=2,
    minutes=45,
    parts=(
        Part(
            letter="a",
            title="a schedule",
            file="a_schedule.py",
            grader="labcode.exercises.pytorch.ex01_schedule:SCHEDULE",
            hints=(
                "Write a function for one step; the list is a comprehension over it.",
                "`divmod(step - skip_first, wait + warmup + active)` gives the number of the cycle and the "
                "place in it.",
                "Off: before skip_first, in cycles from `repeat` on (unless repeat is 0), at places below "
                "wait. Then warm-up, record, and at the last place hand over.",
                "traces: collect steps while recording, begin a new list after each hand-over, and do not "
                "forget the list that is open at the end. Without step(): what is the phase of step 0?",
            ),
        ),
        Part(
            letter="b",
            title="the profiler's table",
            file="b_table.py",
            grader="labcode.exercises.pytorch.ex01_table:TABLE",
            hints=(
                "Find each event's parent first: the innermost event around it on the same thread. All else "
                "is addition.",
                "Sort by thread, start and falling end, and keep a stack of open events: take off what ends "
                "before the next one begins; what is then on top is the parent.",
                "CPU self: the duration less the durations of the direct children. Their children are "
                "already in those.",
                "Device total: begin with device self, go through the events from the innermost out "
                "(backwards in your sorted order) and add each to its parent's.",
                "busy_ns: sort by start; keep the end reached so far; add only what lies behind it.",
            ),
        ),
    ),
)
