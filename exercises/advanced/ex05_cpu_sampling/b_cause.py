"""Exercise advanced-ex05, part b: find and prove the cause.

A GPU waits for batches. Which function of the program would you mend, how sure are you, and what would it
bring at most? Samples alone mislead: most of them are of threads that only wait, and a sampler may call a
thread running that did not run. So ask a second witness, the scheduler.

The tables `samples` and `frames` are those of part a. `running` says when threads were on a CPU, from context
switches; the intervals of a thread do not overlap, and some reach beyond the window:

    pid, tid, start_ns, end_ns

`window` is (start_ns, end_ns) of the measured part. `own` is how files of the program's own code begin.

    busy_threads   the threads that were on a CPU for at least half of the window, as sorted pairs (pid, tid);
                   thread ids repeat from process to process

    cause          of the samples of busy threads that are within the window (start_ns at least its start and
                   before its end) and running: each is put down to its innermost frame of the program's own
                   code, since what a library does for you is your call's doing. The answer is about the
                   function with most samples (of equals the first by label), as a dictionary:

                       function   its label, `function (file)`
                       share      of all samples that were chosen, also those without a frame of own code
                       low, high  the share's 95 % interval: `interval` of part a
                       speedup    how many times faster the busy threads are at most when it costs nothing:
                                  1 / (1 - share); math.inf when there is nothing else

                   None when no sample was chosen, or none has a frame of own code.

A worked example, with window = (0, 100) and own = "app/":

    running            samples 1 and 2, of (7, 7), within the window and running
    pid tid start end
      7   7   -20  90      1: main (app/m.py) > decode (app/d.py) > loads (json.py)
      7   8    10  30      2: main (app/m.py)
      9   8    95 300
                         busy_threads  ->  [(7, 7)]
                         cause  ->  {"function": "decode (app/d.py)", "share": 0.5,
                                     "low": 0.0945, "high": 0.9055, "speedup": 2.0}

You may `from a_profile import interval`, if yours is done.

Grade it:         labcode exercises advanced-ex05b        (or: nox -s exercises -- advanced-ex05b)
Get a hint:       labcode exercises advanced-ex05b --hint
Try it yourself:  python exercises/advanced/ex05_cpu_sampling/b_cause.py     (runs on captures of the book)
"""

import math
from typing import Any

import pandas as pd


def busy_threads(running: pd.DataFrame, window: tuple[int, int]) -> list[tuple[int, int]]:
    """The threads (pid, tid) that ran for at least half of the window."""
    raise NotImplementedError("cut each interval to the window, add up by pid and tid")


def cause(
    samples: pd.DataFrame, frames: pd.DataFrame, running: pd.DataFrame, window: tuple[int, int], own: str
) -> dict[str, Any] | None:
    """What costs the busy threads most, how sure that is, and what mending it brings at most."""
    raise NotImplementedError("choose the samples, find each one's innermost own frame, count, judge")


if __name__ == "__main__":
    from labcode.analysis.timeline.switches import thread_states
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    for run in ("baseline", "improved"):
        report = open_report(load_set().path_of("cpu_sampling", run))
        window = report.window()
        states = thread_states(report.context_switches(), window)
        running = states[states["state"] == "running"].drop(columns="state")
        print(f"{run}: {len(busy_threads(running, window))} busy threads")
        print(f"  {cause(report.python_samples(), report.python_frames(), running, window, 'labcode/')}")
