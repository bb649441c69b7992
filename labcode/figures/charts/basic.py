"""Labeled values, samples and shares in; bar charts, distributions and stacked bars out, as matplotlib
Figures.

Values stand at their bars, samples at their rows, so that a chart needs neither gridlines nor a legend to be
read. A role (labcode.figures.style.ROLE_NAMES) gives a bar its color; units stand at the axis.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from labcode.figures.style import (
    SMALL_PT,
    TEXT_PT,
    UNNAMED,
    current,
    declare,
    is_narrow,
    note,
    page_width,
    plain_numbers,
    shorten,
    styled,
    tidy,
    widest_label,
    width_in,
)
from labcode.reports.columns import Floats
from labcode.show import number, whole_percent


@styled
def bars(
    labels: Sequence[str],
    values: ArrayLike,
    *,
    unit: str,
    quantity: str = "",
    roles: str | Sequence[str] = "kernel",
    ratio_to: str | None = None,
    format: Callable[[float], str] = number,
    limit: tuple[float, str] | None = None,
) -> Figure:
    """Horizontal bars, the first on top, each with its value at its end.

    quantity and unit name the axis. ratio_to: a label; every bar then shows its value as a multiple of that
    bar's. limit: (value, name) of a line that all bars are held against, such as a peak.
    """
    heights = _numbers(values, labels)
    figure, axes = bar_axes(len(labels) * 0.3)
    names = [roles] * len(labels) if isinstance(roles, str) else list(roles)
    palette = current()
    y = np.arange(len(labels))
    colors = [palette.fill(role) for role in names]
    axes.barh(y, heights, height=0.66, color=colors, linewidth=0, label=UNNAMED)
    base = heights[list(labels).index(ratio_to)] if ratio_to is not None else None
    ends = []
    for i, value in enumerate(heights):
        ratio = f"{number(value / base)}×" if base and labels[i] != ratio_to and np.isfinite(value) else ""
        ends.append((float(value), i, _value(float(value), unit, format), ratio))
    if limit is not None:
        axes.axvline(limit[0], color=palette.line, linewidth=1.0, linestyle=(0, (4, 2)))
        side = "right" if limit[0] >= _top(heights) else "center"
        note(axes, limit[1], (limit[0], 1), (0, 3), along="x", ha=side, va="bottom")
    _finish_bars(axes, labels, ends, quantity, unit, max(_top(heights), limit[0] if limit else 0.0))
    declare(axes, {"": (labels, values)}, values_on="x")
    return figure


@styled
def paired_bars(
    labels: Sequence[str],
    before: ArrayLike,
    after: ArrayLike,
    *,
    unit: str,
    quantity: str = "",
    names: tuple[str, str] = ("baseline", "improved"),
    roles: tuple[str, str] = ("baseline", "improved"),
    better: Literal["lower", "higher"] = "lower",
    format: Callable[[float], str] = number,
) -> Figure:
    """Two bars per label, before and after a change, with their ratio (over 1 where it got better)."""
    one, two = _numbers(before, labels), _numbers(after, labels)
    figure, axes = bar_axes(len(labels) * 0.46 + 0.22)
    palette = current()
    y = np.arange(len(labels))
    for shift, heights, name, role in zip((-0.19, 0.19), (one, two), names, roles, strict=True):
        axes.barh(y + shift, heights, height=0.34, color=palette.fill(role), linewidth=0, label=name)
    ends = []
    for i, (a, b) in enumerate(zip(one, two, strict=True)):
        gain = (a / b if better == "lower" else b / a) if a > 0 and b > 0 else float("nan")
        ends.append((float(a), i - 0.19, _value(float(a), unit, format), ""))
        ratio = f"{number(float(gain))}×" if np.isfinite(gain) else ""
        ends.append((float(b), i + 0.19, _value(float(b), unit, format), ratio))
    _finish_bars(axes, labels, ends, quantity, unit, max(_top(one), _top(two)))
    color_key(axes, [(name, palette.fill(role)) for name, role in zip(names, roles, strict=True)])
    declare(axes, {names[0]: (labels, before), names[1]: (labels, after)}, values_on="x")
    return figure


@styled
def shares(
    table: pd.DataFrame,
    *,
    roles: Mapping[str, str],
    unit: str = "",
    quantity: str = "share of time",
    normalize: bool = True,
) -> Figure:
    """Stacked horizontal bars: one per row of the table, one segment per column; roles gives each column its
    color.

    normalize: show shares of each row's sum; otherwise values in `unit`, with the sum at the end.
    """
    palette = current()
    figure, axes = bar_axes(len(table) * 0.36 + 0.22)
    sums = table.sum(axis=1).to_numpy("float64")
    divisors = np.where(sums > 0, sums, 1.0) if normalize else np.ones(len(table))
    values = table.to_numpy("float64") / divisors[:, None]
    labels = [str(label) for label in table.index]
    span = 1.0 if normalize else _top(sums)
    left = np.zeros(len(table))
    beside = max((width_in(label, TEXT_PT) for label in labels), default=0)
    room = page_width() - min(widest_label(), beside) - 0.9
    for j, column in enumerate(table.columns):
        role = roles[str(column)]
        y = np.arange(len(table))
        color = palette.fill(role)
        axes.barh(y, values[:, j], left=left, height=0.72, color=color, linewidth=0, label=str(column))
        for i, value in enumerate(values[:, j]):
            text = whole_percent(float(value)) if normalize else number(float(value))
            if value > 0 and width_in(text) + 0.06 < value / span * room:
                axes.text(
                    left[i] + value / 2,
                    i,
                    text,
                    ha="center",
                    va="center_baseline",
                    color=palette.on(role),
                    fontsize=SMALL_PT,
                )
        left += values[:, j]
    ends = (
        [] if normalize else [(float(s), i, _value(float(s), unit, number), "") for i, s in enumerate(sums)]
    )
    _finish_bars(axes, labels, ends, quantity, "%" if normalize else unit, span)
    if normalize:
        axes.set_xlim(0, 1)
        axes.set_xticks(np.linspace(0, 1, 5), labels=["0", "25", "50", "75", "100"])
    color_key(axes, [(str(column), palette.fill(roles[str(column)])) for column in table.columns])
    shown = (
        table.div(table.sum(axis=1).where(lambda whole: whole > 0, 1.0), axis=0) * 100 if normalize else table
    )
    series = {str(column): (labels, shown[column]) for column in table.columns}
    declare(axes, series, values_on="x", stacked=True)
    return figure


@styled
def distribution(
    samples: Mapping[str, ArrayLike],
    *,
    unit: str,
    quantity: str = "time",
) -> Figure:
    """Samples of several runs: every value as a dot, the quartiles as a box, the median as a line with its
    value.
    """
    data = {name: np.sort(np.asarray(values, dtype=np.float64)) for name, values in samples.items()}
    data = {name: values[np.isfinite(values)] for name, values in data.items()}
    figure, axes = bar_axes(len(data) * 0.62)
    notes = _draw_strips(axes, data, unit)
    axes.set_yticks(range(len(data)), labels=[shorten(name) for name in data])
    axes.tick_params(axis="y", labelsize=TEXT_PT, labelcolor=current().text)
    axes.set_ylim(len(data) - 0.4, -0.6)
    plain_numbers(axes.xaxis)
    if data:
        axes.set_xlim(left=1.03 * min(0.0, *(float(values.min(initial=0.0)) for values in data.values())))
    axes.set_xlabel(_axis_label(quantity, unit))
    for x, y, text in notes:
        place = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))[0]
        side = "left" if place < 0.3 else "right" if place > 0.7 else "center"
        note(axes, text, (x, y), (0, 2), ha=side, va="bottom", color=current().text)
    drawn = {tidy(name): values for name, values in data.items() if values.size}
    series = {name: ([name] * values.size, values) for name, values in drawn.items()}
    declare(axes, series, values_on="x", samples=True)
    return figure


def _draw_strips(axes: Axes, data: Mapping[str, Floats], unit: str) -> list[tuple[float, float, str]]:
    """Draw the rows; the notes to write above them once the axis is final: x, y, text."""
    palette = current()
    notes: list[tuple[float, float, str]] = []
    for row, (name, values) in enumerate(data.items()):
        if not values.size:
            axes.text(
                0, row, "no samples", color=palette.muted, va="center", fontsize=TEXT_PT, style="italic"
            )
            continue
        # A low-discrepancy sequence: dots spread evenly, and the same on every build.
        jitter = (np.arange(values.size) * 0.6180339887) % 1.0
        axes.plot(
            values,
            row + 0.06 + 0.26 * jitter,
            linestyle="none",
            marker="o",
            markersize=2.4 if values.size > 100 else 3.2,
            markeredgewidth=0,
            color=palette.fill("kernel"),
            alpha=0.45 if values.size > 40 else 0.8,
            rasterized=values.size > 5000,
            label=tidy(name),
        )
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        look: dict[str, Any] = {"facecolor": palette.grid, "edgecolor": palette.line, "linewidth": 0.8}
        axes.add_patch(Rectangle((low, row - 0.14), high - low, 0.14, **look))
        axes.plot([middle, middle], [row - 0.19, row + 0.36], color=palette.text, linewidth=1.6, zorder=4)
        notes.append((float(middle), row - 0.19, _quartiles(float(low), float(middle), float(high), unit)))
    return notes


def _quartiles(low: float, middle: float, high: float, unit: str) -> str:
    if is_narrow():
        return f"{number(middle)} {unit} ({number(low)} to {number(high)})"
    return f"median {number(middle)} {unit}, middle half {number(low)} to {number(high)}"


def bar_axes(body: float) -> tuple[Figure, Axes]:
    """A figure with axes of a height in inches."""
    figure = Figure(figsize=(page_width(), body + 0.5 + 0.05), layout="constrained")
    return figure, figure.add_subplot()


def _finish_bars(
    axes: Axes,
    labels: Sequence[str],
    ends: Sequence[tuple[float, float, str, str]],
    quantity: str,
    unit: str,
    top: float,
) -> None:
    """Labels, axis, and the texts at the ends of bars: (end, y, value, ratio)."""
    palette = current()
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), labels=[shorten(label) for label in labels])
    axes.tick_params(axis="y", length=0, labelsize=TEXT_PT, labelcolor=palette.text)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(_axis_label(quantity, unit))
    plain_numbers(axes.xaxis)
    axes.set_xlim(0, (top or 1.0) * 1.02)
    for end, y, value, ratio in ends:
        at = end if np.isfinite(end) else 0.0
        look: dict[str, Any] = {"va": "center_baseline", "annotation_clip": False}
        note(axes, value, (at, y), (4, 0), color=palette.text, weight="normal", **look)
        if ratio:
            beside = 4 + width_in(value + "  ", SMALL_PT) * 72
            note(axes, ratio, (at, y), (beside, 0), weight="bold", **look)


def color_key(axes: Axes, entries: Sequence[tuple[str, str]]) -> None:
    """Names of colors above the axes, in as many columns as fit."""
    handles = [Rectangle((0, 0), 1, 1, facecolor=color, linewidth=0, label=name) for name, color in entries]
    widest = max((width_in(name) for name, _ in entries), default=1.0) + 0.4
    columns = min(max(1, int((page_width() - 1) / widest)), max(1, len(entries)))
    options: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": columns}
    options |= {"handlelength": 1.0, "handleheight": 0.75, "borderaxespad": 0.3, "columnspacing": 1.4}
    axes.legend(handles=handles, borderpad=0.0, handletextpad=0.5, **options)


def _numbers(values: ArrayLike, labels: Sequence[str]) -> Floats:
    result = np.asarray(values, dtype=np.float64)
    if result.shape != (len(labels),):
        raise ValueError(f"{len(labels)} labels but values of shape {result.shape}")
    return result


def _top(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max(initial=0.0))


def _value(value: float, unit: str, format: Callable[[float], str]) -> str:
    return f"{format(value)} {unit}".strip() if np.isfinite(value) else "not measured"


def _axis_label(quantity: str, unit: str) -> str:
    return f"{quantity} ({unit})" if quantity and unit else quantity or unit
