"""The recordings that no page shows: a capture set and a run in, the trace or the memory history out."""

from labcode.errors import LabError
from labcode.reports.kineto.report import KinetoReport, open_trace
from labcode.reports.memory.history import MemoryHistory, open_history
from labcode.store import CaptureSet

_ENDINGS = (".trace.json", ".trace.json.gz")


def open_ranks_of(captures: CaptureSet, experiment: str, run: str) -> KinetoReport:
    """The trace of a run, of all its ranks; `LabError` in the grader's words when the set has no such run."""
    _check(captures, experiment, run)
    names = [file.name for file in captures.run(experiment, run).files]
    suffixes = [name.removeprefix(run) for name in names if name.endswith(_ENDINGS)]
    return open_trace([captures.path_of(experiment, run, suffix) for suffix in suffixes])


def open_history_of(captures: CaptureSet, experiment: str, run: str) -> MemoryHistory:
    """The history of a run; `LabError` likewise."""
    _check(captures, experiment, run)
    return open_history(captures.path_of(experiment, run, ".memory.json"))


def _check(captures: CaptureSet, experiment: str, run: str) -> None:
    if experiment not in captures.experiments or run not in captures.experiments[experiment].runs:
        raise LabError(f"the capture set {captures.name!r} has no run {run} of {experiment}")
