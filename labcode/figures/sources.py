"""What a picture was drawn from, against what lies on it: a Figure in, in words how the two differ out.

A chart function says what it was given (`declare`), a page which table its picture shows. `check` reads the
picture back, as a reader would: positions and lengths of lines, bars, and dots, on the axes' own scales; the
labels of ticks; the names in keys and at the ends of lines. It compares numbers in the units that the axes
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import Collection, PathCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle, StepPatch
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedFormatter, FuncFormatter
from numpy.typing import NDArray

from labcode.figures.style import Source, declared_of, shorten, tidy
from labcode.figures.style import declare as declare  # pages that draw themselves import it from here
from labcode.reports.columns import Floats

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    Table = pd.DataFrame | pd.Series | Mapping[str, pd.Series]

_CLOSE = 1e-6  # of the larger of two numbers that are to be one
_NUMBER = re.compile(r"[-−]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Checked:
    """How many series of a picture were compared, with a table of the page among them or not, and what
    differs."""

    series: int
    against_table: bool
    differences: tuple[str, ...]


@dataclass(frozen=True)
class _Drawn:
    axes: Axes
    name: str
    x: Floats
    y: Floats
    color: Any
    start: Floats | None = None  # of bars


def check(figure: Figure, table: Table | None = None) -> Checked:
    """Compare what lies on a figure with what its chart declared and with the ``table`` of its page.

    The table is a series for each column: its index has the places along the axis, its name and the index'
    name the units (``step_ms``). A ``pd.Series`` is the one series of a picture that has one.
    """
    drawn = _read(figure)
    declared = declared_of(figure)
    told = [line for source in declared for line in _compare(figure, source, drawn)]
    count = sum(len(source.series) for source in declared)
    if table is not None:
        source, said = _of_table(table, declared, drawn)
        told += [*said, *_compare(figure, source, drawn)]
        count = max(count, len(source.series))
    return Checked(count, table is not None, tuple(dict.fromkeys(told)))


def _read(figure: Figure) -> list[_Drawn]:
    """All series on a figure: named lines, bars, dots, and steps, as the axes' ticks would have them read."""
    found: dict[tuple[int, str], _Drawn] = {}
    for place, axes in enumerate(figure.axes):
        across, up = _scale(axes.xaxis), _scale(axes.yaxis)
        for one in (*_lines(axes), *_bars(axes), *_dots(axes), *_steps(axes), *_areas(axes), *_images(axes)):
            start = None if one.start is None else one.start * across
            one = replace(one, x=one.x * across, y=one.y * up, start=start)
            before = found.get((place, one.name))
            if before is not None:  # drawn in several parts
                one = replace(
                    before,
                    x=np.concatenate([before.x, one.x]),
                    y=np.concatenate([before.y, one.y]),
                    start=None,
                )
            found[place, one.name] = one
    return list(found.values())


def _lines(axes: Axes) -> Iterator[_Drawn]:
    for line in axes.lines:
        name = str(line.get_label())  # without one Matplotlib gives it a name such as _child0
        if not name.startswith("_") and line.get_transform() == axes.transData:
            x, y = (np.asarray(part, dtype=np.float64) for part in line.get_data(orig=True))
            yield _Drawn(axes, name.strip(), x, y, line.get_color())


def _bars(axes: Axes) -> Iterator[_Drawn]:
    for container in axes.containers:
        name = str(container.get_label())
        if not isinstance(container, BarContainer) or name.startswith("_"):
            continue
        boxes = [(bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()) for bar in container.patches]
        left, bottom, width, height = np.asarray(boxes, dtype=np.float64).reshape(-1, 4).T
        color = container.patches[0].get_facecolor() if container.patches else None
        if container.orientation == "horizontal":
            yield _Drawn(axes, name.strip(), width, bottom + height / 2, color, left)
        else:
            yield _Drawn(axes, name.strip(), left + width / 2, height, color, None)


