"""Exercise lm-ex01, part a: the forward pass by two clocks.

A program has timed its forward passes by the host's clock, and a profiler has recorded the last of them.

    ranges     start_ns, end_ns, name: NVTX ranges, in no particular order. One range named forward is one
               forward pass; other names may contain the word
    results    two lists of milliseconds: warmup_forward_host_ms (the steps that the program called warm-up)
               and forward_host_ms (those after them). The last entries of the latter are those of the ranges
    window     (start_ns, end_ns) of what was to be recorded; ranges that begin outside of it do not count
    warm_up, steps    whole numbers

Give a dictionary:

    mean_ms, std_ms    of the host's times of ``steps`` steps after the program's first ``warm_up`` steps,
                       whatever the program called them; the standard deviation is that of a sample
    range_ms           the mean length of the ranges of forward passes
    host_ms            the mean of the host's times of the same steps
    difference         range_ms over host_ms, minus 1

A worked example: warmup_forward_host_ms = [30, 11], forward_host_ms = [10, 12, 11], one range of 10.9 ms,
warm_up = 1, steps = 3: mean_ms is 11 (of 11, 10, 12), std_ms 1, range_ms 10.9, host_ms 11.

Grade it:         labcode exercises lm-ex01a        (or: nox -s exercises -- lm-ex01a)
Get a hint:       labcode exercises lm-ex01a --hint
Try it yourself:  python exercises/lm/ex01_timing/a_forward_time.py     (runs on a capture of the book)
"""

import statistics

import pandas as pd


def forward_time(
    ranges: pd.DataFrame, results: dict[str, list[float]], window: tuple[int, int], warm_up: int, steps: int
) -> dict[str, float]:
    """The five numbers."""
    raise NotImplementedError("join the lists and cut; choose ranges, compare with as many last times")


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    captures = load_set()
    report = open_report(captures.path_of("lm_small", "train"))
    found = captures.record("lm_small", "train")["results"]
    for warm_up_steps in (0, 1, 2, 5):
        answer = forward_time(report.nvtx(), found, report.window(), warm_up_steps, 10)
        print(warm_up_steps, {key: round(value, 4) for key, value in answer.items()})
