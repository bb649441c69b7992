"""A report of Nsight Compute, or a program's own rates, in; rooflines as Figures, or as an SVG file, out.

Every launch is a number: a filled circle at its DRAM intensity, smaller marks at its L2 and L1
intensities, all at the height of its rate. The list below the axes names the numbers and the roofs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, StrMethodFormatter
from numpy.typing import ArrayLike

from labcode.analysis.kernel.roofline import LEVELS, Ceiling, counter_ceilings
from labcode.analysis.kernel.roofline import roofline as roofline_table
from labcode.errors import LabError
from labcode.figures.style import (
    SMALL_PT,
    WIDTH_IN,
    current,
    declare,
    fit,
    is_narrow,
    logarithmic,
    note,
    page_width,
    styled,
)
from labcode.reports.ncu.report import NcuReport
from labcode.show import number, whole_percent

MOST_LAUNCHES = 16
_MARKS = {"L1": "^", "L2": "s", "DRAM": "o"}
_ROLES = {"L1": "series4", "L2": "series3", "DRAM": "series2"}
_LINES = {"counters": "-", "measured": "--", "datasheet": ":"}
_ORIGIN = {"counters": "at this clock", "measured": "measured", "datasheet": "datasheet"}
_PRECISION = {
    "fp64": "FP64",
    "fp32": "FP32",
    "fp16": "FP16",
    "fp64_tensor": "FP64 tensor",
    "tf32_tensor": "TF32 tensor",
    "fp16_tensor": "FP16 tensor",
    "fp8_tensor": "FP8 tensor",
}
MARKERS = ("o", "s", "^", "D")


@styled
def roofline(
    report: NcuReport,
    *,
    precision: str | None = None,
    ceilings: Sequence[Ceiling] | None = None,
) -> Figure:
    """The roofline of the launches of a report (select them first when there are many).

    ``ceilings`` are the roofs to draw, by default the peaks at the clocks of the first launch; of the
    compute roofs only those of precisions that some launch uses are drawn. Launches without
    floating-point operations have no place on logarithmic axes: the list names them with the share of the
    DRAM bandwidth they reach.
    """
    if len(report.list) > MOST_LAUNCHES:
        raise LabError(
            f"{report.path}: {len(report.list)} launches are too many for one picture (at most "
            f"{MOST_LAUNCHES}); choose some with --kernel or --launch"
        )
    table = roofline_table(report, precision)
    roofs = list(counter_ceilings(report.list[0]) if ceilings is None else ceilings)
    drawn = table[(table["flops_per_s"] > 0) & np.isfinite(table["intensity"])]
    used = set(drawn["precision"]) or {"fp32"}
    roofs = [one for one in roofs if one.kind == "memory" or one.of in used]
    lines = _listed(report, table)
    below = 0.19 * max(len(lines), len(roofs) + 3)
    figure = Figure(figsize=(WIDTH_IN, 3.3 + below), layout=ConstrainedLayoutEngine(h_pad=0.06))
    top, bottom = figure.subplots(2, 1, height_ratios=[3.3, below])
    _axes(top, drawn, roofs)
    _points(top, drawn, [one.id for one in report.list])
    _key(bottom, lines, roofs)
    return figure


def _axes(axes: Axes, drawn: pd.DataFrame, roofs: Sequence[Ceiling]) -> None:
    """Scales that hold the points and the ridges, and the roofs."""
    palette = current()
    peaks = [one.value for one in roofs if one.kind == "compute"]
    widths = [one.value for one in roofs if one.kind == "memory"]
    ridges = [peak / bandwidth for peak in peaks for bandwidth in widths]
    places = [*drawn["intensity"], *ridges, 0.1, 100.0]
    heights = [*drawn["flops_per_s"], *peaks]
    low, high = min(places) / 2, max(places) * 2
    floor, roof = min(heights or [1e10]) / 3, max(heights or [1e14]) * 2
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(floor / 1e12, roof / 1e12))
    highest = max(peaks, default=roof)
    origin = roofs[0].origin if roofs else ""
    for one in roofs:
        style = _LINES[one.origin]
        if one.kind == "compute":
            first = max(low, one.value / max(widths, default=np.inf)) if widths else low
            axes.plot([first, high], [one.value / 1e12] * 2, style, color=palette.text, linewidth=1.3)
            if one.origin == origin:
                note(axes, _PRECISION[one.of], (1.0, one.value / 1e12), (4, 0), along="y", va="center")
        else:
            xs = np.array([low, min(high, highest / one.value)])
            axes.plot(xs, xs * one.value / 1e12, style, color=palette.fill(_ROLES[one.of]), linewidth=1.6)
    logarithmic(axes.xaxis)
    logarithmic(axes.yaxis)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.9g}"))
    axes.set_xlabel("arithmetic intensity (FLOP/byte)")
    axes.set_ylabel("TFLOP/s")
    axes.grid(True)


def _points(axes: Axes, drawn: pd.DataFrame, order: list[int]) -> None:
    """A mark for each level, and the launch's number beside the DRAM's, clear of the others."""
    palette = current()
    taken: list[tuple[float, float]] = []
    spans = [np.log10(limits) for limits in (axes.get_xlim(), axes.get_ylim())]
    levels = {level: drawn[drawn["level"] == level] for level in LEVELS if (drawn["level"] == level).any()}
    declare(
        axes,
        {f"{level} intensity": (of["intensity"], of["flops_per_s"] / 1e12) for level, of in levels.items()},
    )
    for launch in dict.fromkeys(drawn["launch"].tolist()):
        rows = drawn[drawn["launch"] == launch]
        intensity = dict(zip(rows["level"].tolist(), rows["intensity"].tolist(), strict=True))
        rate = float(rows["flops_per_s"].iloc[0]) / 1e12
        for level in LEVELS:
            if level in intensity:
                size = 60 if level == "DRAM" else 22
                axes.scatter(
                    [intensity[level]],
                    [rate],
                    s=size,
                    marker=_MARKS[level],
                    color=palette.fill(_ROLES[level]),
                    edgecolors=palette.paper,
                    zorder=4,
                    label=f"{level} intensity",
                )
        level = "DRAM" if "DRAM" in intensity else next(iter(intensity))
        place = np.log10((intensity[level], rate))
        x, y = (float((p - a) / (b - a)) for p, (a, b) in zip(place, spans, strict=True))
        dx, dy = _free(x, y, taken)
        taken.append((x + dx, y + dy))
        axes.annotate(
            str(order.index(launch) + 1),
            (x, y),
            xytext=(x + dx, y + dy),
            xycoords="axes fraction",
            textcoords="axes fraction",
            ha="center",
            va="center",
            fontsize=SMALL_PT,
            fontweight="bold",
            color=palette.text,
            bbox={"facecolor": palette.paper, "edgecolor": "none", "pad": 0.6},
            arrowprops={"arrowstyle": "-", "color": palette.muted, "linewidth": 0.6, "shrinkB": 4}
            if abs(dx) + abs(dy) > 0.06
            else None,
            zorder=6,
        )


def _free(x: float, y: float, taken: list[tuple[float, float]]) -> tuple[float, float]:
    """An offset from a point whose place no earlier number takes."""
    for radius in (1.0, 1.9, 2.8, 3.7):
        for dx, dy in ((0.0, 1.0), (1.0, 0.6), (-1.0, 0.6), (0.0, -1.0), (1.0, -0.7), (-1.0, -0.7)):
            place = (x + 0.030 * radius * dx, y + 0.052 * radius * dy)
            inside = 0.02 < place[0] < 0.98 and 0.03 < place[1] < 0.97
            if inside and all(abs(place[0] - a) > 0.034 or abs(place[1] - b) > 0.05 for a, b in taken):
                return place[0] - x, place[1] - y
    return 0.0, 0.052


def _listed(report: NcuReport, table: pd.DataFrame) -> list[str]:
    """The list's lines: each launch with what it reaches, and of what."""
    lines = []
    for place, one in enumerate(report.list, 1):
        rows = table[table["launch"] == one.id]
        last = rows.iloc[-1]
        if last["flops_per_s"] > 0:
            best = rows.sort_values("share_of_roof", na_position="first").iloc[-1]
            roof = best["level"] if best["bound"] == "memory" else _PRECISION[str(last["precision"])]
            rate, share = number(last["flops_per_s"] / 1e12), whole_percent(best["share_of_roof"])
            reached = f"{rate} TFLOP/s, {share} of {roof} {_ORIGIN['counters']}"
        elif np.isfinite(last["share_of_roof"]):
            reached = (
                f"no FLOP; {whole_percent(last['share_of_roof'])} of {last['level']} {_ORIGIN['counters']}"
            )
        else:
            reached = "no FLOP"
        lines.append(f"{place} {one.function}: {reached}")
    return lines


