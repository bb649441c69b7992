"""pytorch-ex03, distributed profiling: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="pytorch-ex03-distributed",
    title="Who waits for whom",
    summary="Line up the collectives of all ranks, tell waiting from sending, and find what the late rank "
    "did before.",
    chapter="pytorch/distributed",
    stars=4,
    minutes=50,
    parts=(
        Part(
            letter="a",
            title="meetings",
            file="a_meetings.py",
            grader="labcode.exercises.pytorch.ex03_meetings:MEETINGS",
            hints=(
                "A collective is a meeting. Which rows of the table belong to the same one?",
                "Sort by start and number the rows of each (group, rank): `groupby(['group', "
                "'rank']).cumcount()`. "
                "Rows with equal group and number are one meeting.",
                "Per meeting: last = the largest start; each rank waits min(last, its end) - its "
                "start. Who has "
                "the largest start (the lowest rank of equal ones) was waited for.",
                "A meeting counts only when all ranks of the group have it: compare the number of "
                "its rows with "
                "the number of ranks that the group has at all.",
            ),
        ),
        Part(
            letter="b",
            title="what the late rank did",
            file="b_cause.py",
            grader="labcode.exercises.pytorch.ex03_cause:CAUSE",
            hints=(
                "Everything after the first meeting is a consequence. What is left is before.",
                "`until = collectives.groupby('rank')['start_ns'].min()`, and "
                "`ops['rank'].map(until)` puts it "
                "beside each operation.",
                "Sum durations by range and rank, for all ranges and all ranks (0 where there is none): "
                "`pivot_table(..., fill_value=0)`.",
                "extra = the late rank's sum minus the mean of the others' sums. The largest wins, "
                "by name among "
                "equal ones; None when it is not above `least`.",
            ),
        ),
    ),
)
