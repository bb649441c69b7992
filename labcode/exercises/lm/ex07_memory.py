"""Hidden cases of lm-ex07 (memory counted by hand): a generator or measured records in, cases out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from labcode.analysis.lm.decoder import SIZES, Size, parameter_count, residual_bytes, scores_bytes
from labcode.errors import LabError
from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.lm.scenes import FORBIDDEN
from labcode.store import CaptureSet

Rng = np.random.Generator
GB = 1e9
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


def model_of(size: str) -> dict[str, int]:
    """The sizes of one of the book's models as the exercise gives them."""
    return {str(key): int(value) for key, value in asdict(SIZES[size]).items()}


def count(
    model: Size,
    batch: int,
    context: int,
    checkpoints: bool,
    *,
    item: int = 4,
    places: bool = True,
    norms: bool = True,
    own_logits: bool = True,
    two_means: bool = True,
    scores: float = 1.0,
    own_inner: bool = True,
    inner_twice: bool = True,
    logits_twice: bool = True,
    one_block: bool = False,
    early_gradients: bool = False,
    optimizer_list: bool = True,
    all_at_once: bool = False,
    block_in_work: bool = True,
    scores_in_work: int = 3,
    late_gradients: bool = True,
) -> dict[str, float]:
    """The answer; the flags are the typical mistakes."""
    parameters = parameter_count(model, context if places else 0)
    parameters -= 0 if norms else (4 * model.layers + 2) * model.d_model
    parameters -= 0 if own_logits else model.vocabulary * model.d_model
    own = item * parameters
    means = (2 if two_means else 1) * own
    residual = residual_bytes(model, batch, context, itemsize=item)
    of_scores = scores_bytes(model, batch, context, itemsize=item)
    d_ff = model.d_ff if own_inner else 4 * model.d_model
    inner = item * batch * context * d_ff
    logits = item * batch * context * model.vocabulary
    block = 8 * residual + (2 if inner_twice else 1) * inner
    ends = 2 * residual + (2 if logits_twice else 1) * logits
    standing = own + means
    if checkpoints:
        kept = float(model.layers * residual + ends)
        work = block + scores_in_work * of_scores if block_in_work else 0
        passes = max(standing + kept, (standing + own) if late_gradients else 0) + work
    else:
        kept = (1 if one_block else model.layers) * (block + scores * of_scores) + ends
        passes = standing + kept
    optimizer = standing + (2 if optimizer_list else 1) * own
    if early_gradients:
        passes += own
    peak = optimizer + kept if all_at_once else max(passes, optimizer)
    sizes = {"parameters": own, "gradients": own, "means": means, "kept": kept, "peak": peak}
    return {name: value / GB for name, value in sizes.items()}


_WRONG: dict[str, dict[str, Any]] = {
    "these are two bytes a number, as in bf16; in fp32 a number has four": {"item": 2},
    "the places have parameters too: a table of context times d_model": {"places": False},
    "the normalizations have parameters too: two vectors each, two in a block and one at the end": {
        "norms": False
    },
    "the matrix to the logits is one of its own, not the table of tokens": {"own_logits": False},
    "AdamW keeps two means for each parameter, not one": {"two_means": False},
    "the scores are missing: for its backward pass each block keeps the weights of attention": {"scores": 0},
    "a block computes four tensors of the size of the scores, but keeps only one": {"scores": 4},
    "d_ff is given, and need not be four times d_model": {"own_inner": False},
    "of the inner width a block keeps two tensors: before and after the activation function": {
        "inner_twice": False
    },
    "of the logits two tensors stay: as they are, and as logarithms of probabilities": {
        "logits_twice": False
    },
    "this is what one block keeps: in training the tensors of all blocks stay": {"one_block": True},
    "gradients are not there yet where the forward pass ends: they come as activations go": {
        "early_gradients": True
    },
    "the optimizer can decide the peak: its list of temporary values is as large as the parameters": {
        "optimizer_list": False
    },
    "the candidates for the peak are not there at once: when the optimizer runs, activations are gone": {
        "all_at_once": True
    },
    "the block that is computed again is missing from the peak": {"block_in_work": False},
    "in a block that is computed again three tensors of scores are there at once": {"scores_in_work": 1},
    "towards the end of the backward pass there are all gradients in place of inputs and logits": {
        "late_gradients": False
    },
}


def _answer_without_heads(model: Size, batch: int, context: int, checkpoints: bool) -> dict[str, float]:
    one_head = Size(model.d_model, model.d_ff, model.layers, 1, model.vocabulary)
    return count(one_head, batch, context, checkpoints)


def _mistakes(model: Size, batch: int, context: int, checkpoints: bool) -> tuple[Mistake, ...]:
    given = model, batch, context, checkpoints
    found = [Mistake(says, count(*given, **flags)) for says, flags in _WRONG.items()]
    found.append(
        Mistake("each head has scores of its own: batch * heads * context²", _answer_without_heads(*given))
    )
    if checkpoints:
        found.append(
            Mistake("with checkpoints a block keeps its input alone", count(model, batch, context, False))
        )
    return tuple(found)


