"""What a figure says and where: its texts with their extents on the page, found by the renderer."""

import warnings
from dataclasses import dataclass
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from labcode.figures.style import style

SLACK_PX = 1.0


@dataclass(frozen=True)
class Written:
    text: str
    size: float
    color: str
    box: Bbox


def texts(figure: Figure) -> list[Written]:
    """All visible texts of a figure."""
    found = []
    with style("light"), warnings.catch_warnings():  # text is laid out as it is when a figure is saved
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
        figure.draw(renderer)
        undrawn = _ticks_beyond_the_axis(figure)
        for artist in figure.findobj(Text):
            if artist.get_visible() and artist.get_text().strip() and artist not in undrawn:
                box = Text.get_window_extent(artist, renderer)
                color = str(artist.get_color())
                found.append(Written(artist.get_text(), float(artist.get_fontsize()), color, box))
    return found


def _ticks_beyond_the_axis(figure: Figure) -> set[Text]:
    labels = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if not low <= tick.get_loc() <= high:
                    labels |= {tick.label1, tick.label2}
    return labels


def words(figure: Figure) -> list[str]:
    return [item.text for item in texts(figure)]


def overlaps(written: list[Written]) -> list[tuple[str, str]]:
    """Pairs of texts that cover each other."""
    pairs = []
    for one, two in combinations(written, 2):
        width = min(one.box.x1, two.box.x1) - max(one.box.x0, two.box.x0)
        height = min(one.box.y1, two.box.y1) - max(one.box.y0, two.box.y0)
        if width > SLACK_PX and height > SLACK_PX:
            pairs.append((one.text, two.text))
    return pairs


def outside(written: list[Written], page: Bbox) -> list[str]:
    """Texts that leave the page."""
    return [
        item.text
        for item in written
        if item.box.x0 < page.x0 - SLACK_PX
        or item.box.x1 > page.x1 + SLACK_PX
        or item.box.y0 < page.y0 - SLACK_PX
        or item.box.y1 > page.y1 + SLACK_PX
    ]


def assert_readable(figure: Figure) -> None:
    """No text covers another, leaves the page, is smaller than 8 pt or is left over of a formula."""
    written = texts(figure)
    assert overlaps(written) == []
    assert outside(written, figure.bbox) == []
    assert not [item.text for item in written if "mathdefault" in item.text]
    assert min(item.size for item in written) >= 8
