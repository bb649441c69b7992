"""pytorch-ex03: the worked examples and the answers on the unseen capture."""

from __future__ import annotations

import pandas as pd

from labcode import store
from labcode.grading.task import read
from tests.exercises.support import names_of, part, solution

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


def test_the_exam_has_a_straggler_and_a_cause() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    tasks = [read(*part(short)) for short in (A, B)]
    found, (range_, extra) = (task.expect(*task.exam(captures)) for task in tasks if task.exam)
    assert found["straggler"] == 1 and found["waits"][0] > found["exchange_ns"]
    assert range_ == "more to do" and extra > 5_000_000