def _dots(axes: Axes) -> Iterator[_Drawn]:
    for dots in axes.collections:
        name = str(dots.get_label())
        if isinstance(dots, PathCollection) and not name.startswith("_"):
            x, y = np.ma.filled(np.ma.asarray(dots.get_offsets(), dtype=np.float64), np.nan).T
            colors = np.asarray(dots.get_facecolor())
            yield _Drawn(axes, name.strip(), x, y, colors[0] if len(colors) else None)


def _steps(axes: Axes) -> Iterator[_Drawn]:
    for patch in axes.patches:
        name = str(patch.get_label())
        if isinstance(patch, StepPatch) and name and not name.startswith("_"):
            values, edges, _ = patch.get_data()
            yield _Drawn(
                axes, name, np.asarray(edges[:-1], float), np.asarray(values, float), patch.get_edgecolor()
            )


def _areas(axes: Axes) -> Iterator[_Drawn]:
    """Areas on each other in steps, by their thickness: a polygon goes there along one side, back along the
    other."""
    for area in axes.collections:
        name = str(area.get_label())
        if isinstance(area, PolyCollection) and not name.startswith("_") and len(area.get_paths()) == 1:
            corners = np.asarray(area.get_paths()[0].vertices, dtype=np.float64)
            count = (len(corners) - 3) // 2  # beside a corner at each end, and the first one again
            one, other = corners[1 : count + 1], corners[count + 2 : -1][::-1]
            thick = np.abs(other[:, 1] - one[:, 1])
            yield _Drawn(axes, name, one[::2, 0], thick[::2], area.get_facecolor()[0])


def _images(axes: Axes) -> Iterator[_Drawn]:
    for image in axes.images:
        name = str(image.get_label())
        if not name.startswith("_"):
            cells = np.ma.filled(np.ma.asarray(image.get_array(), dtype=np.float64), np.nan).ravel()
            yield _Drawn(axes, name, np.arange(cells.size, dtype=np.float64), cells, None)


def _scale(axis: Axis) -> float:
    """What ticks with labels of their own make of a place: 25 written at 0.25 makes 100 times."""
    if not isinstance(axis.get_major_formatter(), FixedFormatter | FuncFormatter):
        return 1.0
    written = [(place, text) for place, text in _ticks(axis) if place]
    if not written or not all(_NUMBER.fullmatch(text) for _, text in written):
        return 1.0
    scales = np.array([_parsed(text) / place for place, text in written])
    # ticks that are not in proportion name things that happen to be numbers
    return float(scales[0]) if np.allclose(scales, scales[0]) and scales[0] else 1.0


def _ticks(axis: Axis) -> list[tuple[float, str]]:
    places = [float(place) for place in axis.get_majorticklocs()]
    written = axis.get_major_formatter().format_ticks(places)
    return [(place, str(text)) for place, text in zip(places, written, strict=True)]


def _of_table(
    table: Table, declared: Sequence[Source], drawn: Sequence[_Drawn]
) -> tuple[Source, tuple[str, ...]]:
    """A page's table as a source, in the units of the axes on which its columns are drawn; what hinders."""
    import pandas as pd

    if isinstance(table, pd.Series):
        columns = {drawn[0].name if len(drawn) == 1 else "": table}
    else:
        columns = {str(name): column for name, column in table.items()}
    first = declared[0] if declared else Source({}, values_on="x" if drawn and _lie(drawn) else "y")
    by_name = {one.name: one for one in drawn}
    series: dict[str, tuple[Any, Floats]] = {}
    said: list[str] = []
    for name, column in columns.items():
        shown = tidy(name)
        at: NDArray[Any] = column.index.to_numpy()
        values = column.to_numpy(np.float64, na_value=np.nan)
        if shown in by_name:
            axes = by_name[shown].axes
            below = next((other.get_xlabel() for other in axes.figure.axes[::-1]), "")  # of shared axes
            labels = (axes.get_xlabel() or below, axes.get_ylabel())
            of_values, of_places = labels if first.values_on == "x" else labels[::-1]
            scale, why = _into(str(column.name or ""), of_values)
            said += why
            values = values * scale
            if not first.samples and at.dtype.kind in "iuf" and column.index.name:
                scale, why = _into(str(column.index.name), of_places)
                said += why
                at = at * scale
        series[shown] = (at, values)
    return replace(first, series=series, axes=None), tuple(said)


