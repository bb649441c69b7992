"""A report, or several, in; a timeline like the one of the Nsight Systems window out, as a matplotlib Figure.

Time runs to the right from 0 at the start of the window. The rows are NVTX ranges, CUDA API calls, copies and
streams; time in which a GPU did nothing is shaded across its rows and its share is written at the right.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import MaxNLocator

from labcode.analysis.timeline.intervals import Window
from labcode.figures.style import (
    LONGEST,
    ROLE_NAMES,
    SMALL_PT,
    TEXT_PT,
    TITLE_PT,
    current,
    fit,
    page_width,
    styled,
    tidy,
    widest_label,
    width_in,
)
from labcode.figures.timeline.rows import Choice, Copies, Group, Report, Row, RowKind, condense, report_groups
from labcode.reports.frames import rows_of
from labcode.show import number, whole_percent

Unit = Literal["s", "ms", "µs", "ns"]
Box = tuple[float, float, float, float]  # x0, y0, x1, y1

UNIT_NS: dict[Unit, float] = {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}
PX_PER_IN = 96
LANE_IN = 0.185
BAR_GAP_IN = 0.012  # below each lane
ROW_GAP_IN = 0.055
GROUP_GAP_IN = 0.09
CAPTURE_GAP_IN = 0.16
HEADING_IN = 0.27
TITLE_IN = 0.22
PAD_IN = 0.06
PATH_IN = 0.025  # below a row, between it and the next
SHADE_IN = 0.02  # how far the idle shading reaches beyond its rows
WIDEST_LABEL_IN = 1.55
SEPARATE_PX = 3.0  # bars at least this wide …
SEPARATION_PX = 0.75  # … end this much early, so that neighbors stay apart
LEAST_PX = 0.75  # a color that takes less than this much of a row cannot be seen
LOUD_IDLE_SHARE = 0.1


@dataclass
class Drawn:
    """What a drawing shows: roles in rows whose labels do not name them, idle time, joined events, a path."""

    roles: set[str] = field(default_factory=set)
    idle: bool = False
    joined: bool = False
    path: bool = False


@dataclass(frozen=True)
class _Scale:
    origin_ns: int
    unit_ns: float
    px: float  # one CSS pixel in units of the axis

    def of(self, times_ns: Any) -> Any:
        return (times_ns.to_numpy("int64") - self.origin_ns) / self.unit_ns


@dataclass(frozen=True)
class _PlacedRow:
    row: Row
    top: float  # inches from the top of the axes

    @property
    def bottom(self) -> float:
        return self.top + self.row.lanes * LANE_IN


@dataclass(frozen=True)
class _PlacedGroup:
    group: Group
    heading_y: float  # middles of the lines of text
    title_y: float
    rows: tuple[_PlacedRow, ...]
    bottom: float


def draw_timeline(
    axes: Axes, groups: Sequence[Group], window: Window, *, path: pd.DataFrame | None = None
) -> Drawn:
    """Draw rows into axes of their final width: labels at the left, idle shares at the right, time below.

    window: (start_ns, end_ns) on the clock of the bars; the axis is 0 at its start. path: a critical
    path (`labcode.analysis.timeline.critical_path`), drawn as a line below the rows it is on.
    For bars with room for their texts, the axes should be `height_in(groups)` high.
    """
    unit = choose_unit(window[1] - window[0])
    span = max(window[1] - window[0], 1) / UNIT_NS[unit]
    width_px = axes.get_window_extent().width / axes.figure.dpi * PX_PER_IN
    scale = _Scale(window[0], UNIT_NS[unit], span / width_px)
    _draw_axis(axes, span, height_in(groups), unit)
    drawn = Drawn()
    lines: dict[tuple[int, ...], float] = {}
    for placed in _place(groups):
        _draw_texts(axes, placed, scale)
        _draw_idle(axes, placed, scale, drawn)
        for item in placed.rows:
            _draw_row(axes, item, scale, drawn)
            lines[item.row.place] = item.bottom + PATH_IN
    if path is not None:
        _draw_path(axes, path, window, lines, scale, drawn)
    return drawn


def height_in(groups: Sequence[Group]) -> float:
    """The height in inches that these rows need."""
    placed = list(_place(groups))
    return (placed[-1].bottom if placed else LANE_IN) + PAD_IN


def choose_unit(span_ns: int) -> Unit:
    """The unit in which a span of time reads best."""
    if span_ns >= 2e9:
        return "s"
    if span_ns >= 1e6:
        return "ms"
    return "µs" if span_ns >= 2e3 else "ns"


def idle_note(share: float) -> str:
    """What is written at the right of a GPU's rows."""
    return f"idle {whole_percent(share)}"


