"""Hidden cases of lm-ex05 (softmax against products): a generator or a capture in, cases out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.lm.scenes import FORBIDDEN, Shape, attributed, describe, exam, operations, shape
from labcode.store import CaptureSet

Rng = np.random.Generator
ITEM = 4


def answer(
    ops: pd.DataFrame,
    steps: int,
    model: dict[str, int],
    *,
    half: bool = False,
    whole_width: bool = False,
    one_product: bool = False,
    by_name: bool = False,
    one_block: bool = False,
    read_only: bool = False,
    passes: tuple[str, ...] = ("forward",),
    one_step: bool = True,
) -> dict[str, float]:
    """The answer; the flags are the typical mistakes."""
    table = attributed(ops)
    table = table[table["pass"].isin(passes)]
    last = table["part"].str.rpartition("/")[2]
    products = table[last.isin(["scores"] if one_product else ["scores", "values"])]
    softmax = table[table["bucket"] == "softmax"] if by_name else table[last == "softmax"]
    softmax_ns = float(softmax["duration_ns"].sum())
    pure = float(products.loc[products["bucket"] == "matmul", "duration_ns"].sum())
    pairs = model["batch"] * model["heads"] * model["context"] ** 2
    width = model["d_model"] if whole_width else model["d_model"] / model["heads"]
    flops = (1 if half else 2) * pairs * width * (1 if one_product else 2)
    moved = (1 if read_only else 2) * ITEM * pairs * (1 if one_block else model["layers"])
    return {
        "time": softmax_ns / float(products["duration_ns"].sum()),
        "time_products": softmax_ns / pure,
        "flops": 5 * pairs / flops,
        "gb_per_s": moved * (steps if one_step else 1) / softmax_ns,
    }


def _case(name: str, ops: pd.DataFrame, steps: int, model: Shape, *, exam: bool = False) -> Case:
    given = ops, steps, asdict(model)
    wrong: dict[str, dict[str, Any]] = {
        "a multiplication with its addition is two operations": {"half": True},
        "a score is a sum over the width of one head, not of the model": {"whole_width": True},
        "there are two products: scores and weights times values": {"one_product": True},
        "the loss has a softmax of its own: take what ran in the range softmax": {"by_name": True},
        "the times are of all blocks, the bytes of one": {"one_block": True},
        "the softmax reads its input and writes as much": {"read_only": True},
        "blocks are computed again in the backward pass here; asked for is the forward pass": {
            "passes": ("forward", "backward")
        },
        "the times are of all steps, the bytes of one": {"one_step": False},
    }
    mistakes = tuple(Mistake(says, answer(*given, **flags)) for says, flags in wrong.items())
    summary = f"{describe(ops, steps)}; model = {asdict(model)}"
    return Case(name, summary, "softmax_against_products", given, answer(*given), mistakes, exam=exam)


def _cases(rng: Rng) -> list[Case]:
    def scene(steps: int, **more: Any) -> tuple[pd.DataFrame, int, Shape]:
        model = shape(rng)
        return operations(rng, model, steps=steps, **{"training": False, **more}), steps, model

    return [
        _case("one forward pass", *scene(1)),
        _case("three forward passes", *scene(3)),
        _case("a training step", *scene(2, training=True)),
        _case("blocks are computed again in the backward pass", *scene(2, training=True, recompute=True)),
        _case("products on tensor cores", *scene(2, scale={"nn": 0.1})),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    ops, record = exam(captures, "forward")
    own = record["parameters"]
    model = Shape(own["model_layers"], own["model_heads"], own["model_d_model"], own["batch"], own["context"])
    return [_case("a forward pass of the large model", ops, own["window"], model, exam=True)]


SOFTMAX = Task(_cases, _exam, forbidden=FORBIDDEN)
