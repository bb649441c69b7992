"""Tries to import what does the exercise by a name that no syntax tree shows."""

# part: nsys-ex01a
import importlib

intervals = importlib.import_module("labcode." + "analysis.timeline.intervals")
utilization = importlib.import_module("labcode." + "analysis.timeline.utilization")


def busy_intervals(ops, window):
    starts, ends = intervals.union(
        *intervals.clip(ops["start_ns"].to_numpy("int64"), ops["end_ns"].to_numpy("int64"), window)
    )
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def gpu_idle_share(ops, window):
    busy = utilization.device_busy(ops, window)
    return dict(zip(busy["device"].tolist(), busy["idle_share"].tolist(), strict=True))


def longest_gaps(ops, window, count):
    found = utilization.idle_gaps(ops, window)
    rows = zip(*(found[name].tolist() for name in ("device", "start_ns", "end_ns")), strict=True)
    return sorted(rows, key=lambda gap: (gap[1] - gap[2], gap[1], gap[0]))[:count]
