"""Exercise lm-ex06, part a: does the GPU wait for the program?

    ops         kind ('kernel', 'memcpy', 'memset'), name, start_ns, end_ns, device, stream, asked_ns, path:
                what the GPU did in the recorded steps, in no particular order. asked_ns is when the call
                began that asked for the operation. The path are the names of the ranges around that call,
                outermost first, joined by slashes: step 8/forward/block 3. The second of them is the pass
    steps       how many steps were recorded
    clean_ms    by pass: how long it takes in one step of the same program without a profiler
    faster      a number above 1: a GPU that does everything so many times as fast
    much        a share

Give a dictionary: for each pass of ``clean_ms`` another one with these keys:

    late       the share of the operations of the pass that were asked for late: the call began after the GPU
               had finished every operation that started before (of any pass, on any stream). What is asked
               for at the moment of the last end is in time, and so is the very first of all operations. Of a
               pass without operations: 0
    idle       the share of the clean pass in which the GPU has nothing to do, if it has as much to do as in a
               recorded step. A moment in which two operations run counts once
    verdict    'GPU-bound' where less than ``much`` of the pass is idle. Otherwise 'launch-bound' if at least
               ``much`` of its operations were late, and 'something else' if not
    gain       how many times as fast the clean pass is at most on the faster GPU: its busy time shrinks, and
               its idle time stays, for neither the program nor what it waits for becomes faster

A worked example, one step, faster = 2, much = 0.3, times in µs instead of ns:

    path               asked  start  end        forward, 0.1 ms: late 1/3 (of the others the first is the very
    step 0/forward         0     10   40        first, the second was asked for while that ran), idle 0.4,
    step 0/forward        20     40   60        launch-bound, gain 100 / (40 + 60/2) = 1.43
    step 0/forward        65     70   80        optimizer, 0.05 ms: late 1 (asked for at 85, done at 80), idle
    step 0/optimizer      85     90  130        0.2, GPU-bound, gain 50 / (10 + 40/2) = 1.67

Grade it:         labcode exercises lm-ex06a        (or: nox -s exercises -- lm-ex06a)
Get a hint:       labcode exercises lm-ex06a --hint
Try it yourself:  python exercises/lm/ex06_who_waits/a_waits.py     (runs on captures of the book)
"""

from typing import Any

import pandas as pd


def who_waits(
    ops: pd.DataFrame, steps: int, clean_ms: dict[str, float], faster: float, much: float
) -> dict[str, dict[str, Any]]:
    """For each pass two shares, a verdict, and a bound."""
    raise NotImplementedError("sort, compare asked_ns with the largest end so far, then go pass by pass")


if __name__ == "__main__":
    import statistics

    from labcode.analysis.lm.parts import operations_asked
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    captures, passes = load_set(), ("forward", "backward", "optimizer")
    for where in (("lm_small", "train"), ("lm_bf16", "small")):
        report = open_report(captures.path_of(*where))
        recorded = captures.record(*where)["parameters"]["window"]
        times = captures.record(*where, clean=True)["results"]
        clean = {name: statistics.median(times[f"{name}_host_ms"]) for name in passes}
        print(*where)
        for pass_name, says in who_waits(operations_asked(report), recorded, clean, 2.0, 0.2).items():
            print(f"    {pass_name:10}", says)
