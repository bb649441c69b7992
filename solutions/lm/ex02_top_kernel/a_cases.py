"""Hidden cases of part a (the kernel with the most time): a generator or a capture in, cases out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.lm.attribution import attribute, kernels
from labcode.grading.cases import Case, brief
from labcode.store import CaptureSet
from solutions.lm import _shared as lm

Rng = np.random.Generator


def _case(name: str, ops: pd.DataFrame, steps: int) -> Case:
    return Case(name, lm.describe(ops, steps), "most_expensive", (ops, steps), show=_show)


def _show(found: Any) -> str:
    """An answer as text, long names cut."""
    return brief({key: [str(name)[:60], *numbers] for key, (name, *numbers) in found.items()}, 400)


def cases(rng: Rng) -> list[Case]:
    """Training steps; another operation leads in each."""

    def scene(steps: int, **more: Any) -> tuple[pd.DataFrame, int]:
        return lm.operations(rng, lm.shape(rng), training=True, steps=steps, **more), steps

    ops, steps = scene(2)
    paths = [path if path.startswith("step 0") else path.replace("/", "/half/", 1) for path in ops["path"]]
    parts = ops.assign(path=pd.Series(paths, index=ops.index, dtype="str"))
    cut = ops.drop(
        index=ops.index[(ops["name"] == lm.NAMES["tn"]) & ops["path"].str.contains("/forward/")][0]
    )
    memsets, _ = scene(1, scale={"memcpy": 30.0})
    memsets["kind"] = memsets["kind"].replace("memcpy", "memset")
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
        _case("memsets that take longer than any kernel", memsets, 1),
        _case("attention's matmuls lead", *scene(2, scale={"nn": 6.0})),
        _case("a range around the passes of one step", parts, steps),
        _case("a recording that misses a call", cut, steps),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """A training step of the large model."""
    ops, record = lm.exam(captures, "train")
    return [_case("a training step of the large model", ops, record["parameters"]["window"])]


def _most_expensive(ops: pd.DataFrame, steps: int) -> dict[str, list[Any]]:
    table = attribute(ops[ops["kind"] == "kernel"])
    found = {}
    for label, passes in {"forward": ["forward"], "forward + backward": ["forward", "backward"]}.items():
        mine = table[table["pass"].isin(passes)]
        first = kernels(mine.assign(**{"pass": ""}), steps=steps).iloc[0]
        found[label] = [first["name"], float(first["per_step"]), float(first["share"])]
    return found


AGREES_WITH = {"most_expensive": _most_expensive}
