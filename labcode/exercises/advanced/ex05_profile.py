"""Hidden cases of advanced-ex05, part a (a profile): a generator or a capture in, cases out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from labcode.analysis.timeline import stacks
from labcode.exercises.cases import Case, Mistake, Task
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
Stack = tuple[tuple[str, str], ...]  # (function, file), the root first
EXPERIMENT, RUN = "cpu_sampling", "exam_baseline"
TOLERANCE = 1e-3  # z = 1.96 and its other digits are both right
_FUNCTIONS: Stack = (
    ("load", "app/load.py"),
    ("decode", "app/decode.py"),
    ("get", "app/load.py"),
    ("get", "lib/python3.12/queue.py"),
    ("walk", "app/tree.py"),
    ("loads", "lib/python3.12/json/__init__.py"),
    ("__call__", "site-packages/numpy/lib/_function_base_impl.py"),
)
_MAIN = ("main", "app/main.py")
WAIT: Stack = (_MAIN, ("get", "lib/python3.12/queue.py"), ("wait", "lib/python3.12/threading.py"))


def tables(rows: Sequence[tuple[int, int, int, str, Stack]], rng: Rng) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Samples and frames of (start_ns, pid, tid, thread_state, stack), the frames shuffled."""
    samples = pd.DataFrame(
        [(number, *row[:4]) for number, row in enumerate(rows)],
        columns=["sample", "start_ns", "pid", "tid", "thread_state"],
    ).astype({"sample": "int64", "start_ns": "int64", "pid": "int64", "tid": "int64", "thread_state": "str"})
    frames = pd.DataFrame(
        [
            (number, len(row[4]) - 1 - place, function, file, 10 + place)
            for number, row in enumerate(rows)
            for place, (function, file) in enumerate(row[4])
        ],
        columns=["sample", "depth", "function", "file", "line"],
    ).astype({"sample": "int64", "depth": "int64", "function": "str", "file": "str", "line": "int64"})
    return samples, frames.iloc[rng.permutation(len(frames))].reset_index(drop=True)


def random_stack(rng: Rng, *, recursive: bool = False) -> Stack:
    """A stack of the made-up program."""
    deep = int(rng.integers(0, 4))
    chosen = [_FUNCTIONS[i] for i in rng.choice(len(_FUNCTIONS), deep, replace=False)]
    if recursive:
        chosen += [("walk", "app/tree.py")] * int(rng.integers(2, 5))
        chosen += [("load", "app/load.py")] * int(rng.integers(0, 2))
    return (_MAIN, *chosen)


