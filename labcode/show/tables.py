"""Cells in; a table out, aligned, in Markdown, HTML or CSV; and what holds tables: text, Markdown, JSON."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from labcode.errors import LabError
from labcode.show.text import html, markdown, one_line

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
