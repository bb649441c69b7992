"""Hidden cases of advanced-ex05, part b (find the cause): a generator or a capture in, cases out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals, stacks, switches
from labcode.exercises.advanced.ex05_profile import EXPERIMENT, RUN, TOLERANCE, WAIT, Stack, tables, wilson
from labcode.exercises.cases import Case, Mistake, Task
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
Window = tuple[int, int]
Threads = list[tuple[int, int]]
OWN = "app/"
_PERIOD_NS = 5_000_000
_WINDOW = (1_000_000_000, 1_500_000_000)
_TRACKER: Stack = (("main", "lib/python3.12/multiprocessing/resource_tracker.py"),)
_LOADS = ("loads", "lib/python3.12/json/__init__.py")


def busy_threads(running: pd.DataFrame, window: Window, *, cut: bool = True, by_tid: bool = False) -> Threads:
    """Part b's busy_threads; the flags are the typical mistakes."""
    found: Threads = []
    keys = ["tid"] if by_tid else ["pid", "tid"]
    for _, part in running.groupby(keys):
        start, end = part["start_ns"].to_numpy(np.int64), part["end_ns"].to_numpy(np.int64)
        spent = (
            sum(b - a for a, b in zip(*intervals.clip(start, end, window), strict=True))
            if cut
            else (end - start).sum()
        )
        if 2 * spent >= window[1] - window[0]:
            found += sorted({(int(pid), int(tid)) for pid, tid in zip(part["pid"], part["tid"], strict=True)})
    return sorted(found)


def cause(
    samples: pd.DataFrame,
    frames: pd.DataFrame,
    threads: Threads | None,
    window: Window | None,
    own: str,
    *,
    states: bool = True,
    outermost: bool = False,
    of_own: bool = False,
) -> dict[str, Any] | None:
    """Part b's cause for some threads (None: all); no window, and the flags, are typical mistakes."""
    chosen = stacks.during(samples, window)
    if threads is not None:
        pairs = zip(chosen["pid"], chosen["tid"], strict=True)
        chosen = chosen[[(int(pid), int(tid)) in threads for pid, tid in pairs]]
    if states:
        chosen = chosen[chosen["thread_state"] == "running"]
    mine = frames[frames["sample"].isin(chosen["sample"]) & frames["file"].str.startswith(own)]
    mine = mine.sort_values("depth", ascending=not outermost).drop_duplicates("sample")
    counts = stacks.python_labels(mine).value_counts()
    if not len(counts):
        return None
    function = min(counts.index, key=lambda label: (-int(counts[label]), label))
    hits, count = int(counts[function]), len(mine) if of_own else len(chosen)
    low, high = wilson(hits, count)
    speedup = 1 / (1 - hits / count) if hits < count else math.inf
    return {"function": function, "share": hits / count, "low": low, "high": high, "speedup": speedup}


