"""Exercise pytorch-ex04, part b: prove how much each problem can matter, before you mend it.

The operations on the GPU come in, each with the problem that it belongs to, the times in which the CPU waited
for the GPU, and the window (start, end) of the recorded steps. Times are in ns.

    ops      start_ns, end_ns (on the GPU), cpu_start_ns, cpu_end_ns (of the CPU, for launching it), problem
             ("" is the network's own work). Operations may run side by side, several may share one time of
             the CPU, and some reach over the window's ends
    waits    start_ns, end_ns; they may lie within CPU times of operations

With a problem gone, the CPU still does its other work, and the GPU still runs the other operations:

    host_left    the window without the waits and without the CPU times of the problem's operations
    gpu_left     the time within the window in which at least one other operation runs
    gain         the length of the window / the larger of the two

The answer is a list of [problem, gain] for every problem that occurs ("" is none), the largest gain first,
equal ones by name.

A worked example, window = (0, 100), waits = [(40, 60)]

    item     GPU 50-58   CPU 30-62
    layout   GPU 10-30   CPU 5-15
    ""       GPU 20-35   CPU 15-30
    ""       GPU 70-95   CPU 62-70

Without item the CPU has 100 - 20 - 12 = 68 left and the GPU 50; without layout 100 - 20 - 10 = 70 and 48.

    prove(ops, waits, (0, 100))  ->  [["item", 1.4706], ["layout", 1.4286]]

Grade it:         labcode exercises pytorch-ex04b        (or: nox -s exercises -- pytorch-ex04b)
Get a hint:       labcode exercises pytorch-ex04b --hint
Try it yourself:  python exercises/pytorch/ex04_bottleneck_hunt/b_prove.py     (runs the worked example)
"""

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals


def prove(ops: pd.DataFrame, waits: pd.DataFrame, window: tuple[int, int]) -> list[list[object]]:
    """[problem, gain] of each problem, the largest gain first.

    `intervals.clip(starts, ends, window)`, `intervals.subtract(starts, ends, other_starts, other_ends)` and
    `intervals.total(starts, ends)` (of the union) take arrays (`.to_numpy()`).
    """
    # [solution]
    width = window[1] - window[0]
    whole = np.array(window[:1]), np.array(window[1:])
    work = intervals.subtract(*whole, waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy())
    found: list[tuple[str, float]] = []
    for problem in set(ops["problem"]) - {""}:
        mine, rest = ops[ops["problem"] == problem], ops[ops["problem"] != problem]
        host = intervals.subtract(*work, mine["cpu_start_ns"].to_numpy(), mine["cpu_end_ns"].to_numpy())
        gpu = intervals.clip(rest["start_ns"].to_numpy(), rest["end_ns"].to_numpy(), window)
        found.append((problem, width / max(intervals.total(*host), intervals.total(*gpu))))
    found.sort(key=lambda pair: (-pair[1], pair[0]))
    return [[problem, gain] for problem, gain in found]
    # [starter]
    # raise NotImplementedError("the CPU's work without waits; what is left of it and of the GPU's")
    # [end]


if __name__ == "__main__":
    columns = ["start_ns", "end_ns", "cpu_start_ns", "cpu_end_ns", "problem"]
    rows = [(50, 58, 30, 62, "item"), (10, 30, 5, 15, "layout"), (20, 35, 15, 30, ""), (70, 95, 62, 70, "")]
    waits = pd.DataFrame({"start_ns": [40], "end_ns": [60]})
    print(prove(pd.DataFrame(rows, columns=columns), waits, (0, 100)))
    print("is to be [['item', 1.47…], ['layout', 1.43…]]")
