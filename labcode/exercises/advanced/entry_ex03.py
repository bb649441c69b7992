"""advanced-ex03, the stats command line: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

EXERCISE = Exercise(
    id="advanced-ex03-stats-command-line",
    title="Analysis without a GUI",
    summary="Read a folder full of `labcode stats` tables, of many captures and in different units, and "
    "rank where the "
    "time goes.",
    chapter="advanced/stats-command-line",
    stars=3,
    minutes=45,
    parts=(
        Part(
            letter="a",
            title="rank where time goes, over all captures",
            file="a_rank.py",
            grader="labcode.exercises.advanced.ex03_stats:RANK",
            hints=(
                "Both a capture's name and a report's name hold underscores. Of which of the two do you "
                "know all "
                "there are?",
                "`csv.DictReader(stream)` gives each row as a dictionary by column, and knows about quotes. "
                "Open the "
                "file with `newline=''`.",
                "The time's column is the one that begins with `Total Time (`; what stands between the "
                "parentheses is "
                "a key of NS.",
                "where_time_goes: `found.setdefault(capture, {'kernels': None, 'copies': None, 'waits': "
                "None})` for "
                "each file; then, unless `file.stat().st_size == 0`, add up what the report is about.",
            ),
        ),
    ),
)