def _place(groups: Sequence[Group]) -> Iterator[_PlacedGroup]:
    """Each group with where its texts and rows go."""
    y = PAD_IN
    for index, group in enumerate(groups):
        if index:
            y += CAPTURE_GAP_IN if group.heading else GROUP_GAP_IN if group.title else ROW_GAP_IN
        heading_y = y + HEADING_IN / 2
        y += HEADING_IN if group.heading else 0.0
        title_y = y + TITLE_IN / 2
        y += TITLE_IN if group.title else 0.0
        rows = []
        for row in group.rows:
            rows.append(_PlacedRow(row, y))
            y = rows[-1].bottom + ROW_GAP_IN
        y -= ROW_GAP_IN if rows else 0.0
        yield _PlacedGroup(group, heading_y, title_y, tuple(rows), y)


def _draw_axis(axes: Axes, span: float, height: float, unit: Unit) -> None:
    """Axis from 0 to the span, with ticks and hairlines; the unit stands in the first and last of them."""
    palette = current()
    axes.set_xlim(0, span)
    axes.set_ylim(height, 0)
    axes.set_yticks([])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(palette.line)
    locator = MaxNLocator(nbins=8, steps=[1, 2, 5, 10])
    ticks = [float(t) for t in locator.tick_values(0, span) if 0 <= t <= span * 1.0001]
    axes.set_xticks(ticks, labels=[f"{t:,.6g}" for t in ticks])
    axes.tick_params(axis="x", color=palette.line, labelcolor=palette.muted, labelsize=SMALL_PT, pad=2.5)
    axes.grid(True, axis="x", color=palette.grid, linewidth=0.6)
    axes.set_xlabel(f"time ({unit})", color=palette.muted, fontsize=SMALL_PT, loc="right", labelpad=3.0)


def _draw_texts(axes: Axes, placed: _PlacedGroup, scale: _Scale) -> None:
    """Heading, title, row labels, the idle share, and a line where the capture ends."""
    palette, group = current(), placed.group
    limit = axes.get_xlim()[1]
    end = limit if group.end_ns is None else (group.end_ns - scale.origin_ns) / scale.unit_ns
    if group.heading:
        heading = tidy(group.heading)
        _write(axes, 0, placed.heading_y, heading, size=TITLE_PT, weight="bold")
        taken = width_in(heading, TITLE_PT, True) + width_in(group.aside, TEXT_PT) + 0.15
        _write(axes, max(end, taken * PX_PER_IN * scale.px), placed.heading_y, group.aside, ha="right")
    if group.title:
        _write(axes, 0, placed.title_y, tidy(group.title), weight="bold", color=palette.muted)
    for item in placed.rows:
        label = fit(item.row.label, min(WIDEST_LABEL_IN, widest_label()), TEXT_PT)
        _write(axes, 0, (item.top + item.bottom) / 2, label, ha="right", shift_pt=-6)
    if not placed.rows:
        return
    top, bottom = placed.rows[0].top, placed.bottom
    if end < limit - scale.px:
        axes.plot(
            [end, end], [top - SHADE_IN, bottom + SHADE_IN], color=palette.line, linewidth=0.8, zorder=3
        )
    if group.idle_share is not None:
        loud = group.idle_share >= LOUD_IDLE_SHARE
        color, weight = (palette.warn, "bold") if loud else (palette.muted, "normal")
        note = idle_note(group.idle_share)
        _write(axes, limit, (top + bottom) / 2, note, color=color, weight=weight, shift_pt=7)


def _draw_idle(axes: Axes, placed: _PlacedGroup, scale: _Scale, drawn: Drawn) -> None:
    """Shade the idle time of a GPU across its rows."""
    idle = placed.group.idle
    if idle is None or not placed.rows:
        return
    x0, x1 = scale.of(idle["start_ns"]), scale.of(idle["end_ns"])
    seen = (x1 - x0) >= scale.px
    drawn.idle |= bool(seen.any())
    top, bottom = placed.rows[0].top - SHADE_IN, placed.bottom + SHADE_IN
    boxes = [(a, top, b, bottom) for a, b in zip(x0[seen], x1[seen], strict=True)]
    fill_boxes(axes, boxes, current().tint, zorder=0.6)


