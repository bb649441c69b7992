"""What is told in; headings, points, tables as plain text or Markdown out, for programs CSV and JSON."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from labcode.errors import LabError
from labcode.show.tables import CELLS, grid

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
