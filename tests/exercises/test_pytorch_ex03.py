"""pytorch-ex03: the worked examples and the answers on the unseen capture."""

from __future__ import annotations

import pandas as pd

from labcode import store
from labcode.exercises.pytorch import ex03_cause, ex03_meetings
from tests.exercises.support import names_of, solution

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
    (met,) = ex03_meetings._exam(captures)
    (cause,) = ex03_cause._exam(captures)
    assert names_of(solution(A))["meetings"](*met.arguments) == met.expected
    assert met.expected["straggler"] == 1 and met.expected["waits"][0] > met.expected["exchange_ns"]
    assert names_of(solution(B))["cause"](*cause.arguments) == cause.expected
    assert cause.expected[0] == "more to do" and cause.expected[1] > 5_000_000
