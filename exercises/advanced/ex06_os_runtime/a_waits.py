"""Exercise advanced-ex06, part a: what threads waited in while the GPUs were idle.

Two tables and a window (start, end) come in. Times are in ns; rows are in no particular order.

    calls    start_ns, end_ns, pid, tid, name, call_class: calls of the operating system. Calls may nest
             (fread calls read), and they may begin before the window or end after it
    gaps     start_ns, end_ns, device: when a GPU was idle, all within the window. Gaps of several GPUs may
             overlap

Give for each thread and each class of call the time in which the thread was in at least one call of the class
and at least one GPU was idle. A thread is a pid and a tid: the same tid may occur in several processes.

Leave out threads that are parked: those that spent at least 95 % of the window in one single call. Nobody
needs them. What counts for this is the part of the call that lies within the window.

A worked example, window = (0, 1000), one gap from 100 to 600:

    start_ns  end_ns  pid  tid  name       call_class
           0     300    7    7  fread      read
          50     250    7    7  read       read              [[7, 7, "lock", 100],
         500     900    7    7  flock      lock         ->    [7, 7, "read", 200]]
        -900    1200    7    8  sem_wait   lock

Thread 8 is parked. Of fread and read, the time from 100 to 300 lies in the gap, and counts once.

Grade it:         labcode exercises advanced-ex06a        (or: nox -s exercises -- advanced-ex06a)
Get a hint:       labcode exercises advanced-ex06a --hint
Try it yourself:  python exercises/advanced/ex06_os_runtime/a_waits.py     (runs on a capture of the book)
"""

import pandas as pd

from labcode.analysis.timeline import intervals


def waits(
    calls: pd.DataFrame, gaps: pd.DataFrame, window: tuple[int, int]
) -> list[tuple[int, int, str, int]]:
    """Rows of pid, tid, class, ns, sorted; only those with more than 0 ns.

    `intervals.intersect(starts, ends, other_starts, other_ends)` gives the times in both unions, and
    `intervals.total(starts, ends)` the length of a union; both take arrays (`.to_numpy()`).
    """
    raise NotImplementedError("find the parked threads; intersect the calls of each group with the gaps")


if __name__ == "__main__":
    from labcode.analysis.timeline.os_runtime import classified
    from labcode.analysis.timeline.utilization import idle_gaps
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    report = open_report(load_set().path_of("os_runtime", "baseline"))
    span = report.window()
    gaps_of = idle_gaps(report.gpu_ops(), span, 1_000_000)
    for row in sorted(waits(classified(report.osrt()), gaps_of, span), key=lambda row: -row[3])[:40]:
        print(*row)
