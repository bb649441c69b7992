"""Links of a built book: a folder of HTML pages in, the local links that lead nowhere out."""

import os
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_THEMES_OWN = "_static"  # templates of packages, no pages


def broken_links(folder: Path) -> list[str]:
    """One line for each ``href`` or ``src`` of a page in ``folder`` that names no file of the folder, or no
    place of the page it names. Addresses of other hosts are not followed.
    """
    paths = (path for path in sorted(folder.rglob("*.html")) if path.parts[len(folder.parts)] != _THEMES_OWN)
    pages = {path: _read(path) for path in paths}
    found = []
    for path, page in pages.items():
        for address in page.addresses:
            if problem := _problem(address, path, folder, pages):
                found.append(f"{path.relative_to(folder).as_posix()}: link to {address}: {problem}")
    return found


class _Page(HTMLParser):
    """The addresses that a page links to, and the places in it that a link can name."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: dict[str, None] = {}
        self.places = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src"):
                self.addresses[value or ""] = None
            elif name == "id" and value:
                self.places.add(value)


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


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
