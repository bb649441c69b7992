"""Hidden cases of part a (softmax against matmuls): a generator or a capture in, cases out."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from labcode.store import CaptureSet
from solutions.lm import _shared as lm

Rng = np.random.Generator


def _case(name: str, ops: pd.DataFrame, steps: int, model: lm.Shape) -> Case:
    summary = f"{lm.describe(ops, steps)}; model = {asdict(model)}"
    return Case(name, summary, "softmax_against_products", (ops, steps, asdict(model)))


def cases(rng: Rng) -> list[Case]:
    """Forward passes and training steps of models with different heads."""

    def scene(steps: int, **more: Any) -> tuple[pd.DataFrame, int, lm.Shape]:
        model = lm.shape(rng)
        return lm.operations(rng, model, steps=steps, **{"training": False, **more}), steps, model

    ops, steps, model = scene(1)
    renamed = ops.assign(path=ops["path"].str.replace("/mask", "/presoftmax"))
    return [
        _case("one forward pass", *scene(1)),
        _case("a range whose name only contains softmax", renamed, steps, model),
        _case("three forward passes", *scene(3)),
        _case("a training step", *scene(2, training=True)),
        _case("blocks are computed again in the backward pass", *scene(2, training=True, recompute=True)),
        _case("matmuls on tensor cores", *scene(2, scale={"nn": 0.1})),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """A forward pass of the large model."""
    ops, record = lm.exam(captures, "forward")
    own = record["parameters"]
    model = lm.Shape(
        own["model_layers"], own["model_heads"], own["model_d_model"], own["batch"], own["context"]
    )
    return [_case("a forward pass of the large model", ops, own["window"], model)]
