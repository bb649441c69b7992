"""Hidden cases of part a (what training changes): a generator or captures in, cases out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from labcode.store import CaptureSet
from solutions.lm import _shared as lm

Rng = np.random.Generator


def _case(name: str, given: tuple[Any, ...]) -> Case:
    asked, taught = lm.describe(*given[:2]), lm.describe(*given[2:])
    return Case(name, f"inference: {asked}; training: {taught}", "change", given)


def _more(rng: Rng, given: tuple[pd.DataFrame, int, pd.DataFrame, int]) -> tuple[Any, ...]:
    """Gradients are set to zero and clipped beside the passes, in ranges whose names hold theirs."""
    asked, asked_steps, taught, steps = given
    start, rows = int(taught["end_ns"].max()), []
    for step in range(steps):
        for name, place in (("fill", "zero_grad"), ("nn", "check backward"), ("add", "clip")):
            end = start + int(rng.integers(300_000, 900_000))
            rows.append(("kernel", lm.NAMES[name], start, end, 0, 7, f"step {step}/{place}"))
            start = end
        end = start + int(rng.integers(300_000, 900_000))
        nvjet = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNN"
        rows.append(("kernel", nvjet, start, end, 0, 7, f"step {step}/forward/logits"))
        start = end
    return asked, asked_steps, pd.concat([taught, lm.table(rng, rows)], ignore_index=True), steps


def cases(rng: Rng) -> list[Case]:
    """Two runs of one model each time."""

    def scene(steps: tuple[int, int], **more: Any) -> tuple[pd.DataFrame, int, pd.DataFrame, int]:
        model = lm.shape(rng)
        scale = more.get("scale")
        asked = lm.operations(rng, model, training=False, steps=steps[0], scale=scale)
        return asked, steps[0], lm.operations(rng, model, training=True, steps=steps[1], **more), steps[1]

    return [
        _case("one step each", scene((1, 1))),
        _case("more steps of inference than of training", scene((3, 2))),
        _case("an optimizer that takes most of the step", scene((2, 3), scale={"adam": 40.0})),
        _case("blocks are computed again in the backward pass", scene((1, 2), recompute=True)),
        _case("more than three passes, kernels of other names", _more(rng, scene((2, 3)))),
        _case("copies take much of the forward pass", scene((2, 1), scale={"memcpy": 15.0})),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """The large model."""
    asked, of_asked = lm.exam(captures, "forward")
    taught, of_taught = lm.exam(captures, "train")
    given = asked, of_asked["parameters"]["window"], taught, of_taught["parameters"]["window"]
    return [_case("the large model, asked and taught", given)]
