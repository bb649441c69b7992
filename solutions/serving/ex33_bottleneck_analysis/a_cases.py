"""Hidden cases of part a (the tree): a generator or captures in, cases out."""

import numpy as np

from labcode.analysis.serving import bottleneck
from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
KEYS = ("idle", "long_gaps", "copying", "talking", "sm", "memory")
EXAMS = (
    ("timeline_basics", "exam_baseline"),
    ("timeline_basics", "exam_improved"),
    ("kernel_overlap", "exam_streams"),
    ("memory_timeline", "exam_pinned"),
    ("memory_timeline", "exam_pipelined"),
    ("multi_gpu", "exam_improved"),
    ("dataloader", "exam_baseline"),
    ("inference_timeline", "slow"),
)


def _asked(name: str, values: tuple[float, ...]) -> list[Case]:
    evidence = dict(zip(KEYS, values, strict=True))
    words = ", ".join(f"{key} {value:.3g}" for key, value in evidence.items())
    return [Case(name, words, function, (evidence,)) for function in ("bound", "gain")]


def cases(rng: Rng) -> list[Case]:
    """Each name, each threshold met exactly and just missed, evidence that points two ways."""
    low, some = float(rng.uniform(0, 0.19)), float(rng.uniform(0.25, 0.9))
    listed = {
        "long gaps of a little idle time": (0.3, 0.9, 0.0, 0.0, 0.7, 0.1),
        "long gaps": (some, 0.9, 0.5, 0.0, 0.9, 0.1),
        "short gaps": (some, 0.1, 0.0, 0.5, 0.1, 0.9),
        "idle, and copies even more": (0.25, 0.9, 0.5, 0.0, 0.7, 0.1),
        "half in long gaps": (0.2, 0.5, 0.0, 0.0, 0.7, 0.1),
        "a little more than half": (0.3, 0.6, 0.0, 0.0, 0.7, 0.1),
        "hardly less": (0.2, 0.499, 0.0, 0.0, 0.7, 0.1),
        "not idle enough": (0.199, 0.9, 0.3, 0.1, 0.7, 0.1),
        "copies": (low, 0.9, some, 0.0, 0.9, 0.1),
        "collectives": (low, 0.9, 0.1, some, 0.9, 0.1),
        "both alike": (low, 0.9, 0.3, 0.3, 0.9, 0.1),
        "both enough, more copies": (low, 0.9, 0.4, 0.3, 0.9, 0.1),
        "both enough, more collectives": (low, 0.9, 0.3, 0.4, 0.9, 0.1),
        "copies, just enough": (low, 0.0, 0.2, 0.1, 0.1, 0.1),
        "copies, not enough": (low, 0.0, 0.199, 0.199, 0.61, 0.6),
        "the SMs": (low, 0.0, 0.0, 0.0, some / 2 + 0.5, 0.4),
        "the memory": (low, 0.0, 0.0, 0.0, 0.4, some / 2 + 0.5),
        "both units alike": (low, 0.0, 0.0, 0.0, 0.8, 0.8),
        "a unit exactly near": (low, 0.0, 0.0, 0.0, 0.6, 0.1),
        "neither unit": (low, 0.0, 0.0, 0.0, 0.59, 0.599),
        "nothing runs at all": (1.0, 1.0, 0.0, 0.0, 0.0, 0.0),
    }
    return [case for name, values in listed.items() for case in _asked(name, values)]


def exam(captures: CaptureSet) -> list[Case]:
    """Timelines that no page shows, with kernels at three fifths of the memory's peak."""
    found = []
    for experiment, run in EXAMS:
        with open_run(captures, experiment, run) as report:
            seen = bottleneck.of_timeline(report.gpu_ops(), report.window())
        found += _asked(f"{experiment}, {run}", (*(seen[key] for key in KEYS[:4]), 0.3, 0.6))
    return found


def notes(captures: CaptureSet, answered: list[tuple[Case, object]]) -> list[str]:
    """The names of the captures."""
    return [f"{case.name}: {right}" for case, right in answered if case.function == "bound"]
