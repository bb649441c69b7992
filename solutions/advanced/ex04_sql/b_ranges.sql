-- Exercise advanced-ex04, part b: ranges, with those that never ended.
--
-- One row for each name of an NVTX range:
--
--     range       its text
--     instances   how many times it began
--     open        how many of these never ended
--     total_ns    the durations of those that did, added up; 0 if none did
--
-- ordered by total_ns from the largest, and by range where that is equal; exactly these columns, in this
-- order.
--
-- The table is NVTX_EVENTS, with StringIds for the texts that the program registered. Ranges are of
-- eventType 59 (push/pop) or 60 (start/end); the table also holds marks (34) and the names of domains (75).
-- The text is in `text`, or, where that is NULL, in StringIds under `textId`. A range that was still open
-- when the capture ended has no `end`. The domain of a range does not matter here.
--
-- A worked example. A range “step” from 0 to 100 and one from 120 to 150, both with the text in `text`; one
-- “epoch”, registered, that began at 0 and never ended; a mark “start”:
--
--     range  instances  open  total_ns
--     step           2     0       130
--     epoch          1     1         0
--
-- Grade it:         labcode exercises advanced-ex04b        (or: nox -s exercises -- advanced-ex04b)
-- Get a hint:       labcode exercises advanced-ex04b --hint
-- Try it yourself:  python -m labcode.grading.sql THIS_FILE captures/h200/multi_gpu/baseline.nsys.xz
--                   (or paste it into the sqlite3 shell)

-- [solution]
SELECT coalesce(e.text, s.value) AS range,
       count(*) AS instances,
       sum(e.end IS NULL) AS open,
       coalesce(sum(e.end - e.start), 0) AS total_ns
FROM NVTX_EVENTS AS e
LEFT JOIN StringIds AS s ON s.id = e.textId
WHERE e.eventType IN (59, 60)
GROUP BY range
ORDER BY total_ns DESC, range;
-- [starter]
-- -- SELECT … FROM NVTX_EVENTS AS e …
-- [end]