def _draw_row(axes: Axes, item: _PlacedRow, scale: _Scale, drawn: Drawn) -> None:
    """Bars and their texts, or the row's message."""
    palette, bars, px = current(), item.row.bars, scale.px
    if item.row.message:
        middle = (item.top + item.bottom) / 2
        x = axes.get_xlim()[1] / 2
        _write(axes, x, middle, item.row.message, ha="center", color=palette.muted, style="italic")
    roles = [str(role) for role in bars["role"].unique()]
    seen_px = dict.fromkeys(roles, 0.0)
    for lane in bars["lane"].unique().tolist():
        mine = rows_of(bars, (bars["lane"] == lane).to_numpy())
        top = item.top + lane * LANE_IN
        bottom = top + LANE_IN - BAR_GAP_IN
        x0, x1, texts = scale.of(mine["start_ns"]), scale.of(mine["end_ns"]), mine["text"].to_numpy()
        kinds = pd.Index(roles).get_indexer(pd.Index(mine["role"])).astype(np.int64)
        shown = condense(x0 / px, x1 / px, kinds)
        drawn.joined |= bool((shown.boxes[:, 3] < 1).any())
        fill_boxes(axes, [(a * px, top, b * px, bottom) for a, b in shown.runs], palette.grid, zorder=1.8)
        for k, role in enumerate(roles):
            boxes: list[Box] = []
            for a, b, low, high in shown.boxes[shown.kinds == k]:
                height = bottom - top
                boxes.append((a * px, bottom - high * height, b * px, bottom - low * height))
            for i in shown.alone[kinds[shown.alone] == k]:
                wide = x1[i] - x0[i] >= SEPARATE_PX * px
                boxes.append((x0[i], top, x1[i] - (SEPARATION_PX * px if wide else 0.0), bottom))
                room = round(float(x1[i] - x0[i]) / px / PX_PER_IN - 0.03, 3)
                label = fit(str(texts[i]), room) if room > 0.06 else ""
                if label:
                    x, y = (x0[i] + x1[i]) / 2, (top + bottom) / 2
                    _write(axes, x, y, label, ha="center", color=palette.on(role), size=SMALL_PT)
            fill_boxes(axes, boxes, palette.fill(role), zorder=2)
            seen_px[role] += sum((x1 - x0) / px * (y1 - y0) / (bottom - top) for x0, y0, x1, y1 in boxes)
    if not item.row.self_explaining:
        drawn.roles |= {role for role, seen in seen_px.items() if seen >= LEAST_PX}


def _draw_path(
    axes: Axes,
    path: pd.DataFrame,
    window: Window,
    lines: dict[tuple[int, ...], float],
    scale: _Scale,
    drawn: Drawn,
) -> None:
    """One line through the pieces of a path, each at the height of its row; broken where no row is shown."""
    ends = path["start_ns"] + path["duration_ns"]
    path = path[(ends > window[0]) & (path["start_ns"] < window[1])]
    if not len(path):
        return
    on_cpu = (path["tid"] >= 0).to_numpy()
    threads = np.where(on_cpu, path["tid"], path["stream"])
    places = zip(path["pid"], path["device"], path["context"], threads, strict=True)
    heights = np.array([lines.get(tuple(map(int, place)), np.nan) for place in places])
    begin = scale.of(path["start_ns"].clip(lower=window[0]))
    end = scale.of((path["start_ns"] + path["duration_ns"]).clip(upper=window[1]))
    first = np.append(True, (heights[1:] != heights[:-1]))
    last = np.append(first[1:], True)
    x = np.column_stack((begin[first], end[last])).ravel()
    y = np.repeat(heights[first], 2)
    effects = [Stroke(linewidth=3.6, foreground=current().paper), Normal()]
    axes.plot(x, y, color=current().text, linewidth=1.8, zorder=4, path_effects=effects, clip_on=False)
    drawn.path = True


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    ha: Literal["left", "center", "right"] = "left",
    size: float = TEXT_PT,
    color: str | None = None,
    weight: str = "normal",
    style: Literal["normal", "italic"] = "normal",
    shift_pt: float = 0.0,
) -> None:
    """A line of text centered on y, also outside of the axes."""
    axes.annotate(
        text,
        (x, y),
        xytext=(shift_pt, 0),
        textcoords="offset points",
        ha=ha,
        va="center_baseline",
        fontsize=size,
        color=color or current().text,
        weight=weight,
        style=style,
        annotation_clip=False,
    )


