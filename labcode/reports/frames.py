"""Columns in, a table with the dtypes that the readers promise out."""

from __future__ import annotations

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
