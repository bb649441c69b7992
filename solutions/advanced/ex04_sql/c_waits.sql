-- Exercise advanced-ex04, part c: how long kernels waited for their turn.
--
-- One row for each kernel (by its short name):
--
--     kernel         the name
--     kernels        how many ran
--     launched       of how many the launching call is in the capture
--     mean_wait_ns   the mean time from the start of that call to that of the kernel; NULL if none is known
--
-- ordered by kernel; exactly these columns, in this order.
--
-- The tables are CUPTI_ACTIVITY_KIND_KERNEL, CUPTI_ACTIVITY_KIND_RUNTIME (the calls) and StringIds
-- (shortName is an id). A call launched a kernel when both have the same correlationId and belong to the
-- same process: each process counts from the beginning. The process of a call is in its globalTid, that of a
-- kernel in its globalPid; what is left of the 24 lowest bits is the same in both. The kernels of a CUDA
-- graph that was traced node by node share one call.
--
-- A worked example. A kernel “scale” that starts at 50, launched by a call from 20 to 30; another “scale”
-- that starts at 90, of which no call was recorded; and in another process a call from 0 to 5 that has the
-- number of the first:
--
--     kernel  kernels  launched  mean_wait_ns
--     scale         2         1          30.0
--
-- Grade it:         labcode exercises advanced-ex04c        (or: nox -s exercises -- advanced-ex04c)
-- Get a hint:       labcode exercises advanced-ex04c --hint
-- Try it yourself:  python -m labcode.grading.sql THIS_FILE captures/h200/multi_gpu/baseline.nsys.xz
--                   (or paste it into the sqlite3 shell)

-- [solution]
SELECT s.value AS kernel,
       count(*) AS kernels,
       count(r.start) AS launched,
       avg(k.start - r.start) AS mean_wait_ns
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
JOIN StringIds AS s ON s.id = k.shortName
LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r
       ON r.correlationId = k.correlationId
      AND r.globalTid >> 24 = k.globalPid >> 24
GROUP BY s.value
ORDER BY s.value;
-- [starter]
-- -- SELECT … FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN …
-- [end]
