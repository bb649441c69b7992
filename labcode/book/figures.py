"""Figures of a page: a drawing function in, the same picture for light pages, dark pages and print out."""

from __future__ import annotations

import base64
import io
import itertools
import math
import os
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from labcode.book import display

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    from labcode.figures.sources import Checked, Table

_SHORTEST_ALT = 20
_PRINT_DPI = 150
_PT = 72.0  # of an inch
_TALLEST_IN = 3.75  # of a strip that a phone shows turned, its type at least 10 pixels high
_OVER = 1.02  # a strip as much too tall is shown smaller rather than cut
_SHORTEST_IN = 1.0  # of a strip, whose length is the figure's width
_LEAST_AXES_IN = 0.8  # what a narrow chart has between its words
_ROOT = re.compile(
    r'<svg\b[^>]*?width="(?P<width>[\d.]+)pt" height="(?P<height>[\d.]+)pt" viewBox="(?P<box>[^"]+)"[^>]*>'
)


def figure(
    drawing: Callable[..., Figure] | Figure,
    *,
    alt: str,
    caption: str | None = None,
    data: Table | None = None,
) -> None:
    """Show a figure: in the colors of the page it stands on, light or dark; print and notebooks get it on
    white.

    ``drawing`` is a function that draws and returns a matplotlib ``Figure`` in the colors of
    ``labcode.figures.style.current()``; it is called several times. (A ``Figure`` drawn already is shown on
    white everywhere.) ``alt`` says in a sentence or two what the figure shows, for those
    who do not see it: what is drawn and what stands out. ``caption`` is printed below.

    ``data`` is the table that the figure shows, as `labcode.figures.sources.check` takes it. What lies on the
    axes is compared with it, and with what the chart was given: a strict build fails where they differ.
    """
    content = figure_content(drawing, alt=alt, caption=caption, data=data)
    text = "\n".join([f"Figure: {content['alt']}", *(f"differs: {line}" for line in content["differs"])])
    display.show({display.FIGURE_MIME: content, "image/png": content["png"], "text/plain": text})


def figure_content(
    drawing: Callable[..., Figure] | Figure, *, alt: str, caption: str | None, data: Table | None = None
) -> dict[str, Any]:
    """What `figure` shows: light, dark (SVG), both once more for narrow screens, png (none for the web
    alone), alt, caption; and what of it
    ``differs`` from its source."""
    alt = " ".join(alt.split())
    if len(alt) < _SHORTEST_ALT:
        raise ValueError(f"book.figure: alt={alt!r} is no description; say what is drawn and what stands out")
    from labcode.figures.sources import check
    from labcode.figures.style import one_picture

    read: list[Checked] = []
    with one_picture():
        light, dark = _svgs(drawing, lambda drawn: read.append(check(drawn, data)))
        png = None if os.environ.get(display.WEB_ALONE) else _png(drawing)
    return {
        "light": light.wide,
        "dark": dark.wide if dark else None,
        "narrow": [one.narrow for one in (light, dark) if one],
        "png": png,
        "alt": alt,
        "caption": caption or "",
        "differs": [line for one in read for line in one.differences],
    }


class _Drawn(NamedTuple):
    """A figure as wide as a page, and as a phone shows it: two SVGs."""

    wide: str
    narrow: str


def _svgs(
    drawing: Callable[..., Figure] | Figure, look: Callable[[Figure], None]
) -> tuple[_Drawn, _Drawn | None]:
    """A figure for light pages and, if it can be drawn for them, for dark ones.

    It is drawn once and colored twice, unless it has other colors than the palette's.
    """
    from labcode.figures.style import blank, colored, style

    if not callable(drawing):
        with style("light"):
            return _svg(drawing, look), None
    with blank():
        drawn = _svg(drawing, look)
    light, dark = ([colored(one, mode) for one in drawn] for mode in ("light", "dark"))
    if None not in (*light, *dark):
        return _Drawn(*light), _Drawn(*dark)  # type: ignore[arg-type]
    with style("light"):
        first = _svg(drawing, lambda _: None)
    with style("dark"):
        return first, _svg(drawing, lambda _: None)


def _svg(drawing: Callable[..., Figure] | Figure, look: Callable[[Figure], None]) -> _Drawn:
    """The figure in the style that is active."""
    from labcode.figures.style import figure_bytes

    drawn = _drawn(drawing)
    try:
        look(drawn)
        wide = figure_bytes(drawn, "svg").decode()
        slim = _narrow(drawing) if callable(drawing) else None
        return _Drawn(wide, slim or turned(wide, _places_to_cut(drawn)))
    finally:
        _forget(drawn)


def _narrow(drawing: Callable[..., Figure]) -> str | None:
    """The figure drawn as narrow as a phone, if all its words have room there."""
    from labcode.figures.style import NARROW_IN, figure_bytes, narrow, wrapped

    with narrow(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "constrained_layout not applied")  # no room: the words say so
        drawn = _drawn(drawing)
        try:
            if drawn.get_figwidth() > NARROW_IN + 0.01:
                return None
            for axes in drawn.axes:
                label = axes.xaxis.label
                label.set_text(wrapped(label.get_text(), NARROW_IN - 0.6, float(label.get_fontsize())))
            content = figure_bytes(drawn, "svg").decode()
            return content if words_have_room(drawn) else None
        finally:
            _forget(drawn)


