"""Hidden cases of part b (what the late rank did): a generator or a capture in, cases out."""

from functools import partial

import numpy as np
import pandas as pd

from labcode.analysis.timeline import links as kineto_links
from labcode.grading.cases import Case, brief
from labcode.store import CaptureSet
from solutions.pytorch._shared import open_ranks_of
from solutions.pytorch.ex03_distributed.a_cases import COLUMNS, EXPERIMENT, RUN, collectives

Rng = np.random.Generator
Given = tuple[pd.DataFrame, pd.DataFrame, int, int]
RANGES = ("forward", "backward", "data", "evaluate", "log")
LEAST_NS = 50_000


def _scene(rng: Rng, ranks: int, late: int | None, name: str = "evaluate", *, own: bool = False) -> Given:
    """Operations and collectives of a step; ``late`` has more of a range, of its ``own`` or of all ranks."""
    rows, meets = [], []
    begin = int(rng.integers(10**6, 10**9))
    ends = []
    for rank in range(ranks):
        at = begin + int(rng.integers(0, 3_000))
        words = [
            w for w in RANGES for _ in range(int(rng.integers(2, 5))) if w != name or not own or rank == late
        ]
        for word in words:
            spent = int(rng.integers(4_000, 9_000)) + (15_000 if word == "forward" else 0)
            if rank == late and word == name:
                spent += int(rng.integers(60_000, 90_000))
            rows.append((rank, word, at, at + spent))
            at += spent + int(rng.integers(100, 900))
        ends.append(at)
    last = max(ends)
    for rank, at in enumerate(ends):
        meets.append((rank, "0", at, last + 20_000))
        for word in ("optimizer", "log"):  # afterwards: whoever was waited for does as all others
            spent = int(rng.integers(90_000, 99_000)) * (3 if rank == 0 else 1)
            rows.append((rank, word, last + 21_000, last + 21_000 + spent))
        meets.append((rank, "0", last + 400_000, last + 420_000))
    ops = pd.DataFrame(rows, columns=["rank", "range", "start_ns", "end_ns"])
    table = pd.DataFrame(meets, columns=COLUMNS)
    chosen = late if late is not None else int(rng.integers(ranks))
    shuffled = ops.iloc[rng.permutation(len(ops))].reset_index(drop=True)
    return shuffled, table.iloc[rng.permutation(len(table))].reset_index(drop=True), chosen, LEAST_NS


def _edges(rng: Rng) -> list[tuple[str, Given]]:
    """Times and extras that are exactly at a limit."""
    at, unit = int(rng.integers(10**6, 10**9)), int(rng.integers(1000, 9000))

    def made(least: int, *rows: tuple[int, str, int, int], more: int = 0) -> Given:
        ops = [(rank, name, at + start * unit, at + end * unit) for rank, name, start, end in rows]
        meets = [(0, "0", at + 100 * unit, at + 300 * unit), (1, "0", at + 200 * unit, at + 300 * unit)]
        meets += [(2 + rank, "0", at + 150 * unit, at + 300 * unit) for rank in range(more)]
        columns = ["rank", "range", "start_ns", "end_ns"]
        return pd.DataFrame(ops, columns=columns), pd.DataFrame(meets, columns=COLUMNS), 1, least * unit

    both = (0, "forward", 0, 80), (1, "forward", 0, 100)
    return [
        ("an operation starts together with the collective", made(10, *both, (1, "log", 200, 260))),
        ("an operation goes on behind the collective's start", made(10, *both, (1, "log", 190, 260))),
        (
            "another rank has passed its collective",
            made(10, *both, (0, "data", 150, 190), (1, "data", 110, 160)),
        ),
        ("a rank without any operation", made(10, *both, more=1)),
        ("an extra that is exactly too little to matter", made(20, *both)),
        ("two ranges with the same extra", made(10, *both, (1, "evaluate", 110, 130))),
    ]


def _case(name: str, given: Given) -> Case:
    ops, meets, late, least = given
    summary = (
        f"{len(ops)} operations and {len(meets)} collectives of {meets['rank'].nunique()} ranks, "
        f"late = {late}, least = {least}"
    )
    return Case(name, summary, "cause", given, show=partial(brief, limit=200))


def cases(rng: Rng) -> list[Case]:
    """The one function, on steps of some ranks."""
    return [
        _case("two ranks, one has more of a range", _scene(rng, 2, 1)),
        _case("four ranks, a range of the late one alone", _scene(rng, 4, int(rng.integers(4)), own=True)),
        _case("more time in the data", _scene(rng, 3, 0, "data")),
        _case("a range that takes long on all ranks", _scene(rng, 4, 2, "log")),
        _case("rank 0 writes the log alone", _scene(rng, 4, 0, "log", own=True)),
        _case("nothing stands out", _scene(rng, 4, None)),
        _case("nothing stands out among two", _scene(rng, 2, None)),
        *(_case(name, given) for name, given in _edges(rng)),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """The kernels of a capture with their ranges."""
    with open_ranks_of(captures, EXPERIMENT, RUN) as report:
        ops = kineto_links.op_kernel_trace(report)
        marks = report.annotations()
        meets = collectives(report)
    begin = marks[marks["name"] == "step 0"].groupby("rank")["start_ns"].min()
    ops = ops[ops["start_ns"] >= ops["rank"].map(begin).fillna(0)]  # not what was launched before
    ranges = ops["annotation"].where(ops["annotation"] != "", ops["pass"])
    ops = ops.assign(end_ns=ops["start_ns"] + ops["duration_ns"], range=ranges)
    firsts = meets.groupby("rank")["start_ns"].min()
    late = int(np.asarray(firsts.index)[int(np.argmax(firsts.to_numpy()))])
    ops = ops[ops["kind"] == "kernel"].loc[:, ["rank", "range", "start_ns", "end_ns"]].reset_index(drop=True)
    name = f"ranks you have not seen ({EXPERIMENT}, {RUN})"
    return [_case(name, (ops, meets, late, 500_000))]
