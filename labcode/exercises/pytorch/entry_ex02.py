"""pytorch-ex02, memory: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="pytorch-ex02-memory",
    title="Who holds it, and who never lets go",
    summary="Follow the allocator's events to the peak and say who holds it; then find the leak in histories "
    "that you have not seen, and say when the memory will be used up.",
    chapter="pytorch/memory",
    stars=3,
    minutes=50,
    parts=(
        Part(
            letter="a",
            title="in use, and at the peak",
            file="a_live.py",
            grader="labcode.exercises.pytorch.ex02_live:LIVE",
            hints=(
                "A dictionary from addresses to what lies there is all the state there is.",
                "Two actions change it: alloc puts a block in, free_requested takes it out (`pop(addr, "
                "None)`). After each event, whatever it was, note the sum.",
                "peak: put the sum before the first event in front of the list; then `max`, `index`, and one "
                "less for the row.",
                "holders: go through the events once more, up to and including the row of the peak, and add "
                'up sizes by site. Blocks from `before` have the site "before".',
            ),
        ),
        Part(
            letter="b",
            title="find the leak",
            file="b_leak.py",
            grader="labcode.exercises.pytorch.ex02_leak:LEAK",
            hints=(
                "First what stays: a dictionary from addresses to (time, size, stack), as in part a. What is "
                "in it at the end stays.",
                "Addresses are used again: a free ends the block that lies there now, not all that ever did.",
                "The quarter of a time is `4 * (t - first) // (last - first)`, and at most 3.",
                "Collect for each stack the set of quarters; it leaks when the set has four members. Then "
                "sort by (-bytes, number).",
                "time_left: bytes of all leaking stacks by the time from the first event to the last is the "
                "rate; free by the rate is the answer.",
            ),
        ),
    ),
)
