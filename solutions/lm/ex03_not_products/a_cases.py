"""Hidden cases of part a (what is not a matmul): a generator or a capture in, cases out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from labcode.store import CaptureSet
from solutions.lm import _shared as lm

Rng = np.random.Generator


def _case(name: str, ops: pd.DataFrame, steps: int, least: float) -> Case:
    return Case(name, f"{lm.describe(ops, steps)}; least = {least}", "others", (ops, steps, least))


def _exactly(rng: Rng) -> tuple[pd.DataFrame, int, float]:
    """The softmax has exactly the least share, the normalization less."""
    unit, start = int(rng.integers(1_000, 90_000)), int(rng.integers(10**6, 10**9))
    rows, now = [], start
    for name, length in (("norm", 1), ("tn", 13), ("softmax", 2)):
        rows.append(("kernel", lm.NAMES[name], now, now + length * unit, 0, 7, f"step 0/forward/{name}"))
        now += length * unit
    return lm.table(rng, rows), 1, 0.125


def cases(rng: Rng) -> list[Case]:
    """Forward passes and training steps, with different things beside the matmuls."""

    def scene(least: float, steps: int, **more: Any) -> tuple[pd.DataFrame, int, float]:
        return lm.operations(rng, lm.shape(rng), steps=steps, **more), steps, least

    return [
        _case("one forward pass", *scene(0.0, 1, training=False)),
        _case("a training step", *scene(0.01, 2, training=True)),
        _case("matmuls in two parts", *scene(0.0, 2, training=False, split=True, scale={"split": 4.0})),
        _case("kernels that nobody knows", *scene(0.9, 1, training=False, unknown=True)),
        _case(
            "blocks are computed again in the backward pass", *scene(0.02, 2, training=True, recompute=True)
        ),
        _case("copies take most of the rest", *scene(0.05, 3, training=False, scale={"memcpy": 20.0})),
        _case("exactly the least share", *_exactly(rng)),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """A forward pass of the large model."""
    ops, record = lm.exam(captures, "forward")
    return [_case("a forward pass of the large model", ops, record["parameters"]["window"], 0.005)]
