"""Latencies by hand; intervals that cover; Little's law where it must hold."""

from typing import Any

import numpy as np
import pytest

from labcode.analysis.serving import latency
from labcode.errors import LabError


def run(**changes: Any) -> dict[str, Any]:
    return {
        "arrives_us": [0, 1_000, 2_000],
        "started_us": [0, 5_000, 9_000],
        "first_us": [2_000, 6_000, 11_000],
        "last_us": [4_000, 8_000, 11_000],
        "prompt_tokens": [3, 4, 5],
        "tokens": [3, 2, 1],
        "span_us": 11_000,
        "held_mean": 20 / 11,
        "rate_per_s": 300.0,
    } | changes


def test_requests_by_hand() -> None:
    table = latency.requests(run())
    assert table["wait_ms"].tolist() == [0, 4, 7]
    assert table["first_ms"].tolist() == [2, 5, 9]
    assert table["whole_ms"].tolist() == [4, 7, 9]
    assert table["served_ms"].tolist() == [4, 3, 2]
    assert table["between_ms"].tolist()[:2] == [1, 2] and np.isnan(table["between_ms"][2])


def test_none_served_is_one_line() -> None:
    empty = {name: [] for name in ("arrives_us", "started_us", "first_us", "last_us", "tokens")}
    with pytest.raises(LabError, match=r"^no request was served: there is no latency to speak of$"):
        latency.requests(run(**empty, prompt_tokens=[]))


def test_goodput_counts_what_was_in_time_over_all_the_time() -> None:
    assert latency.goodput_per_s(run(), 7.0) == pytest.approx(2 / 0.011)
    assert latency.goodput_per_s(run(), 3.0) == 0
    assert latency.goodput_per_s(run(), 5.0, "first_ms") == pytest.approx(2 / 0.011)


def test_little_by_hand() -> None:
    found = latency.little(run())
    assert found["product"] == pytest.approx(20 / 11) and found["ratio"] == pytest.approx(1)
    assert latency.little(run(held_mean=40 / 11))["ratio"] == pytest.approx(2)


def test_intervals_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    true, inside = -np.log(1 - 0.9), 0
    for _ in range(300):
        row = latency.percentiles(rng.exponential(size=200), (0.9,)).iloc[0]
        inside += row["low"] <= true <= row["high"]
    assert 0.92 <= inside / 300 <= 0.99


def test_too_few_values_leave_the_upper_end_open() -> None:
    rows = latency.percentiles(list(range(1, 101)), (0.5, 0.99))
    assert rows["high"].tolist()[1] == np.inf and rows["high"].tolist()[0] < 65
    assert rows["value"].tolist() == [50.5, pytest.approx(99.01)]


@pytest.mark.parametrize(
    ("values", "shares", "message"),
    [
        ([], (0.5,), "^percentiles need values, all of them numbers$"),
        ([1.0, np.nan], (0.5,), "^percentiles need values, all of them numbers$"),
        ([1.0], (1.0,), r"^a percentile lies between 0 and 1, not at 1\.0$"),
    ],
)
def test_percentiles_of_nonsense(values: list[float], shares: tuple[float, ...], message: str) -> None:
    with pytest.raises(LabError, match=message):
        latency.percentiles(values, shares)


def test_the_curve() -> None:
    slow = run(last_us=[400_000, 800_000, 1_100_000], span_us=1_100_000)
    table = latency.curve({"fast": run(), "slow": slow})
    assert table["served_per_s"].tolist() == [pytest.approx(3 / 0.011), pytest.approx(3 / 1.1)]
    assert table["p50_ms"].tolist() == [7, 799]
