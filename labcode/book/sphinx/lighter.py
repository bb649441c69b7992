"""What a page loads before anybody asks for it: a page's markup in, the same with less of that out.

A picture is there twice, for light and for dark pages. Loaded lazily, the one that is not shown is not
loaded, and the others as they are scrolled to; with their sizes, so that nothing moves when they come.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PICTURE = re.compile(r'<img\b(?=[^>]*\bsrc="(?:\.\./)*_images/([^"/]+\.svg)")')
_SIZE = re.compile(rb'<svg\b[^>]*\bviewBox="\S+ \S+ (\S+) (\S+)"')
_SCRIPT = re.compile(r'[ \t]*<script\b[^>]*\bsrc="(?:[^"]*/)?([^"/?]+)(?:\?[^"]*)?"[^>]*></script>\n?')
# Scripts of a head that hold up the text; one is left, which is short and needed at once by what follows it.
_HOLDING = re.compile(
    r'<script (?=[^>]*\bsrc=")(?![^>]*\b(?:defer|async)\b)(?![^>]*/documentation_options\.js)'
)
_AHEAD = re.compile(r'<link rel="preload" as="script"[^>]*>\n?')  # of scripts at the end, before the styles
_UNDECIDED, _LIGHT = 'data-theme="auto"', 'data-theme="light"'
_HEAD = 4096  # bytes of an SVG file that its size is in


def register(app: Sphinx) -> None:
    """Connect to the pages as they are written."""
    app.connect("builder-inited", _light_without_scripts)
    app.connect("html-page-context", _lighten)


def lazily(markup: str, size: Callable[[str], tuple[int, int] | None]) -> str:
    """A page's markup with its SVG pictures loaded lazily; ``size`` gives a file's width and height."""

    def mark(found: re.Match[str]) -> str:
        sides = size(found[1])
        return found[0] if sides is None else f'<img loading="lazy" width="{sides[0]}" height="{sides[1]}"'

    return _PICTURE.sub(mark, markup)


def without_scripts(markup: str, *names: str) -> str:
    """A piece of a page without the scripts of these file names."""
    return _SCRIPT.sub(lambda found: "" if found[1] in names else found[0], markup)


def painted_first(page: str) -> str:
    """A whole page whose text waits for no script of its head: they run afterwards, in their order."""
    head, end, body = page.partition("</head>")
    return _AHEAD.sub("", _HOLDING.sub('<script defer="defer" ', head)) + end + body if end else page


def svg_size(path: Path) -> tuple[int, int] | None:
    """Width and height of an SVG file, rounded; ``None`` where it does not say."""
    with path.open("rb") as file:
        found = _SIZE.search(file.read(_HEAD))
    return (round(float(found[1])), round(float(found[2]))) if found else None


def _light_without_scripts(app: Sphinx) -> None:
    """Pages begin as light ones, with one copy of each picture; a script in their head goes on from there.

    The theme would leave them without any colors, and with both copies, where there are no scripts.
    """
    templates: Any = getattr(app.builder, "templates", None)
    if templates is None:
        return
    render = templates.render

    def rendered(name: str, context: dict[str, Any]) -> str:
        return painted_first(str(render(name, context)).replace(_UNDECIDED, _LIGHT, 1))

    templates.render = rendered


def _lighten(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    context["without_scripts"] = without_scripts  # for book/_templates
    if "body" in context:
        sources = {name: Path(app.srcdir, uri) for uri, name in app.builder.images.items()}
        context["body"] = lazily(
            str(context["body"]), lambda name: svg_size(sources[name]) if name in sources else None
        )
