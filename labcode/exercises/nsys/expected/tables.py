"""What all answers are made from: a table of operations in, arrays of times and each device's rows out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

Times = npt.NDArray[np.int64]
Window = tuple[int, int]


def spans(frame: pd.DataFrame) -> tuple[Times, Times]:
    """The start and end times of a table's rows."""
    return frame["start_ns"].to_numpy(np.int64), frame["end_ns"].to_numpy(np.int64)


def per_device(frame: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each device, devices in ascending order."""
    for device in sorted(frame["device"].unique().tolist()):
        yield int(device), frame[frame["device"] == device]
