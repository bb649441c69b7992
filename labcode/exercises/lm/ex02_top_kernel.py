"""Hidden cases of lm-ex02 (the most expensive kernel): a generator or a capture in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.exercises.lm.scenes import FORBIDDEN, attributed, describe, exam, operations, shape
from labcode.store import CaptureSet

Rng = np.random.Generator
PASSES = {"forward": ("forward",), "forward + backward": ("forward", "backward")}


def answer(
    ops: pd.DataFrame,
    steps: int,
    *,
    by: str = "sum",
    per_step: bool = True,
    of_pass: bool = True,
    substring: bool = False,
    optimizer: bool = False,
    copies: bool = False,
) -> dict[str, list[Any]]:
    """The answer; the flags are the typical mistakes."""
    table = attributed(ops)
    table = table if copies else table[table["kind"] == "kernel"]
    found: dict[str, list[Any]] = {}
    for label, passes in PASSES.items():
        wanted = (*passes, "optimizer") if optimizer and len(passes) > 1 else passes
        mine = table[table["pass"].isin(wanted)]
        if substring:
            mine = table[table["path"].str.contains("|".join(passes))]
        grouped = mine.groupby("name")["duration_ns"]
        best = str(grouped.agg(by).sort_index().idxmax())
        whole = (mine if of_pass else table)["duration_ns"].sum()
        calls = grouped.size()[best]
        found[label] = [best, float(calls / steps if per_step else calls), float(grouped.sum()[best] / whole)]
    return found


def _case(name: str, ops: pd.DataFrame, steps: int, *, exam: bool = False) -> Case:
    wrong: dict[str, dict[str, Any]] = {
        "these have the longest mean time of a call; asked for is the most time in all": {"by": "mean"},
        "these are called most often; asked for is the most time": {"by": "size"},
        "calls are those of one step: divide by the number of steps": {"per_step": False},
        "shares are of the time of the pass, not of all passes": {"of_pass": False},
        "a part called feed-forward lies in a backward pass here: compare whole names of ranges": {
            "substring": True
        },
        "the optimizer's step is neither forward nor backward pass": {"optimizer": True},
        "copies are GPU operations, but no kernels": {"copies": True},
    }
    mistakes = tuple(Mistake(says, answer(ops, steps, **flags)) for says, flags in wrong.items())
    return Case(
        name,
        describe(ops, steps),
        "most_expensive",
        (ops, steps),
        answer(ops, steps),
        mistakes,
        exam=exam,
        show=lambda found: brief({k: [str(v[0])[:60], *v[1:]] for k, v in found.items()}, 400),
    )


def _cases(rng: Rng) -> list[Case]:
    def scene(steps: int, **more: Any) -> tuple[pd.DataFrame, int]:
        return operations(rng, shape(rng), training=True, steps=steps, **more), steps

    return [
        _case("one step", *scene(1)),
        _case("three steps", *scene(3)),
        _case("blocks are computed again in the backward pass", *scene(2, recompute=True)),
        _case(
            "few long calls of one kernel, many short ones of another",
            *scene(2, scale={"embedding": 40.0, "copy": 0.5}),
        ),
        _case("an optimizer that takes most of the step", *scene(2, scale={"adam": 60.0})),
        _case("copies that take longer than any kernel", *scene(1, scale={"memcpy": 30.0})),
        _case("attention's products lead", *scene(2, scale={"nn": 6.0})),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    ops, record = exam(captures, "train")
    return [_case("a training step of the large model", ops, record["parameters"]["window"], exam=True)]


TOP_KERNEL = Task(_cases, _exam, forbidden=FORBIDDEN)
