"""Numbers as the book prints them: a value, a format and a unit in, text out."""

import math
from typing import Any

from labcode.book import display

NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"
_UNITS_WITHOUT_SPACE = ("%", "×", "°")


def format_value(value: Any, fmt: str = ".2f", unit: str = "") -> str:
    """One number with its unit, as text; “undefined” for NaN, the text itself for a string.

    ``fmt`` is a Python format specification: ``".2f"``, ``",d"``, ``".0%"``. Units follow after a narrow
    space that does not break, except %, ° and ×, which follow directly.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return "yes" if value else "no"
    if not is_number(value):
        return "undefined"
    number = int(value) if fmt.endswith("d") else float(value)
    text = format(number, fmt)
    if text.startswith("-"):
        text = "\N{MINUS SIGN}" + text[1:]
    return text + unit if not unit or unit.startswith(_UNITS_WITHOUT_SPACE) else text + NARROW_SPACE + unit


def is_number(value: Any) -> bool:
    """Whether a value is a finite or infinite number: not NaN, not a missing value, not text."""
    try:
        return not math.isnan(float(value))
    except (TypeError, ValueError):
        return False


def value(key: str, value: Any, fmt: str = ".2f", unit: str = "") -> None:
    """Keep a measured number under a key of the page, so that prose can say ``{glue:text}`key```.

    Keys are unique on a page; a value that is undefined (NaN) raises ``ValueError``, so that no page says
    “nan”.
    """
    text = format_value(value, fmt, unit)
    if text == "undefined":
        raise ValueError(f"book.value({key!r}): the value is undefined ({value!r}); prose cannot say it")
    display.glue(key, text)
