"""lm-ex08, attention over lengths: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="lm-ex08-longer-texts",
    title="Attention on longer texts",
    summary="From a sweep over lengths: where time begins to follow the work, how time and memory grow, the "
    "longest text that fits, and from which length another way pays.",
    chapter="lm/attention",
    stars=3,
    minutes=30,
    parts=(
        Part(
            letter="a",
            title="growth with length",
            file="a_lengths.py",
            grader="labcode.exercises.lm.ex08_lengths:LENGTHS",
            hints=(
                "First make one small table that both functions use: length, time and bytes of the cases of "
                "one width that fit, sorted by length. Ten repetitions become one number by the median.",
                "A growth is an exponent: if a quantity goes with length to the power p, then log(later / "
                "earlier) / log(longer / shorter) is p, whatever the distance of the two lengths.",
                "follows_from: go from the longest length downward, and stop at the first step that grows by "
                "less than the power 1. worth_from: the same, over the lengths that both runs have.",
                "held_scores = held / (batch * length**2 * item), held_inputs = held / (batch * length * "
                "d_head * item), both at the longest. longest = int(length * (gpu_bytes / peak) ** (1 / p)) "
                "with the peak at the longest and p its exponent over the last step.",
            ),
        ),
    ),
)
