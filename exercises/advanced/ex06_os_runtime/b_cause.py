"""Exercise advanced-ex06, part b: find the call that stalls the feed, and prove it.

The tables are those of part a. When the GPUs are idle, everybody waits; the call with the most time belongs
to somebody who waits for those that read. So follow the feed to its beginning, in two steps.

1. The readers are the threads that open files while a GPU is idle: that have a call named open, open64,
   openat or openat64 of which some part lies in a gap.
2. For each name of a call: the time that each reader is in such calls and within the gaps (a union, as in
   part a), divided by the time in which at least one GPU is idle. The mean of it over all readers is the
   call's share. The call with the largest share is the one that stalls the feed.

If its class is 'lock', somebody else has what the readers wait for. Then go on:

3. Take the times within the gaps at which at least one reader is in that call. What are readers doing in the
   meantime? For each other name of a call whose class is none of 'lock', 'sleep', 'poll' and 'process': the
   part of these times in which at least one reader is in such a call. The name with the most is what is
   behind the lock, if it has at least a tenth of these times. If not, the holder computes, or makes calls
   that are not recorded.

The answer is a dictionary:

    call      the name of step 2
    share     its share
    behind    the name of step 3; None when the call's class is not 'lock', or when nothing has a tenth

and None in place of it when no thread is a reader (without gaps there are none).

A worked example, window = (0, 1000), one gap from 100 to 500:

    start_ns  end_ns  pid  tid  name       call_class
          90     510    1    1  sem_wait   lock            (no reader: it opens no file)
         100     110    7    7  open64     file
         110     410    7    7  flock      lock
         410     480    7    7  fsync      sync
         100     120    8    8  open64     file
         120     400    8    8  fsync      sync
         420     500    8    8  flock      lock

    cause(calls, gaps, window)  ->  {"call": "flock", "share": 0.475, "behind": "fsync"}

Reader 7 is in flock for 300 of 400 ns, reader 8 for 80. While one of them is, the other is in fsync from 120
to 400 and from 420 to 480.

Grade it:         labcode exercises advanced-ex06b        (or: nox -s exercises -- advanced-ex06b)
Get a hint:       labcode exercises advanced-ex06b --hint
Try it yourself:  python exercises/advanced/ex06_os_runtime/b_cause.py     (runs on captures of the book)
"""

import pandas as pd

from labcode.analysis.timeline import intervals

OPENS = ("open", "open64", "openat", "openat64")
WAITING = ("lock", "sleep", "poll", "process")


def cause(calls: pd.DataFrame, gaps: pd.DataFrame, window: tuple[int, int]) -> dict[str, object] | None:
    """The call that stalls the feed, its share of the gaps, and what is behind it."""
    raise NotImplementedError("the readers; the call with the largest share; what is behind a lock")


if __name__ == "__main__":
    from labcode.analysis.timeline.os_runtime import classified
    from labcode.analysis.timeline.utilization import idle_gaps
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    for run in ("baseline", "improved"):
        report = open_report(load_set().path_of("os_runtime", run))
        span = report.window()
        gaps_of = idle_gaps(report.gpu_ops(), span, 1_000_000)
        print(f"{run}: {cause(classified(report.osrt()), gaps_of, span)}")
