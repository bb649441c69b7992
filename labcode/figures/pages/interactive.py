"""A report in; one self-contained HTML page with its timeline, to zoom, pan and search, out.

The page opens from disk and asks the network for nothing. It is drawn by Bokeh (BSD 3-clause, maintained
since 2013, on the package index): its script comes out of the installed package when the page is written, so
that nothing of others lies in this repository. Of the libraries considered, Bokeh is the one that brings
axes, pan, zoom and hit tests for boxes, and takes other boxes at every step. Plotly makes an SVG element of
each bar, and its script is more than three times as large; pyecharts and pydeck load theirs from the network;
Altair compiles a whole specification to draw boxes that it then cannot exchange step by step; Perfetto's
viewer is no package, but it opens what `labcode.figures.timeline.chrome_trace` writes.

A canvas does not redraw 100,000 boxes many times per second without a GPU, and Bokeh's WebGL mode is slower
still where the GPU is emulated. So the page holds all events, but hands Bokeh those of the visible part only;
events narrower than a pixel are drawn as one box per pixel whose opacity is the share of time they cover
(``interactive.js``). More than `MOST_EVENTS` lie in files beside the page, which it loads as it is zoomed
(`labcode.figures.pages.tiles`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.timeline.intervals import Window
from labcode.analysis.timeline.utilization import device_busy
from labcode.errors import LabError, ToolError
from labcode.figures.style import DARK, LIGHT, ROLE_NAMES, Palette
from labcode.figures.timeline.rows import Report, assign_lanes, kernel_label
from labcode.figures.timeline.tracks import Batch, Track, batches, group_names, thread_names, track_names
from labcode.reports.columns import Ints
from labcode.reports.common import MEASURED
from labcode.reports.report import CountedReport
from labcode.show import LONGEST, byte_text, cut, html, number, one_line, page_data, whole_percent

if TYPE_CHECKING:
    from labcode.figures.pages.tiles import Tiles

MOST_EVENTS = 500_000  # in a page; more of them lie in files beside it
MOST_TILED = 8_000_000
MOST_TRACKS = 1_000  # lines of a page, those with most time in their events
_DEEPEST = 12  # levels of nesting that have lanes of their own
_AXIS_PX = 30  # as in interactive.js
_MOST_PARTS = 4000  # of the window, each with a counter's mean
_COUNTER_HEIGHT = 2.0  # lanes, as in interactive.js
_COUNTER_ROLE = "series1"


@dataclass(frozen=True)
class _Events:
    """Arrays of all events, by lane and start, and the texts that their codes stand for."""

    start: NDArray[np.float64]  # ns since the start of the window
    duration: NDArray[np.float64]
    lane: Ints
    role: Ints
    label: Ints
    detail: Ints
    labels: list[str]
    details: list[str]
    lanes: list[dict[str, Any]]  # track and depth
    tracks: list[Track]
    told: str = ""  # of what is left out, after the title


def interactive_page(
    report: Report,
    *,
    window: Window | None = None,
    view: Window | None = None,
    title: str = "Timeline",
    most: int | None = None,
    around: int | None = None,
) -> str:
    """The whole page, as HTML; window: (start_ns, end_ns), by default the measured part.

    It opens at ``view``, a part of the window, by default at all of it.
    With ``most``, a window of more events is `Thinned` to about so many, all kept from ``around`` (ns) on.
    Raises `LabError` when the window holds no events or more than `MOST_EVENTS`, and `ToolError` without
    Bokeh.
    """
    require_bokeh()
    shown = window or report.window()
    if most is not None and sum(len(table()) for table in _tables(report)) > most:
        from labcode.figures.timeline.thinned import Thinned

        thinned = Thinned(report, shown, most, around)
        if thinned.events > most:
            report = thinned
            low, high = ((time - shown[0]) / 1e6 for time in thinned.whole)
            title += (
                f": {thinned.events:,} events, each of its own from {low:,.3f} to {high:,.3f} ms, else joined"
            )
    events = _collect(report, shown, MOST_EVENTS)
    title += events.told
    data = _document(events, report, shown)
    if view is not None:
        data["view"] = [view[0] - shown[0], view[1] - shown[0]]
    return assemble("interactive", title, data, count=f"{len(events.start):,}")


def _tables(report: Report) -> tuple[Callable[[], pd.DataFrame], ...]:
    operations = (report.kernels, report.memcpys, report.memsets, report.graph_launches)
    return (*operations, report.api, report.nvtx)


def tiled_page(
    report: Report, folder: str, *, window: Window | None = None, title: str = "Timeline"
) -> tuple[str, Iterator[tuple[str, str]]]:
    """The page, and the files beside it in ``folder``: names and texts, none where all fits into the page.

    Raises `LabError` when the window holds no events or more than `MOST_TILED`; `ToolError` without Bokeh.
    """
    require_bokeh()
    shown = window or report.window()
    events = _collect(report, shown, MOST_TILED)
    title += events.told
    count = len(events.start)
    if count <= MOST_EVENTS:
        data = _document(events, report, shown)
        return assemble("interactive", title, data, count=f"{count:,}"), iter(())
    from labcode.figures.pages.tiles import Laid, Tiles

    laid = Laid(
        events.start,
        events.duration,
        events.lane,
        events.role,
        events.label,
        events.detail,
        events.labels,
        events.details,
        len(events.lanes),
    )
    tiles = Tiles(laid, float(max(shown[1] - shown[0], 1)))
    held = list(tiles.all())
    few = _Events(
        **{name: getattr(events, name)[:0] for name in ("start", "duration", "lane", "label", "detail")},
        role=events.role,
        labels=[],
        details=[],
        lanes=events.lanes,
        tracks=events.tracks,
    )
    data = _document(few, report, shown)
    data["tiles"] = {"folder": folder, "nodes": tiles.nodes, "root": held[0], "count": count}
    page = assemble("interactive", title, data, count=f"{count:,}")
    return page, _files(tiles, held)


def _files(tiles: Tiles, held: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The index and each tile but the first, which lies in the page, as a file's name and text."""
    from labcode.figures.pages.tiles import script

    yield "index.js", script("index", tiles.index())
    for place, one in enumerate(held[1:], start=1):
        yield f"{place}.js", script(str(place), one)


