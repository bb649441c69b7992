"""Numbers for people: one way for times, sizes and shares; and what JSON knows of a value."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labcode.show import byte_text, jsonable, time_text, value_text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (0.5, "0.5 ns"),
        (999, "999 ns"),
        (999.7e3, "1 ms"),
        (1500, "1.5 µs"),
        (-2.5e6, "-2.5 ms"),
        (12_345e9, "12,345 s"),
    ],
)
def test_times(ns: float, text: str) -> None:
    assert time_text(ns) == text


def test_more_digits_where_they_are_asked_for() -> None:
    assert time_text(999.7e3, 4) == "999.7 µs" and time_text(1_234_567, 4) == "1.235 ms"


def test_sizes() -> None:
    assert [byte_text(size) for size in (12, 1_259_000, 3e12)] == ["12 B", "1.26 MB", "3,000 GB"]
    assert [byte_text(size, binary=True) for size in (1536, 50 << 20)] == ["1.5 KiB", "50 MiB"]
    assert byte_text(2000, space="\u202f") == "2\u202fkB"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "yes"), (np.int64(12345), "12,345"), (0.05, "0.05"), (2.0, "2"), ("a", "a")],
)
def test_values_of_tables(value: object, text: str) -> None:
    assert value_text(value) == text


def test_json_has_no_numbers_that_are_none() -> None:
    values: list[Any] = [
        np.float64("nan"),
        math.inf,
        pd.NA,
        pd.NaT,
        np.bool_(True),
        np.int8(3),
        2.0,
        (1, "a"),
    ]
    assert jsonable({"a": values}) == {"a": [None, None, None, None, True, 3, 2.0, [1, "a"]]}
    whole = jsonable([2.0, 2.5, 2.0**60], whole=True)
    assert whole == [2, 2.5, 2.0**60] and [type(one) for one in whole] == [int, float, float]
