"""Names that match a regular expression: a column of names and a pattern in, which rows match out."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def named_like(names: pd.Series, pattern: str, *, ignore_case: bool = False) -> NDArray[np.bool_]:
    """Which names contain a match; each different name is looked at once, so a million rows are quick."""
    codes, distinct = pd.factorize(names)
    search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    found = np.array([search(str(name)) is not None for name in distinct], np.bool_)
    return np.append(found, False)[codes]
