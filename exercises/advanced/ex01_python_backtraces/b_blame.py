"""Exercise advanced-ex01, part b: whose kernel is it?

Five tables of a capture come in, as `labcode.reports.nsys.report` gives them (times in ns). Their columns
that you need:

    ops         start_ns, end_ns, pid, correlation          kernels, copies, memsets on the GPU
    api         start_ns, end_ns, pid, tid, correlation     CUDA calls
    backtraces  backtrace, start_ns, pid, tid, correlation  Python stacks, by time; correlation: of the call
                                                            at which it was taken, missing if there is none
    frames      backtrace, depth, function, file, line      their frames; depth 0 is the innermost
    nvtx        start_ns, end_ns, pid, tid, name            ranges

Correlations and sequence numbers are counted by each process on its own. An *operation* is a range that
PyTorch opened: its name has `, seq = 123` or `, op_id = 456` in it. All other ranges are the program's own
and do not count here. The *outermost* operation around a moment of a thread is the one around it that no
other operation of the thread is around: it is what Python called. These are the rules, for each GPU
operation:

1. Its call has a stack (same pid, same correlation): that one's path. A call that is not in `api`: None.
2. Otherwise look at the outermost operation around the beginning of its call.
   - On a thread that has stacks (any in the capture), this operation is the *span*. Without one around, the
     span is empty: the moment in which the call began.
   - A thread without any stack is the autograd engine's; it runs no Python. Take the first sequence number
     within the outermost operation (its own, or that of the first operation inside that has one). Of all
     operations with that number on other threads of the process, which ended before the outermost operation
     began, the one that began last is the forward operation. The span is the outermost operation around
     *its* beginning, on its thread. None where one of these is missing.
3. The first stack that was taken in the span, on the span's thread: its path.
4. There is none: what the last stack before the span and the first stack at or after its end have in common
   (`common_path` of part a). None when one of the two is missing or nothing is common.

A worked example. Main thread 71 runs Python; thread 82 is the engine's:

    thread 71                                             thread 82
     0…10  aten::mul, seq = 4       call 1 at 5, stack    60…90  autograd::…: SelectBackward0, op_id = 9
    20…24  aten::select, seq = 5                          62…80  SelectBackward0, seq = 5, op_id = 10
    30…40  aten::add, seq = 6       call 2 at 35, stack          call 3 at 70

The stack at call 1 is step (train.py:66) > heads (model.py:57), that at call 2 is step (train.py:66) > heads
(model.py:58). Call 3 goes back to aten::select, in which no stack was taken. So it comes from step
(train.py:66) > heads (model.py:0), one of the lines between 57 and 58.

You may `from a_stacks import …`, if yours is done.

Grade it:         labcode exercises advanced-ex01b        (or: nox -s exercises -- advanced-ex01b)
Get a hint:       labcode exercises advanced-ex01b --hint
Try it yourself:  python exercises/advanced/ex01_python_backtraces/b_blame.py  (runs on a capture of the book)
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence

import pandas as pd

Frame = tuple[str, str, int]  # function, file, line


def launch_paths(
    ops: pd.DataFrame, api: pd.DataFrame, backtraces: pd.DataFrame, frames: pd.DataFrame, nvtx: pd.DataFrame
) -> list[list[Frame] | None]:
    """For each row of `ops` the path of the line that it comes from, None where nothing is known."""
    raise NotImplementedError("rules 1 to 4, in this order; dictionaries by (pid, …) save much searching")


def blame(ops: pd.DataFrame, paths: Sequence[Sequence[Frame] | None]) -> dict[tuple[str, str], int]:
    """For each function (its name, its file) the ns of GPU time that was launched in it or in what it called.

    A function counts once for an operation, even if it stands in its path several times. Operations without
    a path count nowhere.
    """
    raise NotImplementedError("a set of (function, file) for each path; add up durations")


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    report = open_report(load_set().path_of("python_backtraces", "baseline"))
    ops = report.gpu_ops()
    found = launch_paths(
        ops, report.api(), report.python_backtraces(), report.python_backtrace_frames(), report.nvtx()
    )
    whole = int((ops["end_ns"] - ops["start_ns"]).sum())
    for (function, file), ns in sorted(blame(ops, found).items(), key=lambda item: -item[1]):
        print(f"{ns / whole:6.1%} of the GPU time  {function} ({file})")
