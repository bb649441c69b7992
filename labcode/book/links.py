"""Links of a built book: a folder of HTML pages in, the local links that lead nowhere out."""

import os
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

_THEMES_OWN = "_static"  # templates of packages, no pages
# A start tag, or what may look so but is none. A parser takes four times as long, while no page is built.
_TAG = re.compile(
    r"<!--.*?-->|<(script|style)\b(?P<attributes>(?:[^>\"']|\"[^\"]*\"|'[^']*')*)>.*?</\1\s*>"
    r"|<[a-z][^\s>/]*(?P<others>(?:[^>\"']|\"[^\"]*\"|'[^']*')*)>",
    re.DOTALL | re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""([^\s"'=/]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"']+))?""")


def broken_links(folder: Path) -> list[str]:
    """One line for each ``href`` or ``src`` of a page in ``folder`` that names no file of the folder, or no
    place of the page it names. Addresses of other hosts are not followed.
    """
    paths = (path for path in sorted(folder.rglob("*.html")) if path.parts[len(folder.parts)] != _THEMES_OWN)
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in paths}
    found = []
    for path, page in pages.items():
        for address in page.addresses:
            if problem := _problem(address, path, folder, pages):
                found.append(f"{path.relative_to(folder).as_posix()}: link to {address}: {problem}")
    return found


class _Page:
    """The addresses that a page links to, and the places in it that a link can name."""

    def __init__(self, text: str) -> None:
        self.addresses: dict[str, None] = {}
        self.places = {"", "top"}
        for tag in _TAG.finditer(text):
            for name, given in _ATTRIBUTE.findall(tag["attributes"] or tag["others"] or ""):
                if name in ("href", "src"):
                    self.addresses[unescape(given.strip("\"'"))] = None
                elif name == "id" and given:
                    self.places.add(unescape(given.strip("\"'")))


def _problem(address: str, path: Path, folder: Path, pages: Mapping[Path, _Page]) -> str:
    """Why an address on the page at ``path`` leads nowhere; an empty text where it leads somewhere."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return ""
    target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
    if not target.is_relative_to(folder):
        return "outside of the book"
    if not target.is_file():
        return "no such file"
    if target in pages and unquote(parts.fragment) not in pages[target].places:
        return "no such place on that page"
    return ""