def words_have_room(drawn: Figure) -> bool:
    """Whether no word of a figure, saved as SVG just now, lies beyond its edge, or on another one, and what
    is drawn has width.
    """
    words = [box.padded(-_PT / 64) for box in _boxes_of_words(drawn)]
    if any(
        axes.axison and axes.get_window_extent().width < _LEAST_AXES_IN * drawn.dpi for axes in drawn.axes
    ):
        return False
    edge = drawn.bbox.padded(_PT / 96)
    if any(box.x0 < edge.x0 or box.x1 > edge.x1 or box.y0 < edge.y0 or box.y1 > edge.y1 for box in words):
        return False
    return not any(one.overlaps(other) for one, other in itertools.combinations(words, 2))


def _boxes_of_words(drawn: Figure) -> list[Bbox]:
    """Where a figure's words are in its SVG, in points; those of ticks beyond the view are not drawn."""
    from matplotlib.axis import Tick
    from matplotlib.text import Text

    drawn.dpi = _PT  # as it was laid out when it was saved
    unseen: set[int] = set()
    for axes in drawn.axes:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            hidden = {id(one) for one in axis.findobj(Text)} if not axes.axison else set()
            for tick in axis.findobj(Tick):
                if isinstance(tick, Tick) and not min(limits) <= tick.get_loc() <= max(limits):
                    hidden |= {id(tick.label1), id(tick.label2)}
            unseen |= hidden
    words = [one for one in drawn.findobj(Text) if isinstance(one, Text) and one.get_text().strip()]
    return [one.get_window_extent() for one in words if one.get_visible() and id(one) not in unseen]


def _places_to_cut(drawn: Figure) -> list[float]:
    """Where a figure is cut into strips that a phone shows, in inches from its top: as few strips as there
    can be, no word cut, as few axes and boxes as possible, then as even as they get.
    """
    from matplotlib.patches import Patch

    height = float(drawn.get_figheight())
    strips = math.ceil(height / (_TALLEST_IN * _OVER))
    if strips == 1:
        return [0.0, height]

    def reach(box: Bbox, spare: float) -> tuple[float, float]:
        return height - box.y1 / drawn.dpi - spare, height - box.y0 / drawn.dpi + spare

    words = [reach(box, 0.03) for box in _boxes_of_words(drawn)]
    boxes = [one for one in drawn.findobj(Patch) if isinstance(one, Patch) and one is not drawn.patch]
    hold = [reach(one.get_window_extent(), 0) for one in boxes if one.get_visible()]
    cuts = [0.0]
    for left in range(strips - 1, 0, -1):
        even = cuts[-1] + (height - cuts[-1]) / (left + 1)
        lowest = max(cuts[-1] + _SHORTEST_IN, height - left * _TALLEST_IN * _OVER)
        highest = min(cuts[-1] + _TALLEST_IN * _OVER, height - left * _SHORTEST_IN)
        tried = [lowest + step * 0.02 for step in range(int((highest - lowest) / 0.02) + 1)]

        def cost(at: float, even: float = even) -> tuple[bool, int, float]:
            return (
                any(low < at < high for low, high in words),
                sum(low < at < high for low, high in hold),
                abs(at - even),
            )

        cuts.append(min(tried, key=cost))
    return [*cuts, height]


def turned(svg: str, cuts: Sequence[float]) -> str:
    """An SVG turned by a quarter to the right, for a phone that is held upright; what is too tall in strips
    between its ``cuts`` (inches from the top), one below the other.
    """
    found = _ROOT.search(svg)
    assert found is not None
    width = float(found["width"])
    strips = [(low * _PT, (high - low) * _PT) for low, high in itertools.pairwise(cuts)]
    across, along = max(tall for _, tall in strips), len(strips) * width
    root = found.group().replace(f'width="{found["width"]}pt"', f'width="{across:g}pt"', 1)
    root = root.replace(f'height="{found["height"]}pt"', f'height="{along:g}pt"', 1)
    root = root.replace(f'viewBox="{found["box"]}"', f'viewBox="0 0 {across:g} {along:g}"', 1)
    inside = svg[found.end() : svg.rindex("</svg>")]
    parts = []
    for number, (top, tall) in enumerate(strips):
        what = inside if number == 0 else '<use xlink:href="#whole"/>'
        what = f'<g id="whole">{what}</g>' if number == 0 and len(strips) > 1 else what
        view = f'width="{width:g}" height="{tall:g}" viewBox="0 {top:g} {width:g} {tall:g}"'
        place = f'transform="translate({across:g} {number * width:g}) rotate(90)"'
        parts.append(f"<g {place}><svg {view}>{what}</svg></g>")
    return f"{svg[: found.start()]}{root}{''.join(parts)}\n</svg>\n"


def _png(drawing: Callable[..., Figure] | Figure) -> str:
    from labcode.figures.style import style

    content = io.BytesIO()
    with style("print"):
        drawn = _drawn(drawing)
        drawn.savefig(
            content,
            format="png",
            dpi=_PRINT_DPI,
            facecolor="white",
            transparent=False,
            metadata={"Software": None},
        )
        _forget(drawn)
    return base64.b64encode(content.getvalue()).decode()


def _drawn(drawing: Callable[..., Figure] | Figure) -> Figure:
    if not callable(drawing):
        return drawing
    drawn: Any = drawing()
    if not hasattr(drawn, "savefig"):
        raise TypeError(
            f"book.figure: the drawing function returned {type(drawn).__name__}, not a matplotlib Figure"
        )
    return drawn  # type: ignore[no-any-return]


def _forget(drawn: Figure) -> None:
    """Close the figure, so that the notebook does not show it a second time."""
    import matplotlib.pyplot as plt

    plt.close(drawn)
