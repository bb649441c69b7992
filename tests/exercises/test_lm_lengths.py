"""lm-ex08: the worked example of its text, and the sweep it is graded on."""

from __future__ import annotations

from typing import Any

import pytest

from labcode import store
from solutions.lm.ex08_longer_texts import a_cases
from tests.exercises.support import names_of, solution

SHIPPED = pytest.mark.skipif(
    store.SHIPPED_SET not in store.list_sets(), reason="the shipped captures are not here"
)


def row(length: int, ms: float, held: int = 1, peak: int = 1, **more: Any) -> dict[str, Any]:
    times = {"forward_ms": [0.25 * ms], "backward_ms": [0.75 * ms]}
    sizes = {"before_backward_bytes": held, "peak_bytes": peak}
    return {"d_head": 4, "length": length, "fits": True, **times, **sizes, **more}


def test_worked_example() -> None:
    cases = [row(40, 44, 3200, 12800), row(160, 704, 51200, 204800), row(10, 10), row(20, 11)]
    cases += [{"d_head": 4, "length": 640, "fits": False}, row(160, 1, d_head=8)]
    found = names_of(solution("lm-ex08a"))["growth"](cases, 1, 4, 2, 819201)
    assert found == {
        "follows_from": 20,
        "time": pytest.approx(2),
        "held": pytest.approx(2),
        "held_scores": 1,
        "held_inputs": 40,
        "longest": 320,
    }


def test_runs_are_matched_by_length() -> None:
    worth_it = names_of(solution("lm-ex08a"))["worth_it"]
    slow, fast = [row(80, 90), row(20, 8), row(40, 12)], [row(40, 4), row(80, 10), row(10, 1)]
    assert worth_it(slow, fast, 4, 3.0) == {"gain": 9, "worth_from": 40}
    assert worth_it(slow, fast, 4, 8.0) == {"gain": 9, "worth_from": 80}
    assert worth_it(slow, fast, 4, 9.5) == {"gain": 9, "worth_from": 0}


@SHIPPED
def test_the_sweep_has_all_that_is_asked_for() -> None:
    """Written out, memory grows with the square, with flash in proportion; time follows the work late."""
    names = names_of(solution("lm-ex08a"))
    cases = a_cases.exam(store.load_set(store.SHIPPED_SET))
    answers = {case.name: names[case.function](*case.arguments) for case in cases}
    grown = {name: found for name, found in answers.items() if "held" in found}
    assert len(grown) == len(a_cases.GROWTH_EXAMS)
    for name, found in grown.items():
        power = 1 if name.startswith("flash") else 2
        assert found["held"] == pytest.approx(power, abs=0.1), name
        assert 256 < found["follows_from"] < 16384, name
    worth = [found["worth_from"] for found in answers.values() if "worth_from" in found]
    assert len(worth) == len(a_cases.WORTH_EXAMS) and 0 not in worth
