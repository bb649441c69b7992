"""Tables as text: nsys' columns in; an aligned table, CSV, JSON or Markdown out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from labcode.analysis.stats.table import Made, Table, Texts, Values, from_frame, length, take
from labcode.reports.columns import Column, Ints, Objects, sorted_unique, unique
from labcode.show import CELLS, LONGEST, check_format, csv_cells, grid, jsonable, value_text, write_csv

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 1 << 13  # written at once
_LONG = 1 << 9  # characters that count like a row
_FEW = (
    8  # a column with fewer distinct values than one in so many rows is written through a list of its texts
)
_WIDEST = 72  # a text in a table for people
MOST_ROWS = 10_000  # of a table for people: a hundred screens and more; CSV and JSON have all
_COUNTS = ("Instances", "Num Calls", "Count", "QCount", "NVTX Inst", "Kern Inst", "Range Instances")

_Prepare = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class _Coded:
    """A column whose values are few: a code into texts for each row; -1 is the last, of what is missing."""

    codes: Ints
    texts: list[str]


@dataclass(frozen=True)
class _Listed:
    """A column whose values are many: a function that gives those of some rows, and how ``%`` prints one."""

    spec: str
    items: Callable[[int, int], list[Any]]
    sizes: Ints | None = None  # about how long the text of each row is, where it may be long


def write(table: pd.DataFrame | Table, fmt: str, stream: TextIO, *, exact: bool = False) -> None:
    """Write a DataFrame or a table of columns as 'table', 'csv', 'json' (an array of objects) or 'md'.

    ``exact`` is for DataFrames of counters: CSV and JSON keep every digit, tables for people have two
    decimals and shares in percent. Else:
    Floats have three decimals in columns of megabytes and one elsewhere, as nsys prints them; missing numbers
    are empty (null in JSON). CSV follows RFC 4180 with newlines alone: a text with a comma, a quote or a line
    break is quoted, and quotes in it doubled (which nsys does not). A table for people has `MOST_ROWS` rows,
    then says how many more there are. Raises `LabError` for another format.
    """
    check_format(fmt)
    if exact and not isinstance(table, dict):
        _write_exact(table, fmt, stream)  # type: ignore[arg-type]
        return
    columns = table if isinstance(table, dict) else from_frame(table)  # type: ignore[arg-type]
    {"csv": _write_csv, "json": _write_json}.get(fmt, partial(_write_grid, fmt))(columns, stream)


def decimals(column: str) -> int:
    """How many decimals the floats of a column have."""
    return 3 if column.endswith(("(MB)", "(MB/s)")) else 1


def _write_csv(table: Table, stream: TextIO) -> None:
    stream.write(",".join(csv_cells(list(table))) + "\n")
    fields = [_field(name, values, csv_cells) for name, values in table.items()]
    joined = _joined(fields, ",")
    line = ",".join(map(_spec, joined)).__mod__
    for rows in _chunks(joined, length(table)):
        stream.write("\n".join(map(line, rows)) + "\n")


def _write_json(table: Table, stream: TextIO) -> None:
    import json

    fields = [_field(name, values, _each(json.dumps), missing="null") for name, values in table.items()]
    names = [f"{json.dumps(name)}: " for name in table]
    separator = "[\n  {"
    joined = _joined([_led(field, name) for field, name in zip(fields, names, strict=True)], ", ")
    line = ", ".join(map(_spec, joined)).__mod__
    for rows in _chunks(joined, length(table)):
        stream.write(separator + "},\n  {".join(map(line, rows)))
        separator = "},\n  {"
    stream.write("}\n]\n" if separator.startswith("}") else "[]\n")


def _write_grid(fmt: str, table: Table, stream: TextIO) -> None:
    count = length(table)
    if count > MOST_ROWS:
        table = take(table, np.arange(MOST_ROWS))
    fields = [
        _field(name, values, _each(CELLS[fmt]), grouped=fmt == "table" and _is_amount(name))
        for name, values in table.items()
    ]
    specs = list(map(_spec, fields))

    def rows() -> Iterator[tuple[str, ...]]:
        for chunk in _chunks(fields, length(table)):
            yield from (tuple(spec % item for spec, item in zip(specs, row, strict=True)) for row in chunk)

    right = [not isinstance(values, Texts | Made) for values in table.values()]
    stream.writelines(grid(fmt, list(table), right, rows))
    stream.write(_rest(fmt, count))


def _rest(fmt: str, count: int) -> str:
    """What is said below a table for people of the rows that it leaves out."""
    if count <= MOST_ROWS:
        return ""
    line = f"… {count - MOST_ROWS:,} more rows, which CSV and JSON have"
    return f"\n{line}\n" if fmt == "md" else f"{line}\n"


def _chunks(fields: Sequence[_Coded | _Listed], count: int) -> Iterator[Iterator[tuple[Any, ...]]]:
    """The rows, some at a time."""
    tables: list[Objects | None] = [
        np.array(field.texts, dtype=object) if isinstance(field, _Coded) else None for field in fields
    ]
    taken = np.arange(1, count + 1)  # a row counts more the longer it is
    for field in fields:
        if isinstance(field, _Listed) and field.sizes is not None:
            taken += np.cumsum(field.sizes // _LONG)
    low = 0
    while low < count:
        high = max(low + 1, int(np.searchsorted(taken, (taken[low - 1] if low else 0) + _ROWS, "right")))
        columns = [
            field.items(low, high) if isinstance(field, _Listed) else texts[field.codes[low:high]].tolist()  # type: ignore[index]
            for field, texts in zip(fields, tables, strict=True)
        ]
        yield zip(*columns, strict=True)
        low = high


def _each(text: Callable[[str], str]) -> _Prepare:
    return lambda texts: list(map(text, texts))


def _field(
    name: str, values: Values, prepare: _Prepare, *, missing: str = "", grouped: bool = False
) -> _Coded | _Listed:
    """A column as texts; ``prepare`` makes texts those of the format, ``grouped`` asks for 1,000."""
    if isinstance(values, Texts):
        return _Coded(values.codes, prepare([*values.texts, ""]))
    if isinstance(values, Made):
        rows, texts = values.rows, values.texts
        return _Listed("%s", lambda low, high: prepare(texts(rows[low:high])), values.sizes)
    kind = f".{decimals(name)}f" if _is_float(values) else "d"
    text_of = f"{{:,{kind}}}".format if grouped else f"%{kind}".__mod__
    spec = "%s" if grouped else f"%{kind}"
    if isinstance(values, Column):
        return _numbers(values.values, values.present, spec, text_of, missing)
    return _numbers(values, ~np.isnan(values) if _is_float(values) else None, spec, text_of, missing)


def _numbers(
    values: NDArray[Any],
    present: NDArray[np.bool_] | None,
    spec: str,
    text: Callable[[object], str],
    missing: str,
) -> _Coded | _Listed:
    if present is not None and present.all():
        present = None
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
    if present is None and spec != "%s":
        return _Listed(spec, lambda low, high: values[low:high].tolist())
    there = np.ones(len(values), np.bool_) if present is None else present

    def items(low: int, high: int) -> list[Any]:
        part = np.full(high - low, missing, object)
        shown = values[low:high][there[low:high]].tolist()
        part[there[low:high]] = shown if spec == "%d" else list(map(text, shown))
        return part.tolist()

    return _Listed("%s", items)


def _few(values: NDArray[Any]) -> tuple[NDArray[Any], Ints] | None:
    """Distinct values and codes into them, where they are few and quickly found."""
    if values.dtype == object or len(values) < 64 or _distinct(values[:4096]) > 512:
        return None
    if values.dtype == np.float64:
        return sorted_unique(values)
    numbers, codes = unique(values.astype(np.int64, copy=False))
    return (numbers, codes) if len(numbers) <= len(values) // _FEW + 16 else None


def _distinct(values: NDArray[Any]) -> int:
    ordered = np.sort(values)
    return len(values) and 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _spec(field: _Coded | _Listed) -> str:
    return field.spec if isinstance(field, _Listed) else "%s"


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
    return _Listed(name.replace("%", "%%") + field.spec, field.items, field.sizes)


def _is_float(values: Values) -> bool:
    return isinstance(values, np.ndarray) and values.dtype == np.float64


def _is_amount(name: str) -> bool:
    """Whether a column holds amounts rather than identifiers."""
    return name.endswith(")") or name in _COUNTS or "GPU Ops" in name


# ---- with all digits


def records(table: pd.DataFrame) -> list[dict[str, object]]:
    """The rows of a DataFrame as plain objects: numbers unrounded, what is not a number null."""
    names = list(map(str, table.columns))
    return [dict(zip(names, row, strict=True)) for row in _rows(table, lambda name: jsonable)]


def _rows(
    table: pd.DataFrame, of: Callable[[object], Callable[[Any], Any]], whole: Callable[[int], Any] = int
) -> Iterator[tuple[Any, ...]]:
    """The rows: each value as ``of`` its column's name makes it, whole numbers as ``whole`` does."""
    numbers = [isinstance(kind, np.dtype) and kind.kind in "iu" for kind in table.dtypes]
    made = [whole if number else of(name) for name, number in zip(table, numbers, strict=True)]
    for low in range(0, len(table), _ROWS):
        columns = (table.iloc[low : low + _ROWS, place] for place in range(len(made)))
        yield from zip(*(map(one, c.tolist()) for one, c in zip(made, columns, strict=True)), strict=True)


