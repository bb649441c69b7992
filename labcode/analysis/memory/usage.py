"""What CUDA handed out, as nsys recorded it: allocations and frees in; the memory in use over time out.

These are the requests that reach CUDA. Of what PyTorch's allocator hands on from its own pool they say
nothing: a history of that allocator does (`labcode.analysis.memory.history`).
"""

from collections.abc import Hashable

import pandas as pd

from labcode.reports.nsys.report import NsysReport

WHERE = ["pid", "device", "mem_kind"]


def in_use(events: pd.DataFrame) -> pd.DataFrame:
    """`NsysReport.memory_usage` with change_bytes and in_use_bytes (of a process, a GPU, a kind of memory).

    A free takes back what was allocated at its address. One whose allocation was not recorded changes
    nothing, as that was never counted; an allocation at an address in use takes its place.
    """
    live: dict[Hashable, int] = {}
    changes = []
    columns = (events[name].tolist() for name in (*WHERE, "operation", "address", "bytes"))
    for pid, device, kind, operation, address, size in zip(*columns, strict=True):
        before = live.pop((pid, device, kind, address), 0)
        if operation == "allocation":
            live[pid, device, kind, address] = size
            changes.append(size - before)
        else:
            changes.append(-before)
    table = events.assign(change_bytes=pd.Series(changes, index=events.index, dtype="int64"))
    return table.assign(in_use_bytes=table.groupby(WHERE)["change_bytes"].cumsum())


def summary(report: NsysReport) -> pd.DataFrame:
    """Of each process, GPU and kind of memory: what was allocated in the measured part, and its most.

    pid, device, mem_kind; allocations, frees (in the measured part); start_bytes, peak_bytes, end_bytes (in
    use when it began, at most, when it ended); peak_ns (since it began); largest_bytes (of its allocations).
    The row with the highest peak first.
    """
    begin, end = _window(report)
    rows = []
    for where, mine in in_use(report.memory_usage()).groupby(WHERE):
        before = mine[mine["time_ns"] < begin]
        inside = mine[mine["time_ns"].between(begin, end)]
        first = int(before["in_use_bytes"].iloc[-1]) if len(before) else 0
        used = inside["in_use_bytes"]
        grows = len(used) > 0 and int(used.max()) > first
        allocated = inside[inside["operation"] == "allocation"]["bytes"]
        rows.append(
            (
                *where,
                len(allocated),
                len(inside) - len(allocated),
                first,
                int(used.max()) if grows else first,
                int(used.iloc[-1]) if len(used) else first,
                int(inside["time_ns"].iloc[int(used.to_numpy().argmax())]) - begin if grows else 0,
                int(allocated.max()) if len(allocated) else 0,
            )
        )
    names = ["allocations", "frees", "start_bytes", "peak_bytes", "end_bytes", "peak_ns", "largest_bytes"]
    table = pd.DataFrame(rows, columns=[*WHERE, *names])
    return table.sort_values(["peak_bytes", *WHERE], ascending=[False, True, True, True], ignore_index=True)


def _window(report: NsysReport) -> tuple[int, int]:
    """The measured part; of a capture without other events from the first of these to the last."""
    window, events = report.window(), report.memory_usage()
    if window[0] < window[1] or not len(events):
        return window
    return int(events["time_ns"].iloc[0]), int(events["time_ns"].iloc[-1])
