"""pytorch-ex04, the bottleneck hunt: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="pytorch-ex04-bottleneck-hunt",
    title="The hunt, in a loop you have not seen",
    summary="Find which of the seven problems are in a recorded loop, and prove of each how much it "
    "can matter.",
    chapter="pytorch/bottleneck-hunt",
    stars=4,
    minutes=60,
    parts=(
        Part(
            letter="a",
            title="which problems are in it",
            file="a_find.py",
            grader="labcode.exercises.pytorch.ex04_find:FIND",
            hints=(
                "One column that says of each operation which problem it belongs to is enough; then count.",
                "`numpy.select(conditions, names, default='')` gives each row the first condition that "
                "holds: the order of the list is the order of priority.",
                "Conditions are columns of true and false: `ops['python'].str.contains('_by_hand')`. Put "
                "| and & between parentheses.",
                "`optimizer` is special: a fused one has a few operations, too. Count first, then drop it "
                "unless count > 20 * steps.",
            ),
        ),
        Part(
            letter="b",
            title="what each can matter at most",
            file="b_prove.py",
            grader="labcode.exercises.pytorch.ex04_prove:PROVE",
            hints=(
                "Two sums, and the larger of them: what the CPU still has to do, and what the GPU has.",
                "The CPU's own work is the window without its waits: `intervals.subtract(begin, end, …)`. "
                "Subtract the problem's CPU times from that, too.",
                "The GPU's remaining work is the union of the operations that are NOT of the problem, not "
                "the union of all minus that of the problem: what runs side by side would go, too.",
                "Cut to the window first: `intervals.clip(starts, ends, window)`. The answer is a list of "
                "[problem, gain]; sort by (-gain, problem).",
            ),
        ),
    ),
)