def _write_exact(table: pd.DataFrame, fmt: str, output: TextIO) -> None:
    """A DataFrame with all its digits, or, for people, with the two decimals that matter."""
    import json

    import pandas as pd

    if fmt == "csv":
        write_csv(table, output)
        return
    names = [str(name) for name in table.columns]
    if fmt == "json":
        text = json.JSONEncoder(ensure_ascii=False).encode
        members = (f"    {text(name).replace('%', '%%')}: %s" for name in names)
        line = ("  {\n" + ",\n".join(members) + "\n  }").__mod__
        separator = "[\n"
        for row in _rows(table, lambda name: lambda value: text(jsonable(value))):
            output.write(separator + line(row))
            separator = ",\n"
        output.write("[]\n" if separator == "[\n" else "\n]\n")
        return
    numeric = [pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes]
    shares = {n for n, kind in table.dtypes.items() if _is_share(n) and pd.api.types.is_float_dtype(kind)}
    most = _WIDEST if fmt == "table" else LONGEST

    def text_of(value: object, *, share: bool) -> str:
        shown = value_text(value, share=share)
        return shown if isinstance(value, float | int) else CELLS[fmt](shown, most)

    def of(name: object) -> Callable[[Any], str]:
        return partial(text_of, share=name in shares)

    shown = table.iloc[:MOST_ROWS]
    output.writelines(grid(fmt, names, numeric, lambda: _rows(shown, of, "{:,}".format)))
    output.write(_rest(fmt, len(table)))


def _is_share(name: object) -> bool:
    """Whether a column's name says that it holds parts of a whole: share, idle_share, share_of_roof."""
    return "share" in str(name).split("_")