def _scene(
    rng: Rng,
    shares: Sequence[tuple[Stack, float]],
    *,
    workers: int = 3,
    idle: bool = False,
    same_tids: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
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
    samples, frames = tables([rows[i] for i in rng.permutation(len(rows))], rng)
    running = pd.DataFrame(on, columns=["pid", "tid", "start_ns", "end_ns"]).astype("int64")
    return samples, frames, running.iloc[rng.permutation(len(running))].reset_index(drop=True)


def _stack(*frames: tuple[str, str]) -> Stack:
    return (("main", "app/worker.py"), *frames)


def _cases_of(
    name: str,
    seen: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
    window: Window,
    own: str = OWN,
    *,
    exam: bool = False,
) -> list[Case]:
    samples, frames, running = seen
    busy = busy_threads(running, window)
    states = samples["thread_state"].value_counts()
    given = (samples, frames)
    within = stacks.during(samples, window)
    leaf = _by_leaf(samples, frames, busy, window)
    return [
        Case(
            name=name,
            summary=f"{len(running)} intervals of {len(running.drop_duplicates(['pid', 'tid']))} threads; "
            f"window = {window}",
            function="busy_threads",
            arguments=(running, window),
            expected=busy,
            mistakes=(
                Mistake("intervals are not cut to the window", busy_threads(running, window, cut=False)),
                Mistake(
                    "thread ids repeat from process to process: a thread is pid and tid",
                    busy_threads(running, window, by_tid=True),
                ),
                Mistake(
                    "these are all threads: which ran for half of the window?",
                    sorted({(int(p), int(t)) for p, t in zip(running["pid"], running["tid"], strict=True)}),
                ),
            ),
            exam=exam,
        ),
        Case(
            name=name,
            summary=f"{len(samples)} samples ({states.get('running', 0)} running), {len(within)} of them in "
            f"the window; {len(busy)} busy threads; own = {own!r}",
            function="cause",
            arguments=(samples, frames, running, window, own),
            expected=cause(*given, busy, window, own),
            mistakes=(
                Mistake(
                    "samples of all threads are counted: only those of busy threads matter",
                    cause(*given, None, window, own),
                ),
                Mistake("samples outside of the window are counted", cause(*given, busy, None, own)),
                Mistake(
                    "samples of threads that wait are counted", cause(*given, busy, window, own, states=False)
                ),
                Mistake(
                    "put each sample down to the INNERMOST frame of own code",
                    cause(*given, busy, window, own, outermost=True),
                ),
                Mistake(
                    "the share is of all chosen samples, also those without a frame of own code",
                    cause(*given, busy, window, own, of_own=True),
                ),
                Mistake(
                    "the innermost function may be a library's: put it down to the own code that called it",
                    leaf,
                ),
            ),
            relative=TOLERANCE,
            exam=exam,
            limit_s=20.0,
        ),
    ]


def _by_leaf(
    samples: pd.DataFrame, frames: pd.DataFrame, busy: Threads, window: Window
) -> dict[str, Any] | None:
    """The answer of whoever takes the innermost function, whosever it is."""
    return cause(samples, frames[frames["depth"] == 0], busy, window, "")


def _cases(rng: Rng) -> list[Case]:
    shares = rng.permutation([0.5, 0.3, 0.2])
    plain = [
        (_stack(("decode", "app/decode.py")), float(shares[0])),
        (_stack(("augment", "app/augment.py")), float(shares[1])),
        (_stack(), float(shares[2])),
    ]
    library = [
        (_stack(("parse", "app/parse.py"), _LOADS), 0.32),
        (_stack(("parse", "app/parse.py"), ("match", "lib/python3.12/re.py")), 0.22),
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
    ]
    order = [0, *(1 + rng.permutation(len(scenes) - 1)).tolist()]
    return [case for place in order for case in _cases_of(scenes[place][0], scenes[place][1], _WINDOW)]


def _read(captures: CaptureSet) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, Window]:
    with open_run(captures, EXPERIMENT, RUN) as report:
        window = report.window()
        states = switches.thread_states(report.context_switches(), window)
        samples, frames = report.python_samples(), report.python_frames()
    running = states[states["state"] == "running"].drop(columns="state").reset_index(drop=True)
    return samples, frames, running, window


def _exam(captures: CaptureSet) -> list[Case]:
    samples, frames, running, window = _read(captures)
    name = f"a capture you have not seen ({EXPERIMENT})"
    return _cases_of(name, (samples, frames, running), window, "labcode/", exam=True)


def _notes(captures: CaptureSet) -> list[str]:
    samples, frames, running, window = _read(captures)
    busy = busy_threads(running, window)
    found = cause(samples, frames, busy, window, "labcode/")
    if found is None:
        return []
    return [
        f"In the capture that you were graded on, {len(busy)} threads had no time left, and "
        f"{found['function'].partition(' ')[0]} took {found['low']:.0%} to {found['high']:.0%} of it: "
        f"without it they would be up to {found['speedup']:.1f} times as fast."
    ]


CAUSE = Task(_cases, _exam, _notes)
