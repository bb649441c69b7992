"""Captures that sheets ask about, and facts that several ask for: a set, a run and tables in, numbers out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labcode import store
from labcode.grading.sheet import Names

if TYPE_CHECKING:
    import pandas as pd

    from labcode.reports.kineto.report import KinetoReport
    from labcode.reports.ncu.report import NcuReport
    from labcode.reports.nsys.report import NsysReport
    from labcode.reports.power.log import PowerLog

MS = 1e6  # ns


def nsys(captures: str, experiment: str, run: str) -> NsysReport:
    """A capture of Nsight Systems."""
    from labcode.reports.nsys.report import open_report

    return open_report(store.load_set(captures).path_of(experiment, run))


def ncu(captures: str, experiment: str, run: str) -> NcuReport:
    """A report of Nsight Compute."""
    from labcode.reports.ncu.report import open_report

    return open_report(store.load_set(captures).path_of(experiment, run, ".ncu-rep"))


def trace(captures: str, experiment: str, run: str) -> KinetoReport:
    """A trace of torch.profiler, of one process."""
    from labcode.reports.kineto.report import open_trace

    return open_trace(store.load_set(captures).path_of(experiment, run, ".trace.json.gz"))


def power(captures: str, experiment: str, run: str) -> PowerLog:
    """What a GPU drew."""
    from labcode.reports.power.log import open_log

    return open_log(store.load_set(captures).path_of(experiment, run, ".power.json"))


def record(captures: str, experiment: str, run: str, *, clean: bool = False) -> dict[str, Any]:
    """What a program itself measured; ``clean`` without a profiler."""
    return store.load_set(captures).record(experiment, run, clean=clean)


def steady(report: NsysReport) -> tuple[int, int]:
    """The window that ``--window steady`` means."""
    from labcode.analysis.ledger.steady import steady as judged

    return judged(report).window


def cut(table: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """What of a table lies in a window; what reaches over an end is cut off there."""
    from labcode.analysis.timeline.joins import in_window

    return in_window(table, window)


def ms(table: pd.DataFrame) -> float:
    """The time of all rows together, in ms."""
    return float((table["end_ns"] - table["start_ns"]).sum() / MS)


def named(table: pd.DataFrame, pattern: str, column: str = "name") -> pd.DataFrame:
    """The rows whose name matches."""
    return table[table[column].astype(str).str.contains(pattern)]


def cause(case: str) -> str:
    """The cause that was planted into a program of ``benchmarks/diagnosis``."""
    from labcode.grading.records import read_toml

    return str(read_toml(store.repository_root() / "benchmarks" / "diagnosis" / case / "case.toml")["cause"])


def names(table: pd.DataFrame, right: str, column: str = "name") -> Names:
    """The right name among those of a table."""
    return Names(right, tuple(dict.fromkeys(map(str, table[column]))))


def totals(table: pd.DataFrame, by: str = "name") -> pd.Series[float]:
    """The total time of each name in ns, the largest first."""
    time = (table["end_ns"] - table["start_ns"]).groupby(table[by].astype(str)).sum()
    return time.sort_values(ascending=False)


def extent(ops: pd.DataFrame) -> tuple[int, int]:
    """From the begin of the first operation to the end of the last, in ns."""
    return int(ops["start_ns"].min()), int(ops["end_ns"].max())


def gaps(ops: pd.DataFrame) -> pd.DataFrame:
    """The times between operations in which none runs: start_ns, end_ns, ns, in their order."""
    import pandas as pd

    ordered = ops.sort_values("start_ns")
    end = ordered["end_ns"].cummax().shift()
    found = pd.DataFrame({"start_ns": end, "end_ns": ordered["start_ns"]}).dropna()
    found = found[found["end_ns"] > found["start_ns"]]
    return found.assign(ns=found["end_ns"] - found["start_ns"]).reset_index(drop=True)


def idle_share(ops: pd.DataFrame) -> float:
    """The share of the time from the first operation to the last in which none runs."""
    begin, end = extent(ops)
    return float(gaps(ops)["ns"].sum() / (end - begin))
