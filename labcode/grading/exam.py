"""The captures that no page shows: a capture set and a run in, its report out."""

from labcode.errors import LabError
from labcode.reports.nsys.report import NsysReport, open_report
from labcode.store import CaptureSet


def open_run(captures: CaptureSet, experiment: str, run: str) -> NsysReport:
    """The report of a run; `LabError` in the grader's words when the set has no such capture."""
    if experiment not in captures.experiments or run not in captures.experiments[experiment].runs:
        raise LabError(f"the capture set {captures.name!r} has no run {run} of {experiment}")
    return open_report(captures.path_of(experiment, run))