def assemble(name: str, title: str, data: object, **texts: str) -> str:
    """A page from its parts: NAME.html and NAME.js of this package, Bokeh, and ``data`` as JSON."""
    parts = {
        "title": html(title),
        "style": _own_file("interactive.css"),
        "bokeh": bokeh_script(),
        "data": page_data(data),
        "script": _own_file("theme.js") + _own_file(f"{name}.js"),
        **texts,
    }
    pieces = _own_file(f"{name}.html").split("{{")
    text = [pieces[0]]
    for piece in pieces[1:]:
        key, _, rest = piece.partition("}}")
        text += [parts[key.strip()], rest]
    return "".join(text)


def require_bokeh() -> None:
    """A `ToolError` when Bokeh is not installed."""
    try:
        import bokeh  # noqa: F401
    except ImportError:
        raise ToolError(
            "interactive pages are drawn by Bokeh, which is not installed: `python -m pip install bokeh`, "
            "or choose .svg or .json"
        ) from None


def bokeh_script() -> str:
    """Bokeh's script as it lies in the installed package."""
    require_bokeh()
    from bokeh.resources import Resources

    return "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)


def _own_file(name: str) -> str:
    return resources.files("labcode.figures.pages").joinpath(name).read_text(encoding="utf-8")


# ---- the events


