"""An nsys export in; the critical path of each process, which decides how long it took, out.

The walk is that of traces (`labcode.analysis.timeline.critical_path`), with what an export has for it.
"""

import pandas as pd

from labcode.analysis.stats.shelf import NOTES, LackingError
from labcode.analysis.timeline.critical_path import by_kind, contradictions, kinds_of, paths
from labcode.reports.nsys.report import NsysReport


def summed(report: NsysReport) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The paths summed up by kind, and by kind and name, as `by_kind` has it; pid in place of rank."""
    found: list[pd.DataFrame] = []
    notes: list[str] = []
    ops = report.gpu_ops().assign(rank=lambda table: table["pid"])
    for path in paths(report):
        found.append(by_kind(path, names=True))
        notes += contradictions(path, ops, of="process")
    if not found:
        raise LackingError(report.path, "the capture holds no process that calls CUDA and uses a GPU")
    named = pd.concat(found, ignore_index=True)
    kinds = kinds_of(named).rename(columns={"rank": "pid"})
    named = named.rename(columns={"rank": "pid"})
    kinds.attrs[NOTES] = named.attrs[NOTES] = tuple(notes)
    return kinds, named


def critical_path(report: NsysReport) -> pd.DataFrame:
    """What decides how long the run took: Time (%), Total Time, Pieces, Times As Fast At Most, PID, Kind."""
    return _shown(summed(report)[0])


def critical_path_sum(report: NsysReport) -> pd.DataFrame:
    """The critical path by call, kernel and range: the columns of critical_path, and Name."""
    kinds_and_names = summed(report)[1]
    return _shown(kinds_and_names).assign(Name=kinds_and_names["name"])


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    shown = pd.DataFrame(
        {
            "Time (%)": (100 * table["share"]).round(1),
            "Total Time (ns)": table["total_ns"],
            "Pieces": table["pieces"],
            "Times As Fast At Most": table["at_most"],
            "PID": table["pid"],
            "Kind": table["kind"],
        }
    )
    shown.attrs[NOTES] = table.attrs.get(NOTES, ())
    return shown
