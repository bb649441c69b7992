"""Hidden cases of part b (find the cause): a generator or a capture in, cases out."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.numeric import wilson
from labcode.analysis.timeline import intervals, stacks, switches
from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.store import CaptureSet
from solutions.advanced.ex05_cpu_sampling.a_cases import (
    EXPERIMENT,
    RUN,
    TOLERANCE,
    WAIT,
    Rng,
    Stack,
    tables,
)

Window = tuple[int, int]
Seen = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]  # samples, frames, running
OWN = "app/"
_PERIOD_NS = 5_000_000
_WINDOW = (1_000_000_000, 1_500_000_000)
_TRACKER: Stack = (("main", "lib/python3.12/multiprocessing/resource_tracker.py"),)
_LOADS = ("loads", "lib/python3.12/json/__init__.py")


def _scene(
    rng: Rng,
    shares: Sequence[tuple[Stack, float]],
    *,
    workers: int = 3,
    idle: bool = False,
    same_tids: bool = False,
) -> Seen:
    """A main thread that waits, workers with these stacks, and a tracker which is said to run and does not.

    Before the window and after it the workers do something else.
    """
    begin, end = _WINDOW
    rows: list[tuple[int, int, int, str, Stack]] = []
    on: list[tuple[int, int, int, int]] = []
    warm: Stack = (("main", "app/worker.py"), ("import_all", "app/setup.py"))
    kinds = [stack for stack, _ in shares]
    weights = np.array([share for _, share in shares])
    for number in range(workers):
        pid = 200 + 20 * number
        tid = 77 if same_tids else pid
        for at in range(begin - 60 * _PERIOD_NS, end + 60 * _PERIOD_NS, _PERIOD_NS):
            at += int(rng.integers(0, 400_000))
            if begin <= at < end:
                stack = kinds[int(rng.choice(len(kinds), p=weights / weights.sum()))]
                waits = rng.random() < (0.8 if idle else 0.08)
                rows.append((at, pid, tid, "blocking wait" if waits else "running", WAIT if waits else stack))
            else:
                rows.append((at, pid, tid, "running", warm))
        reach = int((0.2 if idle else 0.97) * (end - begin))
        on += [(pid, tid, begin - 300_000_000, begin + reach // 2)]
        on += [(pid, tid, end - reach // 2, end + (300_000_000 if not idle else 0))]
    if same_tids:  # a thread of another process with the same number, which hardly runs
        on.append((90, 77, begin, begin + 20_000_000))
        rows += [(begin + i * _PERIOD_NS, 90, 77, "running", (("main", "app/log.py"),)) for i in range(95)]
    for i in range((end - begin) // _PERIOD_NS):
        at = begin + i * _PERIOD_NS + int(rng.integers(0, 400_000))
        rows.append((at, 100, 100, "blocking wait", (("main", "app/train.py"), *WAIT[1:])))
        rows += [
            (at, 101, tid, "running", (("serve", "app/tracker.py"), *_TRACKER))
            for tid in (101, 102, 103, 104)
        ]
    on += [(100, 100, begin + i * 50_000_000, begin + i * 50_000_000 + 9_000_000) for i in range(10)]
    on.append((101, 101, begin - 900_000_000, begin - 1_000))
    return _shuffled(rng, rows, on)


def _shuffled(
    rng: Rng, rows: Sequence[tuple[int, int, int, str, Stack]], on: Sequence[tuple[int, int, int, int]]
) -> Seen:
    samples, frames = tables([rows[i] for i in rng.permutation(len(rows))], rng)
    running = pd.DataFrame(on, columns=["pid", "tid", "start_ns", "end_ns"]).astype("int64")
    return samples, frames, running.iloc[rng.permutation(len(running))].reset_index(drop=True)


def _stack(*frames: tuple[str, str]) -> Stack:
    return (("main", "app/worker.py"), *frames)


def _at_the_edges(rng: Rng) -> Seen:
    """A thread that runs for exactly half of the window and others a little less; samples at both ends of the
    window; two functions with as many samples, of which the later label is seen first.
    """
    begin, end = _WINDOW
    half = (end - begin) // 2
    until = end - int(rng.integers(0, half))
    on = [(pid, tid, until - half, until) for pid, tid in ((41, 7), (40, 9))]
    on += [
        (40, 8, begin - 1000, begin + half - 1),
        (40, 8, begin - 5000, begin - 3000),
        (40, 8, end, end + 9),
        (40, 9, end + 7, end + 2000),
    ]
    on.append((40, 5, begin, begin + int(0.9 * half)))
    zoom, adjust = _stack(("zoom", "app/zoom.py")), _stack(("adjust", "app/zoom.py"), _LOADS)
    times = [begin, end - 1, *rng.integers(begin, end, 8).tolist(), begin - 1, end]
    rows = [
        (at, 40, tid, "running", adjust if place % 2 else zoom)
        for place, at in enumerate(times)
        for tid in (9, 8)
    ]
    return _shuffled(rng, rows, on)


def _alone(rng: Rng) -> Seen:
    """All samples are of one function."""
    begin, end = _WINDOW
    times = rng.integers(begin, end, int(rng.integers(5, 20))).tolist()
    rows = [(at, 40, 9, "running", _stack(("spin", "app/spin.py"))) for at in times]
    return _shuffled(rng, rows, [(40, 9, begin, end)])


def _cases_of(name: str, seen: Seen, window: Window, own: str = OWN) -> list[Case]:
    samples, frames, running = seen
    states = samples["thread_state"].value_counts()
    threads = len(running.drop_duplicates(["pid", "tid"]))
    within = stacks.during(samples, window)
    return [
        Case(
            name,
            f"{len(running)} intervals of {threads} threads; window = {window}",
            "busy_threads",
            (running, window),
        ),
        Case(
            name,
            f"{len(samples)} samples ({states.get('running', 0)} running), {len(within)} of them in "
            f"the window; {len(_busy_threads(running, window))} busy threads; own = {own!r}",
            "cause",
            (samples, frames, running, window, own),
            relative=TOLERANCE,
            limit_s=20.0,
        ),
    ]


def cases(rng: Rng) -> list[Case]:
    """Both functions on programs that are slow for different reasons."""
    shares = rng.permutation([0.5, 0.3, 0.2])
    plain = [
        (_stack(("decode", "app/decode.py")), float(shares[0])),
        (_stack(("augment", "app/augment.py")), float(shares[1])),
        (_stack(), float(shares[2])),
    ]
    library = [
        (_stack(("parse", "app/parse.py"), _LOADS), 0.32),
        (_stack(("parse", "app/parse.py"), ("match", "site-packages/app/re.py")), 0.22),
        (_stack(("label", "app/label.py"), _LOADS), 0.24),
        (((("run", "lib/python3.12/threading.py")),), 0.22),
    ]
    nested = [
        (_stack(("load", "app/load.py"), ("inflate", "app/load.py")), 0.4),
        (_stack(("load", "app/load.py"), ("crop", "app/load.py")), 0.35),
        (_stack(("send", "app/send.py")), 0.25),
    ]
    foreign: list[tuple[Stack, float]] = [(((("run", "lib/python3.12/threading.py")),), 1.0)]
    scenes = [
        ("one function leads", _scene(rng, plain)),
        ("libraries that are called from several places", _scene(rng, library)),
        ("functions that call each other", _scene(rng, nested)),
        ("two threads of the same number", _scene(rng, plain, same_tids=True)),
        ("no thread is busy", _scene(rng, plain, idle=True)),
        ("no code of your own", _scene(rng, foreign, workers=2)),
        ("a single worker", _scene(rng, nested, workers=1)),
        ("times exactly at the edges, and equal functions", _at_the_edges(rng)),
        ("nothing else to do", _alone(rng)),
    ]
    order = [0, *(1 + rng.permutation(len(scenes) - 1)).tolist()]
    return [case for place in order for case in _cases_of(*scenes[place], _WINDOW)]


def _read(captures: CaptureSet) -> tuple[Seen, Window]:
    with open_run(captures, EXPERIMENT, RUN) as report:
        window = report.window()
        states = switches.thread_states(report.context_switches(), window)
        samples, frames = report.python_samples(), report.python_frames()
    running = states[states["state"] == "running"].drop(columns="state").reset_index(drop=True)
    return (samples, frames, running), window


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to a capture."""
    return _cases_of(f"a capture you have not seen ({EXPERIMENT})", *_read(captures), "labcode/")


