"""What joins tables and picks their rows: tables in, the launching call of each operation and windows out."""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.reports.columns import Ints, process_keys, unique
from labcode.reports.frames import codes_of


def named_like(names: pd.Series, pattern: str, *, ignore_case: bool = False) -> NDArray[np.bool_]:
    """Which names contain a match; each different name is looked at once, so a million rows are quick."""
    codes, distinct = codes_of(names)
    search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    found = np.array([search(str(name)) is not None for name in distinct], np.bool_)
    return np.append(found, False)[codes]


def launch_rows(ops: pd.DataFrame, api: pd.DataFrame) -> Ints:
    """For each operation the position in ``api`` of the call that launched it; -1 where there is none.

    They have the same correlation in the same process. Where several calls share it (a runtime call and the
    driver call inside it), it is the one that began first. Correlation 0 means that there is none.
    """
    op_key, api_key = process_keys(
        ops["pid"].to_numpy(),
        ops["correlation"].to_numpy(),
        api["pid"].to_numpy(),
        api["correlation"].to_numpy(),
    )
    if len(api_key) == 0:
        return np.full(len(op_key), -1, np.int64)
    distinct, code = unique(np.concatenate((op_key, api_key)))
    start = api["start_ns"].to_numpy(np.int64)
    order = np.arange(len(start)) if (start[1:] >= start[:-1]).all() else np.argsort(start, kind="stable")
    first = np.full(len(distinct), -1, np.int64)
    first[code[len(op_key) :][order[::-1]]] = order[::-1]  # what is written last counts
    return np.where(ops["correlation"].to_numpy() != 0, first[code[: len(op_key)]], -1)


def spans(table: pd.DataFrame) -> tuple[Ints, Ints]:
    """start_ns and end_ns of a table."""
    return table["start_ns"].to_numpy(np.int64), table["end_ns"].to_numpy(np.int64)


def duration_ns(table: pd.DataFrame) -> Ints:
    """How long each row took, in ns; never less than 0."""
    spent = table["end_ns"].to_numpy(np.int64) - table["start_ns"].to_numpy(np.int64)
    return np.asarray(np.maximum(spent, 0), np.int64)


def in_window(table: pd.DataFrame, window: tuple[int, int] | None) -> pd.DataFrame:
    """The rows that overlap the window, cut off at its ends; all of them without one."""
    if window is None:
        return table
    start = np.maximum(table["start_ns"].to_numpy(np.int64), window[0])
    end = np.minimum(table["end_ns"].to_numpy(np.int64), window[1])
    inside = end > start
    if not inside.all():
        table, start, end = table[inside], start[inside], end[inside]
    return table.assign(start_ns=start, end_ns=end)


def extent(table: pd.DataFrame) -> tuple[int, int]:
    """From the first start to the last end; (0, 0) for an empty table."""
    if len(table) == 0:
        return 0, 0
    low = int(table["start_ns"].min())
    return low, max(low, int(table["end_ns"].max()))
