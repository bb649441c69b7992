-- Exercise advanced-ex04, part a: the streams of a capture.
--
-- One row for each stream on which kernels ran:
--
--     pid        the process
--     device     deviceId
--     context    contextId
--     stream     streamId
--     kernels    how many kernels ran on it
--     total_ns   their durations, added up
--
-- ordered by pid, device, context, stream; exactly these columns, in this order.
--
-- The table is CUPTI_ACTIVITY_KIND_KERNEL. The pid is in bits 24 to 47 of its globalPid (the number of the
-- virtual machine lies above). A stream is unique only within a process, a device and a context: its number
-- repeats.
--
-- A worked example. Two processes, 310 and 77, with one kernel each from 100 to 140 on stream 7 of device 0,
-- and a second one of process 310 from 150 to 160 there:
--
--     pid  device  context  stream  kernels  total_ns
--     77        0        1       7        1        40
--     310       0        1       7        2        50
--
-- Grade it:         labcode exercises advanced-ex04a        (or: nox -s exercises -- advanced-ex04a)
-- Get a hint:       labcode exercises advanced-ex04a --hint
-- Try it yourself:  python -m labcode.grading.sql THIS_FILE captures/h200/multi_gpu/baseline.nsys.xz
--                   (or paste it into the sqlite3 shell)

-- [solution]
SELECT (globalPid >> 24) & 0xFFFFFF AS pid, deviceId AS device, contextId AS context, streamId AS stream,
       count(*) AS kernels, sum(end - start) AS total_ns
FROM CUPTI_ACTIVITY_KIND_KERNEL
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4;
-- [starter]
-- -- SELECT … FROM CUPTI_ACTIVITY_KIND_KERNEL …
-- [end]
