"""An axis in; plain numbers at its ticks out, on linear and on logarithmic scales."""

from __future__ import annotations

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator, StrMethodFormatter
from numpy.typing import NDArray

PLAIN = "{x:,.6g}"
MOST_TICKS = 9


def plain_numbers(axis: Axis) -> None:
    """Numbers with separators of thousands, without exponents."""
    axis.set_major_formatter(StrMethodFormatter(PLAIN))


def logarithmic(axis: Axis, values: NDArray[np.float64] | None = None) -> None:
    """Put an axis that is logarithmic already in order: ticks at the values themselves if they are few and
    apart.

    Otherwise at 1, 2 and 5 of each decade, or at the decades if there are more than three.
    """
    plain_numbers(axis)
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    if values is not None:
        own = np.unique(values[np.isfinite(values) & (values > 0)])
        apart = own.size < 2 or np.diff(np.log10(own)).min() * 2 * MOST_TICKS >= np.log10(own[-1] / own[0])
        short = all(float(f"{value:.3g}") == value for value in own)
        if 0 < own.size <= MOST_TICKS and apart and short:
            axis.set_major_locator(FixedLocator([float(value) for value in own]))
            return
    low, high = axis.get_view_interval()
    decades = np.log10(high / low) if low > 0 else 1.0
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades <= 3 else (1.0,), numticks=20))
