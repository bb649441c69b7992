"""The Profiling Lab: capture, read, analyze and draw GPU profiles, and grade the book's exercises.

`labcode.open` reads what any of the tools recorded.
"""

from importlib import import_module
from os import PathLike
from typing import Any

from labcode import aliases

__version__ = "1.0.0"
aliases.install()


def open(path: str | PathLike[str]) -> Any:
    """Open a recording of nsys, ncu, torch.profiler, PyTorch's allocator, or the power meter by its name.

    Returns what `labcode.reports.open` returns, which is imported on the first call, so that ``import
    labcode`` alone stays quick. Raises `labcode.errors.InputError` for a file that is missing, damaged or of
    a kind that is not read, and `labcode.errors.ToolError` where a tool is needed to read it and missing.
    """
    return import_module("labcode.reports").open(path)
