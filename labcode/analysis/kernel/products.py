"""Ladders beside a library: the record of ``cuda/gemm`` in, a row per step with rate, ratio and error out.

And a report of its launches in, those of the steps and the library's by name out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from labcode.errors import LabError
from labcode.reports.ncu.launch import Launch

LIBRARY = "cublas"
_OWN = "lab::"  # the namespace of the steps
_RATE = "_tflop_per_s"


def ladder(record: Mapping[str, Any]) -> pd.DataFrame:
    """The rungs of a record in their order, the library first, by name.

    Columns: ``time_us``, ``q1_us``, ``q3_us`` (median and quartiles), ``tflop_per_s``, ``ratio`` to the
    library in the same run (NaN where there was none), ``gain`` over the rung before, ``error`` of the norm
    against float64.
    """
    results = record["results"]
    names = [key.removesuffix(_RATE) for key in results if key.endswith(_RATE)]
    if not names:
        raise LabError("this record has no rates: it is none of a ladder of products")
    of = {
        "time_us": "us",
        "q1_us": "q1_us",
        "q3_us": "q3_us",
        "tflop_per_s": "tflop_per_s",
        "ratio": "over_cublas_ratio",
        "error": "error",
    }
    rows = {
        name: {column: float(results.get(f"{name}_{key}", float("nan"))) for column, key in of.items()}
        for name in names
    }
    found = pd.DataFrame.from_dict(rows, orient="index")
    steps = found.drop(index=LIBRARY, errors="ignore")
    found.insert(5, "gain", steps["time_us"].shift() / steps["time_us"])
    return found.rename_axis("step")


def by_step(launches: Iterable[Launch], steps: Iterable[str]) -> dict[str, Launch]:
    """One launch of each step, in their order, and `LIBRARY`'s where its kernel was counted, too.

    `LabError` when the launches of the steps are not as many as their names.
    """
    found = list(launches)
    own, names = [one for one in found if _OWN in one.demangled], list(steps)
    if len(own) != len(names):
        wanted = ", ".join(names)
        raise LabError(f"this report has {len(own)} launches of steps, not one for each of {wanted}")
    others = [one for one in found if _OWN not in one.demangled]
    return {**({LIBRARY: others[0]} if others else {}), **dict(zip(names, own, strict=True))}