def _key(axes: Axes, lines: list[str], roofs: Sequence[Ceiling]) -> None:
    """Launches on the left, roofs and marks on the right."""
    palette = current()
    axes.axis("off")
    count = max(len(lines), len(roofs) + 3)
    for place, text in enumerate(lines):
        axes.text(
            *(0.0, 1 - (place + 0.5) / count, fit(text, WIDTH_IN * 0.55, SMALL_PT)),
            transform=axes.transAxes,
            fontsize=SMALL_PT,
            va="center",
        )
    shown = [(_roof_text(one), {"linestyle": _LINES[one.origin], "color": _color(one)}) for one in roofs]
    marks = [
        (
            f"{level} intensity",
            {"marker": _MARKS[level], "linestyle": "", "color": palette.fill(_ROLES[level])},
        )
        for level in LEVELS
    ]
    for place, (text, look) in enumerate([*shown, *marks]):
        y = 1 - (place + 0.5) / count
        xs = [0.62] if "marker" in look else [0.60, 0.64]
        axes.add_line(Line2D(xs, [y] * len(xs), transform=axes.transAxes, clip_on=False, **look))  # type: ignore[arg-type]
        axes.text(
            *(0.66, y, fit(text, WIDTH_IN * 0.31, SMALL_PT)),
            transform=axes.transAxes,
            fontsize=SMALL_PT,
            va="center",
        )


