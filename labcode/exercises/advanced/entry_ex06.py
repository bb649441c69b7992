"""advanced-ex06, OS runtime tracing: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="advanced-ex06-os-runtime",
    title="The call that stalls the feed",
    summary="Join the calls of all threads to the GPUs' idle gaps without counting anything twice, then find "
    "the one that stalls the feed among all those that merely wait, and prove it.",
    chapter="advanced/os-runtime",
    stars=4,
    minutes=60,
    parts=(
        Part(
            letter="a",
            title="waits while the GPUs were idle",
            file="a_waits.py",
            grader="labcode.exercises.advanced.ex06_waits:WAITS",
            hints=(
                "Three questions, one after the other: who is parked, when was any GPU idle, and for how "
                "much of that was a thread in a class of calls?",
                "Parked: clip start_ns and end_ns to the window (`calls['start_ns'].clip(*window)`), and "
                "look at single calls. Keep (pid, tid), for tids repeat.",
                "`intervals.intersect` takes two sets of intervals, each of which may overlap in itself, and "
                "gives the times in both. Then nothing counts twice, neither calls nor gaps.",
                "`for (pid, tid, kind), part in calls.groupby(['pid', 'tid', 'call_class'])`: the total of "
                "the intersection of part and gaps. Return `sorted(...)` of tuples with plain numbers.",
            ),
        ),
        Part(
            letter="b",
            title="the cause, and what is behind it",
            file="b_cause.py",
            grader="labcode.exercises.advanced.ex06_cause:CAUSE",
            hints=(
                "Who waits for whom? The threads that open files are at the beginning of the chain; what "
                "they wait in holds up all others.",
                "Readers: `calls[calls['name'].isin(OPENS)]`, grouped by pid and tid, of which the "
                "intersection with the gaps is not empty.",
                "The share: for each name the total of each reader by itself, added up, divided by the "
                "number of *all* readers and by the length of the union of the gaps.",
                "Behind a lock: the intersection of the readers' calls in the lock (all readers together) "
                "with the gaps gives times; intersect the readers' calls of each other name with those.",
            ),
        ),
    ),
)
