"""pytorch-ex04: the worked examples, typical mistakes, and the answer on the unseen capture."""

# ruff: noqa: E501 (pieces of code, as they are)

from __future__ import annotations

import re

import pandas as pd
import pytest

from labcode import store
from labcode.exercises.pytorch import ex04_find, ex04_scenes
from tests.exercises.support import complaints, names_of, solution

SEEDS = (0, 1, 2)
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


@pytest.mark.parametrize("short", [A, B])
def test_solutions_pass(short: str) -> None:
    for seed in SEEDS:
        assert complaints(short, solution(short), seed) == []


MISTAKES = [
    (A, '<= 20 * steps', "< 0", "a fused optimizer"),
    (A, '<= 20 * steps', "< 20 * steps", "exactly 20"),
    (A, '<= 20 * steps', "<= 20", "with several steps the limit"),
    (A, 'str.contains("_by_hand")', 'str.contains("_by_hand") & (ops["pass"] == "forward")', "backward pass, too"),
    (A, ' | (ops["op"] == "aten::mul")', "", "product with the ones"),
    (A, 'in_batch = ops["annotation"] == "batch"', 'in_batch = ops["op"] != ""', "elsewhere than in the batch"),
    (A, 'ops["outer_op"] == "aten::contiguous"', 'ops["op"] == "aten::copy_"', "outermost operator"),
    (A, "    names = np.select(list(conditions.values()), list(conditions), \"\")",
     "    conditions = {\"dtype\": conditions.pop(\"dtype\"), **conditions}\n"
     "    names = np.select(list(conditions.values()), list(conditions), \"\")", "first problem in the list"),
    (A, 'ops["python"].str.contains("write_norms"),', 'ops["python"] == "x",', ""),
    (A, "    return counts", "    return {name: count / steps for name, count in counts.items()}", "counts a step"),
    (B, 'waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()', "whole[0][:0], whole[1][:0]", "nobody's work"),
    (B, "max(intervals.total(*host), intervals.total(*gpu))", "intervals.total(*gpu)", "CPU's remaining"),
    (B, "max(intervals.total(*host), intervals.total(*gpu))", "intervals.total(*host)", "GPU's remaining"),
    (B, "intervals.total(*gpu))", "int((gpu[1] - gpu[0]).sum()))", "side by side"),
    (B, "max(intervals.total(*host), intervals.total(*gpu))", "(intervals.total(*host) + intervals.total(*gpu))",
     "not the sum"),
    (B, "intervals.clip(rest[\"start_ns\"].to_numpy(), rest[\"end_ns\"].to_numpy(), window)",
     "(rest[\"start_ns\"].to_numpy(), rest[\"end_ns\"].to_numpy())", "cut them first"),
    (B, "(-pair[1], pair[0])", "(pair[1], pair[0])", "largest gain comes first"),
    (B, "width / max(intervals.total(*host), intervals.total(*gpu))",
     "max(intervals.total(*host), intervals.total(*gpu)) / width", "what remains"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=lambda n: f"{MISTAKES[n][0]}-{n}")
def test_no_mistake_passes_and_typical_ones_are_told(number: int) -> None:
    short, old, new, reason = MISTAKES[number]
    source = solution(short)
    assert old in source, "the solution has changed: change this test with it"
    said = [
        line
        for seed in SEEDS
        for lines in complaints(short, source.replace(old, new), seed)
        for line in lines
    ]
    assert said
    reasons = [line for line in said if line.startswith("likely:   ")]
    assert any(re.search(reason, line) for line in reasons) or not reason, reasons[:4] or said[:6]


needs_captures = pytest.mark.skipif(
    store.SHIPPED_SET not in store.list_sets()
    or "bottleneck_hunt" not in store.load_set(store.SHIPPED_SET).experiments,
    reason="the shipped captures are not here",
)


@needs_captures
def test_the_unseen_capture_has_the_problems_that_were_planted() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    planted = captures.record("bottleneck_hunt", "exam_baseline")["parameters"]["problems"]
    assert set(ex04_find.find(ex04_scenes.exam(captures))) == set(planted)
    assert ex04_find.find(ex04_scenes.exam(captures, "improved")) == {}
