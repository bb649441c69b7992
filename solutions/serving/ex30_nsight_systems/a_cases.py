"""Hidden cases of part a (who waits, range by range): a generator or captures in, cases out."""

import numpy as np
import pandas as pd

from labcode.analysis.lm.parts import operations_asked
from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
Rows = list[tuple[int, int, int]]
EXAMS = (("inference_timeline", "slow", "token "), ("lm_medium", "forward", "step "))


def _case(name: str, ops: pd.DataFrame, ranges: list[tuple[str, int, int]]) -> Case:
    return Case(name, f"{len(ops)} operations, {len(ranges)} ranges", "who_waits", (ops, ranges), table=ops)


def _table(rng: Rng, rows: Rows) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["start_ns", "end_ns", "asked_ns"]).astype("int64")
    return table.iloc[rng.permutation(len(table))].reset_index(drop=True)


def _loop(rng: Rng, count: int, gap: int, lasts: int) -> tuple[pd.DataFrame, list[tuple[str, int, int]]]:
    """Three tokens of ``count`` operations each, asked for ``gap`` apart."""
    now, rows, ranges = int(rng.integers(10**6, 10**7)), Rows(), []
    free = now
    for token in range(3):
        begin = now
        for _ in range(count):
            free = max(free, now + 900) + int(rng.integers(0, 300))
            rows.append((free, free + lasts + int(rng.integers(0, 400)), now))
            free = rows[-1][1]
            now += gap + int(rng.integers(0, 200))
        ranges.append((f"token {token}", begin, now))
    return _table(rng, rows), ranges


def cases(rng: Rng) -> list[Case]:
    """Loops that are ahead of the GPU and behind it; overlaps, edges, ranges of nothing."""
    overlapping = [(120, 300, 100), (150, 200, 110), (200, 400, 120), (400, 430, 130)]
    # one asked for at the start of the second range, one at its end
    edges = [(1000, 1100, 1000), (2000, 2300, 2000), (2100, 2600, 2999), (3100, 3900, 3000)]
    return [
        _case("launch-bound", *_loop(rng, 12, 9000, 2000)),
        _case("GPU-bound", *_loop(rng, 12, 2000, 9000)),
        _case("operations at the same time", _table(rng, overlapping), [("token 0", 100, 500)]),
        _case("asked for at the edges", _table(rng, edges), [("a", 1000, 2000), ("b", 2000, 3000)]),
        _case("runs behind its range", _table(rng, [(90, 250, 10)]), [("token 0", 0, 100)]),
        _case("exactly one half", _table(rng, [(10, 60, 0)]), [("token 0", 0, 100)]),
        _case("a little less than half", _table(rng, [(10, 55, 0)]), [("token 0", 0, 100)]),
        _case("a little more than half", _table(rng, [(10, 65, 0)]), [("token 0", 0, 100)]),
        _case("began before its range", _table(rng, [(80, 160, 110)]), [("token 0", 100, 200)]),
        _case("a range of nothing", _table(rng, [(10, 60, 0)]), [("token 0", 500, 600)]),
        _case("no range", _table(rng, [(10, 60, 0)]), []),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """Tokens and steps of a language model."""
    found = []
    for experiment, run, prefix in EXAMS:
        with open_run(captures, experiment, run) as report:
            ops = operations_asked(report)[["start_ns", "end_ns", "asked_ns"]]
            named = report.nvtx()
        named = named[named["name"].fillna("").str.startswith(prefix)]
        columns = (named[name].tolist() for name in ("name", "start_ns", "end_ns"))
        ranges = list(zip(*columns, strict=True))
        found.append(_case(f"{experiment}, {run}", ops.reset_index(drop=True), ranges))
    return found
