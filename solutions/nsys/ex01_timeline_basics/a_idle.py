"""Exercise nsys-ex01, part a: how much of the time is the GPU idle, and when?

Write the three functions below. Each builds on the one before, and they are graded in this order.

`ops` is a table of GPU operations (kernels, copies, memsets), one row each, with these columns among others:

    kind         'kernel', 'memcpy', 'memset' or 'graph'
    start_ns     when it started on the GPU, in ns
    end_ns       when it ended, in ns
    pid          the process that launched it
    device       the GPU it ran on
    stream       the stream it was launched to

Rows are in no particular order. `window` is the span to judge, `(start_ns, end_ns)`: what lies outside of it
does not count, and an operation that crosses its edge counts with the part inside.

A device is busy while at least one operation runs on it, whichever stream or process it came from.

A worked example, for window (0, 100):

    kind    start_ns  end_ns  pid  device  stream
    kernel        10      40   71       0       7
    memcpy        30      50   71       0      13
    kernel        90     120   71       0       7

    busy_intervals  ->  [(10, 50), (90, 100)]
    gpu_idle_share  ->  {0: 0.5}
    longest_gaps(…, count=2)  ->  [(0, 50, 90), (0, 0, 10)]

Grade it:         labcode exercises nsys-ex01a        (or: nox -s exercises -- nsys-ex01a)
Get a hint:       labcode exercises nsys-ex01a --hint
Try it yourself:  python exercises/nsys/ex01_timeline_basics/a_idle.py     (runs on a capture of the book)
"""

import pandas as pd

Interval = tuple[int, int]


def busy_intervals(ops: pd.DataFrame, window: Interval) -> list[Interval]:
    """When at least one of these operations (all of one device) runs, inside of the window.

    Returns disjoint intervals `(start_ns, end_ns)` in order of time. Intervals that touch are one interval.
    """
    # [solution]
    begin, end = window
    merged: list[Interval] = []
    for start, stop in sorted(zip(ops["start_ns"], ops["end_ns"], strict=True)):
        start, stop = max(int(start), begin), min(int(stop), end)
        if start >= stop:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged
    # [starter]
    # raise NotImplementedError("sort by start, then extend the last interval or begin a new one")
    # [end]


def gpu_idle_share(ops: pd.DataFrame, window: Interval) -> dict[int, float]:
    """For each device among the operations: the share of the window (0 to 1) in which nothing runs on it."""
    # [solution]
    length = window[1] - window[0]
    shares = {}
    for device, mine in ops.groupby("device"):
        busy = sum(stop - start for start, stop in busy_intervals(mine, window))
        shares[int(device)] = 1 - busy / length
    return shares
    # [starter]
    # raise NotImplementedError("use busy_intervals for each device")
    # [end]


def longest_gaps(ops: pd.DataFrame, window: Interval, count: int) -> list[tuple[int, int, int]]:
    """The `count` longest stretches of the window in which a device is idle, as `(device, start_ns, end_ns)`.

    All devices together, longest first; of two equally long ones the earlier comes first, then the lower
    device. The time from the window's start to the first operation is a gap too, and so is the time after the
    last one. Returns fewer when there are fewer.
    """
    # [solution]
    gaps = []
    for device, mine in ops.groupby("device"):
        edges = [window[0], *(t for interval in busy_intervals(mine, window) for t in interval), window[1]]
        gaps += [
            (int(device), start, stop)
            for start, stop in zip(edges[::2], edges[1::2], strict=True)
            if start < stop
        ]
    gaps.sort(key=lambda gap: (gap[1] - gap[2], gap[1], gap[0]))
    return gaps[:count]
    # [starter]
    # raise NotImplementedError("the gaps are what busy_intervals leaves over")
    # [end]


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    report = open_report(load_set().path_of("timeline_basics", "baseline"))
    operations, measured = report.gpu_ops(), report.window()
    print("idle share of each device:", gpu_idle_share(operations, measured))
    print("longest gaps (device, from, to):")
    for device, start, stop in longest_gaps(operations, measured, 5):
        print(
            f"  {device}  {(start - measured[0]) / 1e6:9.3f} … {(stop - measured[0]) / 1e6:9.3f} "
            f"ms: {(stop - start) / 1e3:8.1f} µs"
        )
