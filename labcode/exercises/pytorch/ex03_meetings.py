"""Hidden cases of pytorch-ex03, part a (meetings): a generator or a capture in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline.overlap import is_communication
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.exercises.pytorch.exam import open_ranks_of
from labcode.reports.kineto.report import KinetoReport
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, RUN = "torch_distributed", "exam_straggler"
COLUMNS = ["rank", "group", "start_ns", "end_ns"]
FORBIDDEN = ("labcode.analysis", "labcode.exercises")
Answer = dict[str, Any]


def meetings(
    table: pd.DataFrame,
    *,
    by_group: bool = True,
    by_rank_only: bool = False,
    complete: bool = True,
    ordered: bool = True,
    clipped: bool = True,
    quickest: bool = True,
    half: bool = True,
    by_rank: bool = False,
    lateness: bool = False,
) -> Answer:
    """The answer; the flags are the typical mistakes."""
    ranks = sorted({int(rank) for rank in table["rank"]})
    rows = table.sort_values("start_ns", kind="stable") if ordered else table
    rows = rows if by_group else rows.assign(group="")
    rows = rows.assign(number=rows.groupby(["rank"] if by_rank_only else ["group", "rank"]).cumcount())
    members = {str(group): mine["rank"].nunique() for group, mine in rows.groupby("group")}
    waits, waited_for = dict.fromkeys(ranks, 0), dict.fromkeys(ranks, 0)
    count = exchange = 0
    for (group, _), mine in rows.groupby(["group", "number"], sort=True):
        if complete and len(mine) < members[str(group)]:
            continue
        count += 1
        last, first = int(mine["start_ns"].max()), int(mine["start_ns"].min())
        late = mine[mine["start_ns"] == last]["rank"].min()
        durations = mine["end_ns"] - mine["start_ns"]
        exchange += int(durations.min() if quickest else durations.max())
        for rank, start, end in zip(mine["rank"], mine["start_ns"], mine["end_ns"], strict=True):
            waited = int((min(last, end) if clipped else last) - start)
            waits[int(rank)] += int(start - first) if lateness else waited
            waited_for[int(late)] += waited
    everything = sum(waits.values())
    most = max(ranks, key=lambda rank: (waits[rank] if by_rank else waited_for[rank], -rank), default=None)
    enough = most is not None and (2 * waited_for[most] > everything if half else everything > 0)
    return {
        "meetings": count,
        "waits": waits,
        "waited_for": waited_for,
        "exchange_ns": exchange,
        "straggler": most if enough or by_rank else None,
    }


def run(
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


def scenes(rng: Rng) -> list[tuple[str, pd.DataFrame]]:
    """Runs by name."""
    return [
        ("two ranks, one meeting", run(rng, 2, 1)),
        ("four ranks, one of them late", run(rng, 4, 6, late=int(rng.integers(4)))),
        ("nobody in particular is late", run(rng, 4, 12)),
        ("two process groups", run(rng, 3, 9, late=1, groups=("0", "dp"))),
        ("a group of two among four", run(rng, 4, 8, late=3, groups=("pair", "0"))),
        ("a recording that ends in the middle of a meeting", run(rng, 4, 5, late=2, cut=1)),
        ("two groups, two ranks lack their last ones", run(rng, 5, 8, late=3, groups=("0", "1"), cut=2)),
        ("a kernel that ends before the last one comes", run(rng, 3, 6, late=2, early_end=True)),
        ("eight ranks", run(rng, 8, 10, late=int(rng.integers(8)))),
        ("one rank alone", run(rng, 1, 4)),
        ("no collective at all", run(rng, 2, 0)),
    ]


def collectives(report: KinetoReport) -> pd.DataFrame:
    """The collectives of the recorded step, as the exercise has them."""
    talk = report.kernels()
    talk = talk[is_communication(talk)]
    marks = report.annotations()
    begin = marks[marks["name"] == "step 0"].groupby("rank")["start_ns"].min()
    talk = talk[talk["start_ns"] >= talk["rank"].map(begin).fillna(0)]
    return talk.assign(group=talk["process_group"])[COLUMNS].reset_index(drop=True)


def _case(name: str, table: pd.DataFrame, *, exam: bool = False) -> Case:
    apart = "groups meet apart: number the collectives of each group and rank"
    wrong = [
        (apart, meetings(table, by_group=False)),
        (apart, meetings(table, by_rank_only=True)),
        ("a meeting that a rank of the group lacks does not count", meetings(table, complete=False)),
        ("rows are in no order: sort by start before you number them", meetings(table, ordered=False)),
        ("a rank waits no longer than its own kernel lasts", meetings(table, clipped=False)),
        ("the longest kernel waited; the exchange is the shortest", meetings(table, quickest=False)),
        ("nobody is the straggler unless more than half of all waiting is for that rank",
         meetings(table, half=False)),
        ("who waits most is not late: the straggler is waited for", meetings(table, by_rank=True)),
        ("this is how late each rank came; asked for is how long it waited", meetings(table, lateness=True)),
    ]  # fmt: skip
    return Case(
        name=name,
        summary=f"{len(table)} collectives of {table['rank'].nunique()} ranks in their groups",
        function="meetings",
        arguments=(table,),
        expected=meetings(table),
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        table=table,
        exam=exam,
        show=lambda answer: brief(answer, 400),
    )


def _cases(rng: Rng) -> list[Case]:
    return [_case(name, table) for name, table in scenes(rng)]


def _exam(captures: CaptureSet) -> list[Case]:
    with open_ranks_of(captures, EXPERIMENT, RUN) as report:
        return [_case(f"ranks you have not seen ({EXPERIMENT}, {RUN})", collectives(report), exam=True)]


def _notes(captures: CaptureSet) -> list[str]:
    with open_ranks_of(captures, EXPERIMENT, RUN) as report:
        found = meetings(collectives(report))
    waited = sum(found["waits"].values()) / max(len(found["waits"]), 1)
    who = "nobody in particular" if found["straggler"] is None else f"rank {found['straggler']}"
    return [
        f"{RUN}: {found['meetings']} meetings, {found['exchange_ns'] / 1e6:.2f} ms of exchange; a rank waits "
        f"{waited / 1e6:.2f} ms on the average, for {who}"
    ]


MEETINGS = Task(_cases, _exam, _notes, forbidden=FORBIDDEN)
