"""Hidden cases of lm-ex04 (what training changes): a generator or captures in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.lm.scenes import FORBIDDEN, attributed, describe, exam, operations, shape
from labcode.store import CaptureSet

Rng = np.random.Generator


def answer(
    inference: pd.DataFrame,
    inference_steps: int,
    training: pd.DataFrame,
    training_steps: int,
    *,
    counts: bool = False,
    kernels_only: bool = False,
    per_step: bool = True,
    growth_of_all: bool = False,
    keep_optimizer: bool = False,
    forward_only: bool = False,
) -> dict[str, float]:
    """The answer; the flags are the typical mistakes."""
    asked, taught = attributed(inference), attributed(training)
    if kernels_only:
        asked, taught = asked[asked["kind"] == "kernel"], taught[taught["kind"] == "kernel"]

    if counts:
        asked, taught = asked.assign(duration_ns=1), taught.assign(duration_ns=1)

    def share(table: pd.DataFrame) -> float:
        ns = table["duration_ns"]
        return float(ns[table["bucket"] == "matmul"].sum() / ns.sum())

    passes = ["forward"] if forward_only else ["forward", "backward"]
    without = taught if keep_optimizer else taught[taught["pass"].isin(passes)]
    ms = [
        float((t if growth_of_all else t[t["bucket"] == "matmul"])["duration_ns"].sum())
        / (n if per_step else 1)
        for t, n in ((asked, inference_steps), (taught, training_steps))
    ]
    return {
        "inference": share(asked),
        "training": share(taught),
        "without optimizer": share(without),
        "growth": ms[1] / ms[0],
    }


def _case(name: str, given: tuple[pd.DataFrame, int, pd.DataFrame, int], *, exam: bool = False) -> Case:
    wrong: dict[str, dict[str, Any]] = {
        "these are shares of the number of operations; asked for are shares of time": {"counts": True},
        "only kernels are counted: copies are GPU time, too": {"kernels_only": True},
        "the runs have different numbers of steps: growth is from one step to one step": {"per_step": False},
        "growth is that of products, not of everything": {"growth_of_all": True},
        "the optimizer's step is still in «without optimizer»": {"keep_optimizer": True},
        "without the optimizer there are two passes left, forward and backward": {"forward_only": True},
    }
    mistakes = tuple(Mistake(says, answer(*given, **flags)) for says, flags in wrong.items())
    summary = f"inference: {describe(given[0], given[1])}; training: {describe(given[2], given[3])}"
    return Case(name, summary, "change", given, answer(*given), mistakes, exam=exam)


def _cases(rng: Rng) -> list[Case]:
    def scene(steps: tuple[int, int], **more: Any) -> tuple[pd.DataFrame, int, pd.DataFrame, int]:
        model = shape(rng)
        scale = more.get("scale")
        asked = operations(rng, model, training=False, steps=steps[0], scale=scale)
        return asked, steps[0], operations(rng, model, training=True, steps=steps[1], **more), steps[1]

    return [
        _case("one step each", scene((1, 1))),
        _case("more steps of inference than of training", scene((3, 2))),
        _case("an optimizer that takes most of the step", scene((2, 3), scale={"adam": 40.0})),
        _case("blocks are computed again in the backward pass", scene((1, 2), recompute=True)),
        _case("copies take much of the forward pass", scene((2, 1), scale={"memcpy": 15.0})),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    asked, of_asked = exam(captures, "forward")
    taught, of_taught = exam(captures, "train")
    given = asked, of_asked["parameters"]["window"], taught, of_taught["parameters"]["window"]
    return [_case("the large model, asked and taught", given, exam=True)]


TRAINING = Task(_cases, _exam, forbidden=FORBIDDEN)
