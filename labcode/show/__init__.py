"""How numbers, names and tables look, once for every command, page and benchmark.

Whatever people read goes through here: on a terminal, in Markdown and in HTML no name steers, links or turns
the text around it. CSV and JSON in files and pipes keep names as they were recorded, for programs.
"""

import itertools
import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from labcode.errors import LabError

# ---- numbers, with their units, or as JSON knows them ----

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))  # nanoseconds
_DECIMAL = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_BINARY = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def time_text(ns: float, digits: int = 3) -> str:
    """Nanoseconds for people: '12.3 ms'."""
    return _in_units(ns, _TIMES, digits)


def byte_text(count: float, *, binary: bool = False, space: str = " ") -> str:
    """A size for people: '1.26 GB', or in binary units '1.17 GiB'."""
    return _in_units(count, _BINARY if binary else _DECIMAL, 3, space)


def _in_units(value: float, units: tuple[tuple[float, str], ...], digits: int, space: str = " ") -> str:
    """In the largest unit that leaves at least 1 when it is rounded; whole digits are never cut."""
    for place, (size, unit) in enumerate(units):
        rounded = float(f"{value / size:.{digits}g}")
        if abs(rounded) >= 1 or place == len(units) - 1:
            whole = abs(rounded) >= 10**digits
            return f"{value / size:,.0f}{space}{unit}" if whole else f"{rounded:,g}{space}{unit}"
    raise AssertionError(units)


