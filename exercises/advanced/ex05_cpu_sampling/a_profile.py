"""Exercise advanced-ex05, part a: from samples to a profile.

Two tables come in. `samples` has one row for each look at a thread:

    sample, start_ns, pid, tid, thread_state

and `frames` has the calls that were open at that moment, depth 0 the innermost. Its rows are in no particular
order, and it may hold frames of samples that are not in your table:

    sample, depth, function, file, line

Only samples whose thread_state is "running" count: a thread that waits is sampled as often as one that works.
A function is known by its label `function (file)`: names repeat.

    folded     how often each stack was seen: {"root;…;innermost": samples}, labels joined by ";"
    times      {label: (self, total)}: the samples in which it was innermost, and those in which it was on
               the stack at all. A function that calls itself is on the stack: once, however often it stands
               there.
    interval   hits of n samples are a share, and a share from samples has an error: its 95 % interval by
               Wilson's formula, with p = hits / n and z = 1.96:

                   (p + z²/2n  ±  z · √(p (1 - p) / n + z²/4n²)) / (1 + z²/n)

               No samples at all say nothing: (0.0, 1.0).

A worked example (samples 1 and 2 are running, 3 is not):

    sample  depth  function  file
         1      1  main      a.py
         1      0  work      a.py
         2      2  main      a.py        folded  ->  {"main (a.py);work (a.py)": 1,
         2      1  work      a.py                     "main (a.py);work (a.py);work (a.py)": 1}
         2      0  work      a.py        times   ->  {"main (a.py)": (0, 2), "work (a.py)": (2, 2)}
         3      0  main      a.py        interval(2, 8)  ->  (0.0715, 0.5907)

Grade it:         labcode exercises advanced-ex05a        (or: nox -s exercises -- advanced-ex05a)
Get a hint:       labcode exercises advanced-ex05a --hint
Try it yourself:  python exercises/advanced/ex05_cpu_sampling/a_profile.py     (runs on captures of the book)
"""

import math

import pandas as pd


def folded(samples: pd.DataFrame, frames: pd.DataFrame) -> dict[str, int]:
    """How many of the running samples had each stack, the root first."""
    raise NotImplementedError("choose the running samples, sort each one's frames, join their labels")


def times(samples: pd.DataFrame, frames: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """The self and total samples of each function."""
    raise NotImplementedError("each stack adds to the total of every function in it, and to one's self")


def interval(hits: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of which `hits` of `count` samples were seen."""
    raise NotImplementedError("Wilson's formula, and an answer for no samples")


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    report = open_report(load_set().path_of("cpu_sampling", "baseline"))
    samples, frames = report.python_samples(), report.python_frames()
    count = sum(folded(samples, frames).values())
    print(f"{count} of {len(samples)} samples are of running threads; self, total and the interval of self:")
    for label, (own, total) in sorted(times(samples, frames).items(), key=lambda item: -item[1][0])[:8]:
        low, high = interval(own, count)
        print(f"{own:6} {total:6}   {low:6.1%} to {high:6.1%}   {label}")
