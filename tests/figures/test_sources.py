"""Pictures read back: what differs between the axes and the table is named."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from labcode import units
from labcode.figures import bandwidth_curve, bars, distribution, lines, paired_bars, shares, time_series
from labcode.figures.charts.roofline import Family, measured_roofline, rounds_and_needs
from labcode.figures.charts.sets import claims_on_two, shares_on_two
from labcode.figures.sources import check, declare

BATCHES = np.array([1, 2, 4, 8])
FULL_MS, EMPTY_MS = np.array([1.0, 1.5, 2.5, 4.5]), np.array([1.0, 1.1, 1.2, 1.4])
STEPS = pd.DataFrame(
    {"full": 1e3 * BATCHES / FULL_MS, "empty": 1e3 * BATCHES / EMPTY_MS},
    index=pd.Index(BATCHES, name="batch"),
)
CURVES = {
    "full": pd.Series(1e3 * BATCHES / FULL_MS, index=pd.Index(FULL_MS, name="step_ms"), name="rate_per_s"),
    "empty": pd.Series(1e3 * BATCHES / EMPTY_MS, index=pd.Index(EMPTY_MS, name="step_ms"), name="rate_per_s"),
}
LABELS = {"x_label": "time of a step (ms)", "y_label": "tokens a second"}


def own(**given: str) -> Figure:
    """Both curves over their own steps."""
    return lines({n: c.index.to_numpy() for n, c in CURVES.items()}, CURVES, **{**LABELS, **given})


def test_every_chart_function_draws_what_it_is_given() -> None:
    names, values = ["one", "two", "three"], np.array([1.0, np.nan, 1234.5])
    table = pd.DataFrame({"kernels": [1.0, 2.0], "copies": [3.0, 0.0]}, index=["a", "b"])
    seconds = np.linspace(0, 1, 5)
    family = Family("fp32", [1.0, 2.0], [10.0, 20.0], 30.0, 40.0)
    compared = pd.DataFrame({"ratio": [0.001, 1.0, 2.0], "turns_over": [True, False, False]})
    on_two = pd.DataFrame({"first": [0.1, 0.5], "second": [0.2, 0.9], "group": ["sum", "matmul"]})
    drawn = {
        "bars": (bars(names, values, unit="ms", ratio_to="one"), 1),
        "paired": (paired_bars(names, values, 2 * values, unit="%"), 2),
        "shares": (shares(table, roles={"kernels": "kernel", "copies": "h2d"}), 2),
        "sums": (shares(table, roles={"kernels": "kernel", "copies": "h2d"}, normalize=False, unit="ms"), 2),
        "strips": (distribution({"loop": [3.0, 1.0, 2.0], "none": []}, unit="ms"), 1),
        "lines": (lines(BATCHES, {"one": FULL_MS, "two": EMPTY_MS}, **LABELS, log_x=True, log_y=True), 2),
        "one line": (lines(BATCHES, {"": FULL_MS}, **LABELS), 1),
        "over time": (time_series(seconds, {"clock": (seconds, "MHz"), "power": (2 * seconds, "W")}), 2),
        "bandwidth": (bandwidth_curve([1024, 4096], {"copy": [1.0, 2.0]}, limit=(3.0, "peak")), 1),
        "roofline": (measured_roofline([family], 1.0, 2.0), 1),
        "rounds": (rounds_and_needs(["0", "1"], [2.0, 3.0], [1.0, 4.0], {"ALU": [1, 2]}, y_label="y"), 2),
        "claims": (claims_on_two({"nsys": compared}, names=("a", "b")), 2),
        "two": (shares_on_two(on_two, names=("a", "b"), scale=1.4), 2),
    }
    found = {kind: check(figure) for kind, (figure, _) in drawn.items()}
    assert {kind: one.differences for kind, one in found.items()} == dict.fromkeys(drawn, ())
    assert {kind: one.series for kind, one in found.items()} == {kind: n for kind, (_, n) in drawn.items()}


def test_curves_over_their_own_x_agree_with_the_table() -> None:
    assert check(own(), CURVES).differences == ()


def test_a_curve_over_the_x_of_another_one() -> None:
    wrong = lines(FULL_MS, {name: curve.to_numpy() for name, curve in CURVES.items()}, **LABELS)
    assert check(wrong).differences == ()  # the chart drew what it was given …
    assert check(wrong, CURVES).differences == (  # … which is not the table
        "“empty”: along “time of a step (ms)”: point 2 is drawn at 1.5, the table has 1.1 (and 2 more)",
    )


def test_a_series_with_an_index_of_its_own_is_not_drawn_over_another_x() -> None:
    with pytest.raises(ValueError, match="lines: the index of 'empty' is not the x that it is drawn over"):
        lines(FULL_MS, CURVES, **LABELS)
    with pytest.raises(ValueError, match="the index of 'rate' is not the x"):
        lines(STEPS["full"], {"rate": STEPS["empty"].iloc[::-1]}, **LABELS)


def test_a_wrong_unit_on_an_axis() -> None:
    for label, scale in (("time (µs)", 1e3), ("time (s)", 1e-3)):
        (said, *_) = check(own(x_label=label), CURVES).differences
        assert said.startswith(f"“full”: along “{label}”: point 1 is drawn at 1, the table has {scale:g}")
    assert "the axis “size (MiB)” has MiB, its column step_ms is in ms" in " ".join(
        check(own(x_label="size (MiB)"), CURVES).differences
    )
    assert "the axis “step” has no unit" in " ".join(check(own(x_label="step"), CURVES).differences)
    drawn = pd.Series({"a": 2.0, "b": 3.0}, name="busy_ns")
    assert check(bars(drawn.index, drawn / 1e3, unit="µs", quantity="busy"), drawn).differences == ()
    assert check(bars(drawn.index, drawn / 1e3, unit="ms", quantity="busy"), drawn).differences


def test_a_missing_series_and_one_too_many() -> None:
    less = lines({"full": FULL_MS}, {"full": CURVES["full"]}, **LABELS)
    assert check(less, CURVES).differences == ("“empty” is in the table and not drawn",)
    assert check(own(), {"full": CURVES["full"]}).differences == ("“empty” is drawn and not in the table",)


def test_points_that_are_missing() -> None:
    cut = {name: curve.iloc[:3] for name, curve in CURVES.items()}
    drawn = lines({name: curve.index.to_numpy() for name, curve in cut.items()}, cut, **LABELS)
    assert check(drawn, CURVES).differences == tuple(
        f"“{name}”: 3 points are drawn, 4 are in the table" for name in CURVES
    )


def test_bars_at_the_wrong_labels() -> None:
    times = pd.Series({"slow": 3.0, "fast": 1.0}, name="step_ms")
    assert check(bars(times.index, times, unit="ms"), times).differences == ()
    swapped = check(bars(["fast", "slow"], times, unit="ms"), times)
    assert swapped.differences == ("what the table has at “slow” is drawn at “fast”",)


def test_a_number_beside_a_bar_of_another_length() -> None:
    figure = bars(["a"], [1.26], unit="ms", format=lambda value: f"{2 * value:.1f}")
    assert check(figure).differences == ("“2.5 ms” is written at a bar of 1.26",)


def test_a_key_with_the_colors_exchanged_or_names_too_many() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    for name, color in (("a", "C0"), ("b", "C1")):
        axes.plot([0, 1], [1, 2], color=color, label=name)
    declare(axes, {"a": ([0, 1], [1, 2]), "b": ([0, 1], [1, 2])})
    axes.legend()
    assert check(figure).differences == ()
    axes.legend(handles=axes.lines[::-1], labels=["a", "b"])
    assert "“a” has another color in the key than on the axes" in check(figure).differences
    axes.legend(handles=[*axes.lines, axes.lines[0]], labels=["a", "b", "c"])
    assert check(figure).differences == ("the key names “c”, which is not drawn",)


def test_labels_of_ticks_may_be_numbers() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0.0, 0.5], [1, 2], label="a")
    axes.set_xticks([0.0, 0.5], labels=[0, 50])  # type: ignore[list-item]
    axes.legend()
    declare(axes, {"a": ([0, 50], [1, 2])})
    assert check(figure).differences == ()
    declare(axes, {"a": ([0, 0.5], [1, 2])})
    assert len(check(figure).differences) == 1


def test_a_series_that_nobody_can_tell() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], [1, 2], label="a")
    axes.plot([0, 1], [1, 3], label="b")
    declare(axes, {"a": ([0, 1], [1, 2]), "b": ([0, 1], [1, 3])})
    axes.legend(handles=axes.lines[:1])
    assert check(figure).differences == ("“b” is drawn, and its name is nowhere",)


def test_a_name_at_the_end_of_another_line() -> None:
    figure = own()
    ends = [text for text in figure.axes[0].texts if text.get_text() in CURVES]
    one, two = ends
    one.xy, two.xy = two.xy, one.xy  # type: ignore[attr-defined]
    assert check(figure).differences == tuple(
        f"the name “{name}” stands at none of its points" for name in CURVES
    )


def test_units() -> None:
    assert [units.of_column(name) for name in ("busy_ns", "rate_per_s", "gb_per_s", "idle_share", "s")] == [
        *("ns", "", "", "1", "")
    ]
    labels = ("time (ms)", "mJ a token", "GPUs (1 and 2)", "load (% of it)", "step")
    assert [units.of_label(label) for label in labels] == ["ms", "mJ", "", "%", ""]
    assert units.factor("ns", "ms") == pytest.approx(1e-6) and units.factor("GiB", "bytes") == 2**30
    assert units.factor("1", "%") == pytest.approx(100) and units.factor("ms", "MiB") is None
