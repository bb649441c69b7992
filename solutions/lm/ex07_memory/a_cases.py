"""Hidden cases of part a (memory counted by hand): a generator or measured records in, cases out."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from labcode.analysis.lm.decoder import SIZES, Size, parameter_count
from labcode.errors import LabError
from labcode.grading.cases import Case
from labcode.store import CaptureSet
from solutions.lm.ex07_memory.a_count import training_memory

Rng = np.random.Generator
TOLERANCE = 0.05  # of measured bytes: the allocator does not cut every block to size
EXAMS = (
    ("medium", 256, False),
    ("large", 256, True),
    ("large", 512, False),
    ("xl", 512, False),
    ("xl", 256, True),
    ("2.7B", 256, False),
    ("2.7B", 512, True),
)


def _in_words(model: Size, context: int, checkpoints: bool) -> str:
    return (
        f"{model.layers} layers, d_model {model.d_model}, d_ff {model.d_ff}, {model.heads} heads, "
        f"vocabulary {model.vocabulary}; context {context}, checkpoints {checkpoints}"
    )


def _counted(name: str, model: Size, batch: int, context: int, checkpoints: bool, **more: Any) -> Case:
    summary = f"{_in_words(model, context, checkpoints)}, batch {batch}"
    arguments = asdict(model), batch, context, checkpoints
    return Case(name, summary, "training_memory", arguments, show=_show, **more)


def _fitting(name: str, model: Size, context: int, checkpoints: bool, gpu_gb: float) -> Case:
    summary = f"{_in_words(model, context, checkpoints)}; {gpu_gb:.4g} GB"
    return Case(name, summary, "most_texts", (asdict(model), context, checkpoints, gpu_gb))


def _show(value: Any) -> str:
    """An answer as text, in GB."""
    return ", ".join(f"{name} {one:.5g}" for name, one in value.items()) + " (GB)"


def _size(rng: Rng, **more: int) -> Size:
    """A decoder whose inner width is hardly ever four times its width."""
    heads = int(rng.choice([4, 6, 8, 12]))
    width = heads * int(rng.choice([32, 48, 64, 80]))
    drawn = {
        "d_ff": int(width * rng.choice([1.5, 2, 3, 5, 6])),
        "layers": int(rng.integers(3, 20)),
        "heads": heads,
        "vocabulary": int(rng.integers(2_000, 30_000)),
    }
    return Size(width, **{**drawn, **more})


def _exactly(rng: Rng) -> tuple[Size, int, bool, float]:
    """A model whose parameters are a multiple of 5⁹: its GB have no rest, however they are added up."""
    context = int(rng.integers(40, 90))
    size = Size(1250, 1250 * int(rng.integers(2, 6)), int(rng.integers(3, 7)), 10, 3125)
    short = -parameter_count(size, context) // size.d_model
    size = replace(size, vocabulary=size.vocabulary + short * pow(2, -1, 3125) % 3125)
    return size, context, False, 20 * parameter_count(size, context) / 1e9


def _single(rng: Rng) -> tuple[Size, int, bool, float]:
    """One long text fits, two do not."""
    size, context = _size(rng), int(rng.integers(3000, 5000))
    peaks = [training_memory(asdict(size), texts, context, False)["peak"] for texts in (1, 2)]
    return size, context, False, sum(peaks) / 2


def cases(rng: Rng) -> list[Case]:
    """Models and texts in which something else decides the peak each time."""

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    size, gpu = _size(rng), float(rng.uniform(20, 90))
    context = some(300, 900)
    state = 20 * parameter_count(size, context) / 1e9  # in GB, with the optimizer's list
    return [
        _counted("a single short text: the state decides", _size(rng), 1, some(8, 33), False),
        _counted("a usual batch", _size(rng), some(4, 9), some(128, 400), False),
        _counted("long texts", _size(rng), some(2, 5), some(1500, 3000), False),
        _counted(
            "a large vocabulary", _size(rng, vocabulary=some(80_000, 160_000)), 4, some(100, 300), False
        ),
        _counted("checkpoints", _size(rng, layers=some(12, 24)), some(2, 5), some(64, 129), True),
        _counted("checkpoints and a long text", _size(rng, layers=some(12, 24)), 4, some(1500, 3000), True),
        _counted(
            "checkpoints, few inputs, a long text",
            Size(960, 960 * some(4, 7), some(3, 6), 12, some(20, 60)),
            1,
            some(1400, 2000),
            True,
        ),
        _fitting("as many as fit", size, context, False, gpu),
        _fitting("as many as fit, with checkpoints", size, context, True, gpu),
        _fitting("not even one", size, context, False, 0.9 * state),
        _fitting("a single one", *_single(rng)),
        _fitting("the optimizer's peak fits exactly", *_exactly(rng)),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """Sizes, contexts and ways that were measured, and that no page counts."""
    if "lm_memory" not in captures.experiments:
        raise LabError(f"the capture set {captures.name!r} has no run memory of lm_memory")
    record = captures.record("lm_memory", "memory")
    rows = {
        (row["size"], row["context"], row["recompute"]): row
        for row in record["results"]["cases"]
        if row["passes"] == "train" and row["precision"] == "fp32" and row["fits"]
    }
    found = []
    for size, context, checkpoints in (key for key in EXAMS if key in rows):
        row = rows[size, context, checkpoints]
        measured = {
            "kept": (row["after_forward_bytes"] - row["before_step_bytes"]) / 1e9,
            "peak": row["step_peak_bytes"] / 1e9,
        }
        name = f"the {size} model, {context} tokens{', checkpoints' if checkpoints else ''}"
        given = SIZES[size], record["parameters"]["batch"], context, checkpoints
        found.append(_counted(name, *given, relative=TOLERANCE, measured=measured))
    return found


def over_counted(case: Case) -> dict[str, float]:
    """Measured over counted, for what was measured of a case."""
    counted = training_memory(*case.arguments)
    return {key: value / counted[key] for key, value in (case.measured or {}).items()}


def notes(captures: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """Measured over counted, for each of those cases."""
    return [
        f"{case.name}: measured over counted: "
        + ", ".join(f"{key} {ratio:.3f}" for key, ratio in over_counted(case).items())
        for case, _ in answered
    ]