def fill_boxes(axes: Axes, boxes: Sequence[Box], color: str, *, zorder: float) -> None:
    """Many rectangles as one path, which keeps a file with thousands of them small, in axes with limits."""
    if not boxes:
        return
    corners = np.array(boxes)[:, [0, 1, 2, 1, 2, 3, 0, 3, 0, 1]].reshape(-1, 2)
    one = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    path = Path(corners, np.tile(np.array(one, dtype=np.uint8), len(boxes)))
    # not `add_patch`, which looks through all corners in Python for limits that nobody asks for
    axes.add_artist(PathPatch(path, facecolor=color, linewidth=0, zorder=zorder))


__all__ = ["compare_timelines", "compose", "draw_timeline", "timeline"]

AXIS_IN = 0.24  # tick labels below the rows
KEY_IN = 0.19  # one line of the key


@dataclass(frozen=True)
class _Entry:
    text: str
    color: str
    height: float = 1.0  # of the swatch

    @property
    def width(self) -> float:
        return 0.34 + width_in(self.text, SMALL_PT)


@styled
def timeline(
    report: Report,
    *,
    window: Window | None = None,
    rows: Sequence[RowKind] = ("nvtx", "api", "streams"),
    nvtx_levels: int = 3,
    title: str | None = None,
    annotate_idle: bool = True,
    max_threads: int = 2,
    copies: Copies = "apart",
    cpu_only: bool = False,
    path: pd.DataFrame | None = None,
) -> Figure:
    """The timeline of one capture.

    window: (start_ns, end_ns) on the report's clock; by default the measured part. rows: the kinds of rows;
    "projection" is the NVTX ranges where their work ran on the GPU. nvtx_levels: how many levels of nested
    ranges. annotate_idle: shade time without GPU work and write its share. max_threads: CPU threads a
    process, those longest in CUDA calls. copies: "apart" gives one row a direction, "in streams" leaves them
    in the rows of their streams. cpu_only: also show processes without work on a GPU, such as data workers.
    path: a critical path to draw over it.
    """
    choice = Choice(
        kinds=rows,
        nvtx_levels=nvtx_levels,
        annotate_idle=annotate_idle,
        max_threads=max_threads,
        copies=copies,
        cpu_only=cpu_only,
    )
    shown = window or report.window()
    groups = report_groups(report, shown, choice, tolerance_ns=_half_pixel(shown[1] - shown[0]))
    return compose(groups, shown, title=title, path=path)


@styled
def compare_timelines(
    captures: Sequence[tuple[str, Report, Window | None]],
    *,
    devices: Collection[int] | None = None,
    pids: Collection[int] | None = None,
    rows: Sequence[RowKind] = ("nvtx", "api", "streams"),
    nvtx_levels: int = 3,
    annotate_idle: bool = True,
    max_streams: int = 12,
    max_threads: int = 2,
) -> Figure:
    """Several captures, (label, report, window or None) each, below each other on one time scale from 0.

    The length of each window stands above its rows, where the window ends. devices, pids: what to show, by
    default all. max_streams: rows of streams per GPU; the rest share one. For the rest see `timeline`.
    """
    choice = Choice(devices, pids, rows, nvtx_levels, annotate_idle, max_streams, max_threads)
    windows = [window or report.window() for _, report, window in captures]
    span = max((end - start for start, end in windows), default=1)
    unit = choose_unit(span)
    groups: list[Group] = []
    for (label, report, _), window in zip(captures, windows, strict=True):
        length = window[1] - window[0]
        mine = report_groups(report, window, choice, tolerance_ns=_half_pixel(span))
        shifted = [_shift(group, window[0], end_ns=length) for group in mine]
        aside = f"{number(length / UNIT_NS[unit])} {unit}"
        groups += [replace(group, heading=label, aside=aside) for group in shifted[:1]] + shifted[1:]
    return compose(groups, (0, span))


