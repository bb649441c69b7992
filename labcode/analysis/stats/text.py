"""Tables as text with all their digits: a DataFrame in; an aligned table, CSV, JSON or Markdown out.

CSV and JSON keep every digit, which reports of counters need; tables for people have two decimals, and shares
in percent.
"""

from __future__ import annotations

import json
from typing import TextIO

import numpy as np
import pandas as pd

_WIDEST = 72  # a text in a table for people


def write(table: pd.DataFrame, fmt: str, output: TextIO) -> None:
    """A table as 'table', 'csv', 'json' (an array of objects) or 'md'; missing numbers are empty or null."""
    if fmt == "csv":
        table.to_csv(output, index=False, lineterminator="\n")
    elif fmt == "json":
        output.write(json.dumps(records(table), indent=2, ensure_ascii=False) + "\n")
    else:
        _write_aligned(table, fmt, output)


def records(table: pd.DataFrame) -> list[dict[str, object]]:
    """The rows as plain objects: numbers unrounded, what is not a number null."""
    rows = []
    for row in table.itertuples(index=False, name=None):
        rows.append({str(name): _plain(value) for name, value in zip(table.columns, row, strict=True)})
    return rows


def _plain(value: object) -> object:
    if value is None or value is pd.NA:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return str(value)


def _write_aligned(table: pd.DataFrame, fmt: str, output: TextIO) -> None:
    numeric = [pd.api.types.is_numeric_dtype(table[name].dtype) for name in table.columns]
    names = [str(name) for name in table.columns]
    shares = [_is_share(name) and pd.api.types.is_float_dtype(table[name].dtype) for name in table.columns]
    cells = [
        [_cell(value, fmt, share=share) for value, share in zip(row, shares, strict=True)]
        for row in table.itertuples(index=False, name=None)
    ]
    if fmt == "md":
        output.write(f"| {' | '.join(names)} |\n| {' | '.join('---:' if n else ':---' for n in numeric)} |\n")
        output.writelines(f"| {' | '.join(row)} |\n" for row in cells)
        return
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for row in [names, ["-" * width for width in widths], *cells]:
        parts = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True))
        output.write("  ".join(parts).rstrip() + "\n")


def _is_share(name: object) -> bool:
    """Whether a column's name says that it holds parts of a whole: share, idle_share, share_of_roof."""
    return "share" in str(name).split("_")


def _cell(value: object, fmt: str, *, share: bool = False) -> str:
    plain = _plain(value)
    if plain is None:
        return ""
    if share and isinstance(plain, float):
        return f"{100 * plain:.2f} %"
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    if isinstance(plain, int):
        return f"{plain:,}"
    if isinstance(plain, float):
        if abs(plain) >= 1e6 or plain == int(plain):
            return f"{plain:,.0f}"
        return f"{plain:,.2f}" if abs(plain) >= 0.1 else f"{plain:.3g}"
    text = " ".join(str(plain).split())
    if fmt == "md":
        return text.replace("|", "\\|")
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
