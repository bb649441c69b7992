"""Charts show their values and units, do not cover their own texts, and take gaps and empty input."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from labcode.figures import (
    bandwidth_curve,
    bars,
    distribution,
    lines,
    paired_bars,
    render,
    shares,
    time_series,
)
from tests.figures.reading import assert_readable, texts, words

RANDOM = np.random.default_rng(4)
SAMPLES = {
    "host timer, no synchronize": RANDOM.normal(6, 0.3, 60),
    "host timer": RANDOM.gamma(30, 2, 60) + 20,
    "CUDA events": RANDOM.normal(64, 1, 60),
}
SHARES = pd.DataFrame({"busy": [50.0, 97.0], "idle": [50.0, 3.0]}, index=["baseline", "improved"])
ROLES = {"busy": "kernel", "idle": "idle"}
SIZES = 2.0 ** np.arange(16, 33)
TIME = np.linspace(0, 30, 300)
PHASES = [(0.0, 5.0, "idle"), (5.0, 20.0, "matmuls"), (20.0, 30.0, "cool down")]

CHARTS: dict[str, Callable[[], Figure]] = {
    "bars": lambda: bars(
        ["one stream", "graph"], [3.41, 0.62], unit="µs", quantity="time", ratio_to="one stream"
    ),
    "bars with a limit": lambda: bars(["pinned"], [53.0], unit="GB/s", limit=(64, "peak")),
    "pairs": lambda: paired_bars(["step", "forward"], [48, 14], [24, 8], unit="ms"),
    "shares": lambda: shares(SHARES, roles=ROLES),
    "sums": lambda: shares(SHARES, roles=ROLES, normalize=False, unit="ms", quantity="time"),
    "strip": lambda: distribution(SAMPLES, unit="µs"),
    "lines": lambda: lines(
        [1, 2, 4], {"a": [1, 2, 3], "b": [1, 2, 3.01]}, x_label="kernels", y_label="time (µs)"
    ),
    "logarithmic": lambda: lines(
        [1, 2, 4, 64],
        {"streams": [10, 5, 2.5, 1.1], "graph": [9, 4, 2, 0.2]},
        x_label="streams",
        y_label="time (µs)",
        log_x=True,
        log_y=True,
    ),
    "time series": lambda: time_series(
        TIME, {"SM clock": (TIME * 60, "MHz"), "power": (TIME * 20, "W")}, phases=PHASES
    ),
    "bandwidth": lambda: bandwidth_curve(
        SIZES, {"read": SIZES / 1e6, "copy": SIZES / 2e6}, l2_bytes=50 << 20, limit=(4800, "HBM peak")
    ),
}


@pytest.mark.parametrize("name", list(CHARTS))
def test_charts_are_readable(name: str) -> None:
    assert_readable(CHARTS[name]())


@pytest.mark.parametrize("name", list(CHARTS))
def test_charts_are_small_files_and_always_the_same(name: str) -> None:
    one, two = render(CHARTS[name]), render(CHARTS[name])
    assert one == two
    assert len(one) < 100_000


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("bars", "time (µs)"),
        ("pairs", "ms"),
        ("shares", "share of time (%)"),
        ("sums", "time (ms)"),
        ("strip", "time (µs)"),
        ("time series", "SM clock (MHz)"),
        ("time series", "time (s)"),
        ("bandwidth", "bandwidth (GB/s)"),
    ],
)
def test_axes_name_their_units(name: str, unit: str) -> None:
    assert unit in words(CHARTS[name]())


def test_bars_carry_values_and_ratios() -> None:
    assert {"3.41 µs", "0.620 µs", "0.182×"} <= set(words(CHARTS["bars"]()))
    assert "1.00×" not in words(CHARTS["bars"]())


def test_pairs_show_the_gain_in_the_right_direction() -> None:
    assert {"2.00×", "1.75×"} <= set(words(CHARTS["pairs"]()))
    figure = paired_bars(["copy"], [10], [50], unit="GB/s", better="higher")
    assert "5.00×" in words(figure)


def test_a_missing_value_is_said_not_drawn_as_zero() -> None:
    assert "not measured" in words(bars(["a", "b"], [1.0, float("nan")], unit="ms"))
    figure = paired_bars(["a"], [1.0], [float("nan")], unit="ms")
    assert "not measured" in words(figure)
    assert not [text for text in words(figure) if text.endswith("×")]


def test_no_ratio_to_or_from_zero() -> None:
    assert not [text for text in words(paired_bars(["a"], [0], [1], unit="ms")) if text.endswith("×")]
    assert not [t for t in words(bars(["a", "b"], [0, 1], unit="ms", ratio_to="a")) if t.endswith("×")]


def test_labels_and_values_must_match() -> None:
    with pytest.raises(ValueError, match=r"2 labels but values of shape \(3,\)"):
        bars(["a", "b"], [1, 2, 3], unit="ms")


def test_shares_are_of_each_row() -> None:
    assert {"50%", "97%"} <= set(words(CHARTS["shares"]()))
    assert "100 ms" in words(CHARTS["sums"]())
    empty = shares(pd.DataFrame({"busy": [0.0], "idle": [0.0]}, index=["nothing"]), roles=ROLES)
    assert "nothing" in words(empty)


def test_distributions_name_median_and_quartiles() -> None:
    values = {"run": np.arange(1.0, 102.0)}
    assert "median 51.0 ms, middle half 26.0 to 76.0" in words(distribution(values, unit="ms"))


def test_distributions_of_nothing() -> None:
    figure = distribution({"run": [], "other": [1.0], "bad": [float("nan")]}, unit="ms")
    assert_readable(figure)
    assert any("no samples" in text for text in words(figure))
    distribution({}, unit="ms")


def test_lines_are_named_at_their_ends_without_overlap() -> None:
    series = {f"variant {i}": [1.0, 2.0 + i / 1000] for i in range(4)}
    figure = lines([1, 2], series, x_label="size", y_label="time (ms)")
    assert_readable(figure)
    right = figure.axes[0].transData.transform((2, 0))[0]
    named = [item for item in texts(figure) if item.text.startswith("variant")]
    assert len(named) == 4
    assert all(item.box.x0 > right for item in named)


def test_logarithmic_axes_have_plain_numbers() -> None:
    assert {"1", "2", "4", "64", "0.5", "5"} <= set(words(CHARTS["logarithmic"]()))
    decades = lines([1, 2], {"a": [1, 2000]}, x_label="run", y_label="time (µs)", log_y=True)
    assert {"1", "10", "100", "1,000"} <= set(words(decades))
    measured = lines([1.2345, 23.456], {"a": [1, 2]}, x_label="x", y_label="y (ms)", log_x=True)
    assert not {"1.2345", "23.456"} & set(words(measured))


def test_lines_start_at_zero_and_leave_room_above() -> None:
    figure = lines([1, 2], {"a": [100, 101]}, x_label="x", y_label="y (ms)")
    low, high = figure.axes[0].get_ylim()
    assert low == 0
    assert high > 105
    assert lines([1], {"a": [float("nan")]}, x_label="x", y_label="y (ms)")


def test_phases_too_short_for_their_names_have_none() -> None:
    figure = time_series(
        TIME, {"power": (TIME, "W")}, phases=[(0, 0.1, "a very short phase"), (1, 29, "long")]
    )
    assert "long" in words(figure)
    assert "a very short phase" not in words(figure)


def test_l2_and_limit_are_marked() -> None:
    said = words(CHARTS["bandwidth"]())
    assert "fits into L2 (50 MiB)" in said
    assert "HBM peak: 4,800 GB/s" in said
