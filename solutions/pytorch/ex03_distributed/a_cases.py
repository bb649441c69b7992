"""Hidden cases of part a (meetings): a generator or a capture in, cases out."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline.overlap import is_communication
from labcode.grading.cases import Case, brief
from labcode.reports.kineto.report import KinetoReport
from labcode.store import CaptureSet
from solutions.pytorch._shared import open_ranks_of

Rng = np.random.Generator
EXPERIMENT, RUN = "torch_distributed", "exam_straggler"
COLUMNS = ["rank", "group", "start_ns", "end_ns"]


def _run(
    rng: Rng, ranks: int, count: int, *, late: int | None = None, groups: tuple[str, ...] = ("0",),
    cut: int = 0, early_end: bool = False,
) -> pd.DataFrame:  # fmt: skip
    """Collectives of some ranks; ``late`` comes late mostly; ``cut`` ranks lack the last ones."""
    rows = []
    free = int(rng.integers(10**6, 10**9))
    for number in range(count):
        group = groups[number % len(groups)]
        some = 2 if group == "pair" else ranks  # of a group of two the others know nothing
        begins = [free + int(rng.integers(0, 4_000)) for _ in range(some)]
        if late is not None and late < some and rng.random() < 0.85:
            begins[late] += int(rng.integers(20_000, 60_000))
        end = max(begins) + int(rng.integers(10_000, 30_000))
        for rank, start in enumerate(begins):
            if number >= count - len(groups) and rank < cut:
                continue
            gone = early_end and number == 1 and rank == 0
            rows.append((rank, group, start, start + 2_000 if gone else end + int(rng.integers(0, 900))))
        free = end + int(rng.integers(1_000, 9_000))
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.iloc[rng.permutation(len(table))].reset_index(drop=True)


def _edges(rng: Rng) -> list[tuple[str, pd.DataFrame]]:
    """Who comes last, or is waited for the longest, together with another."""
    at, unit = int(rng.integers(10**6, 10**9)), int(rng.integers(100, 900))

    def made(*rows: tuple[int, int, int]) -> pd.DataFrame:
        return pd.DataFrame([(r, "0", at + a * unit, at + b * unit) for r, a, b in rows], columns=COLUMNS)

    return [
        ("two ranks come last together", made((2, 50, 100), (0, 0, 100), (1, 50, 100))),
        (
            "half of the waiting is for one rank, half for another",
            made((0, 0, 20), (1, 10, 20), (1, 30, 50), (0, 40, 50)),
        ),
        (
            "two at once, of which the first ends last",
            made((0, 0, 100), (0, 10, 20), (1, 5, 30), (1, 40, 90)),
        ),
        ("nobody waits", made((0, 0, 20), (1, 0, 30))),
    ]


def _scenes(rng: Rng) -> list[tuple[str, pd.DataFrame]]:
    return [
        ("two ranks, one meeting", _run(rng, 2, 1)),
        ("four ranks, one of them late", _run(rng, 4, 6, late=int(rng.integers(4)))),
        ("nobody in particular is late", _run(rng, 4, 12)),
        ("two process groups", _run(rng, 3, 9, late=1, groups=("0", "dp"))),
        ("a group of two among four", _run(rng, 4, 8, late=3, groups=("pair", "0"))),
        ("a recording that ends in the middle of a meeting", _run(rng, 4, 5, late=2, cut=1)),
        ("two groups, two ranks lack their last ones", _run(rng, 5, 8, late=3, groups=("0", "1"), cut=2)),
        ("a kernel that ends before the last one comes", _run(rng, 3, 6, late=2, early_end=True)),
        ("eight ranks", _run(rng, 8, 10, late=int(rng.integers(8)))),
        *_edges(rng),
        ("one rank alone", _run(rng, 1, 4)),
        ("no collective at all", _run(rng, 2, 0)),
    ]


def collectives(report: KinetoReport) -> pd.DataFrame:
    """The collectives of the recorded step, as the exercise has them."""
    talk = report.kernels()
    talk = talk[is_communication(talk)]
    marks = report.annotations()
    begin = marks[marks["name"] == "step 0"].groupby("rank")["start_ns"].min()
    talk = talk[talk["start_ns"] >= talk["rank"].map(begin).fillna(0)]
    return talk.assign(group=talk["process_group"])[COLUMNS].reset_index(drop=True)


def _case(name: str, table: pd.DataFrame) -> Case:
    summary = f"{len(table)} collectives of {table['rank'].nunique()} ranks in their groups"
    return Case(name, summary, "meetings", (table,), table=table, show=partial(brief, limit=400))


def cases(rng: Rng) -> list[Case]:
    """The one function, on runs of some ranks."""
    return [_case(name, table) for name, table in _scenes(rng)]


def exam(captures: CaptureSet) -> list[Case]:
    """The collectives of a capture."""
    with open_ranks_of(captures, EXPERIMENT, RUN) as report:
        return [_case(f"ranks you have not seen ({EXPERIMENT}, {RUN})", collectives(report))]


def notes(_: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """Who waited for whom."""
    found = answered[0][1]
    waited = sum(found["waits"].values()) / max(len(found["waits"]), 1)
    who = "nobody in particular" if found["straggler"] is None else f"rank {found['straggler']}"
    return [
        f"{RUN}: {found['meetings']} meetings, {found['exchange_ns'] / 1e6:.2f} ms of exchange; a rank waits "
        f"{waited / 1e6:.2f} ms on the average, for {who}"
    ]
