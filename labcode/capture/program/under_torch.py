"""A Python program under ``torch.profiler``: the trace's name, ``lines`` where stacks are wanted, and what
follows ``python`` in; the trace out.

Run as a file by the program's own Python, which need not know labcode. The program sees itself as
``__main__`` with its own arguments; how it ends is how this ends, and what was recorded is written.
"""

import os
import runpy
import sys


def main() -> None:
    """Record what the program does until it ends, however it does."""
    trace, lines, *words = sys.argv[1:]
    as_module = words[0] == "-m"
    sys.argv = words[1:] if as_module else words
    sys.path[0] = os.getcwd() if as_module else os.path.dirname(os.path.abspath(words[0]))  # noqa: PTH109, PTH100, PTH120
    import torch
    from torch.profiler import ProfilerActivity, profile

    on_gpu = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    activities = [ProfilerActivity.CPU, *on_gpu]
    recorded = profile(activities=activities, record_shapes=True, with_stack=bool(lines))
    recorded.start()
    try:
        if as_module:
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[0], run_name="__main__")
    finally:
        recorded.stop()
        recorded.export_chrome_trace(trace)


if __name__ == "__main__":
    main()
