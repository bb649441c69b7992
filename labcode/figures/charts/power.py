"""A power log in; power over time, of each GPU a panel, out as a Figure."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from labcode.analysis.energy.window import curve_of
from labcode.errors import LabError
from labcode.figures.style import (
    SMALL_PT,
    TEXT_PT,
    TITLE_PT,
    current,
    declare,
    is_narrow,
    note,
    page_width,
    render,
    styled,
    tidy,
)
from labcode.outputs import whole
from labcode.reports.power.log import PowerLog

_PANEL_IN = 2.1
_MOST_WINDOWS = 40  # that are shaded and named
_UPDATE_APART = 10  # samples between updates that are drawn: when one came is known to a sample
_LINES = (  # what is drawn, its color's role, its name in the key
    ("instant_w", "kernel", "instantaneous"),
    ("average_w", "nccl", "averaged by the GPU"),
    ("counter_w", "h2d", "by the energy counter"),
)


@styled
def power_over_time(
    log: PowerLog, *, window: tuple[int, int] | None = None, title: str | None = None
) -> Figure:
    """Power in W over seconds since the first sample, a panel for each GPU.

    Lines: NVML's instantaneous power, its average, and the mean power between updates of the energy counter
    that are at least ten samples apart; dashed the power limit where it is near. The log's windows are shaded
    and named. ``window``: only this part, in ns of the log.
    """
    palette = current()
    devices = log.devices[log.devices["samples"] > 0]
    begin, end = window or _whole(log)
    above, below = (0.62 if title else 0.36), 0.5
    width, height = page_width(), above + _PANEL_IN * max(len(devices), 1) + below
    figure = Figure(figsize=(width, height))
    if title:
        figure.text(0.04 / width, 1 - 0.03 / height, tidy(title), fontsize=TITLE_PT, weight="bold", va="top")
    panels: list[Axes] = []
    for place, (device, name, limit) in enumerate(
        devices[["device", "name", "power_limit_w"]].itertuples(index=False, name=None)
    ):
        bottom = below + _PANEL_IN * (len(devices) - 1 - place)
        axes = figure.add_axes(
            (0.62 / width, (bottom + 0.12) / height, (width - 0.77) / width, (_PANEL_IN - 0.3) / height)
        )
        panels.append(axes)
        samples = log.of(device)
        samples = samples[(samples["t_ns"] >= begin) & (samples["t_ns"] <= end)]
        curve = curve_of(samples) if len(samples) > 1 else None
        top = 0.0
        drawn = {}
        for column, role, label in _LINES:
            if column == "counter_w":
                if curve is None:
                    continue
                kept = _apart(curve.knots_ns, _UPDATE_APART * float(np.median(np.diff(curve.all_ns))))
                if len(kept) < 2:
                    continue
                values = np.diff(curve.knots_j[kept]) / np.diff(curve.knots_ns[kept]) * 1e9
                times = (curve.knots_ns[kept] - log.samples["t_ns"].min()) / 1e9
                axes.stairs(
                    values, times, baseline=None, color=palette.fill(role), label=label, linewidth=1.2
                )
            else:
                values = samples[column].to_numpy(np.float64)
                if not np.isfinite(values).any():
                    continue
                times = (samples["t_ns"].to_numpy(np.float64) - log.samples["t_ns"].min()) / 1e9
                axes.plot(times, values, color=palette.fill(role), label=label, linewidth=1.2)
            drawn[label] = (times[: len(values)], values)
            top = max(top, float(np.nanmax(values)))
        if np.isfinite(limit) and top > 0.7 * limit:
            axes.axhline(limit, color=palette.warn, linewidth=0.9, linestyle="--")
            look = {"ha": "right", "va": "top", "color": palette.warn}
            note(axes, f"power limit {limit:.0f} W", (1, limit), (-2, -3), along="y", **look)
            top = max(top, limit)
        declare(axes, drawn)
        axes.set_ylim(0, max(top, 1.0) * 1.15)
        axes.set_xlim((begin - log.samples["t_ns"].min()) / 1e9, (end - log.samples["t_ns"].min()) / 1e9)
        _shade(axes, log.windows, int(log.samples["t_ns"].min()), (begin, end))
        axes.set_ylabel("power (W)", fontsize=TEXT_PT)
        axes.text(
            0.0, 1.02, tidy(f"GPU {device}: {name}"), transform=axes.transAxes, fontsize=SMALL_PT, va="bottom"
        )
        if place == len(devices) - 1:
            axes.set_xlabel("time (s)", fontsize=TEXT_PT)
        else:
            axes.tick_params(labelbottom=False)
    if panels:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="upper right",
            bbox_to_anchor=(1 - 0.1 / width, 1 - (0.25 if title else 0.0) / height),
            ncols=2 if is_narrow() else 3,
            fontsize=SMALL_PT,
        )
    return figure


def write_power(log: PowerLog, output: Path) -> Path:
    """Draw a power log as an SVG; `LabError` for another kind of file, or no samples."""
    if output.suffix.lower() != ".svg":
        raise LabError(f"{output}: the timeline of a power log is a picture; name a file that ends in .svg")
    if not len(log.samples):
        raise LabError(f"{log.path}: no samples to draw; record for longer")
    with whole(output, reads=[log.path] if log.path.exists() else []) as part:
        part.write_bytes(render(lambda: power_over_time(log, title=log.path.name)))
    return output


def _whole(log: PowerLog) -> tuple[int, int]:
    if not len(log.samples):
        return 0, 1
    begin, end = int(log.samples["t_ns"].min()), int(log.samples["t_ns"].max())
    return begin, max(end, begin + 1)


def _shade(axes: Axes, windows: pd.DataFrame, zero: int, shown: tuple[int, int]) -> None:
    palette = current()
    inside = windows[(windows["end_ns"] > shown[0]) & (windows["begin_ns"] < shown[1])].head(_MOST_WINDOWS)
    spans = list(inside.itertuples(index=False, name=None))
    for name, begin, end in spans:
        low, high = (max(begin, shown[0]) - zero) / 1e9, (min(end, shown[1]) - zero) / 1e9
        axes.axvspan(low, high, color=palette.grid, alpha=0.45, linewidth=0, zorder=0)
        for edge in (low, high):
            axes.axvline(edge, color=palette.muted, linewidth=0.5, zorder=0)
        holds = any(begin <= b and e <= end and (begin, end) != (b, e) for _, b, e in spans)
        if high - low > 0.08 * (shown[1] - shown[0]) / 1e9:
            axes.text(
                (low + high) / 2,
                0.9 if holds else 0.03,  # one that holds others is named above them
                tidy(name)[:24],
                transform=axes.get_xaxis_transform(),
                fontsize=SMALL_PT,
                ha="center",
                color=palette.muted,
            )


def _apart(times: NDArray[np.float64], least: float) -> list[int]:
    """Places of times, ascending, that are at least so far apart."""
    kept: list[int] = []
    for place, time in enumerate(times.tolist()):
        if not kept or time - float(times[kept[-1]]) >= least:
            kept.append(place)
    return kept
