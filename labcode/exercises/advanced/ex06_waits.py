"""Hidden cases of advanced-ex06, part a (waits in gaps): a generator or a capture in, cases out."""

from __future__ import annotations

import numpy as np

from labcode.analysis.timeline import intervals
from labcode.exercises.advanced.ex06_scenes import Seen, describe, exam, scenes
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.store import CaptureSet

Rows = list[tuple[int, int, str, int]]
FORBIDDEN = (
    "labcode.analysis.timeline.os_runtime",
    "labcode.analysis.stats.nsys.stacks",
    "labcode.exercises",
)
PARKED = 0.95


def waits(
    seen: Seen,
    *,
    union: bool = True,
    merged: bool = True,
    cut: bool = True,
    parked: bool = True,
    within: bool = True,
    summed: bool = False,
    by_tid: bool = False,
    by_name: bool = False,
) -> Rows:
    """The answer; the flags are the typical mistakes."""
    calls, gaps, window = seen.calls, seen.gaps, seen.window
    start, end = calls["start_ns"], calls["end_ns"]
    if within:
        start, end = start.clip(*window), end.clip(*window)
    width = PARKED * (window[1] - window[0])
    if summed:
        spent = (end - start).groupby([calls["pid"], calls["tid"]]).sum()
        left_out = set(spent[spent >= width].index)
    else:
        long = calls[end - start >= width]
        left_out = set(zip(long["pid"].tolist(), long["tid"].tolist(), strict=True))
    tids = {tid for _, tid in left_out}
    low, high = gaps["start_ns"].to_numpy(np.int64), gaps["end_ns"].to_numpy(np.int64)
    found: Rows = []
    label = "name" if by_name else "call_class"
    for _, part in calls.groupby(["pid", "tid", label]):
        pid, tid, kind = part[["pid", "tid", label]].iloc[0].tolist()
        spans = part["start_ns"].to_numpy(np.int64), part["end_ns"].to_numpy(np.int64)
        if not cut:
            touched = intervals.covered_within(low, high, *spans) > 0
            ns = intervals.total(*(side[touched] for side in spans))
        elif not merged:
            ns = sum(intervals.total(*intervals.clip(*spans, gap)) for gap in zip(low, high, strict=True))
        elif not union:
            ns = int(intervals.covered_within(low, high, *spans).sum())
        else:
            ns = intervals.total(*intervals.intersect(*spans, low, high))
        gone = tid in tids if by_tid else (pid, tid) in left_out
        if ns and not (parked and gone):
            found.append((int(pid), int(tid), str(kind), int(ns)))
    return sorted(found)


def _case(name: str, seen: Seen, *, exam: bool = False) -> Case:
    right = waits(seen)
    wrong = {
        "calls inside of calls count twice: take the union of the calls of a class": waits(seen, union=False),
        "gaps of several GPUs overlap: take the union of the gaps": waits(seen, merged=False),
        "whole calls are counted; only the part within the gaps counts": waits(seen, cut=False),
        "a thread is missing whose tid is parked in another process: a thread is pid and tid": waits(
            seen, by_tid=True
        ),
        "parked threads are still in: leave out those with one call over 95 % of the window": waits(
            seen, parked=False
        ),
        "to be parked, only the part of a call within the window counts": waits(seen, within=False),
        "parked is who is in one single call; threads that make many are left out here": waits(
            seen, summed=True
        ),
        "these are times by name; asked for is the class of the calls": waits(seen, by_name=True),
    }
    mistakes = [Mistake(says, gives) for says, gives in wrong.items()]
    mistakes.append(
        Mistake("sorted by pid, tid, class; this is sorted by time", sorted(right, key=lambda row: -row[3]))
    )
    return Case(
        name=name,
        summary=describe(seen),
        function="waits",
        arguments=(seen.calls, seen.gaps, seen.window),
        expected=right,
        mistakes=tuple(mistakes),
        exam=exam,
        show=lambda rows: f"{len(rows)} rows: {brief(rows, 200)}" if isinstance(rows, list) else brief(rows),
        limit_s=30.0 if exam else 10.0,
    )


def _cases(rng: np.random.Generator) -> list[Case]:
    return [_case(name, seen) for name, seen in scenes(rng)]


def _exam(captures: CaptureSet) -> list[Case]:
    return [_case("a capture you have not seen (os_runtime)", exam(captures), exam=True)]


WAITS = Task(_cases, _exam, forbidden=FORBIDDEN)
