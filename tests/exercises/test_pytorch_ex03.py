"""pytorch-ex03: the worked examples and typical mistakes."""

# ruff: noqa: E501 (pieces of code, as they are)

from __future__ import annotations

import re

import pandas as pd
import pytest

from labcode import store
from labcode.exercises.pytorch import ex03_cause, ex03_meetings
from tests.exercises.support import complaints, names_of, solution

SEEDS = (0, 1, 2)
A, B = "pytorch-ex03a", "pytorch-ex03b"
COLUMNS = ["rank", "group", "start_ns", "end_ns"]


def test_meetings() -> None:
    rows = [(0, "0", 0, 100), (0, "0", 200, 260), (1, "0", 60, 100), (1, "0", 210, 260), (2, "0", 10, 100)]
    assert names_of(solution(A))["meetings"](pd.DataFrame(rows, columns=COLUMNS)) == {
        "meetings": 1,
        "waits": {0: 60, 1: 0, 2: 50},
        "waited_for": {0: 0, 1: 110, 2: 0},
        "exchange_ns": 40,
        "straggler": 1,
    }


def test_cause() -> None:
    rows = [(0, "forward", 0, 80), (0, "log", 300, 900), (1, "forward", 0, 80), (1, "evaluate", 90, 180)]
    ops = pd.DataFrame([*rows, (1, "log", 300, 310)], columns=["rank", "range", "start_ns", "end_ns"])
    meets = pd.DataFrame([(0, "0", 100, 200), (1, "0", 190, 200)], columns=COLUMNS)
    cause = names_of(solution(B))["cause"]
    assert cause(ops, meets, 1, 10) == ["evaluate", 90.0]
    assert cause(ops, meets, 1, 90) is None
    assert cause(ops.iloc[:0], meets, 1, 0) is None


@pytest.mark.parametrize("short", [A, B])
def test_solutions_pass(short: str) -> None:
    for seed in SEEDS:
        assert complaints(short, solution(short), seed) == []


def test_the_exam_has_a_straggler_and_a_cause() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    (met,) = ex03_meetings._exam(captures)
    (cause,) = ex03_cause._exam(captures)
    assert names_of(solution(A))["meetings"](*met.arguments) == met.expected
    assert met.expected["straggler"] == 1 and met.expected["waits"][0] > met.expected["exchange_ns"]
    assert names_of(solution(B))["cause"](*cause.arguments) == cause.expected
    assert cause.expected[0] == "more to do" and cause.expected[1] > 5_000_000


MISTAKES = [
    (A, 'rows.groupby(["group", "rank"]).cumcount()', 'rows.groupby("rank").cumcount()', "groups meet apart|"),
    (A, "if len(mine) < members[group]:", "if False:", "lacks does not count"),
    (A, 'collectives.sort_values("start_ns")', "collectives", "sort by start"),
    (A, "int(min(last, end) - start)", "int(last - start)", "no longer than its own kernel"),
    (A, '(mine["end_ns"] - mine["start_ns"]).min()', '(mine["end_ns"] - mine["start_ns"]).max()', "the shortest"),
    (A, "2 * waited_for[straggler] <= sum(waits.values())", "sum(waits.values()) == 0", "more than half"),
    (A, "key=lambda rank: (waited_for[rank], -rank), default=None)\n    if straggler is not None and", "key=lambda rank: (waits[rank], -rank), default=None)\n    if False and", "who waits most"),
    (B, 'ops[ops["start_ns"] < ops["rank"].map(until)]', "ops", "look only before"),
    (B, 'ops["rank"].map(until)]', "until.min()]", "its own start counts"),
    (B, ".fillna(0)\n", "\n", "took 0 ns"),
    (B, "table.drop(columns=late).mean(axis=1)", "table.drop(columns=late).max(axis=1)", "mean of the others"),
    (B, " or not extra.max() > least", "", "no range stands out"),
    (B, "table[late] - table.drop(columns=late).mean(axis=1)", "table[late]", "the most time"),
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
