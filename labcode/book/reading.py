"""How long reading a page takes: a page's file in, minutes out.

Prose is read at 220 words a minute. A line of code that the page shows takes four seconds, a figure thirty, a
table made by a cell twenty, and each check that stands open ten. Code behind the page's switch, checks that
are folded, and what is in a dropdown take nothing.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

WORDS_PER_MINUTE = 220
LINE_S, FIGURE_S, TABLE_S, CHECK_S = 4, 30, 20, 10
OPEN_CHECKS = 8  # labcode.book.sphinx.folding shows no more
LONGEST = 25  # minutes that a page may take
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_FENCE = re.compile(r"^(`{3,}|:{3,})(.*)$")
_FOLDED = re.compile(r"hide-input|hide-cell|remove-input|remove-cell")
_OPTION = re.compile(r"^(:[\w-]+:.*|---)$")
_NUMERIC = ("dedent", "lineno-start")
_SILENT = ("captures-used", "toctree", "exercise-card", "math")
_SHOWS = {"figure": FIGURE_S, "interactive": FIGURE_S, "table": TABLE_S}


def minutes(page: Path) -> float:
    """The minutes that a page takes, not rounded; needs Sphinx where the page shows a part of a file."""
    words, seconds, checks = 0, 0.0, 0
    kind, fence, lines, folded = "", "", list[str](), ""
    for line in _FRONT_MATTER.sub("", page.read_text(encoding="utf-8")).splitlines():
        mark = _FENCE.match(line)
        if folded:
            folded = "" if line.strip() == folded else folded
        elif fence:
            if mark and line.strip() == fence:
                seconds += _seconds(kind, lines, page.parent)
                checks += sum(part.count("book.claim(") for part in lines) if "code-cell" in kind else 0
                kind, fence, lines = "", "", []
            else:
                lines.append(line)
        elif mark and mark[2].startswith("{dropdown}"):
            folded = mark[1]
        elif mark and mark[1].startswith("`"):
            kind, fence = mark[2], mark[1]
        elif not mark:
            words += len(line.split()) if not _OPTION.match(line) else 0
    return words / WORDS_PER_MINUTE + (seconds + CHECK_S * min(checks, OPEN_CHECKS)) / 60


def _seconds(kind: str, lines: list[str], folder: Path) -> float:
    """How long what stands between two fences takes."""
    name, _, argument = kind.strip().removeprefix("{").partition("}")
    if name.startswith(_SILENT):
        return 0.0
    if name == "literalinclude":
        return LINE_S * _included(folder / argument.strip(), lines)
    code = sum(1 for line in lines if line.strip() and not _OPTION.match(line))
    if name != "code-cell":
        return LINE_S * code
    shown = sum(seconds * line.count(f"book.{call}(") for line in lines for call, seconds in _SHOWS.items())
    if any(_FOLDED.search(line) for line in lines[:6] if "tags" in line):
        return float(shown)
    return shown + LINE_S * code


def _included(file: Path, lines: list[str]) -> int:
    """How many lines of a file a page shows."""
    from sphinx.directives.code import LiteralIncludeReader

    options: dict[str, Any] = {}
    for line in lines:
        if found := re.match(r":([\w-]+): *(.*)$", line):
            value = json.loads(found[2]) if found[2].startswith('"') else found[2].strip("'")
            options[found[1]] = int(value or 0) if found[1] in _NUMERIC else value
    options.pop("dedent", None)
    config: Any = SimpleNamespace(source_encoding="utf-8")
    text, _ = LiteralIncludeReader(str(file), options, config).read()
    return sum(1 for line in text.splitlines() if line.strip())
