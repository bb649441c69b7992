"""Numbers as nsys prints them: floats in, floats rounded half up at a decimal place out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from decimal import Decimal

Floats = NDArray[np.float64]

_LARGEST = 1e11  # above this, ties cannot be told in binary to the precision needed here


def round_half_up(values: NDArray[np.generic] | list[float], digits: int) -> Floats:
    """Values rounded at the ``digits``-th decimal place, halves away from zero; nan stays nan.

    What counts is the exact binary value, as in the reports of nsys 2025: 12.25 becomes 12.3, but 12.35,
    which is stored as 12.3499…, becomes 12.3. (nsys 2024 went by the decimal text and printed 12.4.)
    """
    exact = np.asarray(values, np.float64)
    unit = 10.0**digits
    scaled = np.abs(exact) * unit
    result: Floats = np.sign(exact) * np.floor(scaled + 0.5) / unit
    with np.errstate(invalid="ignore"):
        close = (np.abs(scaled - np.floor(scaled) - 0.5) < 1e-4) | (scaled >= _LARGEST)
    for index in np.flatnonzero(close & np.isfinite(exact)):
        result[index] = float(_rounded(float(exact[index]), digits))
    return result


def _rounded(value: float, digits: int) -> Decimal:
    """The same of one value, by its digits."""
    from decimal import ROUND_HALF_UP, Decimal

    return _as_decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def _as_decimal(value: float) -> Decimal:
    """The number whose digits are rounded."""
    from decimal import Decimal

    return Decimal(value)
