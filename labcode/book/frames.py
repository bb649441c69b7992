"""Interactive pages inside the book: a self-contained HTML page in, a frame with it on the book's page out.

Readers see the still figure until they ask for the frame, so that a page loads no more than it shows first.
The page travels inside the cell's output, compressed and without Bokeh's script, so it is there whenever the
output is, also when the cell was not executed again. `labcode.book.sphinx.framing` makes it a file.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from labcode.book import display
from labcode.book.figures import figure_content

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHTS = (200, 1200)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
SCRIPT = "bokeh.js"


def interactive(
    page: Callable[[], str] | str,
    *,
    name: str,
    title: str,
    fallback: Callable[..., Figure] | Figure,
    alt: str,
    height: int = 480,
    caption: str | None = None,
) -> None:
    """Show an interactive page of `labcode.figures` (a timeline, a flame graph) in a frame.

    ``page`` gives its HTML. ``name`` names its file, ``title`` says what is in the frame to those who do not
    see it, ``height`` is in pixels. ``fallback`` draws the same as a still figure, with ``alt`` and
    ``caption`` as for `labcode.book.figure`: it is what readers see first, and all that print, notebooks and
    browsers without scripts show.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"book.interactive: name={name!r}: use lower-case letters, digits and -")
    if not _HEIGHTS[0] <= height <= _HEIGHTS[1]:
        raise ValueError(f"book.interactive: height={height}: choose {_HEIGHTS[0]} to {_HEIGHTS[1]} pixels")
    figure = figure_content(fallback, alt=alt, caption=caption)
    content = {
        "page": base64.b64encode(
            zlib.compress(_without_bokeh(page() if callable(page) else page), 9)
        ).decode(),
        "name": name,
        "title": " ".join(title.split()),
        "height": height,
        "figure": figure,
    }
    display.show(
        {
            display.INTERACTIVE_MIME: content,
            "image/png": figure["png"],
            "text/plain": f"Interactive: {content['title']}",
        }
    )


def _without_bokeh(page: str) -> bytes:
    """The page with a link in place of Bokeh's script."""
    return page.replace(
        f"<script>{bokeh().decode()}</script>", f'<script src="{SCRIPT}"></script>', 1
    ).encode()


def bokeh() -> bytes:
    """Bokeh's script."""
    from labcode.figures.pages.interactive import bokeh_script

    return bokeh_script().encode()
