"""advanced-ex04, SQL on the export: what it asks and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

_GRADER = "labcode.exercises.advanced.ex04_sql"

EXERCISE = Exercise(
    id="advanced-ex04-sql",
    title="SQL on the export",
    summary="Write four queries, from one table to the union of four, that stay right where ids repeat "
    "across "
    "processes and devices, launches are missing and ranges never end.",
    chapter="advanced/sql",
    stars=4,
    minutes=75,
    parts=(
        Part(
            letter="a",
            title="the streams of a capture",
            file="a_streams.sql",
            grader=f"{_GRADER}:STREAMS",
            hints=(
                "What makes a stream one and the same? Not its number: every context counts from the same "
                "one.",
                "The process is in bits 24 to 47 of globalPid: `(globalPid >> 24) & 0xFFFFFF`.",
                "`GROUP BY` and `ORDER BY` take the same four columns: pid, device, context, stream. SQLite "
                "lets you "
                "write them by position: `GROUP BY 1, 2, 3, 4`.",
            ),
        ),
        Part(
            letter="b",
            title="ranges, with those that never ended",
            file="b_ranges.sql",
            grader=f"{_GRADER}:RANGES",
            hints=(
                "Look at the table first: `SELECT * FROM NVTX_EVENTS LIMIT 20`. Where is the text when "
                "`text` is NULL?",
                "`LEFT JOIN StringIds AS s ON s.id = e.textId`, and `coalesce(e.text, s.value)` is the name.",
                "Only eventType 59 and 60 are ranges. An open one has `end IS NULL`, which is 1 or 0 and "
                "can be summed.",
                "`sum(e.end - e.start)` leaves out NULLs by itself, and is NULL where nothing is left: put "
                "`coalesce(…, 0)` around it.",
            ),
        ),
        Part(
            letter="c",
            title="how long kernels waited for their turn",
            file="c_waits.sql",
            grader=f"{_GRADER}:WAITS",
            hints=(
                "Compare `SELECT count(*)` of your join with that of the kernels alone. More rows? Fewer? "
                "Both are wrong.",
                "More: correlation ids repeat from process to process. Join on the process, too: "
                "`r.globalTid >> 24 = k.globalPid >> 24`.",
                "Fewer: the launch of some kernels was not recorded. `LEFT JOIN` keeps them, with NULL for "
                "the call.",
                "`count(*)` counts kernels, `count(r.start)` those with a call, `avg(k.start - r.start)` "
                "skips NULLs.",
            ),
        ),
        Part(
            letter="d",
            title="the busy and idle time of each GPU",
            file="d_busy.sql",
            grader=f"{_GRADER}:BUSY",
            hints=(
                "What occupies a GPU? Kernels, copies, memsets, and whole graphs: four tables, one `UNION "
                "ALL`.",
                "Cut each operation to the window of `lab:measured` before anything else: `max(start, low)`, "
                "`min(end, high)`, and leave out what lies outside.",
                "For each operation of a device by start: how far had all those before it reached? "
                "`max(end) OVER (PARTITION BY deviceId ORDER BY start, end ROWS BETWEEN UNBOUNDED PRECEDING "
                "AND 1 "
                "PRECEDING)`.",
                "An operation adds `max(end - max(start, coalesce(reached, start)), 0)`. Sum that by device "
                "alone: "
                "processes share it. Idle is high - low minus that sum.",
            ),
        ),
    ),
)
