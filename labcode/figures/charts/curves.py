"""Series over time, size or step in; line charts out, as matplotlib Figures.

Every line carries its name at its right end, in its own color, so that no chart needs a legend.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from labcode.figures.style import (
    SMALL_PT,
    UNNAMED,
    current,
    declare,
    is_narrow,
    logarithmic,
    note,
    page_width,
    plain_numbers,
    styled,
    tidy,
    width_in,
    wrapped,
)
from labcode.show import byte_text, number

MARKERS = ("o", "s", "^", "D", "v", "P")


@styled
def lines(
    x: ArrayLike | Mapping[str, ArrayLike],
    series: Mapping[str, ArrayLike],
    *,
    x_label: str,
    y_label: str,
    bands: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    roles: Mapping[str, str] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    from_zero: bool = True,
    height: float = 3.0,
) -> Figure:
    """Lines over a common x, or each over its own, by name; each named at its end; NaN leaves a hole.

    ``ValueError`` for a series whose index says that it lies over another x. The labels hold the units; an x
    of whole numbers has ticks at whole numbers. bands: (low, high) around a line, such as quartiles.
    from_zero: start y at 0.
    """
    figure = Figure(figsize=(page_width(), height), layout="constrained")
    axes = figure.add_subplot()
    palette = current()
    places = {name: _places(x, name, values) for name, values in series.items()}
    every = np.unique(np.concatenate([*places.values(), []]))
    ends: list[tuple[float, float, str, str]] = []
    tops: list[float] = []
    for index, (name, values) in enumerate(series.items()):
        xs, ys = places[name], np.asarray(values, dtype=np.float64)
        color = palette.fill((roles or {}).get(name, f"series{index % 4 + 1}"))
        if bands and name in bands:
            low, high = (np.asarray(edge, dtype=np.float64) for edge in bands[name])
            axes.fill_between(xs, low, high, color=color, alpha=0.2, linewidth=0)
            tops += high[np.isfinite(high)].tolist()
        marker = MARKERS[index % len(MARKERS)] if xs.size <= 40 else None
        label = tidy(name) or UNNAMED
        axes.plot(xs, ys, color=color, marker=marker, markersize=4.5, markeredgewidth=0, label=label)
        finite = np.flatnonzero(np.isfinite(ys))
        tops += ys[finite].tolist()
        if finite.size:
            ends.append((float(xs[finite[-1]]), float(ys[finite[-1]]), name, color))
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    if log_x:
        axes.set_xscale("log")
        logarithmic(axes.xaxis, every)
    elif np.array_equal(every, np.round(every)):
        axes.xaxis.set_major_locator(MaxNLocator(5 if is_narrow() else 9, integer=True, steps=[1, 2, 5, 10]))
    if log_y:
        axes.set_yscale("log")
        logarithmic(axes.yaxis)
    elif from_zero and tops:
        axes.set_ylim(
            bottom=min(0.0, axes.get_ylim()[0]) if min(tops) < 0 else 0.0, top=max(0.0, *tops) * 1.08 or 1.0
        )
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(True, axis="y")
    _name_ends(figure, axes, ends)
    declare(axes, {tidy(name): (places[name], values) for name, values in series.items()})
    return figure


@styled
def time_series(
    time: ArrayLike,
    series: Mapping[str, tuple[ArrayLike, str]],
    *,
    phases: Sequence[tuple[float, float, str]] = (),
) -> Figure:
    """Quantities over time (s), one panel each: name → (values, unit). phases: (start, end, name), shaded."""
    palette = current()
    count = max(1, len(series))
    height = count * 1.25 + 0.5 + (0.2 if phases else 0.0)
    figure = Figure(figsize=(page_width(), height), layout=ConstrainedLayoutEngine(hspace=0.12))
    panels = np.atleast_1d(np.asarray(figure.subplots(count, 1, sharex=True), dtype=object))
    xs = np.asarray(time, dtype=np.float64)
    for index, (axes, (name, (values, unit))) in enumerate(zip(panels, series.items(), strict=False)):
        ys = np.asarray(values, dtype=np.float64)
        color = palette.fill(f"series{index % 4 + 1}")
        axes.step(xs, ys, where="post", color=color, linewidth=1.3, label=tidy(name))
        for number_, (start, end, _) in enumerate(phases):
            if number_ % 2 == 0:
                axes.axvspan(start, end, color=palette.grid, linewidth=0, zorder=0, alpha=0.7)
        axes.set_ylim(bottom=0, top=max(1e-12, float(np.nanmax(ys, initial=0.0))) * 1.12)
        axes.set_ylabel(f"{name} ({unit})")
        declare(axes, {tidy(name): (time, values)})
        axes.grid(True, axis="y")
        plain_numbers(axes.yaxis)
    if xs.size > 1:
        panels[0].set_xlim(xs[0], xs[-1])
    _name_phases(panels[0], phases, page_width() - 0.8)
    panels[-1].set_xlabel("time (s)")
    figure.align_ylabels(list(panels))
    return figure


@styled
def bandwidth_curve(
    sizes_bytes: ArrayLike,
    series: Mapping[str, ArrayLike],
    *,
    l2_bytes: float | None = None,
    limit: tuple[float, str] | None = None,
    x_label: str = "bytes moved per launch",
) -> Figure:
    """Bandwidth (GB/s) over size (bytes); the L2 cache's size and a limit, (GB/s, name), are marked."""
    sizes = np.asarray(sizes_bytes, dtype=np.float64)
    figure = lines(sizes, series, x_label=x_label, y_label="bandwidth (GB/s)", height=3.2)
    palette, axes = current(), figure.axes[0]
    axes.set_xscale("log", base=2)
    if sizes.size:
        powers = np.arange(np.floor(np.log2(sizes.min())), np.ceil(np.log2(sizes.max())) + 1)
        ticks = 2.0 ** powers[:: max(1, -(-powers.size // (5 if is_narrow() else 9)))]
        axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
        axes.set_xticks(list(ticks), labels=[byte_text(tick, binary=True) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    if l2_bytes:
        left, right = axes.get_xlim()
        axes.axvspan(left, l2_bytes, color=palette.grid, alpha=0.6, linewidth=0, zorder=0)
        axes.set_xlim(left, right)
        text = f"fits into L2 ({byte_text(l2_bytes, binary=True)})"
        note(axes, text, (l2_bytes, 1), (-4, -3), along="x", ha="right", va="top")
    if limit is not None:
        axes.axhline(limit[0], color=palette.line, linewidth=1.0, linestyle=(0, (4, 2)))
        axes.set_ylim(top=max(axes.get_ylim()[1], limit[0] * 1.1))
        text = f"{limit[1]}: {number(limit[0])} GB/s"
        note(axes, text, (1, limit[0]), (-3, 3), along="y", ha="right", va="bottom")
    return figure


def _places(x: ArrayLike | Mapping[str, ArrayLike], name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Where a series' points lie; the index of a ``pd.Series`` must not say that they lie elsewhere."""
    own = x[name] if isinstance(x, Mapping) else x
    places = np.asarray(own, dtype=np.float64)
    if isinstance(values, pd.Series):
        index = values.index
        if isinstance(own, pd.Series):  # columns of one table, or not
            fits = own.index.equals(index)
        elif index.name is not None and index.dtype.kind in "iuf" and len(index) == places.size:
            numbers = index.to_numpy(np.float64)  # in any unit
            fits = bool(
                np.allclose(numbers * np.abs(places).max(initial=0), places * np.abs(numbers).max(initial=0))
            )
        else:
            fits = len(index) == places.size
        if not fits:
            raise ValueError(f"lines: the index of {name!r} is not the x that it is drawn over")
    return places


def _name_ends(figure: Figure, axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write each line's name at its end, moved apart vertically where they would overlap."""
    if not ends:
        return
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.execute(figure)  # the axes have their height
    points = [axes.transData.transform((x, y))[1] / figure.dpi * 72 for x, y, _, _ in ends]
    order = np.argsort(points)
    placed = np.array(points)[order]
    names = [tidy(name) for _, _, name, _ in ends]
    if is_narrow():
        names = [wrapped(name, 0.3 * page_width()) for name in names]
    tall = [SMALL_PT * 1.35 * (1 + names[index].count("\n")) for index in order.tolist()]
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + (tall[i - 1] + tall[i]) / 2)
    overshoot = placed.mean() - np.mean(points)  # keep the block of names centered on the ends
    for index, at in zip(order.tolist(), placed - overshoot, strict=True):
        x, y, _, color = ends[index]
        look: dict[str, Any] = {"va": "center", "color": current().readable(color), "annotation_clip": False}
        note(axes, names[index], (x, y), (7, at - points[index]), **look)


def _name_phases(axes: Axes, phases: Sequence[tuple[float, float, str]], width: float) -> None:
    left, right = axes.get_xlim()
    for start, end, name in phases:
        room = (min(end, right) - max(start, left)) / (right - left) * width
        if width_in(tidy(name)) <= room:
            place = ((start + end) / 2, 1)
            note(axes, tidy(name), place, (0, 3), along="x", ha="center", va="bottom")
