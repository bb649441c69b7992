"""advanced-ex02, I/O and the DataLoader: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="advanced-ex02-dataloader",
    title="Who waits for whom",
    summary="Write down the rules of the DataLoader as a model and find out what prefetching hides; then "
    "find what bounds a run, and prove it by two rates.",
    chapter="advanced/dataloader",
    stars=3,
    minutes=50,
    parts=(
        Part(
            letter="a",
            title="a model of the loader",
            file="a_schedule.py",
            grader="labcode.exercises.advanced.ex02_schedule:SCHEDULE",
            hints=(
                "One loop over the batches is enough: when batch i is dealt with, all before it are known.",
                "Keep two things: when each worker is free (a list), and when the loop asks for the next "
                "batch.",
                "Ordered at `had[i - workers * ahead]`, or 0 for the first ones; begun at the later of that "
                "and `free[i % workers]`; taken at the later of asked and finished.",
                "The loop waits for batch i when `times[i] > times[i - 1] + step`. Beware of rounding: allow "
                "for a part in a billion. `waits` is a function that both searches can call.",
            ),
        ),
        Part(
            letter="b",
            title="what bounds the run",
            file="b_bound.py",
            grader="labcode.exercises.advanced.ex02_cause:BOUND",
            hints=(
                "Three questions: who is the loop, who feeds it, and how busy is the GPU? Answer each by "
                "itself, then combine.",
                "`made.groupby(['pid', 'tid'])['name'].nunique()` tells of each thread how many stages it "
                "has; feeders have 3.",
                "`(made['end_ns'] - made['start_ns']).groupby(made['name']).mean()` has the three means; "
                "`.sum()` is an item, `.idxmax()` the stage.",
                "Write `step(feed)`: the larger of feed and gpu_ns, or their sum when the loop is a feeder. "
                "explained and gain both call it. `math.ceil` rounds up.",
            ),
        ),
    ),
)
