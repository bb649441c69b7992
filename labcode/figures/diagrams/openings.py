"""A page in; the drawing that it opens with out: rows of boxes that show what the page asks about.

They hold no data and no measured number, and nothing that answers a prediction: lengths mean no more than
their order.
"""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labcode.figures.diagrams.sketch import BOX_IN, box, canvas, lane, shade, text
from labcode.figures.style import NARROW_IN, is_narrow, styled, width_in

LEFT, RIGHT = 1.35, 7.4
_UNITS = 10.0  # of a row's length
_ROW_IN, _TOP_IN = 0.36, 0.24
_MARGIN_IN, _LINES_IN = 0.04, 0.38  # beside the rows; of a box with two lines
NARROW_UNIT_IN = (NARROW_IN - 2 * _MARGIN_IN) / _UNITS
NARROW_ROOM_IN = 0.03  # beside words in a box

Box = tuple[float, float, str, str, float]  # from, to, words, role, height (0: that of all)
Rows = tuple[tuple[str, tuple[Box, ...]], ...]

WAITS = "waits"  # a role of its own: time in which nothing happens


def _boxes(pieces: Sequence[str]) -> Iterator[Box]:
    """The boxes of a row, as ``openings.toml`` describes them."""
    each = _UNITS / len(pieces)
    for place, piece in enumerate(pieces):
        where, role, *rest = piece.split(" ", 2)
        words = rest[0] if rest else ""
        if where == "=":
            yield each * place, each * (place + 1) - 0.12, words, role, 0.0
        elif "+" in where:
            starts, _, length = where.partition("+")
            for start in map(float, starts.split(",")):
                yield start, start + float(length), words, role, 0.0
        else:
            span, _, height = where.partition("^")
            start, end = map(float, span.split("-"))
            yield start, end, words, role, float(height or 0)


def _read() -> dict[str, Rows]:
    pages = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    rows = {page: [line.split(" | ") for line in lines] for page, lines in pages.items()}
    return {page: tuple((row[0], tuple(_boxes(row[1:]))) for row in of) for page, of in rows.items()}


OPENINGS = _read()  # by page


@styled
def opening(page: str) -> Figure:
    """What a page opens with; on narrow screens the same rows, with their names above them."""
    if is_narrow():
        return _narrow(page)
    rows = OPENINGS[page]
    figure, axes = canvas(2 * _TOP_IN + _ROW_IN * (len(rows) - 1))
    for number, (label, boxes) in enumerate(rows):
        y = _TOP_IN + _ROW_IN * number
        lane(axes, y, label, LEFT, RIGHT)
        for one in boxes:
            _draw(axes, one, y, LEFT + 0.1, (RIGHT - LEFT - 0.1) / _UNITS)
    return figure


def _narrow(page: str) -> Figure:
    rows = [(label, [_wrapped(one) for one in boxes]) for label, boxes in OPENINGS[page]]
    heights = [max([BOX_IN, *(_LINES_IN for _, _, words, *_ in boxes if "\n" in words)]) for _, boxes in rows]
    figure, axes = canvas(sum(heights) + sum(_gap(label) for label, _ in rows) + _MARGIN_IN, NARROW_IN)
    y = 0.0
    for (label, boxes), height in zip(rows, heights, strict=True):
        y += _gap(label)
        text(axes, _MARGIN_IN, y - 0.12, label)
        for one in boxes:
            _draw(axes, one, y + height / 2, _MARGIN_IN, NARROW_UNIT_IN, height)
        y += height
    return figure


def _gap(label: str) -> float:
    return 0.3 if label else 0.06


def _draw(axes: Axes, one: Box, y: float, left: float, unit: float, height: float = BOX_IN) -> None:
    start, end, words, role, own = one
    first, last = left + unit * start, left + unit * end
    if role == WAITS:
        shade(axes, first, last, y, words, height=height)
    else:
        box(axes, first, last, y, words, role, height=own or height)


def _wrapped(one: Box) -> Box:
    """A box with its words on as many lines as its narrow form needs."""
    start, end, words, role, height = one
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if width_in(longer) <= NARROW_UNIT_IN * (end - start) - NARROW_ROOM_IN or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return start, end, "\n".join(lines), role, height