def period(seconds: float) -> str:
    """How long people wait, in a few words: 45 s, 12 min, 1 h 05 min."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def percent(share: float) -> str:
    """A share for people: '12.3 %'; never 100.0 % for less than all."""
    return f"{100 * share:.1f} %" if share < 0.995 or share >= 1 else f"{100 * share:.2f} %"


def whole_percent(share: float) -> str:
    """A share in whole percent, for pictures; never 0% for something or 100% for less than all."""
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 < share < 1:
        return ">99%"
    return f"{share:.0%}"


def number(value: float) -> str:
    """A number with three significant digits, in scientific notation only below 0.0001."""
    if value < 0:
        return "−" + number(-value)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    decimals = 2 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, decimals)}f}" if abs(value) >= 1e-4 else f"{value:.2e}"


def value_text(value: object, *, share: bool = False) -> str:
    """A value of a table for people: thousands apart, two decimals where they matter; texts as they are."""
    known = jsonable(value)
    if known is None:
        return ""
    if isinstance(known, bool):
        return "yes" if known else "no"
    if isinstance(known, int):
        return f"{known:,}"
    if not isinstance(known, float):
        return str(known)
    if share:
        return f"{100 * known:.2f} %"
    if abs(known) >= 1e6 or known == int(known):
        return f"{known:,.0f}"
    return f"{known:,.2f}" if abs(known) >= 0.1 else f"{known:.3g}"


def jsonable(value: Any, *, whole: bool = False) -> Any:
    """What JSON knows of a value, of all in a dict or list; missing and infinite numbers are null.

    With ``whole`` floats without fraction become whole numbers.
    """
    if type(value) is int or type(value) is str:  # most are; to ask an abstract class takes long
        return value
    if isinstance(value, dict):
        return {name: jsonable(inner, whole=whole) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(inner, whole=whole) for inner in value]
    if value is None or isinstance(value, bool | str):
        return value
    if type(value).__name__ in ("bool", "bool_"):  # of NumPy
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        known = float(value)
        if whole and known.is_integer() and abs(known) < 2**53:
            return int(known)
        return known if math.isfinite(known) else None
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)


# ---- texts of others, safe to print, for a terminal, Markdown or HTML ----

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
    from html import escape  # whose table of entities few starts need

    return escape(visible(text))


def page_data(data: object) -> str:
    """Anything JSON can hold, for a script in a page: nothing in it ends the element or turns its names."""
    import json

    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return re.sub(r"\\(?:ud[89ab]\w\w\\ud[c-f]\w\w|u\w{4}|.)", _seen_in_json, text)


def _seen_in_json(found: re.Match[str]) -> str:
    import json

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


# ---- tables, and what holds them ----

CELLS: dict[str, Callable[..., str]] = {"table": one_line, "md": markdown}  # a text, at most how long
_SPECIAL = ',"\n\r'  # what has a text quoted in CSV


def grid(
    fmt: str, heads: Sequence[str], right: Sequence[bool], rows: Callable[[], Iterable[Sequence[str]]]
) -> Iterator[str]:
    """The lines of a table in 'table' or 'md'; cells come as `CELLS` make them, ``right`` has numbers.

    Of an aligned one the rows are made twice, for all of them may be too many to hold.
    """
    heads = list(map(CELLS[fmt], heads))
    if fmt == "md":
        yield f"| {' | '.join(heads)} |\n"
        yield f"| {' | '.join('---:' if number else ':---' for number in right)} |\n"
        for row in rows():
            yield f"| {' | '.join(row)} |\n"
        return
    widths = list(map(len, heads))
    for row in rows():
        widths = list(map(max, widths, map(len, row)))
    for row in itertools.chain((heads, ["-" * width for width in widths]), rows()):
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        yield "  ".join(cells).rstrip() + "\n"


def csv_cells(texts: Sequence[str]) -> list[str]:
    """Texts as CSV has them; nearly always none of them needs quotes, which is quicker to ask of all."""
    whole = "".join(texts)
    if not any(mark in whole for mark in _SPECIAL):
        return list(texts)
    return [
        '"' + text.replace('"', '""') + '"' if any(mark in text for mark in _SPECIAL) else text
        for text in texts
    ]


def html_table(
    heads: Sequence[str], right: Sequence[bool], rows: Iterable[Sequence[str]], caption: str = ""
) -> str:
    """A table in HTML; the cells are any texts."""

    def line(tag: str, cells: Sequence[str]) -> str:
        sides = ("right" if number else "left" for number in right)
        inner = (
            f'<{tag} style="text-align: {s}">{html(c)}</{tag}>' for c, s in zip(cells, sides, strict=True)
        )
        return f"<tr>{''.join(inner)}</tr>"

    named = f"<caption>{html(caption)}</caption>" if caption else ""
    body = "".join(line("td", row) for row in rows)
    return f"<table>{named}<thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>"


def html_facts(title: str, facts: Mapping[str, str], lines: Iterable[str] = ()) -> str:
    """What a notebook shows of something: its title, facts by name, lines below; all of them any texts."""
    left = 'style="text-align: left"'
    rows = "".join(
        f"<tr><th {left}>{html(name)}</th><td {left}>{html(fact)}</td></tr>" for name, fact in facts.items()
    )
    below = "".join(f"<p>{html(line)}</p>" for line in lines)
    return f"<p><strong>{html(title)}</strong></p>" + (f"<table>{rows}</table>" if rows else "") + below


FORMATS = ("table", "csv", "json", "md")


def check_format(fmt: str, formats: Sequence[str] = FORMATS) -> None:
    """`LabError` for a format that is none of these."""
    if fmt not in formats:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(formats)}")


def write_json(document: object, stream: TextIO, *, indent: int = 2) -> None:
    """A document for programs, names as they were recorded."""
    import json  # which most tables do without

    json.dump(document, stream, indent=indent, ensure_ascii=False)
    stream.write("\n")


def write_csv(table: Any, stream: TextIO, *, digits: int | None = None) -> None:
    """A DataFrame for programs, with all its digits or so many significant ones."""
    form = None if digits is None else f"%.{digits}g"
    table.to_csv(stream, index=False, float_format=form, lineterminator="\n")


class Paper:
    """A stream that people read, as 'table' or 'md': whatever is written is one line each, and safe."""

    def __init__(self, fmt: str, stream: TextIO) -> None:
        self.md = fmt == "md"
        self._fmt, self._stream = fmt, stream
        self.text = CELLS[fmt]

    def heading(self, text: str, level: int = 2, *, first: bool = False) -> None:
        """A heading, after an empty line unless it is the ``first``."""
        mark, end = ("#" * level + " ", "\n\n") if self.md else ("", "\n")
        self._stream.write("\n" * (not first) + mark + self.text(text) + end)

    def points(self, texts: Iterable[str]) -> None:
        """A list."""
        bullet = "- " if self.md else ""
        for text in texts:
            indent = "  " * (text.startswith("  ")) if not self.md else ""
            self._stream.write(f"{bullet}{indent}{self.text(text.lstrip())}\n")

    def table(
        self, heads: Sequence[str], right: Sequence[bool], rows: Callable[[], Iterable[Sequence[str]]]
    ) -> None:
        """A table of cells as `CELLS` make them."""
        self._stream.writelines(grid(self._fmt, heads, right, rows))
