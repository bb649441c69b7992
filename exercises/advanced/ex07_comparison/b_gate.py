"""Exercise advanced-ex07, part b: a gate for CI.

A change comes in, with a capture from before and one from after. The gate answers with an exit code:

    0    let it in: the steps did not become slower (by more than the limit)
    1    keep it out: they did
    2    no answer: there are too few steps

It looks at one thing: the time from the start of one step to the start of the next. Kernels, phases and the
length of the step's own range may all become longer while the program becomes faster (work that is
overlapped takes longer; a range ends when all is launched). The reverse happens, too.

A table of NVTX ranges comes in for each side. Times are in ns; rows are in no particular order:

    start_ns, end_ns, pid, tid, name, event_type

A step is a range whose name is the word `step`, a blank and a number: `step 7`. Other names are other
ranges, and some begin alike. Several processes (the ranks of a job) may have steps of their own: a period is
from a step of a thread to the next step of the same thread.

A worked example:

    name      start_ns  pid  tid
    step 0         100   71   71
    forward        110   71   71        periods(ranges)  ->  [200.0, 240.0, 250.0]
    step 1         300   71   71
    step 0         150   72   72
    step 1         390   72   72
    step 2         640   72   72

Decide as in part a. You may `from a_decide import verdict`, if yours is done.

Grade it:         labcode exercises advanced-ex07b        (or: nox -s exercises -- advanced-ex07b)
Get a hint:       labcode exercises advanced-ex07b --hint
Try it yourself:  python exercises/advanced/ex07_comparison/b_gate.py     (runs on captures of the book)
"""

import pandas as pd


def periods(ranges: pd.DataFrame) -> list[float]:
    """The times from the start of each step to that of the next on its thread, in ns, the shortest first."""
    raise NotImplementedError("choose the steps, sort by start, take differences within each thread")


def gate(before: pd.DataFrame, after: pd.DataFrame, limit: float) -> int:
    """The exit code; `limit` is a share: 0.05 stands for 5 %."""
    raise NotImplementedError("the verdict of part a on the periods of both sides, as a number")


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    def ranges_of(run: str) -> pd.DataFrame:
        return open_report(load_set().path_of("timeline_basics", run)).nvtx()

    for one, other in (("baseline", "nosync"), ("nosync", "baseline"), ("nosync", "nosync")):
        print(f"{one} to {other}: exit code {gate(ranges_of(one), ranges_of(other), 0.05)}")
