"""An nsys export in; the critical path of each process, which decides how long it took, out.

The walk is that of traces (`labcode.analysis.stats.kineto_path`), with what an export has for it: operations
of GPUs, the calls that launched them or waited for them, push/pop ranges. There are no operators: between two
calls the CPU is «host», named by the innermost range around.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from labcode.analysis.stats.kineto_path import Recorded, by_kind, kinds_of, walked
from labcode.analysis.stats.shelf import LackingError
from labcode.reports.nsys.report import NsysReport

_WHEN = ["start_ns", "end_ns", "pid"]
_WORK = [*_WHEN, "kind", "short_name", "device", "context", "stream", "correlation"]
_CALLS = [*_WHEN, "tid", "name", "correlation"]
_RANGES = [*_WHEN, "tid", "name"]


def paths(report: NsysReport, window: tuple[int, int] | None = None) -> Iterator[pd.DataFrame]:
    """The path of each process that uses a GPU within the window (by default the measured part), by number.

    As `critical_path` of a trace has it; its rank is the process's number.
    """
    window, ranges = report.window() if window is None else window, report.nvtx()
    nested = ((ranges["event_type"] == "push_pop") & ranges["end_ns"].notna()).to_numpy()
    work, calls = report.gpu_ops()[_WORK], report.api()[_CALLS]
    for pid in sorted(set(work["pid"]) & set(calls["pid"])):
        around = ranges.loc[nested & (ranges["pid"] == pid).to_numpy(), _RANGES].astype({"end_ns": "int64"})
        tables = [table[(table["pid"] == pid).to_numpy()] for table in (work, calls)]
        of_gpu, called, around = (table.assign(rank=pid) for table in (*tables, around))
        none = around.iloc[:0]
        yield walked(Recorded((pid,), of_gpu, called, none, around, none), window)


def summed(report: NsysReport) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The paths summed up by kind, and by kind and name, as `by_kind` has it; pid in place of rank."""
    found = [by_kind(path, names=True) for path in paths(report)]
    if not found:
        raise LackingError(report.path, "the capture holds no process that calls CUDA and uses a GPU")
    named = pd.concat(found, ignore_index=True)
    return kinds_of(named).rename(columns={"rank": "pid"}), named.rename(columns={"rank": "pid"})


def critical_path(report: NsysReport) -> pd.DataFrame:
    """What decides how long the run took: Time (%), Total Time, Pieces, Times As Fast At Most, PID, Kind."""
    return _shown(summed(report)[0])


def critical_path_sum(report: NsysReport) -> pd.DataFrame:
    """The critical path by call, kernel and range: the columns of critical_path, and Name."""
    kinds_and_names = summed(report)[1]
    return _shown(kinds_and_names).assign(Name=kinds_and_names["name"])


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Time (%)": (100 * table["share"]).round(1),
            "Total Time (ns)": table["total_ns"],
            "Pieces": table["pieces"],
            "Times As Fast At Most": table["at_most"],
            "PID": table["pid"],
            "Kind": table["kind"],
        }
    )
