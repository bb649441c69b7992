"""A report and what somebody asked to have judged in; the window with its iterations out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labcode.analysis.ledger.steady import Steady, steady, within
from labcode.analysis.timeline.windows import choose_window
from labcode.reports.report import TimelineReport

if TYPE_CHECKING:
    from labcode.reports.kineto.report import KinetoReport
    from labcode.reports.nsys.report import NsysReport

STEADY, ALL = "steady", "all"
TOLD = {ALL: "all of the capture"}


def judged(report: TimelineReport, text: str | None = None) -> Steady:
    """The window that ``text`` names: steady (also where nothing is asked), all, a range, FROM..TO.

    Raises `LabError` for a range that there is not and a window outside of the capture; it says which.
    """
    if text is None or text == STEADY:
        return steady(report)
    return within(report, choose_window(report, text), TOLD.get(text, f"the window {text}"))


def cut_to(report: NsysReport | KinetoReport, text: str) -> list[str]:
    """Have a report hold nothing but what overlaps the window that a text names, cut off at its edges; which
    that is, and what is odd, a line each.
    """
    found = judged(report, text)
    begin = report.window()[0]
    low, high = ((time - begin) / 1e6 for time in found.window)
    report.only(found.window)
    return [f"--window {text}: {low:,.3f} ms to {high:,.3f} ms ({found.told})", *found.notes]


def only_within(report: TimelineReport, text: str) -> None:
    """Have a report's measured part be the window that a text names."""
    window = judged(report, text).window
    report.window = lambda: window  # type: ignore[method-assign]
