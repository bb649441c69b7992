"""Part lm: the worked examples of the texts, and the inputs that come from captures."""

from dataclasses import asdict
from typing import Any

import pandas as pd
import pytest

from labcode import store
from labcode.analysis.lm import decoder
from labcode.analysis.lm import parts as lm_parts
from labcode.reports.nsys.report import open_report
from solutions.lm.ex06_who_waits import a_cases as ex06
from solutions.lm.ex07_memory import a_cases as ex07
from solutions.lm.ex08_longer_texts import a_cases as ex08
from tests.exercises.support import names_of, solution


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


@pytest.mark.parametrize(("experiment", "run", "_words"), ex06.EXAMS)
def test_ex06_captures_have_a_call_for_every_operation(experiment: str, run: str, _words: str) -> None:
    captures = store.load_set(store.SHIPPED_SET)
    with open_report(captures.path_of(experiment, run)) as report:
        asked, ops = lm_parts.operations_asked(report), lm_parts.operations(report)
    assert asked[list(ops.columns)].equals(ops)
    assert asked["start_ns"].is_unique and (asked["asked_ns"] < asked["start_ns"]).all()
    passes = set(asked["path"].str.split("/").str[1])
    assert passes == set(ex06.PASSES)


def test_ex06_captures_have_different_verdicts() -> None:
    who_waits = names_of(solution("lm-ex06a"))["who_waits"]
    answers = [who_waits(*case.arguments) for case in ex06.exam(store.load_set(store.SHIPPED_SET))]
    found = [one for answer in answers for one in answer.values()]
    assert {"GPU-bound", "launch-bound"} <= {one["verdict"] for one in found}
    assert all(1 < one["gain"] < 2 for one in found)


def test_ex07_worked_example() -> None:
    model = {"layers": 2, "d_model": 4, "d_ff": 6, "heads": 2, "vocabulary": 10}
    names = names_of(solution("lm-ex07a"))
    floats = {"parameters": 356, "gradients": 356, "means": 712, "kept": 384, "peak": 5 * 356}
    for checkpoints, kept in ((False, 384), (True, 108)):
        wanted = {name: 4e-9 * number for name, number in {**floats, "kept": kept}.items()}
        assert names["training_memory"](model, 1, 3, checkpoints) == pytest.approx(wanted, rel=1e-9)
    assert names["most_texts"](model, 3, False, 4e-9 * (5 * 356 - 1)) == 0
    assert names["most_texts"](model, 3, False, 4e-9 * (5 * 356 + 1)) == 1
    assert 3 * 356 + 384 == 1452 and 4 * 356 + 150 + 2 * 18 == 1610


@pytest.mark.parametrize("size", ["small", "xl", "2.7B"])
@pytest.mark.parametrize("context", [128, 1024])
def test_ex07_counts_as_the_page_does(size: str, context: int) -> None:
    """The sums that the page on memory writes out, where the inner width is four times the width."""
    model, batch = decoder.SIZES[size], 4
    parameters = decoder.parameter_count(model, context)
    residual = decoder.residual_bytes(model, batch, context)
    scores = decoder.scores_bytes(model, batch, context)
    ends = 2 * (residual + 4 * batch * context * model.vocabulary)
    held = model.layers * (16 * residual + scores) + ends
    inputs, block = model.layers * residual + ends, 16 * residual + 3 * scores
    count = names_of(solution("lm-ex07a"))["training_memory"]
    plain, again = (count(asdict(model), batch, context, checkpoints) for checkpoints in (False, True))
    assert plain["kept"] * 1e9 == pytest.approx(held)
    assert plain["peak"] * 1e9 == pytest.approx(max(12 * parameters + held, 20 * parameters))
    assert again["kept"] * 1e9 == pytest.approx(inputs)
    passes = max(12 * parameters + inputs, 16 * parameters) + block
    assert again["peak"] * 1e9 == pytest.approx(max(passes, 20 * parameters))
    state = plain["parameters"] + plain["gradients"] + plain["means"]
    assert state * 1e9 == pytest.approx(decoder.training_state_bytes(model, context))


def test_ex07_was_measured_as_it_is_counted() -> None:
    """With room to spare below the tolerance, so that no sensible count fails."""
    measured = ex07.exam(store.load_set(store.SHIPPED_SET))
    assert len(measured) == len(ex07.EXAMS)
    for case in measured:
        assert ex07.over_counted(case) == {
            key: pytest.approx(1, abs=0.7 * ex07.TOLERANCE) for key in ("kept", "peak")
        }


def row(length: int, ms: float, held: int = 1, peak: int = 1, **more: Any) -> dict[str, Any]:
    times = {"forward_ms": [0.25 * ms], "backward_ms": [0.75 * ms]}
    sizes = {"before_backward_bytes": held, "peak_bytes": peak}
    return {"d_head": 4, "length": length, "fits": True, **times, **sizes, **more}


def test_ex08_worked_example() -> None:
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


def test_ex08_runs_are_matched_by_length() -> None:
    worth_it = names_of(solution("lm-ex08a"))["worth_it"]
    slow, fast = [row(80, 90), row(20, 8), row(40, 12)], [row(40, 4), row(80, 10), row(10, 1)]
    assert worth_it(slow, fast, 4, 3.0) == {"gain": 9, "worth_from": 40}
    assert worth_it(slow, fast, 4, 8.0) == {"gain": 9, "worth_from": 80}
    assert worth_it(slow, fast, 4, 9.5) == {"gain": 9, "worth_from": 0}


def test_ex08_the_sweep_has_all_that_is_asked_for() -> None:
    """Written out, memory grows with the square, with flash in proportion; time follows the work late."""
    names = names_of(solution("lm-ex08a"))
    cases = ex08.exam(store.load_set(store.SHIPPED_SET))
    answers = {case.name: names[case.function](*case.arguments) for case in cases}
    grown = {name: found for name, found in answers.items() if "held" in found}
    assert len(grown) == len(ex08.GROWTH_EXAMS)
    for name, found in grown.items():
        power = 1 if name.startswith("flash") else 2
        assert found["held"] == pytest.approx(power, abs=0.1), name
        assert 256 < found["follows_from"] < 16384, name
    worth = [found["worth_from"] for found in answers.values() if "worth_from" in found]
    assert len(worth) == len(ex08.WORTH_EXAMS) and 0 not in worth