def _collect(report: Report, window: Window, most: int) -> _Events:
    """All events of the window as arrays."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("start", "end", "track", "role", "label", "detail")
    }
    numbers: dict[Track, int] = {}
    every = [_shown(batch) for batch in batches(report, window)]
    count = sum(len(batch.events) for batch in every)
    if count > most:
        raise LabError(
            f"more than {most:,} events are too many for a page: choose a shorter window, "
            "or write a .json for Perfetto"
        )
    while every:
        batch = every.pop(0)
        events = batch.events
        known = np.array([numbers.setdefault(t, len(numbers)) for t in batch.tracks] + [0], np.int64)
        columns["start"].append(events["start_ns"].to_numpy("int64"))
        columns["end"].append(events["end_ns"].to_numpy("int64"))
        columns["track"].append(known[batch.place])
        columns["role"].append(events["role"].to_numpy(object))
        shown = events["label"]
        if batch.kind == "kernel":
            shown = shown.map({name: kernel_label(name) for name in shown.unique()})
        columns["label"].append(shown.to_numpy(object))
        columns["detail"].append(np.array(_DETAILS[batch.kind](events), dtype=object))
    if not count:
        raise LabError("no events in this window; record some with nsys profile --trace=cuda,nvtx")
    start, end, track, role, label, detail = (np.concatenate(parts) for parts in columns.values())
    order = {track: place for place, track in enumerate(sorted(numbers))}
    track = np.array([order[t] for t in numbers], np.int64)[track]
    tracks, told = sorted(numbers), ""
    if len(tracks) > MOST_TRACKS:
        told = f": of {len(tracks):,} lines the {MOST_TRACKS:,} with most time in their events"
        spent = np.bincount(track, weights=np.maximum(end - start, 0), minlength=len(tracks))
        busiest = np.sort(np.argsort(-spent, kind="stable")[:MOST_TRACKS])
        kept = np.isin(track, busiest)
        start, end, role, label, detail = (part[kept] for part in (start, end, role, label, detail))
        track = np.searchsorted(busiest, track[kept])
        tracks = [tracks[place] for place in busiest.tolist()]
    depth = np.zeros(len(track), np.int64)
    for rows in pd.Series(track).groupby(track).indices.values():
        depth[rows] = assign_lanes(start[rows], np.maximum(end, start)[rows], most=_DEEPEST)
    used = np.unique(track * _DEEPEST + depth)
    lane = np.searchsorted(used, track * _DEEPEST + depth)
    by_place = np.lexsort((start, lane))
    codes, labels = pd.factorize(label[by_place])
    more, details = pd.factorize(detail[by_place])
    roles = {name: place for place, name in enumerate(ROLE_NAMES)}
    return _Events(
        start=(start - window[0])[by_place].astype(np.float64),
        duration=np.maximum(end - start, 0)[by_place].astype(np.float64),
        lane=lane[by_place],
        role=np.array([roles[r] for r in role[by_place]], np.int64),
        label=codes.astype(np.int64),
        detail=more.astype(np.int64),
        labels=[one_line(str(text)) for text in labels],
        details=[cut(str(text), 2 * LONGEST) for text in details],
        lanes=[{"track": int(key) // _DEEPEST, "depth": int(key) % _DEEPEST} for key in used],
        tracks=tracks,
        told=told,
    )


def _shown(batch: Batch) -> Batch:
    """Without the ranges that say what is measured."""
    if batch.kind != "nvtx":
        return batch
    kept = (batch.events["name"] != MEASURED).to_numpy()
    return Batch(batch.kind, batch.events[kept], batch.tracks, batch.place[kept])


def _shared(rows: pd.DataFrame) -> pd.Series:
    """Shared memory of a block; torch.profiler's traces have the sum of static and dynamic alone."""
    if "shared_bytes" in rows:
        return rows["shared_bytes"]
    return rows["static_shared_bytes"] + rows["dynamic_shared_bytes"]


def _kernel_details(rows: pd.DataFrame) -> list[str]:
    columns = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    return [
        f"{name}\ngrid {a} × {b} × {c}, block {d} × {e} × {f}, {registers} registers per thread"
        + (f", {number(shared / 1024)} KiB shared" if shared else "")
        for name, a, b, c, d, e, f, registers, shared in zip(
            *(rows[column].to_list() for column in ("name", *columns, "registers_per_thread")),
            _shared(rows).to_list(),
            strict=True,
        )
    ]


def _copy_details(rows: pd.DataFrame) -> list[str]:
    return [
        f"{byte_text(size, binary=True)}, {source} to {target}"
        + (f", {number(size / ns)} GB/s" if ns > 0 else "")
        for size, source, target, ns in zip(
            *(rows[c].to_list() for c in ("bytes", "src_kind", "dst_kind")),
            (rows["end_ns"] - rows["start_ns"]).to_list(),
            strict=True,
        )
    ]


_DETAILS: dict[str, Callable[[pd.DataFrame], list[str]]] = {
    "kernel": _kernel_details,
    "memcpy": _copy_details,
    "memset": lambda rows: [byte_text(size, binary=True) for size in rows["bytes"].to_list()],
    "graph": lambda rows: [""] * len(rows),
    "api": lambda rows: [f"returned error {one}" if one else "" for one in rows["return_value"].to_list()],
    "nvtx": lambda rows: ["still open at the end" if one else "" for one in rows["still_open"].to_list()],
}


