"""Interactive pages as files: what `labcode.book.interactive` showed in, a file and a frame for it out.

A page becomes a file beside the book's pages when Sphinx writes the page that shows it; its name holds a
digest of its content. Bokeh's script is one file for all.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes

from labcode.book.frames import SCRIPT, bokeh
from labcode.book.sphinx.noted import add_files
from labcode.outputs import whole
from labcode.show import html

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = "_interactive"  # of the built book


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
    add_files(app, 'lab-interactive"', "frames.js")


def _visit(translator: Any, node: interactive_frame) -> None:
    builder = translator.builder
    file = write_page(Path(builder.outdir) / FOLDER, node["content"])
    address = "../" * builder.current_docname.count("/") + f"{FOLDER}/{file}"
    title, name = html(node["content"]["title"]), node["content"]["name"]
    translator.body.append(
        f'<div class="lab-interactive" data-src="{address}" data-title="{title}" '
        f'data-height="{node["content"]["height"]}" data-name="{name}"><p class="lab-interactive-links">'
        f'<a href="{address}" target="_blank" rel="noopener">Open {title} in a tab of its own</a></p></div>\n'
    )
    raise nodes.SkipNode


def _depart(translator: Any, node: interactive_frame) -> None:
    raise AssertionError("the visit skips the rest")


def write_page(folder: Path, content: dict[str, Any]) -> str:
    """Write the file of a page, and Bokeh's script beside it, unless they are there; the file's name."""
    page = zlib.decompress(base64.b64decode(content["page"]))
    script = bokeh()
    script_name = f"bokeh-{_digest(script)}.js"
    page = page.replace(f'<script src="{SCRIPT}">'.encode(), f'<script src="{script_name}">'.encode(), 1)
    name = f"{content['name']}-{_digest(page)}.html"
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in ((script_name, script), (name, page)):
        path = folder / file
        if not path.is_file() or path.stat().st_size != len(data):
            with whole(path) as part:  # several processes write pages
                part.write_bytes(data)
    return name


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
