"""Small tables as `labcode.reports.nsys.report` gives them: rows of literals in, DataFrames out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def ops(*rows: dict[str, Any]) -> pd.DataFrame:
    """GPU operations; defaults: a kernel of process 100 on device 0, stream 7, without a launch call."""
    base = {
        "kind": "kernel",
        "name": "k(int)",
        "start_ns": 0,
        "end_ns": 0,
        "pid": 100,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 0,
        "bytes": pd.NA,
        "short_name": None,
        "graph_node": pd.NA,
    }
    table = _table(base, rows)
    table["short_name"] = table["short_name"].fillna(table["name"].str.split("(").str[0])
    return table.astype(
        {"bytes": "Int64", "graph_node": "Int64", "short_name": "str", "name": "str", "kind": "str"}
    )


def op(start: int, end: int, name: str = "k(int)", **columns: Any) -> dict[str, Any]:
    """One GPU operation."""
    return {"start_ns": start, "end_ns": end, "name": name, **columns}


def copy(start: int, end: int, kind: str = "H2D", **columns: Any) -> dict[str, Any]:
    """One copy as an operation."""
    return {"start_ns": start, "end_ns": end, "name": f"memcpy {kind}", "kind": "memcpy", **columns}


def api(*rows: dict[str, Any]) -> pd.DataFrame:
    """API calls; defaults: a kernel launch by thread 100 of process 100."""
    base = {
        "start_ns": 0,
        "end_ns": 0,
        "pid": 100,
        "tid": 100,
        "correlation": 0,
        "name": "cudaLaunchKernel",
        "raw_name": "cudaLaunchKernel_v7000",
        "event_class": "runtime",
        "return_value": 0,
    }
    return _table(base, rows).astype({"name": "str", "raw_name": "str", "event_class": "str"})


def call(
    start: int, end: int, correlation: int = 0, name: str = "cudaLaunchKernel", **columns: Any
) -> dict[str, Any]:
    """One API call."""
    return {"start_ns": start, "end_ns": end, "correlation": correlation, "name": name, **columns}


def nvtx(*rows: dict[str, Any]) -> pd.DataFrame:
    """NVTX events; defaults: a push/pop range of thread 100 of process 100 in the default domain."""
    base = {
        "start_ns": 0,
        "end_ns": pd.NA,
        "pid": 100,
        "tid": 100,
        "end_tid": pd.NA,
        "domain": "",
        "name": "range",
        "event_type": "push_pop",
        "color": pd.NA,
    }
    integers = dict.fromkeys(("end_ns", "end_tid", "color"), "Int64")
    return _table(base, rows).astype({**integers, **dict.fromkeys(("domain", "name", "event_type"), "str")})


def span(start: int, end: int | None, name: str = "range", **columns: Any) -> dict[str, Any]:
    """One NVTX range."""
    return {"start_ns": start, "end_ns": pd.NA if end is None else end, "name": name, **columns}


def memcpys(*rows: dict[str, Any]) -> pd.DataFrame:
    """Copies as the reader's own table of them gives them."""
    base = {
        "start_ns": 0,
        "end_ns": 0,
        "bytes": 0,
        "copy_kind": "H2D",
        "src_kind": "pinned",
        "dst_kind": "device",
    }
    return _table(base, rows).astype(dict.fromkeys(("copy_kind", "src_kind", "dst_kind"), "str"))


def _table(base: dict[str, Any], rows: tuple[dict[str, Any], ...]) -> pd.DataFrame:
    unknown = {name for row in rows for name in row} - set(base)
    assert not unknown, unknown
    columns = {}
    for name, default in base.items():
        values = [row.get(name, default) for row in rows]
        columns[name] = (
            np.array(values, np.int64) if isinstance(default, int) else pd.Series(values, dtype=object)
        )
    return pd.DataFrame(columns)
