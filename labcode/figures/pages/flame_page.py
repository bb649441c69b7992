"""A folded profile in; one self-contained HTML page with its flame graph, to zoom and search, out.

Drawn by Bokeh like the timeline (`labcode.figures.pages.interactive`), and like it the page opens from disk
and asks the network for nothing.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from labcode.errors import LabError
from labcode.figures.pages.flame import ORIGINS, Tree, origin, tree
from labcode.figures.pages.interactive import assemble, require_bokeh
from labcode.figures.style import DARK, LIGHT, Palette

MOST_BOXES = 200_000


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
        "labels": [str(label) for label in labels],
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