def notes(captures: CaptureSet, answered: Sequence[tuple[Case, Any]]) -> list[str]:
    """What the answers say about the capture."""
    (_, busy), (_, found) = answered
    if found is None:
        return []
    return [
        f"In the capture that you were graded on, {len(busy)} threads had no time left, and "
        f"{found['function'].partition(' ')[0]} took {found['low']:.0%} to {found['high']:.0%} of it: "
        f"without it they would be up to {found['speedup']:.1f} times as fast."
    ]


def _busy_threads(running: pd.DataFrame, window: Window) -> list[tuple[int, int]]:
    found = []
    for (pid, tid), part in running.groupby(["pid", "tid"]):
        spans = part["start_ns"].to_numpy(np.int64), part["end_ns"].to_numpy(np.int64)
        if 2 * intervals.total(*intervals.clip(*spans, window)) >= window[1] - window[0]:
            found.append((int(pid), int(tid)))
    return found


def _cause(
    samples: pd.DataFrame, frames: pd.DataFrame, running: pd.DataFrame, window: Window, own: str
) -> dict[str, Any] | None:
    busy = pd.MultiIndex.from_tuples(_busy_threads(running, window), names=["pid", "tid"])
    chosen = stacks.during(samples[samples["thread_state"] == "running"], window)
    chosen = chosen[pd.MultiIndex.from_frame(chosen[["pid", "tid"]]).isin(busy)]
    mine = frames[frames["file"].str.startswith(own)]
    folded = stacks.fold(mine, stacks.python_labels(mine), chosen["sample"])
    if folded.empty:
        return None
    most = stacks.functions(folded).sort_values(["self", "label"], ascending=[False, True]).iloc[0]
    hits, count = int(most["self_count"]), len(chosen)
    low, high = wilson(hits, count)
    speedup = math.inf if hits == count else count / (count - hits)
    return {"function": most["label"], "share": hits / count, "low": low, "high": high, "speedup": speedup}


AGREES_WITH = {"busy_threads": _busy_threads, "cause": _cause}
