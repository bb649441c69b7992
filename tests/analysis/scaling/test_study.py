"""A record of steps: times, model and forecast of a strategy, for strong and for weak scaling."""

from typing import Any

import pandas as pd
import pytest

from labcode.analysis.scaling import collectives, study
from labcode.errors import InputError

LINK = collectives.fit(
    pd.DataFrame(
        {"operation": "all_reduce", "count": 2, "bytes": [1e6, 1e8, 1e9], "time_us": [20, 1010, 10010]}
    ),
    "all_reduce",
    2,
)


def case(strategy: str, count: int, batch: int, ms: float, sent_ms: float | None = None) -> dict[str, Any]:
    own = {"strategy": strategy, "count": count, "batch": batch, "step_ms": [ms, ms]}
    return own | {"gradient_bytes": 1e8, "all_reduce_ms": sent_ms}


STRONG = [
    *(case("single", 1, batch, 10.0 * batch) for batch in (8, 4, 2)),
    case("bucketed", 2, 4, 40.5, 1.0),
    case("ddp", 2, 4, 40.25),
    case("zero", 2, 4, 41.0),
]
WEAK = [case("single", 1, 8, 80.0), case("bucketed", 2, 8, 81.0, 1.0)]


def test_times_are_those_of_one_gpu_with_the_whole_batch_and_of_the_strategy() -> None:
    assert study.times_of(STRONG, "strong", "bucketed") == {1: [80.0, 80.0], 2: [40.5, 40.5]}
    assert study.times_of(WEAK, "weak", "bucketed") == {1: [80.0, 80.0], 2: [81.0, 81.0]}


def test_a_strong_forecast_takes_the_smaller_batches_from_one_gpu() -> None:
    table = study.forecast(STRONG, "strong", "bucketed", LINK, (1, 2, 4)).set_index("count")
    assert table["batch"].to_dict() == {1: 8, 2: 4, 4: 2} and table["alone_ms"].to_list() == [80, 40, 20]
    assert table["measured_ms"].to_list()[:2] == [80, 40.5] and pd.isna(table.loc[4, "measured_ms"])
    assert table.loc[2, "step_ms"] == pytest.approx(40.5)
    assert table.loc[4, "step_ms"] == pytest.approx(20 + 0.5 * 1.5, rel=0.01)
    assert table.loc[4, "efficiency"] == pytest.approx(80 / 4 / table.loc[4, "step_ms"])
    assert table.loc[4, "efficiency_low"] <= table.loc[4, "efficiency"] <= table.loc[4, "efficiency_high"]


def test_a_weak_forecast_keeps_the_batch() -> None:
    table = study.forecast(WEAK, "weak", "bucketed", LINK, (1, 2, 8)).set_index("count")
    assert set(table["batch"]) == {8} and table.loc[1, "efficiency"] == 1
    assert table.loc[2, "efficiency"] == pytest.approx(80 / 81)
    assert table.loc[8, "step_ms"] == pytest.approx(80 + 1.75, rel=0.01)


def test_ddp_sends_what_buckets_send() -> None:
    assert study.model_of(STRONG, "strong", "ddp", LINK).exposed == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("cases", "strategy", "counts", "message"),
    [
        (STRONG, "zero", (2,), "zero on 2 GPUs: its all-reduces were not timed alone"),
        (STRONG, "naive", (2,), "naive on 2 GPUs: its all-reduces were not timed alone"),
        (STRONG, "bucketed", (3,), "a batch of 8 cannot be shared evenly by 3 GPUs"),
        (
            STRONG,
            "bucketed",
            (8,),
            "on 8 GPUs each has a batch of 1, which was not timed alone (2, 4, 8 were)",
        ),
        (STRONG[3:], "bucketed", (2,), "the record has no step on one GPU"),
    ],
)
def test_records_that_lack_something(
    cases: list[dict[str, Any]], strategy: str, counts: tuple[int, ...], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        study.forecast(cases, "strong", strategy, LINK, counts)
    assert message in str(caught.value)