def _lie(drawn: Sequence[_Drawn]) -> bool:
    return all(one.start is not None for one in drawn)


def _into(column: str, label: str) -> tuple[float, list[str]]:
    """From a column's unit to that of an axis: the factor, and what forbids it."""
    from labcode import units  # which no chart needs to be drawn

    given, shown = units.of_column(column), units.of_label(label)
    if not given or (given == "1" and not shown):
        return 1.0, []
    scale = units.factor(given, shown)
    if scale is None:
        return 1.0, [f"the axis “{label}” has {shown or 'no unit'}, its column {column} is in {given}"]
    return scale, []


def _compare(figure: Figure, source: Source, drawn: Sequence[_Drawn]) -> Iterator[str]:
    mine = {one.name: one for one in drawn if source.axes is None or one.axes is source.axes}
    for name in source.series.keys() - mine.keys():
        yield f"“{name}” is in the table and not drawn"
    for name in mine.keys() - source.series.keys():
        yield f"“{name}” is drawn and not in the table"
    ends: dict[float, float] = {}
    for name, (at, values) in source.series.items():
        one = mine.get(name)
        if one is None:
            continue
        yield from _named(figure, one)
        lengths, places = (one.x, one.y) if source.values_on == "x" else (one.y, one.x)
        who = f"“{name}”: " if name else ""
        if len(lengths) != len(values):
            yield f"{who}{len(lengths)} points are drawn, {len(values)} are in the table"
            continue
        axes = one.axes
        value_axis, place_axis = (
            (axes.xaxis, axes.yaxis) if source.values_on == "x" else (axes.yaxis, axes.xaxis)
        )
        if source.samples:
            lengths, values = np.sort(lengths), np.sort(values)
        yield from _unlike(f"{who}along “{_label(value_axis)}”", lengths, values)
        if at.dtype.kind in "iufb":  # type: ignore[union-attr]
            if not source.samples:
                yield from _unlike(f"{who}along “{_label(place_axis)}”", places, np.asarray(at, np.float64))
        else:
            yield from _mislabeled(who, place_axis, places, [str(label) for label in at])
        if one.start is not None:
            before = np.array([ends.get(place, 0.0) if source.stacked else 0.0 for place in places])
            yield from _unlike(f"{who}beginning of the bars", one.start, before)
            ends.update(zip(places.tolist(), np.nan_to_num(before + lengths).tolist(), strict=True))
            yield from _miswritten(who, one)
    yield from _unknown(figure, source, mine)


def _label(axis: Axis) -> str:
    return axis.get_label().get_text()


def _unlike(where: str, drawn: Floats, table: Floats) -> Iterator[str]:
    """The first of two columns' numbers that are not the same."""
    same = np.isclose(drawn, table, rtol=_CLOSE, atol=0.0, equal_nan=True) | (
        np.abs(drawn - table) <= _CLOSE * np.nanmax(np.abs(table), initial=1e-300)
    )
    for place in np.flatnonzero(~same)[:1]:
        others = int((~same).sum()) - 1
        more = f" (and {others} more)" if others else ""
        there = f"point {place + 1} is drawn at {drawn[place]:.6g}"
        yield f"{where}: {there}, the table has {table[place]:.6g}{more}"


