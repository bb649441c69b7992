"""Keys that join tables: columns of two tables in, one integer for each row of both out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labcode.reports.columns import unique

Ints = NDArray[np.int64]


def process_keys(pid: Ints, number: Ints, other_pid: Ints, other_number: Ints) -> tuple[Ints, Ints]:
    """One integer for each (process, number), the same in both tables."""
    pids, process = unique(np.concatenate((pid, other_pid)))
    numbers = np.concatenate((number, other_number))
    low = int(numbers.min()) if len(numbers) else 0
    width = int(numbers.max()) - low + 1 if len(numbers) else 1
    if len(pids) * width < 1 << 62:
        keys = process * width + (numbers - low)
    else:
        numbers = unique(numbers)[1]
        keys = process * (len(numbers) + 1) + numbers
    keys = np.asarray(keys, np.int64)
    return keys[: len(pid)], keys[len(pid) :]
