-- Exercise advanced-ex04, part d: the busy and idle time of each GPU.
--
-- One row for each GPU that did anything within the window:
--
--     device    deviceId
--     busy_ns   the time of the window in which at least one operation ran on it
--     idle_ns   the rest of the window
--
-- ordered by device; exactly these columns, in this order.
--
-- The window runs from the first start to the last end of the NVTX ranges with the text 'lab:measured' (in
-- NVTX_EVENTS.text): each process has one of its own. Operations are the rows of four tables:
-- CUPTI_ACTIVITY_KIND_KERNEL, …_MEMCPY, …_MEMSET and …_GRAPH_TRACE (CUDA graphs that were traced as a
-- whole). An operation may begin before the window or end after it: only what lies inside counts. Operations
-- overlap, on several streams and of several processes; a moment counts once.
--
-- (In an export, a table without rows is absent. Here all four are always there, if need be empty. In the
-- sqlite3 shell leave out what the capture lacks.)
--
-- A worked example. One process has a range 'lab:measured' from 100 to 190, another one from 105 to 200, so
-- the window is 100 to 200. On device 0: a kernel from 90 to 120, a copy from 110 to 130, a graph from 160 to
-- 170, and a memset of the other process from 165 to 180:
--
--     device  busy_ns  idle_ns
--     0            50       50
--
-- Grade it:         labcode exercises advanced-ex04d        (or: nox -s exercises -- advanced-ex04d)
-- Get a hint:       labcode exercises advanced-ex04d --hint
-- Try it yourself:  python -m labcode.grading.sql THIS_FILE captures/h200/kernel_overlap/streams.nsys.xz
--                   (or paste it into the sqlite3 shell)

-- [solution]
WITH measured AS (
  SELECT min(start) AS low, max(end) AS high FROM NVTX_EVENTS WHERE text = 'lab:measured'),
ops AS (
  SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL
  SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL
  SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_MEMSET UNION ALL
  SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE),
inside AS (
  SELECT deviceId, max(start, low) AS start, min(end, high) AS end, high - low AS width
  FROM ops, measured WHERE end > low AND start < high),
reached AS (
  SELECT *, max(end) OVER (
           PARTITION BY deviceId ORDER BY start, end
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM inside),
added AS (
  SELECT deviceId, width, max(end - max(start, coalesce(before, start)), 0) AS ns FROM reached)
SELECT deviceId AS device, sum(ns) AS busy_ns, width - sum(ns) AS idle_ns
FROM added GROUP BY deviceId ORDER BY deviceId;
-- [starter]
-- -- WITH measured AS (…), ops AS (… UNION ALL …) SELECT …
-- [end]
