"""Hidden cases of pytorch-ex04, part a (which problems are there): a generator or a capture in, cases out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.exercises.pytorch.ex04_scenes import (
    COLUMNS,
    EXPERIMENT,
    FUSED,
    RUN,
    Loop,
    describe,
    exam,
    scenes,
)
from labcode.store import CaptureSet


def problems(ops: pd.DataFrame, *, first: bool = True, every_read: bool = False, mul: bool = True,
             inner: bool = False, anywhere: bool = False, order: bool = True) -> list[str]:  # fmt: skip
    """The problem of each operation, '' for none; the flags are the typical mistakes."""
    in_batch = (ops["annotation"] == "batch") | anywhere
    mine = {
        "optimizer": ops["pass"] == "optimizer",
        "logging": ops["python"].str.contains("write_norms"),
        "item": ops["op"] == "aten::_local_scalar_dense",
        "tiny_ops": ops["python"].str.contains("_by_hand") & ((ops["pass"] == "forward") | first),
        "layout": ops["op" if inner else "outer_op"] == ("aten::copy_" if inner else "aten::contiguous"),
        "cpu_tensors": in_batch & ((ops["kind"] == "memcpy") | ((ops["op"] == "aten::mul") & mul)),
        "dtype": ops["name"].str.contains("double"),
    }
    names = list(mine)
    if every_read:
        names = ["item", *(name for name in names if name != "item")]
    if not order:
        names = ["dtype", *(name for name in names if name != "dtype")]
    chosen = np.select([mine[name].to_numpy(bool) for name in names], names, "")
    return [str(name) for name in chosen]


def find(given: Loop, *, fused: bool = True, at_least: bool = False, a_step: bool = True,
         per_step: bool = False, zeros: bool = False, **flags: bool) -> dict[str, float]:  # fmt: skip
    """The answer; the flags are the typical mistakes."""
    names = problems(given.ops, **flags)
    counts: dict[str, float] = {name: names.count(name) for name in dict.fromkeys(names) if name}
    limit = FUSED * (given.steps if a_step else 1)
    few = counts.get("optimizer", 0)
    if fused and (few < limit if at_least else few <= limit):
        counts.pop("optimizer", None)
    if zeros:
        counts = {**dict.fromkeys(("item", "layout", "dtype"), 0), **counts}
    return {name: count / given.steps if per_step else count for name, count in counts.items()}


def _case(name: str, given: Loop, *, exam: bool = False) -> Case:
    wrong = [
        ("exactly 20 operations a step are not more than 20", find(given, at_least=True)),
        ("20 operations a step: with several steps the limit is 20 * steps", find(given, a_step=False)),
        (
            "a fused optimizer has a few operations, too: it is no problem up to 20 a step",
            find(given, fused=False),
        ),
        ("reads inside write_norms belong to logging, which comes before item", find(given, every_read=True)),
        ("tiny_ops are in the backward pass, too", find(given, first=False)),
        ("the product with the ones in the batch belongs to cpu_tensors", find(given, mul=False)),
        ("copies elsewhere than in the batch are not cpu_tensors", find(given, anywhere=True)),
        ("layout asks for the outermost operator, aten::contiguous", find(given, inner=True)),
        ("an operation counts for the first problem in the list: the optimizer's float64 is the optimizer's",
         find(given, order=False)),
        ("these are counts a step; asked for is how many there are in all", find(given, per_step=True)),
        ("problems that are not there are left out", find(given, zeros=True)),
    ]  # fmt: skip
    return Case(
        name=name,
        summary=describe(given),
        function="find",
        arguments=(given.ops[COLUMNS], given.steps),
        expected=find(given),
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        exam=exam,
        show=lambda answer: brief(answer, 300),
    )


def _cases(rng: np.random.Generator) -> list[Case]:
    return [_case(name, given) for name, given in scenes(rng)]


def _exam(captures: CaptureSet) -> list[Case]:
    return [_case(f"a recording you have not seen ({EXPERIMENT}, {RUN})", exam(captures), exam=True)]


def _notes(captures: CaptureSet) -> list[str]:
    planted = captures.record(EXPERIMENT, RUN)["parameters"]["problems"]
    return [f"{RUN}: you found {', '.join(sorted(find(exam(captures))))}; planted were {', '.join(planted)}"]


FIND = Task(_cases, _exam, _notes)
