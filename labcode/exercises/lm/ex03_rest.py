"""Hidden cases of lm-ex03 (what is no product of matrices): a generator or a capture in, cases out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.lm.scenes import FORBIDDEN, attributed, describe, exam, operations, shape
from labcode.store import CaptureSet

Rng = np.random.Generator


def answer(
    ops: pd.DataFrame,
    steps: int,
    least: float,
    *,
    kernels_only: bool = False,
    of_rest: bool = False,
    other: bool = True,
    all_passes: bool = False,
    per_step: bool = True,
    only_gemm: bool = False,
    dropped: bool = True,
) -> dict[str, list[float]]:
    """The answer; the flags are the typical mistakes."""
    table = attributed(ops)
    table = table if all_passes else table[table["pass"] == "forward"]
    table = table[table["kind"] == "kernel"] if kernels_only else table
    product = table["name"].str.contains("gemm") if only_gemm else table["bucket"] == "matmul"
    rest = table[~product]
    whole = (rest if of_rest else table)["duration_ns"].sum()
    sums = rest.groupby("bucket")["duration_ns"].sum()
    found = {
        str(bucket): [float(ns) / 1e6 / (steps if per_step else 1), float(ns / whole)]
        for bucket, ns in sums.items()
        if ns / whole >= least or not dropped or (other and bucket == "other")
    }
    if other:
        found.setdefault("other", [0.0, 0.0])
    return found


def _case(name: str, ops: pd.DataFrame, steps: int, least: float, *, exam: bool = False) -> Case:
    wrong: dict[str, dict[str, Any]] = {
        "only kernels are counted: copies are GPU time, too": {"kernels_only": True},
        "shares are of all of the forward pass, products included": {"of_rest": True},
        "other must always be listed, also with no time": {"other": False},
        "only what was launched in the forward pass counts": {"all_passes": True},
        "times are those of one step": {"per_step": False},
        "not every product has gemm in its name: what adds up the parts of one belongs to it": {
            "only_gemm": True
        },
        "buckets below the least share are to be left out": {"dropped": False},
    }
    mistakes = tuple(Mistake(says, answer(ops, steps, least, **flags)) for says, flags in wrong.items())
    return Case(
        name,
        f"{describe(ops, steps)}; least = {least}",
        "others",
        (ops, steps, least),
        answer(ops, steps, least),
        mistakes,
        exam=exam,
    )


def _cases(rng: Rng) -> list[Case]:
    def scene(least: float, steps: int, **more: Any) -> tuple[pd.DataFrame, int, float]:
        return operations(rng, shape(rng), steps=steps, **more), steps, least

    return [
        _case("one forward pass", *scene(0.0, 1, training=False)),
        _case("a training step", *scene(0.01, 2, training=True)),
        _case("products in two parts", *scene(0.0, 2, training=False, split=True, scale={"split": 4.0})),
        _case("kernels that nobody knows", *scene(0.9, 1, training=False, unknown=True)),
        _case(
            "blocks are computed again in the backward pass", *scene(0.02, 2, training=True, recompute=True)
        ),
        _case("copies take most of the rest", *scene(0.05, 3, training=False, scale={"memcpy": 20.0})),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    ops, record = exam(captures, "forward")
    return [_case("a forward pass of the large model", ops, record["parameters"]["window"], 0.005, exam=True)]


REST = Task(_cases, _exam, forbidden=FORBIDDEN)
