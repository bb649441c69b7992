"""Small tables as `labcode.reports.nsys.report` gives them: rows in, DataFrames of all its columns out.

What a row does not name: process and thread 100, kernel ``k(int)``, stream 7, no launch call.
"""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from labcode.grading import inputs

Row = dict[str, Any]


def table(kind: str, rows: Iterable[Row]) -> pd.DataFrame:
    """A table of `labcode.grading.inputs`; kernels have short names, and calls and ranges a thread."""
    rows = [{"pid": 100, **row} for row in rows]
    if kind in ("api", "nvtx"):
        rows = [{"tid": 100, **row} for row in rows]
    elif kind != "memcpys":
        rows = [{"name": "k(int)", **row} for row in rows]
        rows = [{"short_name": row["name"].split("(")[0], **row} for row in rows]
    return inputs.table(rows, kind)


def ops(*rows: Row) -> pd.DataFrame:
    """GPU operations."""
    return table("gpu_ops", rows)


def op(start: int, end: int, name: str = "k(int)", **columns: Any) -> Row:
    """One GPU operation."""
    return {"start_ns": start, "end_ns": end, "name": name, **columns}


def copy(start: int, end: int, kind: str = "H2D", **columns: Any) -> Row:
    """One copy as an operation."""
    return op(start, end, f"memcpy {kind}", kind="memcpy", **columns)


def memcpys(*rows: Row) -> pd.DataFrame:
    """Copies in the reader's own table of them."""
    return table("memcpys", rows)


def api(*rows: Row) -> pd.DataFrame:
    """API calls."""
    return table("api", rows)


def call(start: int, end: int, correlation: int = 0, name: str = "cudaLaunchKernel", **columns: Any) -> Row:
    """One API call."""
    return op(start, end, name, correlation=correlation, **columns)


def nvtx(*rows: Row) -> pd.DataFrame:
    """NVTX events."""
    return table("nvtx", rows)


def span(start: int, end: int | None, name: str = "range", **columns: Any) -> Row:
    """One NVTX range; ``end=None`` is one left open."""
    return {"start_ns": start, "end_ns": end, "name": name, **columns}
