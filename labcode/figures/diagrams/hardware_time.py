"""What warps or blocks did when in; strips of a scheduler's cycles and of an SM's blocks out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from labcode.figures.diagrams.sketch import arrow, box, canvas, guide, heading, shade, text
from labcode.figures.style import TEXT_PT, current, styled

STALLED, ELIGIBLE, SELECTED = 0, 1, 2
LEFT, RIGHT = 1.0, 7.45


@styled
def scheduler_strip(panels: Sequence[tuple[str, NDArray[np.int_]]]) -> Figure:
    """One panel each: a title and an array, warps × cycles, of `STALLED`, `ELIGIBLE` or `SELECTED`.

    Below the warps stands the scheduler's issue slot: filled in cycles in which a warp was selected.
    """
    lane = 0.17
    heights = [0.32 + lane * (len(states) + 1.7) + 0.1 for _, states in panels]
    figure, axes = canvas(sum(heights) + 0.3)
    top = 0.0
    for (title, states), height in zip(panels, heights, strict=True):
        busy = (states == SELECTED).any(axis=0)
        heading(axes, top + 0.15, f"{title}: an instruction in {busy.sum()} of {busy.size} cycles")
        cell = (RIGHT - LEFT) / states.shape[1]
        for warp, row in enumerate(states):
            y = top + 0.32 + lane * (warp + 0.5)
            text(axes, LEFT - 0.08, y, f"warp {warp}", align="right")
            for cycle, state in enumerate(row):
                _cell(axes, LEFT + cycle * cell, y, cell, int(state), lane)
        y = top + 0.32 + lane * (len(states) + 0.9)
        text(axes, LEFT - 0.08, y, "issue slot", align="right", bold=True)
        for cycle, used in enumerate(busy):
            color = current().fill("kernel") if used else current().tint
            corner = (LEFT + cycle * cell, y - 0.07)
            axes.add_patch(Rectangle(corner, cell * 0.92, 0.14, facecolor=color, linewidth=0))
        top += height
    y, x = top + 0.12, LEFT
    for words, state, wide in (
        ("selected", SELECTED, 1.0),
        ("eligible, not selected", ELIGIBLE, 1.75),
        ("stalled", STALLED, 0.85),
    ):
        _cell(axes, x, y, 0.15, state, lane)
        text(axes, x + 0.2, y, words, muted=True)
        x += wide
    axes.add_patch(Rectangle((x, y - 0.07), 0.14, 0.14, facecolor=current().tint, linewidth=0))
    text(axes, x + 0.2, y, "issue slot unused", muted=True)
    text(axes, RIGHT, y, "cycles →", align="right", muted=True)
    return figure


def _cell(axes: Axes, x: float, y: float, width: float, state: int, lane: float) -> None:
    palette = current()
    high = {STALLED: 0.03, ELIGIBLE: lane * 0.5, SELECTED: lane * 0.86}[state]
    role = {STALLED: "idle", ELIGIBLE: "launch", SELECTED: "kernel"}[state]
    corner = (x, y - high / 2)
    axes.add_patch(Rectangle(corner, width * 0.92, high, facecolor=palette.fill(role), linewidth=0, zorder=2))


@styled
def block_waves(panels: Sequence[tuple[str, NDArray[np.float64]]]) -> Figure:
    """One panel each: a title and an array of blocks × (slot, start, end); lanes are places for a block.

    What is left of the time after a slot's last block is shaded: the tail.
    """
    lane = 0.2
    slots = [int(blocks[:, 0].max()) + 1 for _, blocks in panels]
    figure, axes = canvas(sum(0.42 + lane * count for count in slots) + 0.3)
    longest = max(float(blocks[:, 2].max()) for _, blocks in panels)
    scale = (RIGHT - LEFT - 0.1) / longest
    top = 0.0
    for (title, blocks), count in zip(panels, slots, strict=True):
        end = float(blocks[:, 2].max())
        used = float((blocks[:, 2] - blocks[:, 1]).sum()) / (count * end)
        heading(axes, top + 0.15, f"{title}: {used:.0%} of the places' time used")
        for slot in range(count):
            y = top + 0.42 + lane * slot
            text(axes, LEFT - 0.08, y, f"place {slot}", align="right")
            mine = blocks[blocks[:, 0] == slot]
            for _, start, stop in mine:
                box(axes, LEFT + start * scale, LEFT + stop * scale, y, "", "kernel", height=lane * 0.8)
            last = float(mine[:, 2].max()) if len(mine) else 0.0
            if end - last > 1e-9:
                shade(axes, LEFT + last * scale, LEFT + end * scale, y, height=lane * 0.8)
        guide(axes, LEFT + end * scale, top + 0.3, top + 0.35 + lane * count)
        top += 0.42 + lane * count
    arrow(axes, (LEFT, top + 0.12), (RIGHT - 0.5, top + 0.12))
    text(axes, RIGHT, top + 0.12, "time", align="right", muted=True, size=TEXT_PT)
    return figure