# ---- what the page is given


def _document(events: _Events, report: Report, window: Window) -> dict[str, Any]:
    """Bokeh's figure and what ``interactive.js`` needs beside it."""
    span = float(max(window[1] - window[0], 1))
    lanes, heads, height = _layout(events, report, window)
    counters, height = _counters(report, window, heads, height)
    first = np.searchsorted(events.lane, np.arange(len(lanes) + 1)).tolist()
    roles = sorted({int(role) for role in np.unique(events.role)})
    names = list(ROLE_NAMES)
    ranges = "annotation" if "rank" in report.nvtx() else "NVTX range"  # a trace, or a capture of nsys
    return {
        "item": _figure_item(events, [*lanes, *counters], heads, height, span),
        "span": span,
        "height": height,
        "lanes": [{**lane, "first": first[i], "last": first[i + 1]} for i, lane in enumerate(lanes)],
        "counters": counters,
        "heads": heads,
        "labels": events.labels,
        "details": events.details,
        "legend": [
            {"role": role, "name": ROLE_NAMES[names[role]].replace("NVTX range", ranges)} for role in roles
        ]
        + [{"role": names.index(_COUNTER_ROLE), "name": "counter of the GPU"}] * bool(counters),
        "themes": {"light": _theme(LIGHT), "dark": _theme(DARK)},
    }


def _theme(palette: Palette) -> dict[str, Any]:
    return {
        "fills": [palette.fill(role) for role in ROLE_NAMES],
        "inks": [palette.on(role) for role in ROLE_NAMES],
        "text": palette.text,
        "muted": palette.muted,
        "line": palette.line,
        "grid": palette.grid,
        "paper": palette.paper,
    }


def _layout(
    events: _Events, report: Report, window: Window
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], float]:
    """Where lanes and the headings of groups stand, in lane heights from the top; the height of all."""
    titles = group_names(events.tracks, report.threads())
    names = track_names(events.tracks, thread_names(report))
    ops = _light_ops(report, window)
    busy = device_busy(ops[ops["device"].isin([device for _, device in titles])], window)
    idle = {int(d): s for d, s in zip(busy["device"], busy["idle_share"], strict=True)}
    members: dict[tuple[int, int], list[int]] = {}
    for place, lane in enumerate(events.lanes):
        track = events.tracks[lane["track"]]
        members.setdefault((track.pid, track.device), []).append(place)
    lanes: list[dict[str, Any]] = [{} for _ in events.lanes]
    heads: list[dict[str, Any]] = []
    y = 0.0
    for key, title in titles.items():
        share = idle.get(key[1], float("nan"))
        note = "" if pd.isna(share) else f", idle {whole_percent(share)} of the window"
        heads.append({"y": y, "text": title + note})
        y += 1.2
        for place in members[key]:
            number, deep = events.lanes[place]["track"], events.lanes[place]["depth"]
            first = not deep and not events.tracks[number].lane
            y += 0.15 if first else 0.0
            name = names[number]
            lanes[place] = {"y": y, "name": name if first else "", "track": name}
            y += 1.0
        y += 0.4
    return lanes, heads, y


def _counters(
    report: Report, window: Window, heads: list[dict[str, Any]], top: float
) -> tuple[list[dict[str, Any]], float]:
    """The GPU's own counters: where each stands and its mean in equal parts of the window; the height of all.

    Headings are added to ``heads``.
    """
    inner = getattr(report, "report", report)  # of one that was thinned the whole
    found = inner.counters() if isinstance(inner, CountedReport) else []
    rows: list[dict[str, Any]] = []
    if not found:
        return rows, top
    from labcode.analysis.timeline import counters as counter_series

    role = list(ROLE_NAMES).index(_COUNTER_ROLE)
    for device in sorted({counter.device for counter in found}):
        parts = [counter.within(window) for counter in counter_series.shown(found, device)]
        parts = [counter for counter in parts if len(counter.values)]
        if parts:
            heads.append({"y": top, "text": f"GPU {device}, its own counters: % of what it can do"})
            top += 1.2
        for counter in parts:
            means = counter_series.binned(counter, window, min(len(counter.values), _MOST_PARTS))
            values = [None if np.isnan(mean) else round(float(mean), 1) for mean in means]
            rows.append({"y": top, "name": counter.name, "values": values, "role": role})
            top += _COUNTER_HEIGHT
    return rows, top


