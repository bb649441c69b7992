"""Figures of a page: a drawing function in, the same picture for light pages, dark pages and print out."""

from __future__ import annotations

import base64
import inspect
import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from labcode.book import display

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from labcode.figures.sources import Checked, Table

Mode = Literal["light", "dark", "print"]

_SHORTEST_ALT = 20
_PRINT_DPI = 150


def figure(
    drawing: Callable[..., Figure] | Figure,
    *,
    alt: str,
    caption: str | None = None,
    data: Table | None = None,
) -> None:
    """Show a figure: in the colors of the page it stands on, light or dark; print and notebooks get it on
    white.

    ``drawing`` is a function that draws and returns a matplotlib ``Figure``. It is called once under each
    ``labcode.figures.style.style(mode)`` and may take that mode as its one argument. (A ``Figure`` drawn
    already is shown on white everywhere.) ``alt`` says in a sentence or two what the figure shows, for those
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
    """What `figure` shows: light, dark (SVG), both once more for narrow screens where the drawing has such a
    form, png (none for the web alone), alt, caption; and what of it
    ``differs`` from its source."""
    alt = " ".join(alt.split())
    if len(alt) < _SHORTEST_ALT:
        raise ValueError(f"book.figure: alt={alt!r} is no description; say what is drawn and what stands out")
    from labcode.figures.sources import check

    read: list[Checked] = []
    light, narrow_light = _svg(drawing, "light", lambda drawn: read.append(check(drawn, data)))
    dark, narrow_dark = _svg(drawing, "dark") if callable(drawing) else (None, None)
    return {
        "light": light,
        "dark": dark,
        "narrow": [narrow_light, narrow_dark] if narrow_light and narrow_dark else None,
        "png": None if os.environ.get(display.WEB_ALONE) else _png(drawing),
        "alt": alt,
        "caption": caption or "",
        "differs": [line for one in read for line in one.differences],
    }


def _svg(
    drawing: Callable[..., Figure] | Figure, mode: Mode, look: Callable[[Figure], None] = lambda _: None
) -> tuple[str, str | None]:
    from labcode.figures.style import figure_bytes, narrow_of, style

    with style(mode):
        drawn = _drawn(drawing, mode)
        try:
            look(drawn)
            narrow = narrow_of(drawn)
            wide = figure_bytes(drawn, "svg").decode()
            return wide, None if narrow is None else figure_bytes(narrow, "svg").decode()
        finally:
            _forget(drawn)


def _png(drawing: Callable[..., Figure] | Figure) -> str:
    from labcode.figures.style import style

    content = io.BytesIO()
    with style("print"):
        drawn = _drawn(drawing, "print")
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


def _drawn(drawing: Callable[..., Figure] | Figure, mode: Mode) -> Figure:
    if not callable(drawing):
        return drawing
    takes_mode = any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in inspect.signature(drawing).parameters.values()
    )
    drawn: Any = drawing(mode) if takes_mode else drawing()
    if not hasattr(drawn, "savefig"):
        raise TypeError(
            f"book.figure: the drawing function returned {type(drawn).__name__}, not a matplotlib Figure"
        )
    return drawn  # type: ignore[no-any-return]


def _forget(drawn: Figure) -> None:
    """Close the figure, so that the notebook does not show it a second time."""
    import matplotlib.pyplot as plt

    plt.close(drawn)
