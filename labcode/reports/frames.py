"""Columns in, a table with the dtypes that the readers promise out; a column of texts as codes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.reports.columns import (
    Bools,
    Column,
    Ints,
    Objects,
    is_narrow,
    is_remembering,
    known,
    known_of_rows,
    narrow,
    of_each,
)

_TEXT: Any = pd.StringDtype("python", na_value=np.nan)  # with pyarrow, "str" would copy all texts


def frame(**columns: Ints | Objects | Bools | Column) -> pd.DataFrame:
    """Columns as a table, which shares their memory: `Column` becomes Int64, arrays of texts str.

    Where nobody changes it in place (`labcode.reports.columns.remembering`), a column that is one number
    takes the memory of one.
    """
    series: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, Column):
            there = values.present
            absent = (
                np.broadcast_to(np.False_, len(values.values))
                if there is None
                else of_each(np.logical_not, there)
            )
            series[name] = pd.arrays.IntegerArray(_narrow(values.values), _narrow(absent))
        elif values.dtype == object:
            series[name] = pd.array(values, dtype=_TEXT, copy=False)
        else:
            series[name] = _narrow(values)
    rows = len(next(iter(series.values()), ()))
    return pd.DataFrame(series, pd.RangeIndex(rows), copy=False)  # an index to be found takes as long again


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    if not is_remembering():
        return values.copy() if is_narrow(values) else values
    return narrow(values)


def codes_of(texts: pd.Series | Objects) -> tuple[Ints, Objects]:
    """A code for each row and the different texts, in the order in which they appear; -1: missing.

    As `pandas.factorize`, for columns in which few objects stand behind many rows, as the readers make them:
    the objects are told apart before their texts are, which takes a twentieth of the time.
    """
    values = np.ascontiguousarray(texts, object)
    if not len(values):
        return np.empty(0, np.int64), values
    made = known(values)
    if made is not None:
        which, objects = pd.factorize(made.codes)
        codes, distinct = pd.factorize(made.texts[objects])
    else:
        which, objects = pd.factorize(np.frombuffer(values, np.intp))  # by address
        first = np.empty(len(objects), np.int64)
        first[which[::-1]] = np.arange(len(values))[::-1]
        codes, distinct = pd.factorize(values[first])
    if len(distinct) == len(objects):  # every object has a text of its own, in the same order
        return np.asarray(which, np.int64), distinct
    return np.asarray(codes[which], np.int64), distinct


def is_any(texts: pd.Series | Objects, *wanted: str) -> Bools:
    """The rows that have one of some texts."""
    made = known(texts)
    if made is not None:
        return made.matching(frozenset(wanted).__contains__)
    values = np.asarray(texts, object)
    found = values == wanted[0]
    for text in wanted[1:]:
        found |= values == text
    return np.asarray(found, np.bool_)


def rows_of(table: pd.DataFrame, chosen: Bools | Ints) -> pd.DataFrame:
    """The chosen rows, as `Bools` or in ascending order, without a copy where they follow each other; texts
    stay quick to compare.
    """
    rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else np.asarray(chosen, np.int64)
    if not len(rows) or int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        low = int(rows[0]) if len(rows) else 0
        return table.iloc[low : low + len(rows)]
    return rows_in_order(table, rows)


def rows_in_order(table: pd.DataFrame, rows: Ints) -> pd.DataFrame:
    """``table.take(rows)``; texts stay quick to compare."""
    found = table.take(rows)
    for place, dtype in enumerate(table.dtypes):
        if dtype == "str":
            known_of_rows(table.iloc[:, place], found.iloc[:, place], rows)
    return found


def mapped(texts: pd.Series, function: Callable[[str], str]) -> pd.Series:
    """A function of each text, which is asked once for each different one."""
    codes, distinct = codes_of(texts)
    found = np.array([function(text) for text in distinct], np.object_)
    return pd.Series(found[codes], index=texts.index, dtype="str")
