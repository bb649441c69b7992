"""Exercise serving-ex30, part a: who waits, range by range.

    ops      start_ns, end_ns, asked_ns: operations of one GPU, in no particular order; asked_ns is when the
             call of the CPU began that asked for it
    ranges   a list of (name, start_ns, end_ns): ranges of the program, one for each token or step

Give {name: {"launches": …, "busy": …, "bound": …}} for each range:

    launches   operations that were asked for in the range: at its start or later, and before its end
    busy       the time in which at least one of those runs, as a share of the range. What runs before the
               range does not count (clocks differ by a little), what runs behind it does
    bound      'CPU' where busy is below one half, 'GPU' otherwise

A worked example: the range ('token 0', 0, 100) and two operations, asked for at 0 and 10, that run from 20 to
50 and from 40 to 60: 2 launches, busy 0.4, bound 'CPU'.

Grade it:         labcode exercises serving-ex30a        (or: nox -s exercises -- serving-ex30a)
Get a hint:       labcode exercises serving-ex30a --hint
"""

import pandas as pd


def who_waits(ops: pd.DataFrame, ranges: list[tuple[str, int, int]]) -> dict[str, dict[str, object]]:
    """Launches, busy share and verdict of each range."""
    raise NotImplementedError("pick by asked_ns, then add up a union")


if __name__ == "__main__":
    from labcode import book
    from labcode.analysis.lm.parts import operations_asked

    example = pd.DataFrame({"start_ns": [40, 20], "end_ns": [60, 50], "asked_ns": [10, 0]})
    print("the example:", who_waits(example, [("token 0", 0, 100)]))
    for run in ("slow", "fast"):
        report = book.capture("inference_timeline", run)
        named = report.nvtx()
        named = named[named["name"].str.startswith("token ")]
        ranges = list(zip(named["name"], named["start_ns"], named["end_ns"], strict=True))
        print(run, who_waits(operations_asked(report), ranges))
