"""Hidden cases of part a (the few operators that matter): a generator or captures in, cases out."""

import json

import numpy as np
import pandas as pd

from labcode.errors import LabError
from labcode.grading.cases import Case
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, RUN = "torch_profiler", "exam_baseline"


def _asked(name: str, rows: pd.DataFrame, share: float, small: float) -> list[Case]:
    words = f"{len(rows)} operators, share {share:g}, small below {small:g} µs"
    table = rows if len(rows) else None
    return [
        Case(name, words, "few", (rows, share), table=table),
        Case(name, words, "small_work", (rows, share, small), table=table),
    ]


def _listed(listed: list[tuple[str, int, float]]) -> pd.DataFrame:
    rows = pd.DataFrame(listed, columns=["name", "calls", "self_cuda_us"])
    return rows.astype({"name": "str", "calls": "int64", "self_cuda_us": "float64"})


def _rows(rng: Rng, listed: list[tuple[str, int, float]]) -> pd.DataFrame:
    rows = _listed(listed)
    return rows.iloc[rng.permutation(len(rows))].reset_index(drop=True)


def cases(rng: Rng) -> list[Case]:
    """One that has it all, shares just reached, equal ones, operators of the CPU alone."""
    alike = [(f"aten::op{k:02d}", 1, float(8 + k % 3)) for k in range(64)]  # a sort may exchange equal ones
    many = [(f"aten::op{k}", int(rng.integers(1, 60)), float(rng.integers(1, 4000))) for k in range(9)]
    return [
        *_asked("many", _rows(rng, many), 0.8, 40.0),
        *_asked("just reached", _rows(rng, [("a", 2, 64.0), ("b", 32, 32.0), ("c", 4, 32.0)]), 0.5, 1.0),
        *_asked("everything", _rows(rng, [("a", 2, 64.0), ("b", 64, 32.0), ("c", 1, 0.0)]), 1.0, 0.5),
        # of equal ones neither the first nor the last row counts, whichever way the rows come
        *_asked("equal ones", _listed([("z", 4, 8.0), ("y", 8, 8.0), ("x", 1, 8.0)]), 0.6, 2.0),
        *_asked(
            "equal ones, by name already", _listed([("x", 4, 8.0), ("y", 8, 8.0), ("z", 1, 8.0)]), 0.6, 2.0
        ),
        *_asked("equal ones, mixed", _listed([("y", 1, 8.0), ("x", 4, 8.0), ("z", 8, 8.0)]), 0.3, 2.0),
        *_asked(
            "three small ones", _rows(rng, [("k", 64, 64.0), ("z", 96, 48.0), ("a", 32, 16.0)]), 1.0, 2.0
        ),
        *_asked("many equal ones", _rows(rng, alike), 0.7, 9.5),
        *_asked("on the CPU alone", _rows(rng, [("a", 3, 0.0), ("b", 4, 0.0)]), 0.9, 5.0),
        *_asked("none", _rows(rng, []), 0.9, 5.0),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """A training step that no page shows."""
    if EXPERIMENT not in captures.experiments or RUN not in captures.experiments[EXPERIMENT].runs:
        raise LabError(f"the capture set {captures.name!r} has no run {RUN} of {EXPERIMENT}")
    averages = captures.path_of(EXPERIMENT, RUN, ".averages.json")
    rows = pd.DataFrame(json.loads(averages.read_text(encoding="utf-8"))["rows"])
    rows = rows[(rows["kind"] == "CPU") & ~rows["user_annotation"]]
    rows = rows.rename(columns={"self_cuda_total_us": "self_cuda_us"})[["name", "calls", "self_cuda_us"]]
    return _asked("a training step", rows.reset_index(drop=True), 0.9, 50.0)
