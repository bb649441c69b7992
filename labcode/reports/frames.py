"""Columns in, a table with the dtypes that the readers promise out; a column of texts as codes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from labcode.reports.columns import Bools, Column, Ints, Objects


def frame(**columns: Ints | Objects | Bools | Column) -> pd.DataFrame:
    """Columns as a table, which shares their memory: `Column` becomes Int64, arrays of texts str."""
    series: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, Column):
            absent = np.zeros(len(values.values), np.bool_) if values.present is None else ~values.present
            series[name] = pd.arrays.IntegerArray(values.values, absent)
        elif values.dtype == object:
            series[name] = pd.Series(values, dtype="str")
        else:
            series[name] = values
    return pd.DataFrame(series, copy=False)


def codes_of(texts: pd.Series | Objects) -> tuple[Ints, Objects]:
    """A code for each row and the different texts, in the order in which they appear; -1: missing.

    As `pandas.factorize`, for columns in which few objects stand behind many rows, as the readers make them:
    the objects are told apart before their texts are, which takes a twentieth of the time.
    """
    values = np.ascontiguousarray(texts, object)
    if not len(values):
        return np.empty(0, np.int64), values
    which, objects = pd.factorize(np.frombuffer(values, np.intp))  # by address
    first = np.empty(len(objects), np.int64)
    first[which[::-1]] = np.arange(len(values))[::-1]
    codes, distinct = pd.factorize(values[first])
    return np.asarray(codes[which], np.int64), distinct


def mapped(texts: pd.Series, function: Callable[[str], str]) -> pd.Series:
    """A function of each text, which is asked once for each different one."""
    codes, distinct = codes_of(texts)
    found = np.array([function(text) for text in distinct], np.object_)
    return pd.Series(found[codes], index=texts.index, dtype="str")
