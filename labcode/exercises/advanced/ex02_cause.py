"""Hidden cases of advanced-ex02, part b (what bounds the run): a generator or a capture in, cases out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from labcode.analysis.timeline import intervals
from labcode.exercises.advanced.ex02_scenes import (
    EXPERIMENT,
    MEASURED,
    STAGES,
    WAIT,
    Run,
    describe,
    exam,
    scenes,
)
from labcode.exercises.advanced.ex02_schedule import RUNS
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.store import CaptureSet

Found = dict[str, Any]
FORBIDDEN = ("labcode.analysis.timeline.feed", "labcode.analysis.timeline.utilization", "labcode.exercises")


def bound(
    run: Run,
    *,
    feeders_only: bool = True,
    counted: bool = True,
    by_tid: bool = False,
    own_loop: bool = True,
    whole: bool = True,
    merged: bool = True,
    cut: bool = True,
    divided: bool = True,
    batched: bool = True,
    added: bool = True,
    rounded: bool = False,
    floor: bool = True,
    by_longest: bool = False,
    inverted: bool = False,
) -> Found | None:
    """The answer; the flags are the typical mistakes."""
    ranges, (begin, end) = run.ranges, run.window
    loops = ranges.loc[ranges["name"] == MEASURED, ["pid", "tid"]]
    loop = (int(loops["pid"].iloc[0]), int(loops["tid"].iloc[0]))
    of_loop = (ranges["pid"] == loop[0]) & (ranges["tid"] == loop[1])
    asks = ranges[(ranges["name"] == WAIT) & (of_loop | (not own_loop))]
    steps = int(((asks["start_ns"] >= begin) & (asks["start_ns"] < end)).sum())
    stages = ranges[ranges["name"].isin(STAGES)]
    if whole:
        stages = stages[(stages["start_ns"] >= begin) & (stages["end_ns"] <= end)]
    keys = ["tid"] if by_tid else ["pid", "tid"]
    kinds = stages.groupby(["pid", "tid"])["name"].nunique()
    feeders = set(kinds[kinds == len(STAGES)].index) if feeders_only else set(kinds.index)
    of_feeders = [not counted or pair in feeders for pair in zip(stages["pid"], stages["tid"], strict=True)]
    stages = stages[of_feeders]
    if not steps or not len(stages):
        return None
    threads = stages[keys].drop_duplicates() if counted else feeders
    workers = len(threads) if loop not in feeders else 0
    spent = (stages["end_ns"] - stages["start_ns"]).astype("float64").groupby(stages["name"])
    each = spent.max() if by_longest else spent.mean()
    items = run.batch if batched else 1
    sharing = max(workers, 1) if divided else 1
    feed_ns = items * float(each.sum()) / sharing
    at = run.ops["start_ns"].to_numpy(np.int64), run.ops["end_ns"].to_numpy(np.int64)
    if cut:
        at = intervals.clip(*at, run.window)
    busy = intervals.total(*at) if merged else int((at[1] - at[0]).sum())
    gpu_ns = busy / steps

    def step(fed: float) -> float:
        return fed + gpu_ns if not workers and added else max(fed, gpu_ns if floor else 0.0)

    stage = str(each.idxmax())
    without = feed_ns - items * float(each[stage]) / sharing
    measured = (end - begin) / steps
    waited = intervals.total(*intervals.clip(asks["start_ns"], asks["end_ns"], run.window))
    share = step(feed_ns) / measured
    needed = items * float(each.sum()) / gpu_ns
    return {
        "wait_share": waited / (end - begin),
        "bound": "feed" if feed_ns > gpu_ns else "gpu",
        "feed_ns": feed_ns,
        "gpu_ns": gpu_ns,
        "explained": 1 / share if inverted else share,
        "stage": stage,
        "gain": step(feed_ns) / step(without),
        "enough": round(needed) if rounded else math.ceil(needed),
    }


def _case(name: str, run: Run, *, exam: bool = False) -> Case:
    right = bound(run)
    wrong: list[tuple[str, Found | None]] = [
        ("a thread that only reads feeds nobody: feeders have ranges of all three stages",
         bound(run, feeders_only=False)),
        ("a thread that only reads feeds nobody: feeders have ranges of all three stages",
         bound(run, counted=False)),
        ("thread ids repeat from process to process: a thread is pid and tid", bound(run, by_tid=True)),
        ("the loop is the thread with `lab:measured`; another one waits for data, too",
         bound(run, own_loop=False)),
        ("ranges that reach over the window's ends are in the means; only whole ones count",
         bound(run, whole=False)),
        ("what overlaps on the GPU counts twice: gpu_ns is of the union", bound(run, merged=False)),
        ("GPU operations are not cut to the window", bound(run, cut=False)),
        ("this is the time of one worker: they work side by side, divide by their number",
         bound(run, divided=False)),
        ("this is the time of one item: a step takes a batch of them", bound(run, batched=False)),
        ("without workers the loop cannot feed and launch at once: the times add up",
         bound(run, added=False)),
        ("2.1 workers are not enough with 2: round up", bound(run, rounded=True)),
        ("however fast the feed, a step is no shorter than the GPU's own time", bound(run, floor=False)),
        ("one long range is no slow stage: take the mean", bound(run, by_longest=True)),
        ("explained is predicted / measured", bound(run, inverted=True)),
    ]  # fmt: skip
    if right is None:
        wrong.append(("nobody feeds, or there is no step: None", {}))
    return Case(
        name=name,
        summary=describe(run),
        function="bound",
        arguments=(run.ranges, run.ops, run.window, run.batch),
        expected=right,
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        exam=exam,
        show=lambda answer: brief(answer, 400),
        limit_s=30.0 if exam else 10.0,
    )


def _cases(rng: np.random.Generator) -> list[Case]:
    return [_case(name, run) for name, run in scenes(rng)]


def _exam(captures: CaptureSet) -> list[Case]:
    name = "a capture you have not seen"
    return [_case(f"{name} ({EXPERIMENT}, {run})", exam(captures, run), exam=True) for run in RUNS]


def _notes(captures: CaptureSet) -> list[str]:
    """What the answers say about the captures of the exam."""
    lines = []
    for run in RUNS:
        found = bound(exam(captures, run))
        if found is not None:
            lines.append(
                f"{run}: the loop waits for data {found['wait_share']:.0%} of the time; {found['stage']} "
                f"costs most, without it a step would be {found['gain']:.1f} times as fast at most; the "
                f"two rates explain {found['explained']:.0%} of a step, the rest is handing over and waiting "
                "for a turn"
            )
    return lines


BOUND = Task(_cases, _exam, _notes, forbidden=FORBIDDEN)
