"""Tables as text: a DataFrame with nsys' columns in, a table, CSV, JSON or Markdown out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.errors import LabError
from labcode.reports.nsys_columns import unique

FORMATS = ("table", "csv", "json", "md")
_ROWS = 1 << 16  # written at once


def write(frame: pd.DataFrame, fmt: str, stream: TextIO) -> None:
    """Write ``frame`` as 'table' (aligned), 'csv', 'json' (an array of objects) or 'md' (a Markdown table).

    Floats have three decimals in columns of megabytes and one elsewhere, as nsys prints them; missing numbers
    are empty (null in JSON). CSV follows RFC 4180 with newlines alone: a text with a comma, a quote or a line
    break is quoted, and quotes in it doubled (which nsys does not). Raises `LabError` for another format.
    """
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}")
    {"csv": _write_csv, "json": _write_json, "md": _write_markdown, "table": _write_table}[fmt](frame, stream)


def decimals(column: str) -> int:
    """How many decimals the floats of a column have."""
    return 3 if column.endswith(("(MB)", "(MB/s)")) else 1


def _write_csv(frame: pd.DataFrame, stream: TextIO) -> None:
    stream.write(",".join(_quoted(str(name)) for name in frame.columns) + "\n")
    for low in range(0, len(frame), _ROWS):
        rows = zip(*_joined(frame.iloc[low : low + _ROWS]), strict=True)
        stream.write("\n".join(map(",".join, rows)) + "\n")


def _write_json(frame: pd.DataFrame, stream: TextIO) -> None:
    stream.write("[")
    names = [json.dumps(str(name), ensure_ascii=False) for name in frame.columns]
    first = True
    for low in range(0, len(frame), _ROWS):
        part = frame.iloc[low : low + _ROWS]
        for values in zip(*(_json_texts(part, place) for place in range(len(names))), strict=True):
            fields = ", ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
            stream.write(("" if first else ",") + "\n  {" + fields + "}")
            first = False
    stream.write("\n]\n" if not first else "]\n")


def _write_markdown(frame: pd.DataFrame, stream: TextIO) -> None:
    names = [_markdown(str(name)) for name in frame.columns]
    stream.write(f"| {' | '.join(names)} |\n")
    rules = ["---:" if _is_number(frame.iloc[:, place]) else ":---" for place in range(len(names))]
    stream.write(f"| {' | '.join(rules)} |\n")
    for row in _rows(frame):
        stream.write(f"| {' | '.join(_markdown(cell) for cell in row)} |\n")


def _write_table(frame: pd.DataFrame, stream: TextIO) -> None:
    columns = [_texts(frame, place, grouped=True) for place in range(frame.shape[1])]
    names = [str(name) for name in frame.columns]
    columns = [[" ".join(cell.split("\n")) for cell in column] for column in columns]
    widths = [max(len(name), *map(len, column), 1) for name, column in zip(names, columns, strict=True)]
    right = [_is_number(frame.iloc[:, place]) for place in range(len(names))]

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
        return "  ".join(padded).rstrip() + "\n"

    stream.write(line(names))
    stream.write("  ".join("-" * width for width in widths) + "\n")
    for cells in zip(*columns, strict=True):
        stream.write(line(cells))


def _joined(frame: pd.DataFrame) -> list[list[str]]:
    """The columns as CSV fields; neighbors with few distinct values come joined, to have less to zip."""
    parts: list[list[str]] = []
    waiting: tuple[NDArray[np.int64], list[str]] | None = None

    def flush() -> None:
        nonlocal waiting
        if waiting is not None:
            parts.append(np.array([*waiting[1], ""], dtype=object)[waiting[0]].tolist())
        waiting = None

    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        few = _few(column, str(frame.columns[place]))
        if few is None:
            flush()
            parts.append(_texts(frame, place, quote=True))
            continue
        if waiting is None:
            waiting = few
            continue
        pairs, codes = unique(waiting[0] * len(few[1]) + few[0])
        if len(pairs) > len(frame) // 4 + 16:
            flush()
            waiting = few
            continue
        texts = [f"{waiting[1][p // len(few[1])]},{few[1][p % len(few[1])]}" for p in pairs.tolist()]
        waiting = codes, texts
    flush()
    return parts


def _few(column: pd.Series, name: str) -> tuple[NDArray[np.int64], list[str]] | None:
    """A column with few distinct values as codes into texts."""
    if column.dtype == np.float64:
        return None
    if column.dtype == np.int64:
        numbers, codes = unique(column.to_numpy())
        return (codes, [str(n) for n in numbers.tolist()]) if len(numbers) <= len(column) // 4 + 16 else None
    codes, values = pd.factorize(column)
    if len(values) > len(column) // 4 + 16:
        return None
    texts = [_quoted(str(value)) for value in values]
    return np.where(codes < 0, len(texts), codes).astype(np.int64), [*texts, ""]


def _texts(frame: pd.DataFrame, place: int, *, quote: bool = False, grouped: bool = False) -> list[str]:
    column, name = frame.iloc[:, place], str(frame.columns[place])
    separator = "," if grouped and "ID" not in name.upper().split() else ""
    if column.dtype == np.float64:
        form = f"{{:{separator}.{decimals(name)}f}}".format
        return ["" if math.isnan(value) else form(value) for value in column.tolist()]
    if _is_number(column):
        form = f"{{:{separator}d}}".format
        plain = str if not separator else form
        return ["" if value is pd.NA or value is None else plain(value) for value in column.tolist()]
    texts = ["" if pd.isna(value) else str(value) for value in column.tolist()]
    return [_quoted(text) for text in texts] if quote else texts


def _json_texts(frame: pd.DataFrame, place: int) -> list[str]:
    if _is_number(frame.iloc[:, place]):
        return [text or "null" for text in _texts(frame, place)]
    return [json.dumps(text, ensure_ascii=False) for text in _texts(frame, place)]


def _rows(frame: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    return zip(*(_texts(frame, place) for place in range(frame.shape[1])), strict=True)


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype) or _is_integers(column)


def _is_integers(column: pd.Series) -> bool:
    return column.dtype == object and len(column) > 0 and all(isinstance(value, int) for value in column)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text


def _markdown(text: Any) -> str:
    return " ".join(str(text).replace("|", "\\|").split("\n"))
