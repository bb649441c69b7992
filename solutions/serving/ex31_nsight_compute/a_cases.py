"""Hidden cases of part a (lost time): a generator or captures in, cases out."""

import numpy as np
import pandas as pd

from labcode.errors import LabError
from labcode.grading.cases import Case
from labcode.store import CaptureSet
from solutions.compute._shared import open_ncu

Rng = np.random.Generator
EXAM = ("ncu_softmax", "ncu_sum", "ncu_transpose", "ncu_memory")


def _asked(name: str, table: pd.DataFrame, peak: float) -> list[Case]:
    words = f"{len(table)} launches, peak {peak:g} GB/s"
    calls = (("rates", (table,)), ("lost_us", (table, peak)), ("work_on", (table, peak)))
    return [Case(name, words, function, arguments, table=table) for function, arguments in calls]


def _table(rows: list[tuple[str, int, int]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["kernel", "duration_ns", "dram_bytes"]).astype(
        {"kernel": "str", "duration_ns": "int64", "dram_bytes": "int64"}
    )


def cases(rng: Rng) -> list[Case]:
    """Several launches, a slow short kernel beside a fast long one, one above the roof, equal ones."""
    many = [
        (str(rng.choice(["a", "b", "c"])), int(rng.integers(1000, 9000)), int(rng.integers(10**5, 10**6)))
        for _ in range(9)
    ]
    n = int(rng.integers(2, 9))
    three = [("slow", 1000 * n, 1000), ("long", 90_000 * n, 9_000_000 * n), ("fast", 1000 * n, 200_000 * n)]
    return [
        *_asked("slow, long, fast", _table(three), 200.0),
        *_asked("many launches", _table(many), 800.0),
        *_asked(
            "slow but short", _table([("short", 1000 * n, 1000), ("long", 90_000 * n, 9_000_000 * n)]), 200.0
        ),
        *_asked(
            "above the roof", _table([("cached", 1000 * n, 9000 * n), ("plain", 1000 * n, 3000 * n)]), 4.0
        ),
        *_asked("all above the roof", _table([("x", 1000, 9000 * n), ("w", 1000, 8000)]), 4.0),
        *_asked(
            "one at the roof, one launch over it",
            _table([("k", 1000 * n, 8000 * n), ("k", 3000 * n, 4000 * n)]),
            4.0,
        ),
        *_asked("equal losses", _table([("z", 2000 * n, 4000), ("y", 2000 * n, 4000)]), 4.0),
        *_asked("nothing launched", _table([]), 4.0),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """Kernels of the book's ladders."""
    if "ceilings" not in captures.experiments:
        raise LabError(f"the capture set {captures.name!r} has no run record of ceilings")
    peak = float(captures.record("ceilings", "record")["results"]["ceilings"]["dram_read"]["value"])
    found: list[Case] = []
    for experiment in EXAM:
        run = "exam_copies" if experiment == "ncu_memory" else "exam_steps"
        rows = [
            (
                one.function,
                round(one.number("duration_ns")),
                round(one.number("dram_read_bytes") + one.number("dram_write_bytes")),
            )
            for one in open_ncu(captures, experiment, run).list
        ]
        found += _asked(f"{experiment}, {run}", _table(rows), peak)
    return found
