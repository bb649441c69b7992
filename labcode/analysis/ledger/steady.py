"""A timeline in; the part of it that is judged, its iterations, and what lies before and after, out.

Judged is the window that somebody named (`choose_window`), or the steady state: from after the warm-up to the
last whole iteration (`labcode.analysis.timeline.iterations`). Where nothing repeats, it is the stretch from
the first to the last kernel without the loading of code at its beginning. A range ``lab:measured`` is the
outer bound of either. What lies outside is start-up, warm-up or the end: a table of its own, for a longer run
has the same start-up and a smaller share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.iterations import CAPTURE, FEWEST, Iterations, iterations
from labcode.analysis.timeline.joins import launches_of, named_like, spans
from labcode.reports.columns import Bools, Ints
from labcode.reports.frames import codes_of, is_any, rows_of
from labcode.reports.report import SystemReport, TimelineReport

if TYPE_CHECKING:
    from labcode.reports.kineto.report import KinetoReport
    from labcode.reports.nsys.report import NsysReport

import difflib
import re

from labcode.analysis.timeline.intervals import Window
from labcode.analysis.timeline.nvtx import labels
from labcode.errors import LabError
from labcode.reports import FORMATS, kind_of

LOADING = r"^(?:cu|cuda)(?:LibraryLoad|ModuleLoad|Init$|CtxCreate|DevicePrimaryCtx|Link|LibraryGetModule)"
CONTEXT = r"^cu(?:Init$|CtxCreate|DevicePrimaryCtx)"
ALIKE_OPS = 0.25  # iterations whose numbers of operations differ by more are of another kind
ALIKE_PERIOD = 0.3  # processes whose iterations differ by more are no ranks of one run
SLOW, LEAST_LOADING_NS = 100, 500_000  # of a launch that loads code
BREAK = 3  # so many iterations of another kind in a row end a stretch
_ROWS = ["pid", "iteration", "start_ns", "duration_ns", "busy_ns", "busy_share", "ops", "warm_up"]


@dataclass(frozen=True, eq=False)
class Steady:
    """What is judged: ``window``; ``told``, in words; ``rows``, the iterations in it of the processes that
    count, as `iterations` has them (none where nothing repeats); ``notes``, what is odd, a line each.

    ``outer`` is what could have been judged at most: the measured part, or all of the capture. ``lone``:
    the only whole iteration of the capture is, perhaps a first one.
    """

    window: Window
    outer: Window
    told: str
    rows: pd.DataFrame
    found: Iterations | None = None
    notes: tuple[str, ...] = field(default=())
    lone: bool = False

    @property
    def width(self) -> int:
        """The length of the window in ns, at least 1."""
        return max(self.window[1] - self.window[0], 1)

    @cached_property
    def count(self) -> int:
        """How many iterations the window holds, of the process with the most of them; 0 where none."""
        return int(self.rows.groupby("pid").size().max()) if len(self.rows) else 0


def steady(report: TimelineReport) -> Steady:
    """The steady state of a report."""
    outer = report.window()
    found = iterations(report)
    if found is not None and len(kept := _judged(report, found)):
        return _of_iterations(outer, found, kept)
    return _of_kernels(report, outer, found)


def within(report: TimelineReport, window: Window, told: str) -> Steady:
    """A window that somebody chose, with the iterations that lie whole in it."""
    found = iterations(report)
    rows = pd.DataFrame(columns=_ROWS) if found is None else found.table
    if len(rows):
        ends = rows["start_ns"] + rows["duration_ns"]
        rows = rows[(rows["start_ns"] >= window[0]) & (ends <= window[1])].reset_index(drop=True)
    return Steady(window, window, told, rows, found)


def _judged(report: TimelineReport, found: Iterations) -> pd.DataFrame:
    """Of each process the longest stretch of iterations of its most frequent kind, without warm-up.

    With a column usual: those of other kinds in between, which others than the main process may have.
    """
    parts = []
    ops = report.gpu_ops()
    works = is_any(ops["kind"], "kernel", "graph")
    pids, starts = (ops[name].to_numpy(np.int64) for name in ("pid", "start_ns"))
    for pid, mine in found.table.groupby("pid", sort=True):
        mine = mine[~mine["warm_up"]] if (~mine["warm_up"]).any() else mine
        begun = np.sort(starts[np.flatnonzero(works & (pids == pid))], kind="stable")
        start = mine["start_ns"].to_numpy(np.int64)
        kernels = np.searchsorted(begun, start + mine["duration_ns"].to_numpy(np.int64))
        usual = alike(kernels - np.searchsorted(begun, start))
        parts.append(mine.assign(others=int((~usual).sum()))[_longest(usual) & usual])
    return pd.concat(parts, ignore_index=True) if parts else found.table.iloc[:0].assign(others=0)


def alike(kernels: Ints) -> Bools:
    """Which iterations are of the most frequent kind. Kinds have numbers of kernels that no other numbers lie
    between by steps of `ALIKE_OPS`: where each iteration takes as many as it takes, all are of one kind.

    Copies do not count: every so often results are written, which makes no other kind of an iteration.
    """
    if len(kernels) < FEWEST:
        return np.ones(len(kernels), np.bool_)
    counts, place = np.unique(kernels, return_inverse=True)
    kind = (np.diff(counts, prepend=counts[:1]) > ALIKE_OPS * counts).cumsum()[place]
    return np.asarray(kind == np.bincount(kind).argmax(), np.bool_)


def _longest(usual: Bools) -> Bools:
    """The stretch with the most usual iterations; fewer than `BREAK` others in a row do not end it."""
    places = np.flatnonzero(usual)
    if not len(places):
        return usual
    first = np.flatnonzero(np.append(True, np.diff(places) > BREAK))
    counts = np.diff(np.append(first, len(places)))
    best = int(counts.argmax())
    low, high = places[first[best]], places[first[best] + counts[best] - 1]
    kept = np.zeros(len(usual), np.bool_)
    kept[low : high + 1] = True
    return kept


def _of_iterations(outer: Window, found: Iterations, kept: pd.DataFrame) -> Steady:
    ends = (kept["start_ns"] + kept["duration_ns"]).to_numpy(np.int64)
    kept = kept.assign(end_ns=ends)
    own = {
        int(str(pid)): _Own(
            int(mine["start_ns"].min()),
            int(mine["end_ns"].max()),
            int(mine["busy_ns"].sum()),
            len(mine),
            float(mine["duration_ns"].median()),
        )
        for pid, mine in kept.groupby("pid", sort=True)
    }
    main = max(own, key=lambda pid: own[pid].busy)
    notes: list[str] = []
    near = [
        pid
        for pid, one in own.items()
        if abs(one.median - own[main].median) <= ALIKE_PERIOD * own[main].median
    ]
    window = max(own[pid].begin for pid in near), min(own[pid].end for pid in near)
    if len(near) < len(own) or window[1] <= window[0]:
        why = (
            f"{len(own)} processes have iterations of different lengths"
            if len(near) < len(own)
            else f"the iterations of {len(own)} processes do not overlap"
        )
        notes.append(f"{why}; judged is process {main}, with the most work")
        near, window = [main], (own[main].begin, own[main].end)
    rows = kept[kept["pid"].isin(near)]
    inside = (rows["start_ns"] < window[1]) & (rows["end_ns"] > window[0])
    rows = rows[inside].drop(columns=["end_ns", "others"]).reset_index(drop=True)
    mine = found.table[found.table["pid"] == main]
    later = mine[~mine["warm_up"]]
    count, others = own[main].count, int(kept.loc[kept["pid"] == main, "others"].iloc[0])
    if others >= 2 and len(later) > count:
        notes.append(
            f"{others:,} of {len(later):,} iterations have other numbers of kernels (validation, for "
            f"one); judged are {count:,} of the more frequent kind that follow each other"
        )
    warm = int(mine["warm_up"].sum())
    lone = count == 1 and not warm
    if lone:
        notes.append(
            "it is the only whole iteration, perhaps a first one, where code is loaded and memory is "
            "asked for: what is said of it need not hold for those that follow"
        )
    told = f"{count:,} iteration{'s' * (count != 1)}, found by {found.how}"
    told += f"; {warm} before them are warm-up" if warm else ""
    return Steady(window, outer, told, rows, found, tuple(notes), lone)


@dataclass(frozen=True)
class _Own:
    """The stretch of iterations of one process."""

    begin: int
    end: int
    busy: int
    count: int
    median: float


def _of_kernels(report: TimelineReport, outer: Window, found: Iterations | None) -> Steady:
    """From the first to the last kernel, without what is loaded or captured before half of them have run."""
    ops = report.gpu_ops()
    work = rows_of(ops[["start_ns", "end_ns"]], is_any(ops["kind"], "kernel", "graph"))
    work = work if len(work) else ops[["start_ns", "end_ns"]]
    work = work[(work["start_ns"] < outer[1]) & (work["end_ns"] > outer[0])]
    none = pd.DataFrame({name: [] for name in _ROWS}).astype("int64")
    if not len(work):
        return Steady(outer, outer, "all of it: there is no work of a GPU", none, found)
    begin, end = max(int(work["start_ns"].min()), outer[0]), min(int(work["end_ns"].max()), outer[1])
    starts = np.sort(work["start_ns"].to_numpy(np.int64))
    middle = int(starts[len(starts) // 2])
    api = report.api()
    loads = named_like(api["name"], f"{LOADING}|{CAPTURE}")
    loads[loading_launches(ops, launches_of(report, ops, api), api)] = True
    ends = api["end_ns"].to_numpy(np.int64)[loads]
    ends = ends[(ends > begin) & (ends <= middle)]
    if len(ends):
        after = starts[np.searchsorted(starts, int(ends.max()), "left") :]
        begin = int(after[0]) if len(after) else begin
    told = "from the first to the last kernel, without the loading of code: nothing repeats often enough"
    return Steady((begin, max(end, begin)), outer, told, none, found)


def loading_launches(ops: pd.DataFrame, row: Ints, api: pd.DataFrame) -> Ints:
    """The places of calls (``row``: of each operation) that launch a kernel for the first time and load its
    code meanwhile: they take `SLOW` times what a launch does, and `LEAST_LOADING_NS` at least.
    """
    start, end = spans(api)
    took = np.append(end - start, 0)
    kernels = np.flatnonzero(is_any(ops["kind"], "kernel") & (row >= 0))
    if not (took[row[kernels]] >= LEAST_LOADING_NS).any():
        return row[:0]
    order = kernels[np.argsort(start[row[kernels]], kind="stable")]
    codes, _ = codes_of(ops["name"].iloc[order])
    first = row[order[np.unique(codes, return_index=True)[1]]]
    usual = float(np.median(took[row[kernels]]))
    return np.asarray(first[took[first] >= max(SLOW * usual, LEAST_LOADING_NS)], np.int64)


# ---- what lies outside


def phases(report: TimelineReport, judged: Steady) -> pd.DataFrame:
    """What the capture consists of besides the steady state: phase; start_ns, duration_ns, by time.

    From the first event (calls of the operating system's libraries included): before CUDA (imports,
    reading), creating the context (calls that make one, up to their end), loading code and preparing (up to
    the first kernel), the first kernels and the warm-up (up to the steady state), the steady state, the end.
    Inside of the second last stretches, loading of code is told in loading_ns.
    """
    begin, last = everything(report)
    if isinstance(report, SystemReport):
        first = report.osrt_begin()
        begin = begin if first is None else min(begin, first)
    api, ops = report.api(), report.gpu_ops()
    low, high = judged.window
    works = is_any(ops["kind"], "kernel", "graph")
    edges: list[tuple[str, int]] = []
    if len(api):
        edges.append(("before CUDA: imports, reading", int(api["start_ns"].min())))
        making = rows_of(api, named_like(api["name"], CONTEXT))
        if len(making) and int(making["end_ns"].max()) <= low:
            edges.append(("creating the context", int(making["end_ns"].max())))
    if works.any():
        first = np.min(ops["start_ns"].to_numpy(np.int64), where=works, initial=low)
        edges.append(("preparing, up to the first kernel", int(first)))
    edges += [("first kernels and warm-up", low), ("steady state", high), ("the end", last)]
    names, starts, stops = [], [], []
    at = begin
    for name, until in edges:
        until = min(max(until, at), max(last, at))
        if until > at:
            names.append(name)
            starts.append(at)
            stops.append(until)
        at = max(at, until)
    loads = spans(rows_of(api, named_like(api["name"], LOADING)))
    table = pd.DataFrame({"phase": pd.Series(names, dtype="str"), "start_ns": starts, "duration_ns": stops})
    table = table.astype({"start_ns": "int64", "duration_ns": "int64"})
    table["duration_ns"] -= table["start_ns"]
    stops_of = table["start_ns"] + table["duration_ns"]
    return table.assign(loading_ns=intervals.covered_within(*loads, table["start_ns"], stops_of))


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
