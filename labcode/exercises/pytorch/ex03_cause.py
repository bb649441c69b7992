"""Hidden cases of pytorch-ex03, part b (what the late rank did): a generator or a capture in, cases out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.analysis.timeline import links as kineto_links
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.exercises.pytorch.ex03_meetings import EXPERIMENT, FORBIDDEN, RUN, collectives
from labcode.exercises.pytorch.exam import open_ranks_of
from labcode.store import CaptureSet

Rng = np.random.Generator
Answer = list[object] | None
RANGES = ("forward", "backward", "data", "evaluate", "log")
LEAST_NS = 50_000


def cause(
    ops: pd.DataFrame, meets: pd.DataFrame, late: int, least: int, *, before: bool = True,
    everywhere: bool = False,
    zeros: bool = True, mean: bool = True, limit: bool = True, longest: bool = False, absolute: bool = False,
) -> Answer:  # fmt: skip
    """The answer; the flags are the typical mistakes."""
    until = meets.groupby("rank")["start_ns"].min()
    ranks = sorted(until.index)
    shown = ops[ops["rank"].isin(ranks)]
    if before:
        limits = shown["rank"].map(until) if not everywhere else int(until.min())
        shown = shown[shown["start_ns"] < limits]
    spent = shown.assign(ns=shown["end_ns"] - shown["start_ns"])
    table = spent.pivot_table(index="range", columns="rank", values="ns", aggfunc="sum")
    table = table.reindex(columns=ranks)
    table = table.fillna(0) if zeros else table
    others = table.drop(columns=late)
    extra = table[late] - (others.mean(axis=1) if mean else others.max(axis=1))
    extra = (table[late] if longest else extra).dropna()
    order = sorted(zip(-(extra.abs() if absolute else extra), extra.index, strict=True))
    if not order or (limit and not -order[0][0] > least):
        return None
    return [order[0][1], float(extra[order[0][1]])]


def scene(rng: Rng, ranks: int, late: int | None, name: str = "evaluate", *, own: bool = False) -> tuple[
    pd.DataFrame, pd.DataFrame, int, int
]:  # fmt: skip
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
    table = pd.DataFrame(meets, columns=["rank", "group", "start_ns", "end_ns"])
    chosen = late if late is not None else int(rng.integers(ranks))
    shuffled = ops.iloc[rng.permutation(len(ops))].reset_index(drop=True)
    return shuffled, table.iloc[rng.permutation(len(table))].reset_index(drop=True), chosen, LEAST_NS


def _case(name: str, given: tuple[pd.DataFrame, pd.DataFrame, int, int], *, exam: bool = False) -> Case:
    wrong: list[tuple[str, Answer]] = [
        (
            "after the first meeting ranks differ for other reasons: look only before",
            cause(*given, before=False),
        ),
        ("each rank has a first meeting of its own: its own start counts", cause(*given, everywhere=True)),
        ("a range that a rank does not have took 0 ns there", cause(*given, zeros=False)),
        ("compare with the mean of the others, not with the longest", cause(*given, mean=False)),
        ("no range stands out: None", cause(*given, limit=False)),
        ("the range with the most time is not the one that differs", cause(*given, longest=True)),
    ]
    ops, meets, late, least = given
    return Case(
        name=name,
        summary=f"{len(ops)} operations and {len(meets)} collectives of {meets['rank'].nunique()} ranks, "
        f"late = {late}, least = {least}",
        function="cause",
        arguments=given,
        expected=cause(*given),
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        exam=exam,
        show=lambda answer: brief(answer, 200),
    )


def _cases(rng: Rng) -> list[Case]:
    return [
        _case("two ranks, one has more of a range", scene(rng, 2, 1)),
        _case("four ranks, a range of the late one alone", scene(rng, 4, int(rng.integers(4)), own=True)),
        _case("more time in the data", scene(rng, 3, 0, "data")),
        _case("a range that takes long on all ranks", scene(rng, 4, 2, "log")),
        _case("rank 0 writes the log alone", scene(rng, 4, 0, "log", own=True)),
        _case("nothing stands out", scene(rng, 4, None)),
        _case("nothing stands out among two", scene(rng, 2, None)),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
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
    return [_case(name, (ops, meets, late, 500_000), exam=True)]


CAUSE = Task(_cases, _exam, forbidden=FORBIDDEN)
