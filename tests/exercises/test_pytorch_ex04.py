"""pytorch-ex04: the worked examples, and the answer on the unseen capture."""

from __future__ import annotations

import pandas as pd
import pytest

from labcode import store
from labcode.grading.task import beside
from tests.exercises.support import names_of, part, solution

A, B = "pytorch-ex04a", "pytorch-ex04b"


def test_finding() -> None:
    columns = ["kind", "name", "op", "outer_op", "annotation", "pass", "python"]
    read = ("aten::_local_scalar_dense", "aten::item", "log", "")
    rows = [
        ("kernel", "add<float>", "aten::mul", "aten::mul", "batch", "", "m.py(5): batch_of"),
        ("kernel", "add<double>", "aten::add", "aten::add", "", "optimizer", "t.py(3): one_step"),
        ("memcpy", "memcpy D2H", *read, "m.py(9): write_norms"),
        ("memcpy", "memcpy D2H", *read, "t.py(3): one_step"),
    ]
    found = names_of(solution(A))["find"](pd.DataFrame(rows, columns=columns), 2)
    assert found == {"cpu_tensors": 1, "logging": 1, "item": 1}


def test_proving() -> None:
    columns = ["start_ns", "end_ns", "cpu_start_ns", "cpu_end_ns", "problem"]
    rows = [(50, 58, 30, 62, "item"), (10, 30, 5, 15, "layout"), (20, 35, 15, 30, ""), (70, 95, 62, 70, "")]
    waits = pd.DataFrame({"start_ns": [40], "end_ns": [60]})
    found = names_of(solution(B), B)["prove"](pd.DataFrame(rows, columns=columns), waits, (0, 100))
    assert found == [["item", pytest.approx(100 / 68)], ["layout", pytest.approx(100 / 70)]]


needs_captures = pytest.mark.skipif(
    store.SHIPPED_SET not in store.list_sets()
    or "bottleneck_hunt" not in store.load_set(store.SHIPPED_SET).experiments,
    reason="the shipped captures are not here",
)


@needs_captures
def test_the_unseen_capture_has_the_problems_that_were_planted() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    planted = captures.record("bottleneck_hunt", "exam_baseline")["parameters"]["problems"]
    cases, find = beside(*part(A), "cases"), names_of(solution(A))["find"]
    before, after = (cases.recorded(captures, run) for run in ("exam_baseline", "improved"))
    assert set(find(before.ops, before.steps)) == set(planted)
    assert find(after.ops, after.steps) == {}
