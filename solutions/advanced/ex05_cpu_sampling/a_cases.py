"""Hidden cases of part a (a profile): a generator or a capture in, cases out."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.analysis.numeric import wilson
from labcode.analysis.timeline import stacks
from labcode.grading.cases import Case
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


def _random_stack(rng: Rng, *, recursive: bool = False) -> Stack:
    """A stack of the made-up program."""
    deep = int(rng.integers(0, 4))
    chosen = [_FUNCTIONS[i] for i in rng.choice(len(_FUNCTIONS), deep, replace=False)]
    if recursive:
        chosen += [("walk", "app/tree.py")] * int(rng.integers(2, 5))
        chosen += [("load", "app/load.py")] * int(rng.integers(0, 2))
    return (_MAIN, *chosen)


def _drawn(rng: Rng, count: int, *, waiting: float, recursive: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    known = [_random_stack(rng, recursive=recursive and rng.random() < 0.6) for _ in range(6)]
    rows = []
    for place in range(count):
        waits = rng.random() < waiting
        stack = WAIT if waits else known[int(rng.integers(len(known)))]
        state = ("blocking wait", "uninterruptible")[rng.random() < 0.2] if waits else "running"
        rows.append((5_000_000 * place, 70, 70 + int(rng.integers(3)), state, stack))
    return tables(rows, rng)


def _profile_cases(name: str, samples: pd.DataFrame, frames: pd.DataFrame) -> list[Case]:
    running = int((samples["thread_state"] == "running").sum())
    summary = f"{len(samples)} samples, {running} of them running; {len(frames)} frames"
    return [Case(name, summary, function, (samples, frames), show=_show) for function in ("folded", "times")]


def _show(value: object) -> str:
    if not isinstance(value, dict):
        return repr(value)[:120]
    most = sorted(value.items(), key=lambda item: (repr(item[1]), item[0]))[-2:]
    words = ", ".join(f"…{str(label)[-60:]}: {count}" for label, count in most)
    return f"{len(value)} entries, among them {words}" if value else "no entries"


def _interval_case(hits: int, count: int) -> Case:
    summary = f"{hits} hits of {count} samples"
    return Case("the interval of a share", summary, "interval", (hits, count), relative=TOLERANCE)


def cases(rng: Rng) -> list[Case]:
    """Profiles of made-up programs, then intervals."""
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


def exam(captures: CaptureSet) -> list[Case]:
    """The profile of a capture."""
    with open_run(captures, EXPERIMENT, RUN) as report:
        samples = stacks.during(report.python_samples(), report.window()).reset_index(drop=True)
        frames = report.python_frames()
    return _profile_cases(f"a capture you have not seen ({EXPERIMENT})", samples, frames)


def _profile(samples: pd.DataFrame, frames: pd.DataFrame) -> pd.DataFrame:
    running = samples.loc[samples["thread_state"] == "running", "sample"]
    return stacks.fold(frames, stacks.python_labels(frames), running)


def _folded(samples: pd.DataFrame, frames: pd.DataFrame) -> dict[str, int]:
    table = _profile(samples, frames)
    return dict(zip(table["stack"].map(";".join), table["count"].tolist(), strict=True))


def _times(samples: pd.DataFrame, frames: pd.DataFrame) -> dict[str, tuple[int, int]]:
    table = stacks.functions(_profile(samples, frames))
    pairs = zip(table["self_count"].tolist(), table["total_count"].tolist(), strict=True)
    return dict(zip(table["label"], pairs, strict=True))


AGREES_WITH = {"folded": _folded, "times": _times, "interval": wilson}