def _color(one: Ceiling) -> str:
    return current().fill(_ROLES[one.of]) if one.kind == "memory" else current().text


def _roof_text(one: Ceiling) -> str:
    unit = "TB/s" if one.kind == "memory" else "TFLOP/s"
    name = one.of if one.kind == "memory" else _PRECISION[one.of]
    return f"{name} {number(one.value / 1e12)} {unit}, {_ORIGIN[one.origin]}"


@dataclass(frozen=True)
class Family:
    """Kernels of one precision: intensities (FLOP/byte), rates (TFLOP/s), the roof measured for them and the
    one published (NaN: none)."""

    name: str
    intensities: Sequence[float]
    rates: Sequence[float]
    roof: float
    published: float


@styled
def measured_roofline(families: Sequence[Family], bandwidth: float, published_bandwidth: float) -> Figure:
    """Points of every family under their roofs; bandwidths in TB/s.

    Solid lines are measured, dotted ones published.
    """
    palette = current()
    figure = Figure(figsize=(page_width(), 4.4), layout=ConstrainedLayoutEngine())
    axes = figure.subplots()
    places = np.concatenate([one.intensities for one in families])
    rates = np.concatenate([one.rates for one in families])
    low, high = places.min() / 1.6, places.max() * 1.6
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(rates.min() / 2, rates.max() * 3))
    top = max(one.roof for one in families)
    for rate, style in ((bandwidth, "-"), (published_bandwidth, ":")):
        if np.isfinite(rate):
            xs = np.array([low, top / rate])
            axes.plot(xs, xs * rate, style, color=palette.muted, linewidth=1.5)
    for index, one in enumerate(families):
        color = palette.fill(f"series{index % 4 + 1}")
        for roof, style in ((one.roof, "-"), (one.published, ":")):
            if np.isfinite(roof):
                axes.plot([roof / bandwidth, high], [roof, roof], style, color=color, linewidth=1.3)
        size = 4.5 + 1.5 * (
            len(families) - 1 - index
        )  # points at one place: the first family around the others
        mark = MARKERS[index % 4]
        axes.plot(one.intensities, one.rates, mark, color=color, markersize=size, zorder=4, label=one.name)
        note(axes, one.name, (1.0, one.roof), (4, 0), along="y", va="center", color=color)
    note(axes, "DRAM", (low * 2.2, low * 2.2 * bandwidth), (-6, 8), ha="right")
    logarithmic(axes.xaxis)
    logarithmic(axes.yaxis)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.9g}"))
    axes.set_xlabel("arithmetic intensity (FLOP/byte of DRAM traffic)")
    axes.set_ylabel("TFLOP/s")
    axes.grid(True)
    handles = [
        Line2D([], [], color=palette.muted, linestyle="-", label="roof, measured"),
        Line2D([], [], color=palette.muted, linestyle=":", label="roof, published"),
    ]
    axes.legend(handles=handles, loc="lower right", fontsize=SMALL_PT, frameon=False)
    key = [str(handle.get_label()) for handle in handles]
    declare(axes, {one.name: (one.intensities, one.rates) for one in families}, key=key)
    return figure


