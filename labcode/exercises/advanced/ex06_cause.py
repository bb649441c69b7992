"""Hidden cases of advanced-ex06, part b (what stalls the feed): a generator or a capture in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.os_runtime import WAITING
from labcode.exercises.advanced.ex06_scenes import Seen, describe, exam, scenes
from labcode.exercises.advanced.ex06_waits import FORBIDDEN
from labcode.exercises.cases import Case, Mistake, Task
from labcode.store import CaptureSet

Spans = tuple[NDArray[np.int64], NDArray[np.int64]]
Found = dict[str, Any]
OPENS = ("open", "open64", "openat", "openat64")


def cause(
    seen: Seen,
    *,
    everybody: bool = False,
    anywhere: bool = False,
    whole: bool = False,
    pooled: bool = False,
    added: bool = False,
    of_window: bool = False,
    longest: bool = False,
    most_calls: bool = False,
    behind: str = "lock",
    any_class: bool = False,
    least: float = 0.1,
) -> Found | None:
    """The answer; the flags are the typical mistakes."""
    calls, window = seen.calls, seen.window
    gaps = intervals.union(seen.gaps["start_ns"], seen.gaps["end_ns"])
    idle = int((gaps[1] - gaps[0]).sum())
    opened = calls[calls["name"].isin(OPENS)]
    if everybody:
        opened = calls
    readers = {
        thread for thread, part in opened.groupby(["pid", "tid"]) if anywhere or _total(_inside(part, gaps))
    }
    if not readers or not idle:
        return None
    pairs = zip(calls["pid"].tolist(), calls["tid"].tolist(), strict=True)
    mine = calls[[pair in readers for pair in pairs]]
    times = (np.array([window[0]]), np.array([window[1]])) if whole else gaps
    divisor = window[1] - window[0] if whole or of_window else idle
    shares: dict[str, float] = {}
    weights: dict[str, float] = {}
    for name, part in mine.groupby("name"):
        each = [_total(_inside(one, times)) for _, one in part.groupby(["pid", "tid"])]
        spent = _total(_inside(part, times)) if pooled else sum(each) / (1 if added else len(readers))
        shares[str(name)] = spent / divisor
        inside = part[part["start_ns"].lt(window[1]) & part["end_ns"].gt(window[0])]
        length = (inside["end_ns"] - inside["start_ns"]).max()
        weights[str(name)] = len(inside) if most_calls else length if longest else shares[str(name)]
    call = max(weights, key=lambda name: weights[name])
    locked = bool((mine.loc[mine["name"] == call, "call_class"] == "lock").all())
    found: Found = {"call": call, "share": shares[call], "behind": None}
    if behind == "always" or (behind == "lock" and locked):
        waited = _inside(mine[mine["name"] == call], gaps)
        work = mine[mine["name"] != call] if any_class else mine[~mine["call_class"].isin(WAITING)]
        work = work[work["name"] != call]
        meanwhile = {str(name): _total(_inside(part, waited)) for name, part in work.groupby("name")}
        most = max(meanwhile, key=lambda name: meanwhile[name], default=None)
        if most is not None and meanwhile[most] >= max(least * _total(waited), 1):
            found["behind"] = most
    return found


def _inside(part: pd.DataFrame, times: Spans) -> Spans:
    return intervals.intersect(part["start_ns"], part["end_ns"], *times)


def _total(spans: Spans) -> int:
    return intervals.total(*spans)


def _case(name: str, seen: Seen, *, exam: bool = False) -> Case:
    wrong: list[tuple[str, Found | None]] = [
        ("this is somebody who waits for the readers: begin with the threads that open files",
         cause(seen, everybody=True)),
        ("a thread that opens files only while the GPUs are busy is no reader", cause(seen, anywhere=True)),
        ("the time within the gaps counts, not that of the whole window", cause(seen, whole=True)),
        ("the share is one of the gaps' time, not of the window", cause(seen, of_window=True)),
        ("readers stall at once: take the union of each by itself, then the mean", cause(seen, pooled=True)),
        ("this is the sum over the readers: divide by their number", cause(seen, added=True)),
        ("this is the longest call; one call does not stall a feed for all of the gaps",
         cause(seen, longest=True)),
        ("this is the call with the most instances, however short; time counts",
         cause(seen, most_calls=True)),
        ("nobody holds anything here: behind is None where the call is no lock",
         cause(seen, behind="always")),
        ("a lock is held by somebody: behind it is what readers do while others wait",
         cause(seen, behind="never")),
        ("behind the lock is work: lock, sleep, poll and process are waits of others",
         cause(seen, any_class=True)),
        ("what is behind the lock needs a tenth of the times; others happen to be in this call",
         cause(seen, least=0.0)),
        ("without a reader there is nothing to say: None", {"call": None, "share": 0.0, "behind": None}),
    ]  # fmt: skip
    return Case(
        name=name,
        summary=describe(seen),
        function="cause",
        arguments=(seen.calls, seen.gaps, seen.window),
        expected=cause(seen),
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        exam=exam,
        limit_s=30.0 if exam else 10.0,
    )


def _cases(rng: np.random.Generator) -> list[Case]:
    return [_case(name, seen) for name, seen in scenes(rng)]


def _exam(captures: CaptureSet) -> list[Case]:
    return [_case("a capture you have not seen (os_runtime)", exam(captures), exam=True)]


def _notes(captures: CaptureSet) -> list[str]:
    """What the answer says about the capture of the exam."""
    found = cause(exam(captures))
    if found is None:
        return []
    behind = f", behind it {found['behind']}" if found["behind"] else ", and nobody holds anything"
    return [f"the readers spend {found['share']:.0%} of the gaps in {found['call']}{behind}"]


CAUSE = Task(_cases, _exam, _notes, forbidden=FORBIDDEN)
