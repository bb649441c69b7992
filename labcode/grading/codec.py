"""What goes through the pipe between the grader and the process that runs a learner's file.

Answers come as JSON, for who wrote them may do as they like. Tables, dictionaries with any keys, tuples,
arrays and numpy's numbers survive; anything else arrives as `Other`, which holds its type's name and a short
description. Tuples and lists arrive as lists: a learner may return either. Inputs, which the grader made, go
the other way as they are; of folders and databases a function gets the path.
"""

from __future__ import annotations

import math
import pickle
import re
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

_DEEPEST = 20


@dataclass(frozen=True)
class Other:
    """A value the grader cannot compare: the name of its type and its beginning as text."""

    type_name: str
    text: str


@dataclass(frozen=True)
class Folder:
    """A folder with these text files; a learner's function gets its path, or with ``only`` its one file's."""

    files: Mapping[str, str]
    only: bool = False


@dataclass(frozen=True)
class File:
    """A file with this content; a learner's function gets its path."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Database:
    """An SQLite file with these tables; a learner's function gets its path."""

    tables: Mapping[str, pd.DataFrame]


def encode(value: Any, depth: int = 0) -> Any:
    """A value as something `json.dumps` takes."""
    if depth > _DEEPEST:
        return _other(value)
    if type(value) in (str, int, float, bool):
        return value
    if type(value) in (list, tuple):
        return [encode(item, depth + 1) for item in value]
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
    if isinstance(value, list | tuple):
        return [encode(item, depth + 1) for item in value]
    return _other(value)


def decode(data: Any) -> Any:
    """The value `encode` was given (lists for tuples, dictionaries for series)."""
    if isinstance(data, list):
        return [decode(item) if type(item) in (list, dict) else item for item in data]
    if not isinstance(data, dict):
        return data
    kind = data["$"]
    if kind == "frame":
        return pd.DataFrame({name: _series(values, dtype) for name, dtype, values in data["columns"]})
    if kind in ("dict", "series"):
        return {_key(decode(key)): decode(item) for key, item in data["items"]}
    return Other(data["type"], data["text"])


def _series(values: list[Any], dtype: str) -> pd.Series[Any]:
    """A column of an answer; `ValueError` for a type of which one value alone could take all memory."""
    if re.search(r"[SUVa]\d", dtype):
        raise ValueError(f"a column of the type {dtype}")
    return pd.Series(values, dtype=dtype)


def write_database(tables: Mapping[str, pd.DataFrame]) -> Path:
    """A new SQLite file with these tables, in a new temporary folder; missing values are NULL."""
    path = Path(tempfile.mkdtemp(prefix="export-")) / "export.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = OFF")  # a file for a moment need not survive a power cut
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for name, table in tables.items():
            declared = ", ".join(
                f'"{column}" {"TEXT" if table[column].dtype in ("str", "object") else "INTEGER"}'
                for column in table.columns
            )
            connection.execute(f'CREATE TABLE "{name}" ({declared})')
            marks = ", ".join("?" * len(table.columns))
            columns = [_column(table[column]) for column in table.columns]
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', zip(*columns, strict=True))
    return path


def pack(arguments: Sequence[Any], *, carry: bool = False) -> bytes:
    """The arguments of a call, to be made anew for each call that gets them; with ``carry`` files go along,
    for whoever sees none of those here.
    """
    given = tuple(_carried(argument) for argument in arguments) if carry else tuple(arguments)
    return pickle.dumps(given, pickle.HIGHEST_PROTOCOL)


def unpack(packed: bytes) -> list[Any]:
    """The arguments that `pack` was given; folders, files and databases lie in new temporary folders."""
    return [_laid_down(argument) for argument in pickle.loads(packed)]


def _carried(argument: Any) -> Any:
    is_file = isinstance(argument, Path) and argument.is_file()
    return File(argument.name, argument.read_bytes()) if is_file else argument


def _laid_down(argument: Any) -> Any:
    if isinstance(argument, Database):
        return write_database(argument.tables)
    if isinstance(argument, File):
        path = Path(tempfile.mkdtemp(prefix="file-")) / argument.name
        path.write_bytes(argument.content)
        return path
    if not isinstance(argument, Folder):
        return argument
    folder = Path(tempfile.mkdtemp(prefix="folder-"))
    for name, text in argument.files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder / next(iter(argument.files)) if argument.only else folder


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
