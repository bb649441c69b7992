"""Two capture sets' values side by side in; a scatter of shares, or strips of ratios, out as Figures."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from labcode.figures.charts.basic import bar_axes, color_key
from labcode.figures.style import TEXT_PT, current, declare, logarithmic, note, page_width, shorten, styled

_ROLES = ("series2", "nccl", "series3", "d2h")
_WIDEST_RATIO = 30.0


@styled
def shares_on_two(shares: pd.DataFrame, *, names: tuple[str, str], scale: float) -> Figure:
    """Each kernel's share of its GPU's own copy, on one GPU against the other.

    shares: columns first, second (shares of 1) and group, which gives the color. scale: how many times as
    fast the first one's copy is; a kernel that takes the same time on both lies on the line of this slope.
    """
    figure = Figure(
        figsize=(min(5.6, page_width()), 5.2 if page_width() > 5.6 else 4.2), layout="constrained"
    )
    axes = figure.add_subplot()
    palette = current()
    top = 100 * max(1.0, float(shares[["first", "second"]].to_numpy().max())) * 1.05
    ends = np.array([0.0, top])
    lines = (
        (ends, ends, "the same share:\nmemory sets the pace"),
        (ends / scale, ends, "the same time:\nmemory does not matter"),
    )
    for x, y, text in lines:
        axes.plot(x, y, color=palette.line, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
        shift, side, level = (6, "left", "top") if x[1] == y[1] else (-6, "right", "bottom")
        note(axes, text, (0.55 * x[1], 0.55 * y[1]), (shift, 0), ha=side, va=level)
    groups = dict.fromkeys(shares["group"])
    for group, role in zip(groups, _ROLES * len(groups), strict=False):
        of = shares[shares["group"] == group]
        axes.plot(
            100 * of["first"],
            100 * of["second"],
            linestyle="none",
            marker="o",
            markersize=4.2,
            markeredgewidth=0,
            color=palette.fill(role),
            alpha=0.75,
            zorder=3,
            label=str(group),
        )
    axes.set_xlim(0, top)
    axes.set_ylim(0, top)
    axes.set_aspect("equal")
    axes.set_xlabel(f"share of the copy on the {names[0]} (%)")
    axes.set_ylabel(f"share of the copy on the {names[1]} (%)")
    color_key(
        axes, [(group, palette.fill(role)) for group, role in zip(groups, _ROLES * len(groups), strict=False)]
    )
    by_group = {str(group): shares[shares["group"] == group] for group in groups}
    declare(axes, {name: (100 * of["first"], 100 * of["second"]) for name, of in by_group.items()})
    return figure


@styled
def claims_on_two(
    parts: Mapping[str, pd.DataFrame],
    *,
    names: tuple[str, str],
    told: tuple[str, str] = ("holds on both, or on neither", "turns over"),
) -> Figure:
    """One row per part of the book: every claim's value on the second set by that on the first, as a dot.

    parts: tables with the columns ratio and turns_over; a claim that holds on one set alone is drawn as a
    diamond. Ratios beyond a factor of 30 stand at the edge. told: what dots and diamonds are, where they are
    other values than claims'.
    """
    figure, axes = bar_axes(len(parts) * 0.5)
    palette = current()
    axes.axvline(1.0, color=palette.line, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
    for row, of in enumerate(parts.values()):
        ratios = of["ratio"].clip(1 / _WIDEST_RATIO, _WIDEST_RATIO)
        jitter = (np.arange(len(of)) * 0.6180339887) % 1.0  # spread evenly, the same on every build
        for turned, marker, size, color in (
            (False, "o", 3.2, palette.fill("kernel")),
            (True, "D", 4.6, palette.warn),
        ):
            here = (of["turns_over"] == turned).to_numpy()
            axes.plot(
                ratios[here],
                row - 0.3 + 0.6 * jitter[here],
                linestyle="none",
                marker=marker,
                markersize=size,
                markeredgewidth=0,
                color=color,
                alpha=0.9 if turned else 0.55,
                zorder=4 if turned else 3,
                label=told[int(turned)],
            )
    axes.set_xscale("log")
    drawn = pd.concat([of["ratio"] for of in parts.values()]).abs()
    reach = float(np.clip(np.exp(np.abs(np.log(drawn[drawn > 0])).max()) * 1.1, 2.0, _WIDEST_RATIO * 1.2))
    axes.set_xlim(1 / reach, reach)
    logarithmic(axes.xaxis, np.array([1 / reach, reach]))
    axes.set_ylim(len(parts) - 0.45, -0.55)
    axes.set_yticks(range(len(parts)), labels=[shorten(part) for part in parts])
    axes.tick_params(axis="y", length=0, labelsize=TEXT_PT, labelcolor=palette.text)
    axes.set_xlabel(f"value on the {names[1]} ÷ value on the {names[0]}")
    color_key(axes, [(told[0], palette.fill("kernel")), (told[1], palette.warn)])
    every = pd.concat([of.assign(part=part) for part, of in parts.items()])
    every["ratio"] = every["ratio"].clip(1 / _WIDEST_RATIO, _WIDEST_RATIO)
    kinds = {
        name: every[every["turns_over"] == turned] for name, turned in zip(told, (False, True), strict=True)
    }
    declare(axes, {name: (of["part"], of["ratio"]) for name, of in kinds.items()}, values_on="x")
    return figure
