"""Cells of the book's pages, run without Sphinx: a page and a set in, its claims out."""

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labcode import book
from labcode.book import display, pages

PAGES = Path(__file__).parents[2] / "book"
_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTIONS = re.compile(r"\A(?:---\n.*?\n---\n|(?::[^\n]*\n)*)", re.DOTALL)


def cells(page: str) -> list[str]:
    """The code of a page's cells; ``page`` is its name below ``book/``, without the suffix."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    return [_OPTIONS.sub("", cell, count=1) for cell in _CELL.findall(text)]


def run(
    page: str,
    set_name: str,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[..., None] = lambda *_, **__: None,
) -> list[dict[str, Any]]:
    """Run a page's cells around a set; what `labcode.book.claim` showed (fields ``claim``, ``borrowed``).

    Nothing is drawn: ``figure`` gets what the page gives to `labcode.book.figure`.
    """
    shown: list[dict[str, Any]] = []
    monkeypatch.setenv("LABCODE_CAPTURES", set_name)
    monkeypatch.setattr(pages, "_taken", {})
    monkeypatch.setattr(display, "show", shown.append)
    monkeypatch.setattr(book, "figure", figure)
    monkeypatch.setattr(book, "interactive", lambda *_, **__: None)
    namespace: dict[str, Any] = {"__name__": "__main__", "In": []}
    for number, cell in enumerate(cells(page), start=1):
        name = f"<{page}, cell {number}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        namespace["In"].append(cell)
        exec(compile(cell, name, "exec"), namespace)
    return [bundle[display.CLAIM_MIME] for bundle in shown if display.CLAIM_MIME in bundle]
