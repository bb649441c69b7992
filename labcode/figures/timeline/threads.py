"""Threads on and off the CPU in (`labcode.analysis.timeline.switches`); a strip for each thread, as a
figure, out."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.intervals import Window
from labcode.analysis.timeline.os_runtime import call_class
from labcode.errors import LabError
from labcode.figures.style import SMALL_PT, TITLE_PT, WIDTH_IN, current, fit, styled, width_in
from labcode.figures.timeline.rows import condense
from labcode.reports.columns import Ints

MOST_THREADS = 16
CROWDED = 300  # spans; a thread with more of them is drawn by the share of time
_ROW_IN = 0.26
_WIDEST_LABEL_IN = 2.0
# What a thread waits in → (role of the color, name): classes of `labcode.analysis.timeline.os_runtime`.
WAITS: Mapping[str, tuple[str, str]] = {
    "lock": ("sync", "waits for another thread"),
    "poll": ("series4", "polls"),
    "sleep": ("nvtx3", "sleeps"),
    "read": ("series3", "file, read or write"),
    "process": ("series1", "starts or awaits a process"),
}
_LIKE = {"write": "read", "sync": "read", "file": "read", "socket": "poll"}


@styled
def thread_strips(
    states: pd.DataFrame,
    window: Window,
    *,
    threads: pd.DataFrame | None = None,
    waits: pd.DataFrame | None = None,
    gpu_ops: pd.DataFrame | None = None,
    title: str | None = None,
    most: int = MOST_THREADS,
) -> Figure:
    """Each thread as a strip: dark where it ran on a CPU, colored by what it waited in, else empty.

    states is of `switches.thread_states`, threads of the report (their names), waits of
    `switches.waiting_in`; gpu_ops adds a strip above for when a GPU was busy. The ``most`` threads that ran
    longest are drawn. Where a thread did too much to be drawn piece by piece, the colors stand on each other,
    each as high as its share of the time. Raises `LabError` when there are no context switches in the window.
    """
    span = window[1] - window[0]
    running = states[states["state"] == "running"]
    if span <= 0 or not len(running):
        raise LabError(
            "no context switches in this window; record them with nsys profile --cpuctxsw=process-tree"
        )
    palette = current()
    spent = (running["end_ns"] - running["start_ns"]).groupby([running["pid"], running["tid"]]).sum()
    chosen = spent.sort_values(ascending=False, kind="stable").index[:most].sort_values()
    names = _names(chosen, threads)
    rows = len(chosen) + (gpu_ops is not None)
    label_in = min(_WIDEST_LABEL_IN, max(width_in(name) for name in names) + 0.15)
    top, bottom = (0.32 if title else 0.08), 0.82
    width, height = WIDTH_IN, top + rows * _ROW_IN + bottom
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes(
        (label_in / width, bottom / height, 1 - (label_in + 0.1) / width, rows * _ROW_IN / height)
    )
    axes.set_xlim(0, span / 1e6)
    axes.set_ylim(rows, 0)
    for side in ("left", "top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("time (ms)")
    axes.set_yticks([])
    used: dict[str, str] = {}
    row, crowded = 0, False
    pixels = 96 * (width - label_in - 0.1) / span
    if gpu_ops is not None:
        start, end = intervals.union(*intervals.clip(gpu_ops["start_ns"], gpu_ops["end_ns"], window))
        start, end = intervals.union(start, end + int(0.5 / pixels))  # closes gaps that nobody could see
        _strip(axes, row, start, np.minimum(end, window[1]), window, palette.fill("kernel"))
        used["kernel"] = "GPU busy"
        _label(axes, row, "GPU", label_in)
        row += 1
    for thread, name in zip(chosen, names, strict=True):
        _label(axes, row, name, label_in)
        axes.plot([0, span / 1e6], [row + 0.5] * 2, color=palette.grid, linewidth=0.8, zorder=0)
        mine = running[(running["pid"] == thread[0]) & (running["tid"] == thread[1])]
        waited = _waits_of(waits, thread)
        used |= {role: what for role, what, _ in waited}
        if len(mine) + sum(len(part) for _, _, part in waited) > CROWDED:
            spans = {"cpu": _times(mine), **{role: _times(part) for role, _, part in waited}}
            _shares(axes, row, spans, window, pixels)
            crowded = True
        else:
            for role, _, part in waited:
                _strip(axes, row, *_times(part), window, palette.fill(role), thin=True)
            _strip(axes, row, *_times(mine), window, palette.fill("cpu"))
        row += 1
    used["cpu"] = "runs on a CPU"
    if title:
        figure.text(0, 1 - 0.06 / height, title, fontsize=TITLE_PT, fontweight="bold", va="top")
    handles = [Patch(facecolor=palette.fill(role), label=what) for role, what in used.items()]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 0),
        ncols=min(4, len(handles)),
        handlelength=1.0,
        columnspacing=1.2,
        labelcolor=palette.muted,
        borderaxespad=0.1,
    )
    notes = [f"the {len(chosen)} threads that ran longest, of {len(spent)}"] * (len(spent) > len(chosen))
    notes += ["part height: share of time"] * crowded
    if notes:
        note = "; ".join(notes)
        figure.text(1, 0.02 / height, note, color=palette.muted, fontsize=SMALL_PT, ha="right", va="bottom")
    return figure


def _waits_of(waits: pd.DataFrame | None, thread: tuple[int, int]) -> list[tuple[str, str, pd.DataFrame]]:
    """What a thread waited in, by role, with its name and its rows."""
    if waits is None:
        return []
    mine = waits[(waits["pid"] == thread[0]) & (waits["tid"] == thread[1])]
    kinds = mine["call"].map({name: call_class(name) for name in mine["call"].unique()})
    kinds = kinds.map(lambda kind: _LIKE.get(kind, kind))
    return [(*WAITS[kind], mine[kinds == kind]) for kind in WAITS if (kinds == kind).any()]


def _times(part: pd.DataFrame) -> tuple[Ints, Ints]:
    return part["start_ns"].to_numpy(np.int64), part["end_ns"].to_numpy(np.int64)


def _strip(
    axes: Axes, row: int, start: Ints, end: Ints, window: Window, color: str, *, thin: bool = False
) -> None:
    low, high = (0.34, 0.32) if thin else (0.14, 0.72)
    boxes = [
        Rectangle(((a - window[0]) / 1e6, row + low), (b - a) / 1e6, high)
        for a, b in zip(start.tolist(), end.tolist(), strict=True)
    ]
    collection = PatchCollection(boxes, facecolors=color, edgecolors="none", linewidths=0)
    axes.add_collection(collection)


def _shares(
    axes: Axes, row: int, spans: Mapping[str, tuple[Ints, Ints]], window: Window, pixels: float
) -> None:
    """One thread whose spans, by role, are too many to be drawn one by one; ``pixels`` a nanosecond."""
    roles = list(spans)
    start, end = (
        (np.concatenate([spans[role][side] for role in roles]) - window[0]) * pixels for side in (0, 1)
    )
    kinds = np.repeat(np.arange(len(roles)), [len(spans[role][0]) for role in roles])
    drawn = condense(start, end, kinds)
    every = [*((start[i], end[i], 0.0, 1.0, kinds[i]) for i in drawn.alone)]
    every += [(*box, kind) for box, kind in zip(drawn.boxes.tolist(), drawn.kinds.tolist(), strict=True)]
    scale = 1e-6 / pixels  # ms a pixel
    for number, role in enumerate(roles):
        boxes = [
            Rectangle((a * scale, row + 0.86 - 0.72 * high), (b - a) * scale, 0.72 * (high - low))
            for a, b, low, high, kind in every
            if kind == number
        ]
        color = current().fill(role)
        axes.add_collection(PatchCollection(boxes, facecolors=color, edgecolors="none", linewidths=0))


def _label(axes: Axes, row: int, name: str, room: float) -> None:
    axes.annotate(
        fit(name, room - 0.1),
        (0, row + 0.5),
        xycoords=("axes fraction", "data"),
        xytext=(-6, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=SMALL_PT,
    )


def _names(chosen: pd.Index, threads: pd.DataFrame | None) -> list[str]:
    known: dict[tuple[int, int], str] = {}
    if threads is not None:
        keys = zip(threads["pid"].tolist(), threads["tid"].tolist(), strict=True)
        known = dict(zip(keys, threads["name"].tolist(), strict=True))
    pairs = [(int(pid), int(tid)) for pid, tid in chosen]
    return [f"{known.get(pair, 'thread')} {pair[1]}" for pair in pairs]
