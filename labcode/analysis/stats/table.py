"""Tables of nsys' reports without pandas, whose import takes longer than most: columns in, tables out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labcode.reports.columns import Column, Ints, objects

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Texts:
    """A column of texts: a code into ``texts`` for each row; -1 reads as ''."""

    codes: Ints
    texts: Sequence[str]

    def take(self, which: Ints) -> Texts:
        """The same column with only some rows."""
        return Texts(self.codes[which], self.texts)


@dataclass(frozen=True)
class Made:
    """A column of texts that are made when they are printed: a row number for each row, and what makes texts
    of those; ``sizes``: about how many characters the text of each row has."""

    rows: Ints
    texts: Callable[[Ints], list[str]]
    sizes: Ints

    def take(self, which: Ints) -> Made:
        """The same column with only some rows."""
        return Made(self.rows[which], self.texts, self.sizes[which])


Values = NDArray[Any] | Column | Texts | Made
Table = Mapping[str, Values]


def texts_of(values: Sequence[str]) -> Texts:
    """Texts as a column."""
    return Texts(np.arange(len(values)), values)


def length(table: Table) -> int:
    """How many rows a table has."""
    for values in table.values():
        if isinstance(values, Made):
            return len(values.rows)
        return len(values.codes if isinstance(values, Texts) else _plain(values))
    return 0


def take(table: Table, which: Ints) -> Table:
    """A table with only some rows, in the order of ``which``."""
    return {
        name: values.take(which) if isinstance(values, Column | Texts | Made) else values[which]
        for name, values in table.items()
    }


def to_frame(table: Table) -> pd.DataFrame:
    """A table as a DataFrame: int64, float64, str, and Int64 where numbers may be missing."""
    import pandas as pd

    columns: dict[str, object] = {}
    for name, values in table.items():
        if isinstance(values, Texts):
            columns[name] = pd.Series(objects(values.codes, list(values.texts)), dtype="str")
        elif isinstance(values, Made):
            columns[name] = pd.Series(values.texts(values.rows), dtype="str")
        elif isinstance(values, Column):
            present = values.present
            columns[name] = (
                values.values if present is None else pd.arrays.IntegerArray(values.values, ~present)
            )
        else:
            columns[name] = values
    return pd.DataFrame(columns)


def from_frame(frame: pd.DataFrame) -> Table:
    """A DataFrame as a table; what is neither a number nor a text becomes one."""
    import pandas as pd

    table: dict[str, Values] = {}
    for place, name in enumerate(frame.columns):
        column = frame.iloc[:, place]
        if column.dtype in (np.int64, np.float64):
            table[str(name)] = column.to_numpy()
        elif pd.api.types.is_integer_dtype(column.dtype):
            present = column.notna().to_numpy()
            table[str(name)] = Column(column.fillna(0).to_numpy(np.int64), present)
        elif pd.api.types.is_float_dtype(column.dtype):
            table[str(name)] = column.to_numpy(np.float64, na_value=np.nan)
        elif column.dtype == object and all(isinstance(value, int) for value in column):
            table[str(name)] = column.to_numpy()
        else:
            codes, values = pd.factorize(column)
            table[str(name)] = Texts(codes.astype(np.int64), [str(value) for value in values])
    if not frame.attrs:
        return table
    told = _Told(table)
    told.attrs = dict(frame.attrs)
    return told


class _Told(dict[str, "Values"]):
    """A table of a DataFrame that something is said of, in ``attrs``."""

    attrs: dict[Any, Any]


def _plain(values: NDArray[Any] | Column) -> NDArray[Any]:
    return values.values if isinstance(values, Column) else values
