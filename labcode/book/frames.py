"""Interactive pages inside the book: a self-contained HTML page in, a frame with it on the book's page out.

Readers see the still figure until they ask for the frame, so that a page loads no more than it shows first.
The page travels inside the cell's output, compressed and without Bokeh's script, so it is there whenever the
output is, also when the cell was not executed again. It becomes a file beside the book's pages when Sphinx
writes the page that shows it; its name holds a digest of its content. Bokeh's script is one file for all.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes

from labcode.book import display
from labcode.book.figures import figure_content
from labcode.outputs import whole
from labcode.show import html

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from sphinx.application import Sphinx

FOLDER = "_interactive"  # of the built book
_HEIGHTS = (200, 1200)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_SCRIPT = "bokeh.js"


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


class interactive_frame(nodes.General, nodes.Element):  # noqa: N801 (docutils names node classes in lower case)
    """A frame with a page; its attribute ``content`` holds what `interactive` showed, without the figure."""


def frame_nodes(content: dict[str, Any], still: list[nodes.Element]) -> list[nodes.Element]:
    """The still figure (of `render.figure_nodes`), and for HTML what opens the frame in its place."""
    web, *paper = still
    for drawn in web.children:
        drawn["classes"].append("lab-interactive-still")  # type: ignore[index]
    frame = addnodes.only(expr="html")
    frame += interactive_frame(content={key: value for key, value in content.items() if key != "figure"})
    return [web, frame, *paper]


def register(app: Sphinx) -> None:
    """Add the node to the application, and the script that opens frames to the pages that have one."""
    app.add_node(interactive_frame, html=(_visit, _depart))
    app.connect("html-page-context", _add_script)


def _add_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    if 'class="lab-interactive"' in str(context.get("body", "")):
        app.add_js_file("frames.js", loading_method="defer")


def _visit(translator: Any, node: interactive_frame) -> None:
    builder = translator.builder
    file = write_page(Path(builder.outdir) / FOLDER, node["content"])
    address = "../" * builder.current_docname.count("/") + f"{FOLDER}/{file}"
    title = html(node["content"]["title"])
    translator.body.append(
        f'<div class="lab-interactive" data-src="{address}" data-title="{title}" '
        f'data-height="{node["content"]["height"]}"><p class="lab-interactive-links">'
        f'<a href="{address}" target="_blank" rel="noopener">Open {title} in a tab of its own</a></p></div>\n'
    )
    raise nodes.SkipNode


def _depart(translator: Any, node: interactive_frame) -> None:
    raise AssertionError("the visit skips the rest")


def write_page(folder: Path, content: dict[str, Any]) -> str:
    """Write the file of a page, and Bokeh's script beside it, unless they are there; the file's name."""
    page = zlib.decompress(base64.b64decode(content["page"]))
    script = _bokeh()
    script_name = f"bokeh-{_digest(script)}.js"
    page = page.replace(f'<script src="{_SCRIPT}">'.encode(), f'<script src="{script_name}">'.encode(), 1)
    name = f"{content['name']}-{_digest(page)}.html"
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in ((script_name, script), (name, page)):
        path = folder / file
        if not path.is_file() or path.stat().st_size != len(data):
            with whole(path) as part:  # several processes write pages
                part.write_bytes(data)
    return name


def _without_bokeh(page: str) -> bytes:
    """The page with a link in place of Bokeh's script."""
    return page.replace(
        f"<script>{_bokeh().decode()}</script>", f'<script src="{_SCRIPT}"></script>', 1
    ).encode()


def _bokeh() -> bytes:
    from labcode.figures.pages.interactive import bokeh_script

    return bokeh_script().encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
