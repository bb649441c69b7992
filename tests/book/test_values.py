import numpy as np
import pandas as pd
import pytest

from labcode import book
from labcode.book.values import format_value, is_number

THIN = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "fmt", "unit", "text"),
    [
        (3.14159, ".2f", "ms", f"3.14{THIN}ms"),
        (0.625, ".0%", "", "62%"),
        (1234567, ",d", "", "1,234,567"),
        (1234.0, ",d", "bytes", f"1,234{THIN}bytes"),
        (1.8, ".1f", "×", "1.8×"),
        (45.0, ".0f", "%", "45%"),
        (-2.5, ".1f", "W", f"\N{MINUS SIGN}2.5{THIN}W"),
        (np.float64(2.0), ".1f", "s", f"2.0{THIN}s"),
        (np.int64(7), "d", "", "7"),
        (True, ".2f", "", "yes"),
        (np.bool_(False), ".2f", "", "no"),
        ("as it is", ".2f", "ms", "as it is"),
        (float("nan"), ".2f", "ms", "undefined"),
        (pd.NA, ".2f", "ms", "undefined"),
        (None, ".2f", "ms", "undefined"),
    ],
)
def test_values_are_printed_with_their_unit(value, fmt, unit, text):
    assert format_value(value, fmt, unit) == text


def test_missing_values_are_no_numbers():
    assert [is_number(value) for value in (1, 2.5, np.inf, np.nan, None, pd.NA, pd.NaT, "three")] == [
        True, True, True, False, False, False, False, False,
    ]  # fmt: skip


def test_prose_cannot_say_an_undefined_value():
    with pytest.raises(ValueError, match=r"book\.value\('share'\): the value is undefined \(nan\)"):
        book.value("share", float("nan"))
