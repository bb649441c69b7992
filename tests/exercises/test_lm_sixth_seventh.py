"""lm-ex06 and lm-ex07: the worked examples of their texts, and the inputs that come from captures."""

from __future__ import annotations

import pandas as pd
import pytest

from labcode import store
from labcode.analysis import lm_parts
from labcode.exercises.lm import ex06_waits
from labcode.exercises.lm.asked import PASSES, clean_passes, operations_asked
from labcode.reports.nsys import open_report
from tests.exercises.support import names_of, solution

SHIPPED = pytest.mark.skipif(
    store.SHIPPED_SET not in store.list_sets(), reason="the shipped captures are not here"
)


def test_ex06_worked_example() -> None:
    rows = [
        ("step 0/forward", 65, 70, 80),
        ("step 0/forward", 0, 10, 40),
        ("step 0/optimizer", 85, 90, 130),
        ("step 0/forward", 20, 40, 60),
    ]
    ops = pd.DataFrame(rows, columns=["path", "asked_ns", "start_ns", "end_ns"])
    ops[["asked_ns", "start_ns", "end_ns"]] *= 1000
    ops = ops.assign(kind="kernel", name="k", device=0, stream=7)
    found = names_of(solution("lm-ex06a"))["who_waits"](ops, 1, {"forward": 0.1, "optimizer": 0.05}, 2.0, 0.3)
    assert found == {
        "forward": {
            "late": pytest.approx(1 / 3),
            "idle": pytest.approx(0.4),
            "verdict": "launch-bound",
            "gain": pytest.approx(100 / 70),
        },
        "optimizer": {
            "late": 1.0,
            "idle": pytest.approx(0.2),
            "verdict": "GPU-bound",
            "gain": pytest.approx(50 / 30),
        },
    }


@SHIPPED
@pytest.mark.parametrize(("experiment", "run", "_words"), ex06_waits.EXAMS)
def test_ex06_captures_have_a_call_for_every_operation(experiment: str, run: str, _words: str) -> None:
    captures = store.load_set(store.SHIPPED_SET)
    with open_report(captures.path_of(experiment, run)) as report:
        asked, ops = operations_asked(report), lm_parts.operations(report)
    assert asked[list(ops.columns)].equals(ops)
    assert asked["start_ns"].is_unique and (asked["asked_ns"] < asked["start_ns"]).all()
    passes = set(asked["path"].str.split("/").str[1])
    assert passes == set(clean_passes(captures.record(experiment, run, clean=True))) == set(PASSES)


@SHIPPED
def test_ex06_captures_have_different_verdicts() -> None:
    cases = ex06_waits._exam(store.load_set(store.SHIPPED_SET))
    verdicts = [one["verdict"] for case in cases for one in case.expected.values()]
    assert {"GPU-bound", "launch-bound"} <= set(verdicts)
    assert all(1 < one["gain"] < 2 for case in cases for one in case.expected.values())
