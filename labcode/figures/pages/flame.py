"""A folded profile (`labcode.analysis.timeline.stacks`) in; a flame graph, speedscope JSON or folded text
out.

The root is on top and the innermost functions are at the bottom; the width of a box is the share of samples
(or of time) in which the function was on the stack, its place says who called it. Boxes side by side are in
the order of their weight, not of time. A color says whose code it is.

Drawn by Bokeh like the timeline (`labcode.figures.pages.interactive`), and like it the page opens from disk
and asks the network for nothing.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labcode.errors import LabError
from labcode.figures.pages.interactive import assemble, require_bokeh
from labcode.figures.style import (
    DARK,
    LIGHT,
    SMALL_PT,
    TITLE_PT,
    WIDTH_IN,
    Palette,
    current,
    fit,
    styled,
    tidy,
)
from labcode.reports.columns import Floats, Ints
from labcode.show import number, one_line, whole_percent

ROW_IN = 0.21
DEEPEST = 40  # rows of a printed flame graph
_LEAST_IN = 0.01  # a narrower box is not drawn

# Whose code a frame is, by the look of its label: kind → (role of its color, name)
ORIGINS: Mapping[str, tuple[str, str]] = {
    "own": ("series2", "the program's own code"),
    "library": ("series3", "a package"),
    "python": ("nvtx3", "Python's standard library"),
    "native": ("cpu", "native code"),
    "unnamed": ("idle", "a library without names, by library"),
}
MOST_BOXES = 200_000


@dataclass(frozen=True)
class Tree:
    """The boxes of a flame graph, from the root outwards, the heavier of siblings first."""

    label: list[str]
    depth: Ints
    left: Floats  # where the box begins, in units of weight
    weight: Floats
    own: Floats  # weight of stacks that end here
    count: Ints  # samples
    parent: Ints  # -1: none

    @property
    def total(self) -> float:
        """The weight of the whole profile."""
        return float(self.weight[self.parent < 0].sum())


def tree(folded: pd.DataFrame) -> Tree:
    """The boxes of a folded profile; `LabError` for an empty one."""
    labels: list[str] = []
    parents: list[int] = []
    children: list[dict[str, int]] = []
    weights: list[float] = []
    own: list[float] = []
    counts: list[int] = []
    roots: dict[str, int] = {}
    for stack, count, weight in zip(folded["stack"], folded["count"], folded["weight"], strict=True):
        below, parent = roots, -1
        for text in stack:
            at = below.get(text)
            if at is None:
                at = below[text] = len(labels)
                labels.append(text)
                parents.append(parent)
                children.append({})
                weights.append(0.0)
                own.append(0.0)
                counts.append(0)
            weights[at] += float(weight)
            counts[at] += int(count)
            below, parent = children[at], at
        own[parent] += float(weight)
    if not labels or sum(weights[at] for at in roots.values()) <= 0:
        raise LabError("no samples to draw; choose another thread or window, or record more of them")
    order: list[int] = []
    left = np.zeros(len(labels))
    depth = np.zeros(len(labels), np.int64)
    start = 0.0
    waiting: list[tuple[int, float, int]] = []
    for at in sorted(roots.values(), key=lambda i: (-weights[i], labels[i])):
        waiting.append((at, start, 0))
        start += weights[at]
    while waiting:
        at, begin, level = waiting.pop()
        order.append(at)
        left[at], depth[at] = begin, level
        for child in sorted(children[at].values(), key=lambda i: (-weights[i], labels[i])):
            waiting.append((child, begin, level + 1))
            begin += weights[child]
    order.sort(key=lambda i: (depth[i], left[i]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    up = np.array([parents[i] for i in order], np.int64)
    return Tree(
        [labels[i] for i in order],
        depth[order],
        left[order],
        np.array(weights)[order],
        np.array(own)[order],
        np.array(counts, np.int64)[order],
        np.where(up < 0, -1, place[up]),
    )


def origin(label: str) -> str:
    """Whose code a frame is, by its label: a key of `ORIGINS`."""
    if re.fullmatch(r"\[.*\]", label):
        return "unnamed"
    if label.endswith(" (nn.Module)"):
        return "own"
    where = re.search(r" \(([^()]*\.py\w*(?::\d+)?|<[^>]*>(?::\d+)?|[^()]*/[^()]*)\)$", label)
    if where is None:
        return "native"
    place = where[1]
    if re.search(r"(?:site|dist)-packages/", place):
        return "library"
    return "python" if re.search(r"lib/python\d|^<", place) else "own"


@styled
def flame(folded: pd.DataFrame, *, title: str | None = None, unit: str = "samples") -> Figure:
    """The flame graph as a figure, root on top.

    unit names what the weights are: 'samples', or 'ns'. Boxes too narrow to be seen are left out, and so are
    those deeper than `DEEPEST`. Raises `LabError` for an empty profile.
    """
    boxes = tree(folded)
    palette = current()
    width, scale = WIDTH_IN, WIDTH_IN / boxes.total
    shown = (boxes.weight * scale >= _LEAST_IN) & (boxes.depth < DEEPEST)
    rows = int(boxes.depth[shown].max()) + 1
    top = 0.62 if title else 0.34
    height = top + rows * ROW_IN + 0.36
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0.36 / height, 1, rows * ROW_IN / height))
    axes.set_xlim(0, boxes.total)
    axes.set_ylim(rows, 0)
    axes.axis("off")
    kinds = [origin(label) for label in boxes.label]
    places = np.flatnonzero(shown)
    patches = [
        Rectangle((boxes.left[i], boxes.depth[i] + 0.04), boxes.weight[i], 0.92) for i in places.tolist()
    ]
    colors = [palette.fill(ORIGINS[kinds[i]][0]) for i in places.tolist()]
    axes.add_collection(PatchCollection(patches, facecolors=colors, edgecolors=palette.paper, linewidths=0.4))
    for i in places.tolist():
        text = _fitted(boxes.label[i], float(boxes.weight[i]) * scale - 0.07)
        if text:
            ink = palette.on(ORIGINS[kinds[i]][0])
            x = boxes.left[i] + 0.035 / scale
            axes.text(x, boxes.depth[i] + 0.5, text, color=ink, fontsize=SMALL_PT, va="center_baseline")
    if title:
        figure.text(0, 1 - 0.06 / height, tidy(title), fontsize=TITLE_PT, fontweight="bold", va="top")
    what = f"{number(boxes.total / 1e6)} ms" if unit == "ns" else f"{boxes.total:,.0f} {unit}"
    note = f"{what}; the width of a box is its share, and below it is what it called"
    figure.text(0, 1 - (0.36 if title else 0.06) / height, note, color=palette.muted, va="top")
    _legend(figure, palette, sorted({kinds[i] for i in places.tolist()}, key=list(ORIGINS).index), height)
    return figure


def flame_text(folded: pd.DataFrame) -> str:
    """The profile as *folded* text, as flamegraph.pl and others read it: ``root;…;leaf weight`` by line."""
    lines = [
        ";".join(label.replace(";", ":").replace("\n", " ") for label in stack) + f" {round(weight)}"
        for stack, weight in zip(folded["stack"], folded["weight"], strict=True)
    ]
    return "".join(line + "\n" for line in lines)


def speedscope(folded: pd.DataFrame, *, name: str, unit: str = "samples") -> str:
    """The profile as JSON that speedscope.app opens (a file is dropped on the page, nothing is sent)."""
    known: dict[str, int] = {}
    samples = [[known.setdefault(label, len(known)) for label in stack] for stack in folded["stack"]]
    weights = [float(weight) for weight in folded["weight"]]
    profile = {
        "type": "sampled",
        "name": name,
        "unit": "nanoseconds" if unit == "ns" else "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "shared": {"frames": [{"name": label} for label in known]},
        "profiles": [profile],
    }
    return json.dumps(document, ensure_ascii=False) + "\n"


def _fitted(label: str, room: float) -> str:
    """The label, or its function without the file, or the beginning of that."""
    whole = fit(label, room)
    if whole == label:
        return whole
    return fit(label.partition(" (")[0] or label, room)


def _legend(figure: Figure, palette: Palette, kinds: list[str], height: float) -> None:
    x = 0.0
    width = figure.get_figwidth()
    for kind in kinds:
        role, name = ORIGINS[kind]
        y = 0.12 / height
        figure.add_artist(
            Rectangle(
                (x, y), 0.12 / width, 0.1 / height, color=palette.fill(role), transform=figure.transFigure
            )
        )
        text = figure.text(x + 0.17 / width, y, name, fontsize=SMALL_PT, color=palette.muted)
        x += (0.17 + 0.17) / width + text.get_window_extent().width / (figure.dpi * width)


def shares(folded: pd.DataFrame, text: str) -> str:
    """The share of a profile that passes through frames whose label holds ``text``, as the page tells it."""
    whole = float(folded["weight"].sum())
    hit = sum(
        weight
        for stack, weight in zip(folded["stack"], folded["weight"], strict=True)
        if any(text.lower() in label.lower() for label in stack)
    )
    return whole_percent(hit / whole) if whole else whole_percent(0)


def flame_page(folded: pd.DataFrame, *, title: str = "Flame graph", unit: str = "samples") -> str:
    """The whole page, as HTML. unit: what the weights are, 'samples' or 'ns'.

    Raises `LabError` for an empty profile and one of more than `MOST_BOXES` boxes, `ToolError` without Bokeh.
    """
    require_bokeh()
    boxes = tree(folded)
    if len(boxes.label) > MOST_BOXES:
        raise LabError(
            f"{len(boxes.label):,} boxes are too many for a page: choose a thread or a shorter window"
        )
    kinds = list(ORIGINS)
    codes, labels = pd.factorize(pd.Series(boxes.label, dtype=object))
    of_label = [kinds.index(origin(str(label))) for label in labels]
    data = {
        "item": _figure_item(boxes),
        "unit": unit,
        "total": boxes.total,
        "rows": int(boxes.depth.max()) + 1,
        "labels": [one_line(str(label)) for label in labels],
        "kinds": of_label,
        "label": codes.tolist(),
        "depth": boxes.depth.tolist(),
        "left": boxes.left.tolist(),
        "weight": boxes.weight.tolist(),
        "own": boxes.own.tolist(),
        "count": boxes.count.tolist(),
        "parent": boxes.parent.tolist(),
        "legend": [{"kind": place, "name": ORIGINS[kinds[place]][1]} for place in sorted(set(of_label))],
        "themes": {"light": _theme(LIGHT), "dark": _theme(DARK)},
    }
    return assemble("flame", title, data)


def _theme(palette: Palette) -> dict[str, Any]:
    roles = [role for role, _ in ORIGINS.values()]
    return {
        "fills": [palette.fill(role) for role in roles] + [palette.warn],
        "inks": [palette.on(role) for role in roles]
        + [palette.light_ink if palette is LIGHT else palette.dark_ink],
        "paper": palette.paper,
        "text": palette.text,
    }


def _figure_item(boxes: Tree) -> Any:
    """Bokeh's figure with empty sources, which the page's script fills with the visible boxes."""
    from bokeh.core.types import ID
    from bokeh.embed import json_item
    from bokeh.events import Tap
    from bokeh.models import ColumnDataSource, CustomJS, HoverTool, LinearColorMapper, Range1d
    from bokeh.plotting import figure

    shown = ColumnDataSource({c: [] for c in ("left", "right", "top", "bottom", "kind", "alpha", "index")})
    texts = ColumnDataSource({c: [] for c in ("x", "y", "text", "kind")})
    focus = ColumnDataSource({c: [] for c in ("left", "right", "top", "bottom")})
    plot = figure(
        name="flame",
        x_range=Range1d(start=0, end=boxes.total),
        y_range=Range1d(start=int(boxes.depth.max()) + 1, end=0),
        height=400,
        min_border=2,
        sizing_mode="stretch_width",
        tools=[],
        toolbar_location=None,
        output_backend="canvas",
        x_axis_type=None,
        y_axis_type=None,
    )
    plot.grid.visible = False
    most = len(ORIGINS) + 1
    fills, inks = (LinearColorMapper(palette=["#000000"] * most, low=-0.5, high=most - 0.5) for _ in range(2))
    box = plot.quad(
        "left",
        "right",
        "top",
        "bottom",
        source=shown,
        fill_color={"field": "kind", "transform": fills},
        fill_alpha="alpha",
        line_color="#ffffff",
        line_width=0.5,
    )
    plot.quad(
        "left", "right", "top", "bottom", source=focus, fill_color=None, line_color="#000000", line_width=2
    )
    plot.text(
        "x",
        "y",
        "text",
        source=texts,
        text_color={"field": "kind", "transform": inks},
        text_font_size="11px",
        text_font={"value": "sans-serif"},
        text_baseline="middle",
        x_offset=3,
    )
    plot.add_tools(
        HoverTool(
            renderers=[box],
            tooltips=None,
            callback=CustomJS(code="window.labHover(cb_data.index.indices)"),
        )
    )
    plot.js_on_event(Tap, CustomJS(code="window.labTap(cb_obj.x, cb_obj.y)"))
    plot.tags = [shown, texts, focus, fills, inks]
    return json_item(plot, ID("plot"))
