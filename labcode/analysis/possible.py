"""Rows that a model gives, and a GPU, in; which of them that GPU can't do, and why, out.

A model that computes a time from bytes and FLOPs gives one for any batch and any length, also for those that
do not fit into memory. What is asked here: memory, as the driver tells its size; bandwidth and arithmetic, as
the vendor's data sheet promises them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from labcode.errors import LabError
from labcode.hardware.specs import find_spec

COLUMNS = ("needs_bytes", "bytes_per_s", "flops_per_s")


def impossible(
    rows: pd.DataFrame, gpu: Mapping[str, Any], *, precision: str = "fp16_tensor", gpus: int = 1
) -> pd.Series[Any]:
    """Why each row can't be, as text; "" where nothing forbids it.

    Columns, each optional: ``needs_bytes`` in memory at once, ``bytes_per_s`` of DRAM, ``flops_per_s``. What
    ``gpu`` has (``name``, ``memory_bytes``, as a record tells them) is taken times ``gpus``. NaN forbids
    nothing, and neither does a GPU without a data sheet in `labcode.hardware.specs`.
    """
    if not set(COLUMNS) & set(rows.columns):
        raise LabError(f"nothing to check: the rows have none of the columns {', '.join(COLUMNS)}")
    spec = find_spec(str(gpu["name"]))
    peak = spec.peak(precision) if spec else None
    most = {
        "needs_bytes": (gpu.get("memory_bytes"), 1e9, "GB", "memory"),
        "bytes_per_s": (spec.memory_gb_s * 1e9 if spec else None, 1e12, "TB/s", "bandwidth"),
        "flops_per_s": (peak, 1e12, "TFLOP/s", "peak"),
    }

    def why(row: pd.Series[Any]) -> Iterator[str]:
        for column, (limit, unit, name, what) in most.items():
            if column in row and limit is not None and row[column] > limit * gpus:
                told, has = (f"{size / unit:,.4g} {name}" for size in (row[column], limit * gpus))
                yield f"{told}, above the {what} of {has}"

    return pd.Series(["; ".join(why(row)) for _, row in rows.iterrows()], index=rows.index, dtype=object)


def require(rows: pd.DataFrame, gpu: Mapping[str, Any], **how: Any) -> None:
    """`LabError` that names the first row that can't be; ``how`` as for `impossible`."""
    said = impossible(rows, gpu, **how)
    for label, why in said[said != ""].items():
        raise LabError(f"row {label} of the model is impossible on {gpu['name']}: {why}")
