"""A text that somebody else wrote in; the same, safe to print, for a terminal, Markdown or HTML out."""

import json
import re
from html import escape

LONGEST = 4_000  # characters of a name that people are shown
_RANGES = (  # what steers a terminal or turns or hides text: controls, directions, marks without width
    *((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E)),
    *((0x200B, 0x200B), (0x200E, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xD800, 0xDFFF)),
    *((0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0xE0000, 0xE007F)),
)
_ODD = re.compile(f"[{''.join(f'{chr(low)}-{chr(high)}' for low, high in _RANGES)}]")
_LENGTH = re.compile(r"… \(([\d,]+) characters, [0-9a-f]{8}\)$")
_MARKS = re.compile(r"[\\`*\[\]~|]|(?<![^\W_])_|_(?![^\W_])")  # a _ within a word means nothing
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BEGINS = re.compile(r"[-+](?=[-+ ]|$)|[=#%:]|\d+(?=[.)](?: |$))")  # a list, a heading, a rule, a comment
_LINKED = re.compile(r"@|://|\$|[#!]\d|\bwww\.", re.IGNORECASE)  # what sites make links, mentions or math of


def visible(text: str) -> str:
    """A text whose control characters can be seen, lines and tabs kept: ``ESC [ 31 m`` → ``␛[31m``."""
    return text if text.isprintable() else _ODD.sub(_seen, text)


def _seen(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20 or code == 0x7F:
        return chr(0x2400 + min(code, 0x21))
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cut(text: str, most: int) -> str:
    """At most so many characters, with “…” where there were more."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int = LONGEST) -> str:
    """A name as one line, safe to print: no control characters, no line breaks, not endless.

    Of one longer than `LONGEST` it is said how long it is.
    """
    if len(text) > LONGEST:
        said = _LENGTH.search(text[-50:])  # a reader has shortened it
        length = said[1] if said else f"{len(text):,}"
        return f"{one_line(text[:LONGEST])[: most - 1]}… ({length} characters)"
    line = text.strip() if text.isprintable() else visible(" ".join(text.split()))
    return cut(line, most)


def html(text: str) -> str:
    """A text for HTML, within an element or a quoted attribute."""
    return escape(visible(text))


def page_data(data: object) -> str:
    """Anything JSON can hold, for a script in a page: nothing in it ends the element or turns its names."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return re.sub(r"\\(?:ud[89ab]\w\w\\ud[c-f]\w\w|u\w{4}|.)", _seen_in_json, text)


def _seen_in_json(found: re.Match[str]) -> str:
    text = json.loads(f'"{found[0]}"')
    return json.dumps(visible(text))[1:-1] if text not in "<\n\t" else found[0]


def markdown(text: str, most: int = LONGEST) -> str:
    """A text for one line, or one cell, of Markdown, that shows nothing but that text.

    Words that a site would link, that mention somebody or that hold a dollar sign become code.
    """
    words = re.split(r"([ |])", one_line(text, most))
    safe = "".join(_code(word) if _LINKED.search(word) else _escaped(word) for word in words)
    return _BEGINS.sub(_first, safe, count=1) if _BEGINS.match(safe) else safe


def _escaped(word: str) -> str:
    word = re.sub("[&<>]", lambda found: _ENTITIES[found[0]], word)
    return _MARKS.sub(r"\\\g<0>", word)


def _first(found: re.Match[str]) -> str:
    return f"{found[0]}\\" if found[0][0].isdigit() else f"\\{found[0]}"


def _code(word: str) -> str:
    """A word without spaces and bars as code."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", word)), default=0))
    space = " " if "`" in (word[0], word[-1]) else ""
    return f"{ticks}{space}{word}{space}{ticks}"