def _mislabeled(who: str, axis: Axis, places: Floats, labels: Sequence[str]) -> Iterator[str]:
    """Points that lie at another tick than that of their label."""
    ticks = _ticks(axis)
    for place, label in zip(places, labels, strict=True):
        near, text = min(ticks, key=lambda tick: abs(tick[0] - place), default=(np.inf, ""))
        if abs(near - place) > 0.5 or text not in (label, shorten(label)):
            yield f"{who}what the table has at “{label}” is drawn at “{text}”"
            return


def _named(figure: Figure, one: _Drawn) -> Iterator[str]:
    """A name that is nowhere, in the key beside another color, or at the end of another line."""
    if not one.name:
        return
    for text, color in _entries(figure):
        if text == one.name:
            if color is not None and one.color is not None and to_rgb(color) != to_rgb(one.color):
                yield f"“{one.name}” has another color in the key than on the axes"
            return
    if any(image.get_label() == one.name for image in one.axes.images):
        return  # its panel's title says it in words
    texts = [text for text in figure.findobj(Text) if tidy(text.get_text()) == one.name]
    if not texts and not any(
        one.name == text or text.startswith(one.name)
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for text in (*(written for _, written in _ticks(axis)), _label(axis))
    ):
        yield f"“{one.name}” is drawn, and its name is nowhere"
    at_ends = [text for text in texts if isinstance(text, Annotation) and text.xycoords == "data"]
    finite = np.flatnonzero(np.isfinite(one.x) & np.isfinite(one.y))
    if at_ends and finite.size:
        points = {(float(one.x[place]), float(one.y[place])) for place in finite}
        if not any(tuple(map(float, text.xy)) in points for text in at_ends):
            yield f"the name “{one.name}” stands at none of its points"


def _entries(figure: Figure) -> Iterator[tuple[str, Any]]:
    """Texts of all keys, each with the color beside it."""
    for legend in (*figure.legends, *(axes.get_legend() for axes in figure.axes)):
        if legend is None:
            continue
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
            color: Any = None
            if isinstance(handle, Line2D):
                color = handle.get_color()
            elif isinstance(handle, StepPatch | Rectangle) and not handle.get_fill():
                color = handle.get_edgecolor()
            elif isinstance(handle, Patch | Collection):
                color = handle.get_facecolor()
                color = color[0] if np.ndim(color) == 2 else color
            yield text.get_text(), color


def _unknown(figure: Figure, source: Source, mine: Mapping[str, _Drawn]) -> Iterator[str]:
    """Entries of the axes' own key that name nothing on them."""
    axes = source.axes
    legend = axes.get_legend() if axes is not None else None
    for text in legend.get_texts() if legend is not None else ():
        if text.get_text() not in (*mine, *source.key):
            yield f"the key names “{text.get_text()}”, which is not drawn"


def _miswritten(who: str, one: _Drawn) -> Iterator[str]:
    """Numbers at the ends of bars that are not the bars' lengths."""
    ends = {(float(x), float(y)): float(x) for x, y in zip(one.x, one.y, strict=True)}
    for text in one.axes.texts:
        if not isinstance(text, Annotation) or not isinstance(text.xy, tuple):
            continue
        length = ends.get((float(text.xy[0]), float(text.xy[1])))
        found = _NUMBER.match(text.get_text())
        ratio = text.get_text().endswith("×") and text.get_fontproperties().get_weight() == "bold"
        if length is None or not found or ratio:
            continue
        digits = found[0].partition("e")[0].partition(".")[2]
        step = 10.0 ** -len(digits) * (10.0 ** int(found[0].partition("e")[2] or 0))
        if "e" not in found[0] and not digits:
            step = max(step, 10.0 ** (len(str(abs(int(length)))) - 3))
        percent = 0.01 if text.get_text()[found.end() :].startswith("%") and abs(length) <= 1.5 else 1.0
        if abs(_parsed(found[0]) * percent - length) > step * percent * 0.500001:
            yield f"{who}“{text.get_text()}” is written at a bar of {length:.6g}"


def _parsed(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))
