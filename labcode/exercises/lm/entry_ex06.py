"""lm-ex06, does the GPU wait for the program: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="lm-ex06-who-waits",
    title="Does the GPU wait for the program?",
    summary="Say of each pass of a recorded step what was asked for too late, whether launches or the GPU "
    "bound it, and what a faster GPU alone could gain.",
    chapter="lm/precision",
    stars=3,
    minutes=25,
    parts=(
        Part(
            letter="a",
            title="who waits for whom",
            file="a_waits.py",
            grader="labcode.exercises.lm.ex06_waits:WAITS",
            hints=(
                "Find the late ones in the whole table first, and only then go pass by pass: what was "
                "before an operation may belong to another pass.",
                "Sorted by start_ns, what the GPU had finished before a row is the largest end_ns of the "
                "rows above: cummax, then shift. Compared with the missing value of the first row, all "
                "is false.",
                "Busy time of a pass: the union of its operations. Sorted, each adds the part of it that "
                "lies after the largest end so far: end - max(start, largest end so far), or nothing.",
                "busy = union / 1e6 / steps; idle = 1 - busy / clean; gain = clean / (clean - busy + busy / "
                "faster). The mean of no rows is nan: say 0. First idle < much, then late >= much.",
            ),
        ),
    ),
)
