"""A capture with the GPU's own counters in; counters over time below ranges and busy time, a Figure, out."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labcode.analysis.timeline import counters as series
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.nvtx import labels
from labcode.figures.style import (
    SMALL_PT,
    current,
    declare,
    fit,
    is_narrow,
    page_width,
    styled,
    tidy,
    wrapped,
)
from labcode.reports.common import MEASURED
from labcode.reports.nsys.report import NsysReport

_ROW_IN, _STRIP_IN, _PARTS = 0.42, 0.2, 1200


@styled
def counters_over_time(report: NsysReport, patterns: Sequence[str] = series.SHOWN) -> Figure:
    """Ranges of the CPU, when GPU 0 was busy, and its counters whose names match, from 0 to 100 %.

    ``patterns`` are as in `labcode.analysis.timeline.counters`; counters that the capture lacks are left out.
    Only the measured part is drawn. Ranges are those directly below the widest.
    """
    palette = current()
    every = report.counters()
    begin, end = series.report_window(report, every)
    found = [series.find(every, pattern, 0) for pattern in patterns]
    chosen = [counter for counter in found if counter is not None]
    width, height = page_width(), 2 * _STRIP_IN + _ROW_IN * len(chosen) + 0.62
    figure = Figure(figsize=(width, height))
    top, left = height - 0.05, 1.15 if is_narrow() else 1.75
    span = (end - begin) / 1e6

    def row(label: str, high: float) -> Axes:
        nonlocal top
        top -= high
        place = (left / width, top / height, (width - left - 0.1) / width, (high - 0.05) / height)
        axes = figure.add_axes(place)
        axes.set_xlim(0, span)
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        axes.tick_params(labelbottom=False, bottom=False)
        for side in ("left", "right", "top"):
            axes.spines[side].set_visible(False)
        axes.text(
            -0.015,
            0.5,
            wrapped(tidy(label), left - 0.08),
            transform=axes.transAxes,
            fontsize=SMALL_PT,
            ha="right",
            va="center",
        )
        return axes

    ranges = report.nvtx()
    ranges = ranges[(ranges["event_type"] == "push_pop") & ranges["end_ns"].notna()]
    ranges = ranges[(labels(ranges) != MEASURED) & (ranges["end_ns"] > begin) & (ranges["start_ns"] < end)]
    strip = row("range", _STRIP_IN)
    room = (width - left - 0.1) / span
    for name, first, last in zip(ranges["name"], ranges["start_ns"], ranges["end_ns"], strict=True):
        low, high = (max(first, begin) - begin) / 1e6, (min(last, end) - begin) / 1e6
        strip.broken_barh([(low, high - low)], (0, 1), color=palette.fill("nvtx1"), linewidth=0)
        text = fit(str(name), (high - low) * room - 0.06)
        strip.text(
            (low + high) / 2,
            0.5,
            text,
            fontsize=SMALL_PT,
            ha="center",
            va="center",
            color=palette.on("nvtx1"),
        )
    ops = report.gpu_ops()
    ops = ops[ops["device"] == 0]
    for role, kinds in (("h2d", ["memcpy", "memset"]), ("kernel", ["kernel", "graph"])):
        mine = ops[ops["kind"].isin(kinds)]
        spans = intervals.union(*intervals.clip(mine["start_ns"], mine["end_ns"], (begin, end)))
        if role == "h2d":
            busy = row("kernels, copies", _STRIP_IN)
        bars = [((low - begin) / 1e6, (high - low) / 1e6) for low, high in zip(*spans, strict=True)]
        busy.broken_barh(bars, (0, 1), color=palette.fill(role), linewidth=0)
    edges = np.linspace(0, span, _PARTS + 1)
    for counter in chosen:
        axes = row(counter.name, _ROW_IN)
        values = np.nan_to_num(series.binned(counter, (begin, end), _PARTS)) / 100
        axes.stairs(
            values, edges, fill=True, color=palette.fill("series1"), linewidth=0, label=tidy(counter.name)
        )
        declare(axes, {tidy(counter.name): (edges[:-1], values)})
        axes.axhline(1, color=palette.grid, linewidth=0.6, zorder=0)
    axes.tick_params(labelbottom=True, bottom=True)
    axes.set_xlabel(
        "time (ms); counters from 0 to 100 %" + ("" if is_narrow() else " of what the GPU can do"),
        fontsize=SMALL_PT,
    )
    return figure
