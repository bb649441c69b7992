"""Tables of a page: a DataFrame and formats in, a tidy table out.

Numbers are aligned right, units stand in the header (taken from the column's name when it ends in one), wide
tables scroll sideways on narrow screens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from labcode import units as units_of
from labcode.book import display
from labcode.book.values import format_value, is_number
from labcode.show import grid, html_table, one_line

if TYPE_CHECKING:
    import pandas as pd

Format = str | Callable[[Any], str]

_ABSENT = "–"


@dataclass(frozen=True)
class Column:
    """A column as printed: its label, its unit (may be empty), whether it holds numbers."""

    label: str
    unit: str
    numeric: bool


@dataclass(frozen=True)
class Table:
    """A table as printed: columns, rows of text, a caption (may be empty)."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str


def table(
    frame: pd.DataFrame,
    caption: str | None = None,
    *,
    formats: Mapping[str, Format] | None = None,
    labels: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    index: bool = False,
    max_rows: int = 40,
) -> None:
    """Show a DataFrame.

    ``formats`` gives a column a format specification (``".1f"``, ``",d"``, ``".0%"``) or a function from
    value to text; without one, whole numbers are printed with digits in groups of three and others with two
    decimals. ``labels`` and ``units`` replace what the column's name says (``busy_ns`` prints as “busy” in
    “ns”). ``columns`` selects and orders, ``index=True`` prints the index first. A longer table than
    ``max_rows`` raises ``ValueError``: a page shows what it talks about. Rows of more GPUs than two (a
    column ``GPU``) do not count: a reader's own sets bring theirs along.
    """
    built = build(
        frame,
        caption,
        formats=formats or {},
        labels=labels or {},
        units=units or {},
        columns=columns,
        index=index,
    )
    others = int(frame["GPU"].value_counts().iloc[2:].sum()) if "GPU" in frame else 0
    if len(built.rows) - others > max_rows:
        raise ValueError(
            f"book.table: {len(built.rows)} rows; select the ones the page is about, or raise max_rows="
        )
    bundle = {display.TABLE_MIME: asdict(built), "text/html": as_html(built), "text/plain": as_text(built)}
    display.show(bundle)


def build(
    frame: pd.DataFrame,
    caption: str | None,
    *,
    formats: Mapping[str, Format],
    labels: Mapping[str, str],
    units: Mapping[str, str],
    columns: Sequence[str] | None,
    index: bool,
) -> Table:
    """`table` without showing it; ``ValueError`` for a format, label or unit of an absent column."""
    if index:
        frame = frame.reset_index()
    for name in {*formats, *labels, *units, *(columns or ())} - set(frame.columns):
        have = ", ".join(map(str, frame.columns))
        raise ValueError(f"book.table: no column {name!r}; there are: {have}")
    if columns is not None:
        frame = frame[[*([c for c in frame.columns[:1] if index and c not in columns]), *columns]]
    printed = [_column(frame, position, formats, labels, units) for position in range(frame.shape[1])]
    rows = tuple(zip(*(cells for _, cells in printed), strict=True)) if printed else ()
    return Table(tuple(column for column, _ in printed), rows, caption or "")


def as_text(table: Table) -> str:
    """A table as aligned plain text."""
    rows = [list(map(one_line, row)) for row in table.rows]
    lines = grid("table", _heads(table), [c.numeric for c in table.columns], lambda: rows)
    return "".join([f"{table.caption}\n"] * bool(table.caption) + list(lines)).rstrip("\n")


def as_html(table: Table) -> str:
    """A table as HTML."""
    return html_table(_heads(table), [c.numeric for c in table.columns], table.rows, table.caption)


def _heads(table: Table) -> list[str]:
    return [f"{c.label} ({c.unit})" if c.unit else c.label for c in table.columns]


def _column(
    frame: pd.DataFrame,
    position: int,
    formats: Mapping[str, Format],
    labels: Mapping[str, str],
    units: Mapping[str, str],
) -> tuple[Column, tuple[str, ...]]:
    name = str(frame.columns[position])
    values = frame.iloc[:, position].tolist()
    label, unit = _split_unit(name)
    given = [value for value in values if value is not None and value == value]
    numeric = bool(given) and all(is_number(value) and not isinstance(value, (str, bool)) for value in given)
    fmt = formats.get(name)
    if fmt is None and numeric:
        fmt = ",d" if all(float(value).is_integer() for value in given) else ",.2f"
    column = Column(labels.get(name, label), units.get(name, unit), numeric)
    return column, tuple(_cell(value, fmt) for value in values)


def _cell(value: Any, fmt: Format | None) -> str:
    if callable(fmt):
        return fmt(value)
    if isinstance(value, (str, bool)) or type(value).__name__ == "bool_":
        return format_value(value)
    if not is_number(value):
        return _ABSENT if value is None or value != value or str(value) == "<NA>" else str(value)
    return format_value(value, fmt or ",.2f")


def _split_unit(name: str) -> tuple[str, str]:
    for suffix, unit in units_of.SUFFIXES.items():
        if name.endswith("_per_s") and suffix == "_s":  # a rate of something without a unit here is no time
            continue
        if name.endswith(suffix) and len(name) > len(suffix):
            return name.removesuffix(suffix).replace("_", " "), unit
    return name.replace("_", " "), ""