@styled
def compose(
    groups: Sequence[Group],
    window: Window,
    *,
    title: str | None = None,
    path: pd.DataFrame | None = None,
) -> Figure:
    """A figure of these groups of rows, just as high as they need, with a key of the colors below."""
    width = page_width()
    labels = [row.label for group in groups for row in group.rows]
    left = (
        min(widest_label(), max((width_in(label[:LONGEST], TEXT_PT) for label in labels), default=0.3)) + 0.14
    )
    shares = [group.idle_share for group in groups if group.idle_share is not None]
    right = max((width_in(idle_note(share), TEXT_PT, True) for share in shares), default=0.0) + 0.2
    body = height_in(groups)
    figure = Figure(figsize=(width, body))
    axes = figure.add_axes((left / width, 0, (width - left - right) / width, 1))
    drawn = draw_timeline(axes, groups, window, path=path)
    key = _wrap(_key(drawn), width - left - right)
    below = AXIS_IN + KEY_IN * max(1, len(key)) + 0.02
    above = (0.3 if groups and not groups[0].heading else 0.33) if title else 0.05
    height = above + body + below
    figure.set_size_inches(width, height)
    axes.set_position((left / width, below / height, (width - left - right) / width, body / height))
    axes.xaxis.set_label_coords(1, -(AXIS_IN + KEY_IN / 2) / body)
    axes.xaxis.label.set_verticalalignment("center_baseline")
    if title:
        x, y = 0.04 / width, 1 - 0.03 / height
        figure.text(x, y, tidy(title), fontsize=TITLE_PT, weight="bold", va="top")
    for line, entries in enumerate(key):
        _draw_key(axes, entries, AXIS_IN + KEY_IN * (line + 0.5), width - left - right, body)
    return figure


def _key(drawn: Drawn) -> list[_Entry]:
    """What explains the colors that the row labels do not."""
    palette = current()
    roles = [role for role in ROLE_NAMES if role in drawn.roles]
    entries = [_Entry(ROLE_NAMES[role], palette.fill(role)) for role in roles]
    if roles == ["kernel"]:
        entries = []
    if drawn.idle:
        entries.append(_Entry("GPU idle", palette.tint))
    if drawn.path:
        entries.append(_Entry("critical path", palette.text, 0.25))
    if drawn.joined:
        entries.append(_Entry("part height: share of time", palette.muted, 0.5))
    return entries


def _wrap(entries: Sequence[_Entry], room: float) -> list[list[_Entry]]:
    """The entries in lines of at most that many inches; the first leaves room for the axis label."""
    lines: list[list[_Entry]] = [[]]
    used = width_in("time (ms)") + 0.1
    for entry in entries:
        if used + entry.width > room and lines[-1]:
            lines.append([])
            used = 0.0
        lines[-1].append(entry)
        used += entry.width
    return lines


def _draw_key(axes: Axes, entries: Sequence[_Entry], below: float, width: float, height: float) -> None:
    """One line of the key, `below` inches below axes of that width and height (inches)."""
    palette = current()
    x, tall = 0.0, 0.095
    for entry in entries:
        for share, color in ((1.0, palette.grid), (entry.height, entry.color)):
            corner = (x / width, -(below + tall / 2) / height)
            swatch = Rectangle(corner, 0.13 / width, tall * share / height, transform=axes.transAxes)
            swatch.set(facecolor=color, linewidth=0, clip_on=False)
            axes.add_patch(swatch)
        at = ((x + 0.18) / width, -below / height)
        axes.text(
            *at,
            entry.text,
            transform=axes.transAxes,
            fontsize=SMALL_PT,
            color=palette.muted,
            va="center_baseline",
        )
        x += entry.width


def _shift(group: Group, by: int, *, end_ns: int) -> Group:
    """The group with all times `by` ns earlier."""

    def earlier(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(start_ns=frame["start_ns"] - by, end_ns=frame["end_ns"] - by)

    rows = tuple(replace(row, bars=earlier(row.bars)) for row in group.rows)
    return replace(group, rows=rows, idle=None if group.idle is None else earlier(group.idle), end_ns=end_ns)


def _half_pixel(span_ns: int) -> int:
    """About half a pixel at page width, in ns: overlaps shorter than this do not open another lane."""
    return span_ns // 1000
