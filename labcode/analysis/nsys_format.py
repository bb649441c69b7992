"""Tables as text: nsys' columns in; an aligned table, CSV, JSON or Markdown out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import numpy as np

from labcode.analysis.nsys_table import Table, Texts, Values, from_frame, length
from labcode.errors import LabError
from labcode.reports.nsys_columns import Column, Ints, Objects, unique

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("table", "csv", "json", "md")
_ROWS = 1 << 16  # written at once
_FEW = (
    8  # a column with fewer distinct values than one in so many rows is written through a list of its texts
)
_COUNTS = ("Instances", "Num Calls", "Count", "QCount", "NVTX Inst", "Kern Inst", "Range Instances")


@dataclass(frozen=True)
class _Coded:
    """A column whose values are few: a code into texts for each row."""

    codes: Ints
    texts: list[str]


@dataclass(frozen=True)
class _Listed:
    """A column whose values are many: a function that gives the texts of some rows."""

    texts: Callable[[int, int], list[str]]


def write(table: pd.DataFrame | Table, fmt: str, stream: TextIO) -> None:
    """Write a DataFrame or a table of columns as 'table', 'csv', 'json' (an array of objects) or 'md'.

    Floats have three decimals in columns of megabytes and one elsewhere, as nsys prints them; missing numbers
    are empty (null in JSON). CSV follows RFC 4180 with newlines alone: a text with a comma, a quote or a line
    break is quoted, and quotes in it doubled (which nsys does not). Raises `LabError` for another format.
    """
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}")
    columns = table if isinstance(table, dict) else from_frame(table)  # type: ignore[arg-type]
    {"csv": _write_csv, "json": _write_json, "md": _write_markdown, "table": _write_table}[fmt](
        columns, stream
    )


def decimals(column: str) -> int:
    """How many decimals the floats of a column have."""
    return 3 if column.endswith(("(MB)", "(MB/s)")) else 1


def _write_csv(table: Table, stream: TextIO) -> None:
    stream.write(",".join(map(_quoted, table)) + "\n")
    fields = [_field(name, values, _quoted) for name, values in table.items()]
    for rows in _chunks(_joined(fields, ","), length(table)):
        stream.write("\n".join(map(",".join, rows)) + "\n")


def _write_json(table: Table, stream: TextIO) -> None:
    fields = [_field(name, values, json.dumps, missing="null") for name, values in table.items()]
    names = [f"{json.dumps(name)}: " for name in table]
    separator = "[\n  {"
    for rows in _chunks(
        _joined([_led(field, name) for field, name in zip(fields, names, strict=True)], ", "), length(table)
    ):
        stream.write(separator + "},\n  {".join(map(", ".join, rows)))
        separator = "},\n  {"
    stream.write("}\n]\n" if separator.startswith("}") else "[]\n")


def _write_markdown(table: Table, stream: TextIO) -> None:
    stream.write(f"| {' | '.join(map(_markdown, table))} |\n")
    rules = (":---" if isinstance(values, Texts) else "---:" for values in table.values())
    stream.write(f"| {' | '.join(rules)} |\n")
    fields = [_field(name, values, _markdown) for name, values in table.items()]
    for rows in _chunks(fields, length(table)):
        stream.writelines(f"| {' | '.join(row)} |\n" for row in rows)


def _write_table(table: Table, stream: TextIO) -> None:
    fields = [_field(name, values, _one_line, grouped=_is_amount(name)) for name, values in table.items()]
    rows = [tuple(table)]
    for chunk in _chunks(fields, length(table)):
        rows += chunk
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    right = [not isinstance(values, Texts) for values in table.values()]
    for row in rows:
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        stream.write("  ".join(cells).rstrip() + "\n")


def _chunks(fields: Sequence[_Coded | _Listed], count: int) -> Iterator[Iterator[tuple[str, ...]]]:
    """The rows, some at a time."""
    tables: list[Objects | None] = [
        np.array([*field.texts, ""], dtype=object) if isinstance(field, _Coded) else None for field in fields
    ]
    for low in range(0, count, _ROWS):
        high = min(low + _ROWS, count)
        columns = [
            field.texts(low, high) if isinstance(field, _Listed) else texts[field.codes[low:high]].tolist()  # type: ignore[index]
            for field, texts in zip(fields, tables, strict=True)
        ]
        yield zip(*columns, strict=True)


def _field(
    name: str, values: Values, text: Callable[[str], str], *, missing: str = "", grouped: bool = False
) -> _Coded | _Listed:
    """A column as texts; ``text`` prepares a text for the format, ``grouped`` asks for 1,000, not 1000."""
    if isinstance(values, Texts):
        return _Coded(values.codes, [*map(text, values.texts), text("")])
    number = f"{{:{',' if grouped else ''}{f'.{decimals(name)}f' if _is_float(values) else 'd'}}}".format
    if isinstance(values, Column):
        return _numbers(values.values, values.present, str if not grouped else number, missing)
    if values.dtype == np.float64:
        return _numbers(values, ~np.isnan(values), number, missing)
    return _numbers(values, None, str if not grouped else number, missing)


def _numbers(
    values: np.ndarray[tuple[int], np.dtype[np.generic]],
    present: np.ndarray[tuple[int], np.dtype[np.bool_]] | None,
    text: Callable[[object], str],
    missing: str,
) -> _Coded | _Listed:
    some = values if present is None else values[present]
    few = _few(some)
    if few is not None:
        numbers, codes = few
        texts = [*map(text, numbers.tolist()), missing]
        if present is None:
            return _Coded(codes, texts)
        every = np.full(len(values), -1, np.int64)
        every[present] = codes
        return _Coded(every, texts)

    def texts_of(low: int, high: int) -> list[str]:
        part = list(map(text, values[low:high].tolist()))
        if present is not None and not present[low:high].all():
            for place in np.flatnonzero(~present[low:high]).tolist():
                part[place] = missing
        return part

    return _Listed(texts_of)


def _few(values: np.ndarray[tuple[int], np.dtype[np.generic]]) -> tuple[np.ndarray, Ints] | None:
    """Distinct values and codes into them, where they are few and quickly found."""
    if values.dtype == object:
        return None
    if len(values) < 64 or values.dtype == np.float64:
        if values.dtype == np.float64 and len(np.unique(values[:4096])) > 512:
            return None
        numbers, codes = np.unique(values, return_inverse=True)
        return numbers, codes.astype(np.int64)
    if int(values.max()) - int(values.min()) >= len(values) // _FEW and len(np.unique(values[:4096])) > 512:
        return None
    numbers, codes = unique(values.astype(np.int64, copy=False))
    return (numbers, codes) if len(numbers) <= len(values) // _FEW + 16 else None


def _joined(fields: Sequence[_Coded | _Listed], separator: str) -> list[_Coded | _Listed]:
    """Neighbors with few distinct values as one column, so that there is less to join for each row."""
    result: list[_Coded | _Listed] = []
    for field in fields:
        last = result[-1] if result else None
        if isinstance(field, _Coded) and isinstance(last, _Coded) and len(field.codes):
            width = len(field.texts)
            both, codes = unique(
                np.where(last.codes < 0, len(last.texts) - 1, last.codes) * width
                + np.where(field.codes < 0, width - 1, field.codes)
            )
            if len(both) <= len(codes) // _FEW + 16:
                texts = [
                    f"{last.texts[p // width]}{separator}{field.texts[p % width]}" for p in both.tolist()
                ]
                result[-1] = _Coded(codes, [*texts, ""])
                continue
        result.append(field)
    return result


def _led(field: _Coded | _Listed, name: str) -> _Coded | _Listed:
    """The same texts after ``name``."""
    if isinstance(field, _Coded):
        return _Coded(field.codes, [name + text for text in field.texts])
    inner = field.texts
    return _Listed(lambda low, high: [name + text for text in inner(low, high)])


def _is_float(values: Values) -> bool:
    return isinstance(values, np.ndarray) and values.dtype == np.float64


def _is_amount(name: str) -> bool:
    """Whether a column holds amounts rather than identifiers."""
    return name.endswith(")") or name in _COUNTS or "GPU Ops" in name


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _markdown(text: str) -> str:
    return _one_line(text).replace("|", "\\|")
