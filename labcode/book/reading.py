"""How long reading a page takes: the source of a page in, minutes out.

Prose is read at 220 words a minute. A line of code that the page shows takes four seconds, a figure thirty, a
table made by a cell twenty, and each check that stands open ten. Code behind the page's switch and folded
checks take nothing.
"""

import re

WORDS_PER_MINUTE = 220
LINE_S, FIGURE_S, TABLE_S, CHECK_S = 4, 30, 20, 10
OPEN_CHECKS = 8  # labcode.book.sphinx.folding shows no more
LONGEST = 25  # minutes that a page may take
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_FENCE = re.compile(r"^(`{3,}|:{3,})(.*)$")
_FOLDED = re.compile(r"hide-input|hide-cell|remove-input|remove-cell")
_OPTION = re.compile(r"^(:[\w-]+:.*|---)$")
_SILENT = ("captures-used", "toctree", "exercise-card", "math")
_SHOWS = {"figure": FIGURE_S, "interactive": FIGURE_S, "table": TABLE_S}
_INCLUDED = 15  # lines of a file that a page shows a part of


def minutes(text: str) -> float:
    """The minutes that a page takes, not rounded."""
    words, seconds, checks = 0, 0.0, 0
    kind, fence, lines = "", "", list[str]()
    for line in _FRONT_MATTER.sub("", text).splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and line.strip() == fence:
                seconds += _seconds(kind, lines)
                checks += sum(part.count("book.claim(") for part in lines) if "code-cell" in kind else 0
                kind, fence, lines = "", "", []
            else:
                lines.append(line)
        elif mark and mark[1].startswith("`"):
            kind, fence = mark[2], mark[1]
        elif not mark:
            words += len(line.split()) if not _OPTION.match(line) else 0
    return words / WORDS_PER_MINUTE + (seconds + CHECK_S * min(checks, OPEN_CHECKS)) / 60


def _seconds(kind: str, lines: list[str]) -> float:
    """How long what stands between two fences takes."""
    name = kind.strip("{} ").split("}")[0]
    if name.startswith(_SILENT):
        return 0.0
    if name == "literalinclude":
        return LINE_S * _INCLUDED
    if name != "code-cell":
        return LINE_S * sum(1 for line in lines if line.strip() and not _OPTION.match(line))
    shown = sum(seconds * line.count(f"book.{call}(") for line in lines for call, seconds in _SHOWS.items())
    head = [line for line in lines[:6] if "tags" in line]
    if any(_FOLDED.search(line) for line in head):
        return float(shown)
    return shown + LINE_S * sum(1 for line in lines if line.strip() and not _OPTION.match(line))
