"""Positions and words in; the parts of an explanatory drawing out: lanes, boxes, arrows, spans, notes.

A canvas measures in inches, from the top left corner. The figures of labcode.figures.diagrams.schematic are
made of these.
"""

from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from labcode.figures.style import SMALL_PT, TEXT_PT, WIDTH_IN, current

Align = Literal["left", "center", "right"]

BOX_IN = 0.26
GAP_IN = 0.012


def canvas(height: float, width: float = WIDTH_IN) -> tuple[Figure, Axes]:
    """An empty drawing of that height in inches; y grows downwards."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    return figure, axes


def text(
    axes: Axes,
    x: float,
    y: float,
    words: str,
    *,
    align: Align = "left",
    muted: bool = False,
    bold: bool = False,
    size: float = SMALL_PT,
    color: str | None = None,
) -> None:
    """Words (several lines allowed) with their middle at y."""
    palette = current()
    axes.text(
        x,
        y,
        words,
        ha=align,
        va="center" if "\n" in words else "center_baseline",
        fontsize=size,
        weight="bold" if bold else "normal",
        color=color or (palette.muted if muted else palette.text),
        linespacing=1.25,
    )


def rectangle(
    axes: Axes,
    corner: tuple[float, float],
    width: float,
    height: float,
    color: str,
    *,
    edge: str = "",
    zorder: float = 1,
) -> None:
    """An area by its upper left corner; with an ``edge`` in a color of its own."""
    line = {"edgecolor": edge, "linewidth": 0.6} if edge else {"linewidth": 0}
    axes.add_patch(Rectangle(corner, width, height, facecolor=color, zorder=zorder, **line))


def heading(axes: Axes, y: float, words: str, x: float = 0.05) -> None:
    """What a part of the drawing shows."""
    text(axes, x, y, words, bold=True, size=TEXT_PT)


def lane(axes: Axes, y: float, label: str, start: float, end: float) -> None:
    """A line that time runs along, with the name of who does the work at its left."""
    axes.plot([start, end], [y, y], color=current().grid, linewidth=1.2, zorder=0.5, solid_capstyle="butt")
    text(axes, start - 0.1, y, label, align="right", size=TEXT_PT)


def box(
    axes: Axes, start: float, end: float, y: float, words: str, role: str, *, height: float = BOX_IN
) -> None:
    """A piece of work in the color of its role, with its name inside."""
    palette = current()
    rectangle(axes, (start, y - height / 2), end - start - GAP_IN, height, palette.fill(role), zorder=2)
    if words:
        text(axes, (start + end - GAP_IN) / 2, y, words, align="center", color=palette.on(role))


def shade(axes: Axes, start: float, end: float, y: float, words: str = "", *, height: float = BOX_IN) -> None:
    """Time in which nothing happens."""
    palette = current()
    rectangle(axes, (start, y - height / 2), end - start, height, palette.tint)
    if words:
        text(axes, (start + end) / 2, y, words, align="center", color=palette.warn)


def arrow(
    axes: Axes,
    tail: tuple[float, float],
    head: tuple[float, float],
    *,
    bend: float = 0.0,
    dashed: bool = False,
) -> None:
    """From tail to head; bend is the curvature, to the right of the way when positive."""
    axes.add_patch(
        FancyArrowPatch(
            tail,
            head,
            arrowstyle="-|>",
            mutation_scale=7,
            shrinkA=0,
            shrinkB=0,
            linewidth=0.9,
            linestyle=(0, (3, 2)) if dashed else "solid",
            color=current().line,
            connectionstyle=f"arc3,rad={bend}",
            zorder=3,
        )
    )


def span(
    axes: Axes,
    start: float,
    end: float,
    y: float,
    words: str,
    *,
    color: str | None = None,
    side: Align = "center",
) -> None:
    """A dimension line with its meaning below it, or at its right end with side "right"."""
    palette = current()
    color = color or palette.line
    axes.plot([start, end], [y, y], color=color, linewidth=1.0, solid_capstyle="butt", zorder=3)
    for x in (start, end):
        axes.plot([x, x], [y - 0.05, y + 0.05], color=color, linewidth=1.0, zorder=3)
    if side == "right":
        text(axes, end + 0.08, y, words)
    else:
        x, align = {"left": (start, "left"), "center": ((start + end) / 2, "center")}[side]
        lines = words.count("\n") + 1
        text(axes, x, y + (0.1 + 0.07 * lines), words, align=align)  # type: ignore[arg-type]


def guide(axes: Axes, x: float, top: float, bottom: float) -> None:
    """A dotted vertical line that ties a moment in one lane to the same moment in another."""
    axes.plot([x, x], [top, bottom], color=current().line, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0.8)


def time_axis(axes: Axes, y: float, start: float, end: float) -> None:
    """An arrow that says where time goes."""
    arrow(axes, (start, y), (end - 0.4, y))
    text(axes, end, y, "time", align="right", muted=True)


def rungs(heads: tuple[str, ...], rows: tuple[tuple[str, str, str, str], ...]) -> Figure:
    """A ladder's steps as a table of four columns; equal words of the two in the middle have equal colors."""
    figure, axes = canvas(0.4 + 0.41 * len(rows))
    places = (0.05, 1.45, 2.75, 4.05)
    for x, words in zip(places, heads, strict=True):
        text(axes, x, 0.14, words, bold=True)
    found = list(dict.fromkeys(words for row in rows for words in row[1:3]))
    colors = ("h2d", "sync", "idle", "kernel", "series2", "d2h")
    for number, row in enumerate(rows):
        y = 0.5 + 0.41 * number
        text(axes, places[0], y, row[0])
        text(axes, places[3], y, row[3])
        for x, words in zip(places[1:3], row[1:3], strict=True):
            box(axes, x, x + 1.1, y, words, colors[found.index(words)], height=0.27)
    return figure
