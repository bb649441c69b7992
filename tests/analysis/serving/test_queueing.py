"""Queues with known answers: M/M/1, M/D/1, recursions by hand; queues that grow without end."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from labcode.analysis.serving import queueing
from labcode.errors import LabError

SHARES = (np.arange(4000) + 0.5) / 4000
EXPONENTIAL = -np.log(1 - SHARES)  # mean 1


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8])
def test_mm1_has_an_exponential_response(busy: float) -> None:
    for share in (0.5, 0.99):
        wanted = -np.log(1 - share) / (1 - busy)
        assert queueing.response_quantile_s(busy, EXPONENTIAL, share) == pytest.approx(wanted, rel=0.02)
    assert queueing.mean_wait_s(busy, EXPONENTIAL) == pytest.approx(busy / (1 - busy), rel=0.01)


def test_md1_waits_half_as_long_as_mm1() -> None:
    assert queueing.mean_wait_s(0.5, [1.0]) == pytest.approx(0.5)
    assert queueing.response_quantile_s(1e-6, [2.0], 0.99) == pytest.approx(2.0, rel=0.01)
    # the wait is 0 for half of them, so that the median response is the service alone
    assert queueing.response_quantile_s(0.5, [1.0], 0.45) == pytest.approx(1.0, abs=0.01)


def test_a_queue_that_grows_without_end() -> None:
    for rate in (1.0, 1.25):
        with pytest.raises(LabError, match=rf"^the server would be busy {rate:.2f} of the time: its queue"):
            queueing.mean_wait_s(rate, [1.0])


def test_lindley_by_hand_and_against_the_formula() -> None:
    assert queueing.lindley_s([0, 1, 1.5, 10], [2, 1, 1, 3]).tolist() == [2, 2, 2.5, 3]
    rng = np.random.default_rng(1)
    arrives = np.cumsum(rng.exponential(1 / 0.5, 60_000))
    found = queueing.lindley_s(arrives, rng.exponential(1.0, 60_000))
    wanted = queueing.response_quantile_s(0.5, EXPONENTIAL, 0.99)
    assert np.quantile(found, 0.99) == pytest.approx(wanted, rel=0.08)
    with pytest.raises(LabError, match=r"^2 arrivals and 1 service times do not go together$"):
        queueing.lindley_s([0, 1], [1])


def test_service_is_fitted_exactly_where_it_is_linear() -> None:
    table = pd.DataFrame({"tokens": [1, 5, 9, 2], "prompt_tokens": [10, 80, 20, 40]})
    table["served_ms"] = 3 + 2 * table["tokens"] + 0.1 * table["prompt_tokens"]
    fitted = queueing.fit_service(table)
    assert fitted == pytest.approx([3, 2, 0.1])
    assert queueing.service_ms(table, fitted) == pytest.approx(table["served_ms"])
    with pytest.raises(LabError, match=r"^2 requests do not tell three coefficients; measure 3 or more$"):
        queueing.fit_service(table[:2])


def test_slots_by_hand() -> None:
    times = {"step_us": {"1": 1e6, "2": 2e6}, "prompt_us": {"16": 5e5, "32": 8e5}}
    # alone: a prompt (0.5 s) and two steps of one row; the second comes while the first runs
    one = queueing.slots_s([0.0], [10], [3], slots=2, **times)
    assert one == pytest.approx([2.5])
    both = queueing.slots_s([0.0, 0.6], [10, 20], [3, 2], slots=2, **times)
    # 0.5 prompt, 1.5 one step; 2.3 second prompt, 4.3 a step of both ends both
    assert both == pytest.approx([4.3, 3.7])
    waits = queueing.slots_s([0.0, 0.0, 0.0], [1, 1, 40], [1, 2, 1], slots=1, **times)
    assert waits == pytest.approx([0.5, 2.0, 2.8])
    with pytest.raises(LabError, match=r"^0 slots serve nobody; give 1 or more$"):
        queueing.slots_s([0.0], [1], [1], slots=0, **times)


def test_one_slot_is_lindley() -> None:
    rng = np.random.default_rng(2)
    arrives, tokens = np.cumsum(rng.exponential(3.0, 200)), rng.integers(1, 5, 200)
    found = queueing.slots_s(arrives, [1] * 200, tokens, step_us={"1": 5e5}, prompt_us={"16": 1e6}, slots=1)
    assert found == pytest.approx(queueing.lindley_s(arrives, 1.0 + 0.5 * (tokens - 1)))


def run_of(
    arrives_s: list[float], whole_s: list[float], batch: int, rate: float, **beside: Any
) -> dict[str, Any]:
    """A run of two parts in which the same happens, and how it was served."""
    arrives = [1e6 * t for t in arrives_s]
    ends = [a + 1e6 * w for a, w in zip(arrives, whole_s, strict=True)]
    columns = {"arrives_us": arrives, "started_us": arrives, "first_us": ends, "last_us": ends}
    columns |= {"prompt_tokens": [10, 20, 10, 30], "tokens": [1, 2, 3, 1]}
    seen = {"done": 4, "span_us": 8e6, "step_s": 3.0, "prefill_s": 2.0, "steps": {"1": 20, "2": 10}} | beside
    return (
        {name: 2 * values for name, values in columns.items()}
        | {name: 2 * value for name, value in seen.items() if name != "steps"}
        | {"steps": {rows: 2 * count for rows, count in seen["steps"].items()}}
        | {"rate_per_s": rate, "way": "continuous", "batch": batch, "parts": [seen, seen]}
    )


def results_of(alone: list[float], together: dict[str, Any], asleep: list[float]) -> dict[str, Any]:
    """Rounds in which all is as the models have it, before each part and in it."""
    served, arrives, waiting = [1.1, 2.2, 3.1, 1.3], [0.0, 0.5, 9.0, 9.5], [0.0] * 4
    at_start = run_of(waiting, served, 2, 0.0)
    idle = {**at_start, "steps": {"1": 60}, "parts": at_start["parts"][:1]}
    # beside 30 steps 3 s of 8 s pass, whatever their rows: a tenth of a second each
    return {
        # medians of 0.05 s and 1 s, far off
        "calibration": [{"step_us": {"1": us, "2": us}, "prompt_us": {"32": 1e6}} for us in (5e4, 9e4)],
        "runs": {
            "static all": idle,
            "continuous all": {**at_start, "parts": at_start["parts"][:1]},
            "alone all": run_of(waiting, served, 1, 0.0),
            "alone 0.5": run_of(arrives, alone, 1, 1.0),
            "asleep 0.5": run_of(arrives, asleep, 1, 1.0),
            "continuous before": at_start,
            "continuous 0.5": run_of(arrives, **together),
        },
    }


TOGETHER = [0.5, 0.7, 1.4, 0.7]


def test_parts_are_runs() -> None:
    run = run_of([0.0, 1.0, 2.0, 3.0], [1.0] * 4, 2, 5.0)
    run["parts"] = [{**run["parts"][0], "done": 1, "span_us": 1e6}, {**run["parts"][0], "done": 7}]
    first, second = queueing.parts(run)
    assert first["arrives_us"] == [0.0] and first["tokens"] == [1] and first["span_us"] == 1e6
    assert second["arrives_us"] == run["arrives_us"][1:] and second["rate_per_s"] == 5.0


def test_each_part_is_predicted_from_what_was_before_it() -> None:
    alone = [1.1, 2.8, 3.1, 3.9]
    both = {"whole_s": [2 * t for t in TOGETHER], "batch": 2, "rate": 1.0}
    results = results_of(alone, both, [9.0] * 4)
    for one in queueing.predicted_s(results, "alone 0.5"):
        assert one == pytest.approx(np.broadcast_to(alone, (queueing.DRAWS, 4)))
    assert [*queueing.predicted_s(results, "continuous 0.5")] == [pytest.approx(np.array([TOGETHER]))] * 2
    found = queueing.predictions(results)
    assert list(found["run"]) == ["alone 0.5", "continuous 0.5"]
    for name in ("ratio", "typical"):
        assert list(found[name]) == pytest.approx([1.0, 0.5], abs=1e-3)
    # what comes later is not known before
    later = results["calibration"][1]["step_us"]
    before = queueing.calibrated(results, 0)
    results["calibration"][1] = {"step_us": dict.fromkeys(later, 1000000000.0), "prompt_us": {"32": 1e9}}
    assert queueing.calibrated(results, 0) == before


def test_a_prediction_with_the_speed_of_the_part_itself() -> None:
    slower = {"whole_s": [1.0] * 4, "batch": 2, "rate": 1.0, "prefill_s": 4.0}  # prompts take twice as long
    results = results_of([1.0, 2.0, 3.0, 4.0], slower, [1.0] * 4)
    for one in queueing.predicted_s(results, "alone 0.5", own=True):
        assert one == pytest.approx(np.array([[1.0, 2.5, 3.0, 6.5]]))
    for one in queueing.predicted_s(results, "continuous 0.5", own=True):
        assert one == pytest.approx(np.array([[1.0, 1.7, 2.4, 1.7]]))
    found = queueing.predictions(results)
    assert found["own_ms"][1] > found["predicted_ms"][1]
    assert list(found["own_ratio"]) == pytest.approx(list(found["own_ms"] / found["measured_ms"]))


def test_where_a_percentile_of_few_requests_lies() -> None:
    true = queueing.response_quantile_s(0.5, EXPONENTIAL, 0.99)
    (low, high), (nearer, farther) = (queueing.scatter(0.5, EXPONENTIAL, n, times=60) for n in (30, 2000))
    assert low < nearer < true < farther
    assert farther / nearer < 2 < high / low
    with pytest.raises(LabError, match=r"^the server would be busy 2\.00 of the time: its queue"):
        queueing.scatter(2.0, [1.0], 10)