def _light_ops(report: Report, window: Window) -> pd.DataFrame:
    ops = report.gpu_ops()
    kept: pd.DataFrame = ops[(ops["end_ns"] >= window[0]) & (ops["start_ns"] <= window[1])]
    return kept


def _figure_item(
    events: _Events, lanes: list[dict[str, Any]], heads: list[dict[str, Any]], height: float, span: float
) -> Any:
    """Bokeh's figure as what its script embeds: empty sources, filled in the browser, and the events."""
    from bokeh.core.types import ID
    from bokeh.embed import json_item
    from bokeh.events import DoubleTap
    from bokeh.models import (
        BasicTicker,
        ColumnDataSource,
        CustomJS,
        CustomJSTickFormatter,
        FixedTicker,
        HoverTool,
        LinearColorMapper,
        PanTool,
        PlainText,
        Range1d,
        WheelPanTool,
        WheelZoomTool,
    )
    from bokeh.plotting import figure

    store = ColumnDataSource(
        {
            "start": events.start,
            "duration": events.duration,
            "role": events.role.astype(np.uint8)[: len(events.start)],
            "label": events.label.astype(np.int32),
            "detail": events.detail.astype(np.int32),
        },
        name="store",
    )
    boxes = ColumnDataSource(
        {
            column: []
            for column in ("left", "right", "top", "bottom", "role", "alpha", "index", "count", "source")
        },
        name="boxes",
    )
    texts = ColumnDataSource({c: [] for c in ("x", "y", "text", "role")}, name="texts")
    plot = figure(
        name="timeline",
        x_range=Range1d(
            start=0, end=span, min_interval=20, max_interval=span * 1.04, bounds=(-0.02 * span, 1.02 * span)
        ),
        y_range=Range1d(start=height, end=0),
        height=600,
        min_border_top=_AXIS_PX,
        min_border_bottom=6,
        sizing_mode="stretch_width",
        x_axis_location="above",
        tools=[],
        toolbar_location=None,
        output_backend="canvas",
    )
    mappers = {
        name: LinearColorMapper(palette=["#000000"] * len(ROLE_NAMES), low=-0.5, high=len(ROLE_NAMES) - 0.5)
        for name in ("fills", "inks")
    }
    for name, mapper in mappers.items():
        mapper.name = name
    box = plot.quad(
        "left",
        "right",
        "top",
        "bottom",
        source=boxes,
        fill_color={"field": "role", "transform": mappers["fills"]},
        fill_alpha="alpha",
        line_color=None,
    )
    plot.text(
        "x",
        "y",
        "text",
        source=texts,
        text_color={"field": "role", "transform": mappers["inks"]},
        text_font_size="11px",
        text_font={"value": "sans-serif"},
        text_baseline="middle",
        x_offset=3,
    )
    named = [lane for lane in lanes if lane["name"]]
    ticks = [lane["y"] + (_COUNTER_HEIGHT / 2 if "values" in lane else 0.5) for lane in named]
    plot.yaxis.ticker = FixedTicker(ticks=ticks)
    plot.yaxis.major_label_overrides = {
        tick: PlainText(text=one_line(lane["name"], 34)) for tick, lane in zip(ticks, named, strict=True)
    }
    plot.yaxis.major_label_text_font_size = "11px"
    plot.ygrid.visible = False
    plot.xaxis.ticker = BasicTicker(desired_num_ticks=8)
    plot.xaxis.formatter = CustomJSTickFormatter(code="return window.labTime(tick, ticks)")
    plot.min_border_right = 16
    plot.add_tools(
        PanTool(dimensions="width"),
        WheelZoomTool(dimensions="width", modifiers={"ctrl": True}),
        WheelPanTool(dimension="width", modifiers={"shift": True}),
        HoverTool(
            renderers=[box],
            tooltips=None,
            callback=CustomJS(code="window.labHover(cb_data.index.indices, cb_data.geometry)"),
        ),
    )
    for name, tool in (("active_drag", 0), ("active_scroll", 1)):
        setattr(plot.toolbar, name, plot.tools[tool])
    plot.js_on_event(DoubleTap, CustomJS(code="window.labZoomTo(cb_obj.x, cb_obj.y)"))
    plot.tags = [store, boxes, texts, *mappers.values()]
    return json_item(plot, ID("plot"))
