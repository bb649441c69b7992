"""Numbers in; texts for people, with their units, or what JSON knows, out."""

import math
import numbers
from typing import Any

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))  # nanoseconds
_DECIMAL = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_BINARY = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def time_text(ns: float, digits: int = 3) -> str:
    """Nanoseconds for people: '12.3 ms'."""
    return _in_units(ns, _TIMES, digits)


def byte_text(count: float, *, binary: bool = False, space: str = " ") -> str:
    """A size for people: '1.26 GB', or in binary units '1.17 GiB'."""
    return _in_units(count, _BINARY if binary else _DECIMAL, 3, space)


def _in_units(value: float, units: tuple[tuple[float, str], ...], digits: int, space: str = " ") -> str:
    """In the largest unit that leaves at least 1 when it is rounded; whole digits are never cut."""
    for place, (size, unit) in enumerate(units):
        rounded = float(f"{value / size:.{digits}g}")
        if abs(rounded) >= 1 or place == len(units) - 1:
            whole = abs(rounded) >= 10**digits
            return f"{value / size:,.0f}{space}{unit}" if whole else f"{rounded:,g}{space}{unit}"
    raise AssertionError(units)


def period(seconds: float) -> str:
    """How long people wait, in a few words: 45 s, 12 min, 1 h 05 min."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def percent(share: float) -> str:
    """A share for people: '12.3 %'; never 100.0 % for less than all."""
    return f"{100 * share:.1f} %" if share < 0.995 or share >= 1 else f"{100 * share:.2f} %"


def whole_percent(share: float) -> str:
    """A share in whole percent, for pictures; never 0% for something or 100% for less than all."""
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 < share < 1:
        return ">99%"
    return f"{share:.0%}"


def number(value: float) -> str:
    """A number with three significant digits, in scientific notation only below 0.0001."""
    if value < 0:
        return "−" + number(-value)
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    decimals = 2 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, decimals)}f}" if abs(value) >= 1e-4 else f"{value:.2e}"


def value_text(value: object, *, share: bool = False) -> str:
    """A value of a table for people: thousands apart, two decimals where they matter; texts as they are."""
    known = jsonable(value)
    if known is None:
        return ""
    if isinstance(known, bool):
        return "yes" if known else "no"
    if isinstance(known, int):
        return f"{known:,}"
    if not isinstance(known, float):
        return str(known)
    if share:
        return f"{100 * known:.2f} %"
    if abs(known) >= 1e6 or known == int(known):
        return f"{known:,.0f}"
    return f"{known:,.2f}" if abs(known) >= 0.1 else f"{known:.3g}"


def jsonable(value: Any, *, whole: bool = False) -> Any:
    """What JSON knows of a value, of all in a dict or list; missing and infinite numbers are null.

    With ``whole`` floats without fraction become whole numbers.
    """
    if type(value) is int or type(value) is str:  # most are; to ask an abstract class takes long
        return value
    if isinstance(value, dict):
        return {name: jsonable(inner, whole=whole) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(inner, whole=whole) for inner in value]
    if value is None or isinstance(value, bool | str):
        return value
    if type(value).__name__ in ("bool", "bool_"):  # of NumPy
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        known = float(value)
        if whole and known.is_integer() and abs(known) < 2**53:
            return int(known)
        return known if math.isfinite(known) else None
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)
