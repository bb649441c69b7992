"""A timeline and a text in; the window that the text names, in ns on the timeline's clock, out."""

import difflib
import re

from labcode.analysis.timeline.nvtx import labels
from labcode.errors import LabError
from labcode.reports import FORMATS, kind_of
from labcode.reports.report import TimelineReport

Window = tuple[int, int]
_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME = r"(\d+(?:\.\d+)?)\s*(ns|us|µs|μs|ms|s)"


def choose_window(report: TimelineReport, text: str | None) -> Window:
    """The window that a text names, in ns on the capture's clock.

    None: the measured part, ``report.window()``. ``all``: everything. ``10ms..25ms``: times since the start
    of the measured part, as on the picture's axis (ns, us, ms, s; either end may be left out). Any other text
    is the name of an NVTX range, its first instance; ``step#3`` is the third one.
    """
    if text is None:
        return report.window()
    if text == "all":
        return everything(report)
    times = re.fullmatch(rf"\s*(?:{_TIME})?\s*\.\.\s*(?:{_TIME})?\s*", text)
    if times:
        begin, end = report.window()
        low = begin + _ns(times[1], times[2]) if times[1] else begin
        high = begin + _ns(times[3], times[4]) if times[3] else end
        if low >= high or low >= end:
            raise LabError(
                f"{report.path}: the window {text} is empty; the capture's goes from 0 ms to "
                f"{(end - begin) / 1e6:.3f} ms"
            )
        return low, min(high, end)
    return _range(report, text)


def _ns(value: str, unit: str) -> int:
    return round(float(value) * _UNITS[unit])


def _range(report: TimelineReport, text: str) -> Window:
    """The window of an NVTX range by its name, with or without its domain."""
    name, _, place = text.rpartition("#")
    number = int(place) if name and place.isdecimal() else 0
    ranges = report.nvtx()
    ranges = ranges[ranges["end_ns"].notna()].sort_values("start_ns", kind="stable")
    names = labels(ranges)
    found = ranges[(names == text) | (ranges["name"] == text)]
    if number and not len(found):
        found = ranges[(names == name) | (ranges["name"] == name)].iloc[number - 1 :]
    if not len(found):
        often = [str(name) for name in names.value_counts().index[:1000]]
        known = ", ".join(difflib.get_close_matches(text, often, n=6, cutoff=0.0))
        what = FORMATS[kind_of(report.path)].ranges or "NVTX range"
        raise LabError(
            f"{report.path}: no {what} {text!r}; give one of those there are"
            + (f" ({known}, …)" if known else " (there is none)")
            + ", a span such as 10ms..25ms, or all"
        )
    return int(found["start_ns"].iloc[0]), int(found["end_ns"].iloc[0])


def everything(report: TimelineReport) -> Window:
    """From the first event to the last, also outside of the measured part."""
    tables = [report.gpu_ops(), report.api(), report.nvtx()]
    tables = [table for table in tables if len(table)]
    if not tables:
        return 0, 0
    begin, last = report.window()
    start = min(begin, *(int(table["start_ns"].min()) for table in tables))
    ends = [table["end_ns"].astype("Int64").fillna(table["start_ns"]).max() for table in tables]
    return start, max(start, last, *(int(end) for end in ends))
