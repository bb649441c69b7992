"""Measured points and roofs in; a roofline chart, or a chart of what each round of a loop needs, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, StrMethodFormatter
from numpy.typing import ArrayLike

from labcode.figures.axes import logarithmic
from labcode.figures.style import SMALL_PT, WIDTH_IN, current, styled

MARKERS = ("o", "s", "^", "D")


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
def measured_roofline(
    families: Sequence[Family],
    bandwidth: float,
    published_bandwidth: float,
    *,
    height: float = 4.4,
    width: float = WIDTH_IN,
) -> Figure:
    """Points of every family under their roofs; bandwidths in TB/s.

    Solid lines are measured, dotted ones published.
    """
    palette = current()
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine())
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
        axes.plot(one.intensities, one.rates, MARKERS[index % 4], color=color, markersize=size, zorder=4)
        axes.annotate(
            one.name,
            (1.0, one.roof),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL_PT,
            color=color,
        )
    _along(axes, low * 2.2, bandwidth, "DRAM")
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
    return figure


def _along(axes: Axes, x: float, bandwidth: float, name: str) -> None:
    axes.annotate(
        name,
        (x, x * bandwidth),
        xytext=(-6, 8),
        textcoords="offset points",
        ha="right",
        fontsize=SMALL_PT,
        color=current().muted,
    )


@styled
def rounds_and_needs(
    names: Sequence[str],
    measured: ArrayLike,
    predicted: ArrayLike,
    needs: Mapping[str, ArrayLike],
    *,
    y_label: str,
    height: float = 3.9,
    width: float = WIDTH_IN,
) -> Figure:
    """For each round: a bar as high as measured, a short line at the prediction, and a mark at what each unit
    needs of it; on a logarithmic scale. The units' needs are lower bounds: the highest is the round's roof.
    """
    palette = current()
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine())
    axes = figure.subplots()
    xs, high = np.arange(len(names)), np.asarray(measured, dtype=np.float64)
    floor = min(float(np.nanmin(np.asarray(v, dtype=np.float64))) for v in needs.values())
    axes.set_yscale("log")
    axes.set_ylim(floor / 1.5, high.max() * 1.6)
    axes.bar(xs, high, width=0.72, color=palette.grid, edgecolor=palette.muted, linewidth=0.8)
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
        ncols=3,
        fontsize=SMALL_PT,
        frameon=False,
    )
    return figure
