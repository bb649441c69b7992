"""A run of many ranks in; one HTML page of what each did over time, to zoom and to ask, out."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_hex

from labcode.analysis.ranks.heatmap import over_time
from labcode.analysis.ranks.run import Run, open_run
from labcode.analysis.ranks.stragglers import by_rank
from labcode.errors import LabError
from labcode.figures.charts.ranks import panels_of, ranks_over_time
from labcode.figures.pages.interactive import assemble, require_bokeh
from labcode.figures.style import DARK, LIGHT, Palette, render
from labcode.outputs import whole

_BINS = 240
_SHADES = 64
_ROW_PX, _LEAST_PX, _MOST_PX = 9, 140, 420


def write_ranks(folder: Path, output: Path, *, scheduler: str | None = None) -> Path:
    """Draw a folder of ranks as SVG or HTML, the rank that delays most named; `LabError` for another kind of
    file.
    """
    suffix = output.suffix.lower()
    if suffix not in (".svg", ".html"):
        raise LabError(
            f"{output}: the timeline of many ranks is a picture or a page; "
            "name a file that ends in .svg or .html"
        )
    with open_run(folder, scheduler=scheduler) as run, whole(output, reads=run.files) as part:
        late = None
        if run.clocks.meetings:
            table = by_rank(run)
            late = int(table["rank"].iloc[int(table["delay_ns"].argmax())])
        if suffix == ".html":
            part.write_text(ranks_page(run, mark=late, title=folder.name), encoding="utf-8")
        else:
            part.write_bytes(render(lambda: ranks_over_time(run, mark=late, title=folder.name)))
    return output


def ranks_page(run: Run, *, mark: int | None = None, title: str = "Ranks") -> str:
    """The whole page, as HTML: panels one below the other, which move together.

    ``mark``: a rank that is named above them. `ToolError` without Bokeh.
    """
    require_bokeh()
    table = over_time(run, _BINS)
    ranks = table["rank"].drop_duplicates().to_numpy()
    last_ms = float(table["end_ns"].max()) / 1e6
    panels = panels_of(run)
    cells = {column: table[column].to_numpy(np.float32).reshape(len(ranks), -1) for column, _, _ in panels}
    told = f"{len(ranks):,} ranks, {last_ms:,.1f} ms"
    data = {
        "item": _item([(label, cells[column]) for column, _, label in panels], ranks, last_ms, run.metered),
        "whole": [0.0, last_ms, -0.5, len(ranks) - 0.5],
        "themes": {
            name: _theme(palette, [role for _, role, _ in panels])
            for name, palette in (("light", LIGHT), ("dark", DARK))
        },
    }
    return assemble("ranks", title, data, told=told + ("" if mark is None else f"; rank {mark} delays most"))


def _theme(palette: Palette, roles: list[str]) -> dict[str, Any]:
    shades = np.linspace(0, 1, _SHADES)
    maps = [LinearSegmentedColormap.from_list(role, [palette.paper, palette.fill(role)]) for role in roles]
    return {
        "paper": palette.paper,
        "text": palette.text,
        "palettes": [[to_hex(color) for color in colors(shades)] for colors in maps],
    }


def _item(panels: list[tuple[str, Any]], ranks: Any, last_ms: float, metered: bool) -> Any:
    """Bokeh's column of figures; the page's script gives them their colors."""
    from bokeh.core.types import ID
    from bokeh.embed import json_item
    from bokeh.layouts import column
    from bokeh.models import (
        ColumnDataSource,
        CustomJSTickFormatter,
        HoverTool,
        Image,
        LinearColorMapper,
        Range1d,
    )
    from bokeh.plotting import figure

    x_range = Range1d(start=0.0, end=last_ms, bounds=(0.0, last_ms))
    y_range = Range1d(start=len(ranks) - 0.5, end=-0.5, bounds=(-0.5, len(ranks) - 0.5))
    names = CustomJSTickFormatter(args={"ranks": ranks.tolist()}, code="return ranks[Math.round(tick)] ?? ''")
    height = int(np.clip(_ROW_PX * len(ranks), _LEAST_PX, _MOST_PX))
    figures = []
    for place, (label, cells) in enumerate(panels):
        last = place == len(panels) - 1
        top = max(float(np.nanmax(cells)), 1e-9) if metered else 1.0
        shades = LinearColorMapper(palette=["#000000"] * _SHADES, low=0.0, high=top, nan_color="#00000000")
        plot = figure(
            title=label,
            x_range=x_range,
            y_range=y_range,
            height=height + (75 if last else 45),
            sizing_mode="stretch_width",
            tools="pan,wheel_zoom,box_zoom,reset",
            active_drag="pan",
            active_scroll="wheel_zoom",
            toolbar_location=None,
            x_axis_label="time (ms)" if last else None,
            y_axis_label="rank",
            output_backend="canvas",
        )
        numbers = np.broadcast_to(ranks[:, None], cells.shape).astype(np.int32)
        source = ColumnDataSource({"image": [cells], "rank": [numbers]})
        cell = Image(image="image", x=0.0, y=-0.5, dw=last_ms, dh=float(len(ranks)), color_mapper=shades)
        drawn = plot.add_glyph(source, cell)
        value = "@image{0.0} W" if metered else "@image{0.0%}"
        tips = [("rank", "@rank"), ("time", "$x{0,0.00} ms"), (label.partition(" (")[0], value)]
        plot.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
        plot.grid.visible = False
        plot.yaxis.formatter = names
        plot.tags = [shades]
        figures.append(plot)
    return json_item(column(*figures, sizing_mode="stretch_width"), ID("plot"))