def _in_words(model: Size, context: int, checkpoints: bool) -> str:
    return (
        f"{model.layers} layers, d_model {model.d_model}, d_ff {model.d_ff}, {model.heads} heads, "
        f"vocabulary {model.vocabulary}; context {context}, checkpoints {checkpoints}"
    )


def _counted(name: str, model: Size, batch: int, context: int, checkpoints: bool) -> Case:
    given = model, batch, context, checkpoints
    return Case(
        name,
        f"{_in_words(model, context, checkpoints)}, batch {batch}",
        "training_memory",
        (asdict(model), batch, context, checkpoints),
        count(*given),
        _mistakes(*given),
        show=_show,
    )


def texts(model: Size, context: int, checkpoints: bool, gpu_gb: float) -> int:
    """The largest batch whose peak is not above ``gpu_gb``."""
    batch = 0
    while count(model, batch + 1, context, checkpoints)["peak"] <= gpu_gb:
        batch += 1
    return batch


def _fitting(name: str, model: Size, context: int, checkpoints: bool, gpu_gb: float) -> Case:
    given = model, context, checkpoints
    right = texts(*given, gpu_gb)
    mistakes = [Mistake("this is the first batch that does not fit any more", right + 1)]
    if right == 0:
        mistakes.append(Mistake("a count of texts cannot be below 0; not even one fits here", -1))
    mistakes += [
        Mistake("gpu_gb is in GB, 10⁹ bytes; these are GiB, 2³⁰", texts(*given, gpu_gb * 2**30 / GB)),
        Mistake(
            "gpu_gb is in GB, 10⁹ bytes; the peak is taken in GiB, 2³⁰", texts(*given, gpu_gb * GB / 2**30)
        ),
        Mistake(
            "with checkpoints more fits, and without less: look at the argument",
            texts(model, context, not checkpoints, gpu_gb),
        ),
    ]
    return Case(
        name,
        f"{_in_words(model, context, checkpoints)}; {gpu_gb:.4g} GB",
        "most_texts",
        (asdict(model), context, checkpoints, gpu_gb),
        right,
        tuple(mistakes),
    )


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


def _cases(rng: Rng) -> list[Case]:
    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    size, gpu = _size(rng), float(rng.uniform(20, 90))
    context = some(300, 900)
    state = count(size, 1, context, False)["peak"]
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
            _size(rng, layers=some(3, 6), vocabulary=some(20, 60)),
            1,
            some(1200, 2000),
            True,
        ),
        _fitting("as many as fit", size, context, False, gpu),
        _fitting("as many as fit, with checkpoints", size, context, True, gpu),
        _fitting("not even one", size, context, False, 0.9 * state),
    ]


def _measured(captures: CaptureSet) -> Iterator[tuple[Case, dict[str, float], dict[str, float]]]:
    """Cases of the sizes and contexts that are graded, what was measured of them, and what is counted."""
    if "lm_memory" not in captures.experiments:
        raise LabError(f"the capture set {captures.name!r} has no run memory of lm_memory")
    record = captures.record("lm_memory", "memory")
    batch = record["parameters"]["batch"]
    rows = {
        (row["size"], row["context"], row["recompute"]): row
        for row in record["results"]["cases"]
        if row["passes"] == "train" and row["precision"] == "fp32" and row["fits"]
    }
    for key in EXAMS:
        if key not in rows:
            continue
        name, context, checkpoints = key
        row, size = rows[key], SIZES[name]
        counted = count(size, batch, context, checkpoints)
        found = {
            "kept": (row["after_forward_bytes"] - row["before_step_bytes"]) / GB,
            "peak": row["step_peak_bytes"] / GB,
        }
        case = Case(
            f"the {name} model, {context} tokens{', checkpoints' if checkpoints else ''}",
            f"{_in_words(size, context, checkpoints)}, batch {batch}",
            "training_memory",
            (asdict(size), batch, context, checkpoints),
            {**counted, **found},
            _mistakes(size, batch, context, checkpoints),
            relative=TOLERANCE,
            show=_show,
            exam=True,
        )
        yield case, found, counted


def _exam(captures: CaptureSet) -> list[Case]:
    return [case for case, _, _ in _measured(captures)]


def notes(captures: CaptureSet) -> list[str]:
    """Measured over counted, for each of those cases."""
    return [
        f"{case.name}: measured over counted: "
        + ", ".join(f"{key} {found[key] / counted[key]:.3f}" for key in found)
        for case, found, counted in _measured(captures)
    ]


MEMORY = Task(_cases, _exam, notes=notes, forbidden=(*FORBIDDEN, "labcode.analysis.lm.decoder"))
