"""Memory in use over time as a Figure: of a history of the allocator by site, of a capture by kind."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from labcode.analysis.memory.history import stacked
from labcode.analysis.memory.usage import WHERE, in_use
from labcode.errors import LabError
from labcode.figures.style import (
    SMALL_PT,
    TEXT_PT,
    TITLE_PT,
    current,
    declare,
    fit,
    page_width,
    render,
    styled,
    tidy,
)
from labcode.outputs import whole
from labcode.reports.memory.history import MemoryHistory, open_history
from labcode.reports.nsys.report import NsysReport
from labcode.show import number

_HEIGHT_IN = 2.6
_COLORS = ("kernel", "nccl", "h2d", "d2h", "d2d", "graph", "p2p", "launch")
_LINE_IN = 0.18
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))
_SPANS = ((1_000_000, "s"), (1_000, "ms"), (1, "µs"))


@styled
def memory_timeline(history: MemoryHistory, *, most: int = 7, title: str | None = None) -> Figure:
    """Live bytes over time as areas on each other: a color for each of the ``most`` sites with the most.

    The key below names the sites, the lowest area first; the peak is marked with its size.
    """
    palette = current()
    times, areas = stacked(history, most=most)
    begin = int(times[0]) if len(times) else 0
    total = np.sum(list(areas.values()), axis=0) if areas else np.zeros(len(times), np.int64)
    top = int(total.max()) if len(total) else 0
    unit, unit_name = _unit(top)
    span = int(times[-1] - begin) if len(times) else 0
    tick, tick_name = next((size, name) for size, name in _SPANS if span >= 2 * size or size == 1)
    above, key = (0.3 if title else 0.1), _LINE_IN * len(areas)
    width, height = page_width(), above + _HEIGHT_IN + 0.5 + key
    figure = Figure(figsize=(width, height))
    left = 0.62
    axes = figure.add_axes(
        (left / width, (key + 0.5) / height, (width - left - 0.15) / width, _HEIGHT_IN / height)
    )
    colors = [palette.fill(role) for role in _COLORS]
    chosen = [
        palette.muted if name == "other sites" else colors[place % len(colors)]
        for place, name in enumerate(areas)
    ]
    steps = (times - begin) / tick
    shown = {tidy(name if len(name) <= 100 else "…" + name[-99:]): values for name, values in areas.items()}
    if areas:
        axes.stackplot(
            steps,
            [values / unit for values in shown.values()],
            labels=list(shown),
            colors=chosen,
            step="post",
            linewidth=0,
            alpha=0.9,
        )
        place = int(total.argmax())
        axes.annotate(
            f"peak {number(top / unit)} {unit_name}",
            (steps[place], top / unit),
            xytext=(0, 4),
            textcoords="offset points",
            fontsize=TEXT_PT,
            ha="right" if place > len(steps) / 2 else "left",
            weight="bold",
        )
    axes.set_xlim(0, max(float(steps[-1]) if len(steps) else 1.0, 1e-9))
    axes.set_ylim(0, max(top / unit * 1.15, 1e-9))
    axes.set_xlabel(f"time ({tick_name})", fontsize=TEXT_PT)
    axes.set_ylabel(f"in use ({unit_name})", fontsize=TEXT_PT)
    axes.tick_params(labelsize=TEXT_PT)
    if title:
        figure.text(0.04 / width, 1 - 0.03 / height, tidy(title), fontsize=TITLE_PT, weight="bold", va="top")
    declare(axes, {name: (steps, values / unit) for name, values in shown.items()})
    for line, (text, color) in enumerate(zip(shown, chosen, strict=True)):
        y = (key - _LINE_IN * (line + 0.5)) / height
        figure.text(left / width, y, "■", color=color, fontsize=TEXT_PT, va="center")
        look = {"fontsize": SMALL_PT, "va": "center", "color": palette.text}
        figure.text((left + 0.18) / width, y, fit(text, width - left - 0.25), look)
    return figure


@styled
def memory_usage(report: NsysReport, *, most: int = 6) -> Figure:
    """Bytes that CUDA handed out and that are in use, over the measured part: a line per process, GPU, kind.

    Drawn are the ``most`` with the highest peaks; time starts where the measured part does.
    """
    palette = current()
    table = in_use(report.memory_usage())
    begin, end = report.window()
    if begin >= end and len(table):
        begin, end = int(table["time_ns"].iloc[0]), int(table["time_ns"].iloc[-1])
    table = table[table["time_ns"] <= end]
    groups = dict(list(table.groupby(WHERE)))
    chosen = sorted(groups, key=lambda where: -int(groups[where]["in_use_bytes"].max()))[:most]
    top = max((int(groups[where]["in_use_bytes"].max()) for where in chosen), default=0)
    unit, unit_name = _unit(top)
    several = len({pid for pid, _, _ in chosen}) > 1
    figure = Figure(figsize=(page_width(), _HEIGHT_IN + 0.5), layout="constrained")
    axes = figure.subplots()
    series: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for place, where in enumerate(chosen):
        pid, device, kind = where
        name = f"process {pid}, GPU {device}: {kind}" if several else f"GPU {device}: {kind}"
        mine = groups[where]
        before = mine[mine["time_ns"] < begin]["in_use_bytes"]
        mine = mine[mine["time_ns"] >= begin]
        times = np.array([begin, *mine["time_ns"], end], np.float64)
        values = [int(before.iloc[-1]) if len(before) else 0, *mine["in_use_bytes"]]
        series[name] = (times - begin) / 1e6, np.array([*values, values[-1]], np.float64) / unit
        color = palette.fill(_COLORS[place % len(_COLORS)])
        axes.step(*series[name], where="post", color=color, linewidth=1.3, label=name)
    axes.set_xlim(0, max((end - begin) / 1e6, 1e-9))
    axes.set_ylim(0, max(top / unit * 1.12, 1e-9))
    axes.set_xlabel("time (ms)")
    axes.set_ylabel(f"in use ({unit_name})")
    axes.grid(True, axis="y")
    declare(axes, series)
    if chosen:
        axes.legend(fontsize=SMALL_PT, loc="lower right")
    return figure


def _unit(top: int) -> tuple[int, str]:
    """The unit to draw so many bytes in, and its name."""
    return next((size, name) for size, name in _UNITS if top >= size or size == 1)


def write_memory_timeline(file: Path, output: Path) -> Path:
    """Draw the history in ``file`` as an SVG; `LabError` for another kind of file, or no events."""
    if output.suffix.lower() != ".svg":
        raise LabError(
            f"{output}: the timeline of a memory history is a picture; name a file that ends in .svg"
        )
    with whole(output, reads=[file]) as part:
        history = open_history(file)
        if not len(history.events) and not len(history.live_before):
            raise LabError(f"{file}: no events to draw; record some steps")
        part.write_bytes(render(lambda: memory_timeline(history, title=file.name)))
    return output
