"""A report, or several, in; a timeline like the one of the Nsight Systems window out, as a matplotlib Figure.

Time runs to the right from 0 at the start of the window. The rows are NVTX ranges, CUDA API calls, copies and
streams; time in which a GPU did nothing is shaded across its rows and its share is written at the right.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labcode.figures.style import (
    LONGEST,
    ROLE_NAMES,
    SMALL_PT,
    TEXT_PT,
    TITLE_PT,
    current,
    page_width,
    styled,
    tidy,
    widest_label,
    width_in,
)
from labcode.figures.timeline.groups import Choice, Report, RowKind, report_groups
from labcode.figures.timeline.paint import (
    UNIT_NS,
    Drawn,
    choose_unit,
    draw_timeline,
    height_in,
    idle_note,
)
from labcode.figures.timeline.rows import Copies, Group, Window
from labcode.show import number

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
    default all. max_streams: rows of streams a GPU; the rest share one. For the rest see `timeline`.
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
