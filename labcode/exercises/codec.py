"""Values to JSON and back, for the pipe between the grader and the process that runs a learner's file.

Tables, dictionaries with any keys, tuples, arrays and numpy's numbers survive; anything else arrives as
`Other`, which holds its type's name and a short description. Tuples and lists arrive as lists: a learner may
return either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

_DEEPEST = 20


@dataclass(frozen=True)
class Other:
    """A value the grader cannot compare: the name of its type and its beginning as text."""

    type_name: str
    text: str


def encode(value: Any, depth: int = 0) -> Any:
    """A value as something `json.dumps` takes."""
    if depth > _DEEPEST:
        return _other(value)
    if value is None or value is pd.NA:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, pd.DataFrame):
        columns = [[str(name), str(value[name].dtype), _column(value[name])] for name in value.columns]
        return {"$": "frame", "columns": columns}
    if isinstance(value, pd.Series):
        return {"$": "series", "items": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, np.ndarray):
        return encode(value.tolist(), depth + 1)
    if isinstance(value, Mapping):
        return {
            "$": "dict",
            "items": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()],
        }
    if isinstance(value, set | frozenset):
        return {"$": "set", "items": [encode(item, depth + 1) for item in sorted(value, key=repr)]}
    if isinstance(value, list | tuple):
        return [encode(item, depth + 1) for item in value]
    return _other(value)


def decode(data: Any) -> Any:
    """The value `encode` was given (lists for tuples and sets, dictionaries for series)."""
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    kind = data["$"]
    if kind == "frame":
        return pd.DataFrame({name: pd.Series(values, dtype=dtype) for name, dtype, values in data["columns"]})
    if kind in ("dict", "series"):
        return {_key(decode(key)): decode(item) for key, item in data["items"]}
    if kind == "set":
        return [decode(item) for item in data["items"]]
    return Other(data["type"], data["text"])


def _column(series: pd.Series[Any]) -> list[Any]:
    return [None if _missing(item) else encode(item) for item in series.tolist()]


def _missing(item: Any) -> bool:
    return item is None or item is pd.NA or item is pd.NaT or (isinstance(item, float) and math.isnan(item))


def _key(value: Any) -> Any:
    return tuple(_key(item) for item in value) if isinstance(value, list) else value


def _other(value: Any) -> dict[str, str]:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<repr failed: {type(error).__name__}>"
    return {"$": "other", "type": type(value).__name__, "text": text[:200]}
