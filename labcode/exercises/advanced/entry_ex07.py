"""advanced-ex07, comparison reports: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="advanced-ex07-comparison",
    title="Comparison reports",
    summary="Tell a change from noise, then write the gate that lets improvements in, even those that move "
    "work about, "
    "and keeps regressions out.",
    chapter="advanced/comparing",
    stars=4,
    minutes=60,
    parts=(
        Part(
            letter="a",
            title="a change, or noise?",
            file="a_decide.py",
            grader="labcode.exercises.advanced.ex07_decide:DECIDE",
            hints=(
                "Two questions, both of which must be answered with yes: is it real, and does it matter?",
                "Is it real: draw from each list as many values as it has, with replacement "
                "(`rng.choice(values, len(values))`), and take the ratio of the medians. Do that two "
                "thousand times.",
                "`numpy.quantile(ratios, [0.025, 0.975])` is the interval. All of it above 1: longer. All "
                "below: shorter.",
                "Does it matter: the ratio of the medians themselves against 1 + limit and 1 / (1 + limit). "
                "Before all "
                "that: with fewer than six values on a side the answer is 'too few'.",
            ),
        ),
        Part(
            letter="b",
            title="a gate for CI",
            file="b_gate.py",
            grader="labcode.exercises.advanced.ex07_gate:GATE",
            hints=(
                "What does somebody who waits for the program to finish wait for? It is not a kernel, nor a "
                "range's end.",
                "`ranges['name'].str.fullmatch(r'step \\d+')` chooses the steps; `match` alone takes `step "
                "1 warm-up` too.",
                "Sort by start_ns first, then `groupby(['pid', 'tid'])['start_ns'].diff()`, and drop the "
                "missing first ones.",
                "gate: `{'slower': 1, 'too few': 2}.get(answer, 0)` of part a's verdict on both lists of "
                "periods. No "
                "steps at all are too few.",
            ),
        ),
    ),
)
