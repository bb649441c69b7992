"""A capture of either tool for timelines in; its report out: of nsys, or of torch.profiler's trace."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from labcode.reports.kineto.open import is_trace
from labcode.reports.nsys.report import NsysReport, open_report


def open_capture(path: Path) -> NsysReport:
    """The report of an nsys capture or, by its name, of a trace (``.json``, ``.json.gz``, a folder of ranks).

    A `labcode.reports.kineto.report.KinetoReport` has the tables of GPU operations, calls, ranges and
    threads under the same names and with the same columns, which is all that comparing and drawing ask for.
    """
    if is_trace(path):
        from labcode.reports.kineto.report import open_trace

        return cast(NsysReport, open_trace(path))
    return open_report(path)