@styled
def rounds_and_needs(
    names: Sequence[str],
    measured: ArrayLike,
    predicted: ArrayLike,
    needs: Mapping[str, ArrayLike],
    *,
    y_label: str,
) -> Figure:
    """For each round: a bar as high as measured, a short line at the prediction, and a mark at what each unit
    needs of it; on a logarithmic scale. The units' needs are lower bounds: the highest is the round's roof.
    """
    palette = current()
    figure = Figure(figsize=(page_width(), 3.9), layout=ConstrainedLayoutEngine())
    axes = figure.subplots()
    xs, high = np.arange(len(names)), np.asarray(measured, dtype=np.float64)
    floor = min(float(np.nanmin(np.asarray(v, dtype=np.float64))) for v in needs.values())
    axes.set_yscale("log")
    axes.set_ylim(floor / 1.5, high.max() * 1.6)
    bars = axes.bar(xs, high, width=0.72, color=palette.grid, edgecolor=palette.muted, linewidth=0.8)
    guess = np.asarray(predicted, dtype=np.float64)
    axes.hlines(guess, xs - 0.44, xs + 0.44, color=palette.warn, linewidth=1.8, zorder=3)
    for index, (name, values) in enumerate(needs.items()):
        axes.plot(
            *(xs, np.asarray(values, dtype=np.float64), MARKERS[index % 4]),
            color=palette.fill(f"series{index % 4 + 1}"),
            markeredgecolor=palette.paper,
            markersize=6.5,
            label=name,
            zorder=4,
        )
    axes.xaxis.set_major_locator(FixedLocator(xs.tolist()))
    axes.set_xticklabels(list(names))
    logarithmic(axes.yaxis)
    axes.set_ylabel(y_label)
    axes.grid(True, axis="y")
    first = [
        Line2D([], [], marker="s", linestyle="", markersize=8, color=palette.grid, label="measured"),
        Line2D([], [], color=palette.warn, linewidth=1.8, label="predicted"),
    ]
    first[0].set_markeredgecolor(palette.muted)
    figure.legend(
        handles=[*first, *axes.get_legend_handles_labels()[0]],
        loc="outside lower center",
        ncols=2 if is_narrow() else 3,
        fontsize=SMALL_PT,
        frameon=False,
    )
    bars.set_label("measured")
    series = {name: (names, values) for name, values in needs.items()}
    declare(axes, {"measured": (names, measured), **series})
    return figure
