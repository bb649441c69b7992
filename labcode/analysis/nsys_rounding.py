"""Numbers as nsys prints them: floats in, floats rounded half up at a decimal place out."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LARGEST = 1e11  # above this, ties cannot be told in binary to the precision needed here


def round_half_up(values: NDArray[np.generic] | list[float], digits: int) -> Floats:
    """Values rounded at the ``digits``-th decimal place, halves away from zero, as written in decimal.

    12.35 becomes 12.4 although its binary value lies below 12.35: what counts is the shortest decimal text of
    a value, as in nsys' reports. nan stays nan.
    """
    exact = np.asarray(values, np.float64)
    unit = 10.0**digits
    scaled = np.abs(exact) * unit
    whole = np.floor(scaled)
    result: Floats = np.sign(exact) * np.floor(scaled + 0.5) / unit
    with np.errstate(invalid="ignore"):
        close = (np.abs(scaled - whole - 0.5) < 1e-4) | (scaled >= _LARGEST)
    for index in np.flatnonzero(close & np.isfinite(exact)):
        text = repr(float(exact[index]))
        result[index] = float(Decimal(text).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return result
