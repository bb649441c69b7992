"""advanced-ex08, expert rules: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="advanced-ex08-expert-rules",
    title="An expert rule",
    summary="Write a rule for copies that nothing hides: it must fire where they cost time, keep still "
    "where they do not, "
    "and say so where nobody can know.",
    chapter="advanced/expert-rules",
    stars=5,
    minutes=60,
    parts=(
        Part(
            letter="a",
            title="the rule exposed-copies",
            file="a_rule.py",
            grader="labcode.exercises.advanced.ex08_rule:RULE",
            hints=(
                "Begin with what the rule cannot know: `tables.need_busy()`. Then choose the rows it is "
                "about, and the rows "
                "that hide them.",
                "`tables.memcpys['copy_kind'].isin(['H2D', 'D2H'])` are the copies, "
                "`tables.ops['kind'].isin(['kernel', "
                "'graph'])` the work. Compare them GPU by GPU, over all processes.",
                "`intervals.subtract(starts, ends, other_starts, other_ends)` takes arrays (`.to_numpy()`) "
                "and gives what "
                "is left of the first; it works on unions, so what overlaps counts once. "
                "`intervals.total(*left)` is its "
                "length.",
                "`Finding(max(exposed) / tables.width >= 0.1, message, max(exposed), 'ns in exposed "
                "copies', tables.width, "
                "'ns of the window', gain=sum(exposed) / tables.width, evidence=copies)`, where `exposed` "
                "has a 0 to begin "
                "with, for captures without any GPU that copies.",
            ),
        ),
    ),
)
