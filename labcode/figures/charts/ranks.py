"""A run of many ranks in; what each did over time, one row of colored cells per rank, out as a Figure."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from labcode.analysis.ranks.heatmap import over_time
from labcode.analysis.ranks.run import Run
from labcode.figures.style import SMALL_PT, TEXT_PT, TITLE_PT, WIDTH_IN, current, declare, styled, tidy

_PANELS = (  # column, color's role, what is written above it
    ("compute", "kernel", "computing"),
    ("exposed", "nccl", "only communication"),
    ("idle", "sync", "idle"),
)
_POWER = (("power_w", "kernel", "power (W)"),)
_ROW_IN, _LEAST_IN, _MOST_IN = 0.16, 1.2, 3.6


def panels_of(run: Run) -> tuple[tuple[str, str, str], ...]:
    """What is shown of a run: columns of `over_time`, each with its color's role and its name."""
    return _POWER if run.metered else _PANELS


@styled
def ranks_over_time(run: Run, *, mark: int | None = None, title: str | None = None) -> Figure:
    """Three panels side by side (one for power logs): time on the common clock to the right, one row for each
    rank.

    A cell is as strong as the share of its bin in which the rank computes, only communicates, or is idle; a
    bin that was not recorded stays empty. ``mark``: a rank that is named at its row.
    """
    palette = current()
    table = over_time(run)
    power, panels = run.metered, panels_of(run)
    ranks = table["rank"].drop_duplicates().to_numpy()
    tall = float(np.clip(len(ranks) * _ROW_IN, _LEAST_IN, _MOST_IN))
    above, below, left, apart = (0.55 if title else 0.28), 0.48, 0.72, 0.14
    width, height = WIDTH_IN, above + tall + below
    figure = Figure(figsize=(width, height))
    if title:
        figure.text(0.04 / width, 1 - 0.03 / height, tidy(title), fontsize=TITLE_PT, weight="bold", va="top")
    each = (width - left - 0.12 - apart * (len(panels) - 1)) / len(panels)
    last_ms = float(table["end_ns"].max()) / 1e6
    for place, (column, role, label) in enumerate(panels):
        axes = figure.add_axes(
            ((left + place * (each + apart)) / width, below / height, each / width, tall / height)
        )
        cells = table[column].to_numpy(np.float64).reshape(len(ranks), -1)
        colors = LinearSegmentedColormap.from_list(role, [palette.paper, palette.fill(role)])
        colors.set_bad(palette.paper, 0.0)
        top = max(float(np.nanmax(cells)), 1e-9) if power else 1.0
        axes.imshow(
            np.ma.masked_invalid(cells),
            aspect="auto",
            interpolation="none",
            cmap=colors,
            vmin=0.0,
            vmax=top,
            extent=(0.0, last_ms, len(ranks) - 0.5, -0.5),
            label=column,
        )
        declare(axes, {column: (np.arange(len(table)), table[column])})
        axes.grid(False)
        axes.set_title(f"{label}, at most {top:,.0f}" if power else label, fontsize=TEXT_PT, loc="left")
        shown = sorted(
            {0, len(ranks) - 1, *(np.flatnonzero(ranks == mark).tolist() if mark is not None else [])}
        )
        axes.set_yticks(shown, [str(ranks[row]) for row in shown] if place == 0 else [""] * len(shown))
        if mark is not None and place == 0:
            for tick, row in zip(axes.get_yticklabels(), shown, strict=True):
                tick.set_fontweight("bold" if ranks[row] == mark else "normal")
        axes.locator_params(axis="x", nbins=4)
        axes.tick_params(labelsize=SMALL_PT)
        axes.set_xlabel("time (ms)", fontsize=TEXT_PT)
        if place == 0:
            axes.set_ylabel("rank", fontsize=TEXT_PT)
    return figure
