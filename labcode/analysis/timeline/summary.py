"""Kernels and API calls by name: tables of `labcode.reports.nsys.report` in, one row for each name out."""

import numpy as np
import pandas as pd

from labcode.analysis.timeline.grouped import group_stats
from labcode.analysis.timeline.joins import duration_ns
from labcode.reports.frames import codes_of


def kernel_summary(kernels: pd.DataFrame, by: str = "name") -> pd.DataFrame:
    """Kernels by name, the most total time first.

    ``by`` is 'name' (with template arguments) or 'short_name'. Columns: name; count; total_ns (durations
    summed: concurrent kernels count each); share (of the summed time of all kernels); mean_ns, median_ns,
    min_ns, max_ns, std_ns (of a sample; 0 for one kernel).
    """
    return _summary(kernels, by)


def api_summary(api: pd.DataFrame) -> pd.DataFrame:
    """CUDA API calls by name, the most total time first; columns as of `kernel_summary`.

    A driver call inside a runtime call counts in both rows; `api` tells them apart by event_class.
    """
    return _summary(api, "name")


def _summary(table: pd.DataFrame, by: str) -> pd.DataFrame:
    codes, names = codes_of(table[by])
    stats = group_stats(codes, duration_ns(table), len(names))
    whole = int(stats.total.sum())
    summary = pd.DataFrame(
        {
            "name": pd.Series(names, dtype="str"),
            "count": stats.count,
            "total_ns": stats.total,
            "share": stats.total / whole if whole else np.full(len(names), np.nan),
            "mean_ns": stats.mean,
            "median_ns": stats.median,
            "min_ns": stats.least,
            "max_ns": stats.greatest,
            "std_ns": stats.std,
        }
    )
    return summary.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)
