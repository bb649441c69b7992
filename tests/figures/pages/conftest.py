"""Pages in a browser."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # a GPU machine may lack what it imports
    from tests.book.check_browser import Browser

Opened = Callable[..., "Browser"]


@pytest.fixture
def opened(tab: "Browser", tmp_path: Path) -> Opened:
    """Opens a page from disk and waits until it is drawn."""

    def show(page: str, width: int = 1000, scheme: str = "light") -> "Browser":
        path = tmp_path / "page.html"
        path.write_text(page, encoding="utf-8")
        tab.size(width)
        tab.scheme(scheme)
        tab.open(path.as_uri())
        tab.wait("document.documentElement.dataset.ready === 'true'")
        return tab

    return show