def _drawn(rng: Rng, count: int, *, waiting: float, recursive: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    known = [random_stack(rng, recursive=recursive and rng.random() < 0.6) for _ in range(6)]
    rows = []
    for place in range(count):
        waits = rng.random() < waiting
        stack = WAIT if waits else known[int(rng.integers(len(known)))]
        state = ("blocking wait", "uninterruptible")[rng.random() < 0.2] if waits else "running"
        rows.append((5_000_000 * place, 70, 70 + int(rng.integers(3)), state, stack))
    return tables(rows, rng)


def folded(
    samples: pd.DataFrame,
    frames: pd.DataFrame,
    *,
    states: bool = True,
    all_frames: bool = False,
    names: bool = False,
    leaf_first: bool = False,
    ordered: bool = True,
) -> dict[str, int]:
    """Part a's folded; the flags are the typical mistakes."""
    kept = samples[samples["thread_state"] == "running"] if states else samples
    numbers = sorted(frames["sample"].unique()) if all_frames else kept["sample"]
    labels = frames["function"] if names else stacks.python_labels(frames)
    if not ordered:
        frames = frames.assign(depth=-frames.groupby("sample").cumcount())
    table = stacks.fold(frames, labels, numbers)
    found: dict[str, int] = {}
    for stack, count in zip(table["stack"], table["count"].tolist(), strict=True):
        key = ";".join(reversed(stack) if leaf_first else stack)
        found[key] = found.get(key, 0) + count
    return found


def times(
    samples: pd.DataFrame,
    frames: pd.DataFrame,
    *,
    states: bool = True,
    repeat: bool = False,
    root: bool = False,
) -> dict[str, tuple[int, int]]:
    """Part a's times; the flags are the typical mistakes."""
    kept = samples[samples["thread_state"] == "running"] if states else samples
    table = stacks.fold(frames, stacks.python_labels(frames), kept["sample"])
    found: dict[str, tuple[int, int]] = {}
    for stack, count in zip(table["stack"], table["count"].tolist(), strict=True):
        end = stack[0] if root else stack[-1]
        for label in stack if repeat else set(stack):
            own, total = found.get(label, (0, 0))
            found[label] = (own + count * (label == end), total + count)
    return found


def wilson(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Part a's interval."""
    if count == 0:
        return 0.0, 1.0
    found = stats.binomtest(hits, count).proportion_ci(confidence, method="wilson")
    return float(found.low), float(found.high)


def wald(hits: int, count: int) -> tuple[float, float]:
    """The interval of the textbooks' first pages, which fails near 0 and 1."""
    if count == 0:
        return 0.0, 1.0
    share = hits / count
    reach = 1.96 * float(np.sqrt(share * (1 - share) / count))
    return share - reach, share + reach


def _profile_cases(
    name: str, samples: pd.DataFrame, frames: pd.DataFrame, *, exam: bool = False
) -> list[Case]:
    running = int((samples["thread_state"] == "running").sum())
    summary = f"{len(samples)} samples, {running} of them running; {len(frames)} frames"
    waiting = "samples of threads that are not running are counted"
    return [
        Case(
            name=name,
            summary=summary,
            function="folded",
            arguments=(samples, frames),
            expected=folded(samples, frames),
            mistakes=(
                Mistake(waiting, folded(samples, frames, states=False)),
                Mistake(
                    "frames of samples that are not in `samples` are counted",
                    folded(samples, frames, all_frames=True),
                ),
                Mistake(
                    "the innermost function comes first here; the root should",
                    folded(samples, frames, leaf_first=True),
                ),
                Mistake(
                    "rows are in no particular order: sort by depth", folded(samples, frames, ordered=False)
                ),
                Mistake("names repeat: a label is `function (file)`", folded(samples, frames, names=True)),
            ),
            exam=exam,
            show=_show,
        ),
        Case(
            name=name,
            summary=summary,
            function="times",
            arguments=(samples, frames),
            expected=times(samples, frames),
            mistakes=(
                Mistake(waiting, times(samples, frames, states=False)),
                Mistake(
                    "a function that calls itself counts several times a sample: it is on the stack, or not",
                    times(samples, frames, repeat=True),
                ),
                Mistake(
                    "self belongs to the innermost function, not the root", times(samples, frames, root=True)
                ),
                Mistake(
                    "turned round: self first, then total",
                    {label: pair[::-1] for label, pair in times(samples, frames).items()},
                ),
            ),
            exam=exam,
            show=_show,
        ),
    ]


def _show(value: object) -> str:
    if not isinstance(value, dict):
        return repr(value)[:120]
    most = sorted(value.items(), key=lambda item: (repr(item[1]), item[0]))[-2:]
    words = ", ".join(f"…{str(label)[-60:]}: {count}" for label, count in most)
    return f"{len(value)} entries, among them {words}" if value else "no entries"


def _interval_case(hits: int, count: int) -> Case:
    return Case(
        name="the interval of a share",
        summary=f"{hits} hits of {count} samples",
        function="interval",
        arguments=(hits, count),
        expected=wilson(hits, count),
        mistakes=(
            Mistake(
                "this is p ± z·√(p(1-p)/n), which fails for few samples and near 0 and 1: Wilson's formula",
                wald(hits, count),
            ),
            Mistake("this is the 68 % interval: z is 1.96", wilson(hits, count, 0.6826894921)),
            Mistake("no samples say nothing: anything from 0 to 1", (0.0, 0.0)),
        ),
        relative=TOLERANCE,
    )


def _cases(rng: Rng) -> list[Case]:
    kinds = [
        ("a small program", _drawn(rng, 12, waiting=0.0, recursive=False)),
        ("threads that wait", _drawn(rng, 60, waiting=0.6, recursive=False)),
        ("a function that calls itself", _drawn(rng, 40, waiting=0.3, recursive=True)),
        ("nobody is running", _drawn(rng, 9, waiting=1.0, recursive=False)),
    ]
    samples, frames = _drawn(rng, 50, waiting=0.2, recursive=True)
    kinds.append(("half of the samples", (samples.iloc[::2].reset_index(drop=True), frames)))
    count = int(rng.integers(200, 900))
    pairs = [(2, 8), (int(rng.integers(20, count)), count), (0, 40), (25, 25), (1, 300), (0, 0)]
    return [
        *(case for name, pair in kinds for case in _profile_cases(name, *pair)),
        *(_interval_case(hits, of) for hits, of in pairs),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    with open_run(captures, EXPERIMENT, RUN) as report:
        samples = stacks.during(report.python_samples(), report.window()).reset_index(drop=True)
        frames = report.python_frames()
    return _profile_cases(f"a capture you have not seen ({EXPERIMENT})", samples, frames, exam=True)


PROFILE = Task(_cases, _exam)
