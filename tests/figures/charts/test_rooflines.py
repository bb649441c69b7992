"""Measured rooflines and charts of rounds: what is drawn where."""

import numpy as np
import pytest

from labcode.figures import render
from labcode.figures.charts.roofline import Family, measured_roofline, rounds_and_needs


def families() -> list[Family]:
    return [Family("fp32", [0.25, 64.0], [1.0, 60.0], 65.0, 67.0), Family("fp64", [1.0], [3.9], 33.0, np.nan)]


def test_points_and_roofs_stand_at_their_values() -> None:
    axes = measured_roofline(families(), 4.0, 4.8).axes[0]
    drawn = [(line.get_linestyle(), *np.round(line.get_ydata(), 6)) for line in axes.lines]
    assert ("None", 1.0, 60.0) in drawn
    assert ("-", 65.0, 65.0) in drawn and (":", 67.0, 67.0) in drawn
    assert not any(np.isnan(values[1:]).any() for values in drawn)
    flat = next(line for line in axes.lines if tuple(line.get_ydata()) == (65.0, 65.0))
    assert flat.get_xdata()[0] == pytest.approx(65.0 / 4.0)


def test_without_published_figures_only_measured_roofs_are_drawn() -> None:
    axes = measured_roofline(families()[1:], 4.0, float("nan")).axes[0]
    assert ":" not in [line.get_linestyle() for line in axes.lines]


def test_rounds_show_measurement_prediction_and_needs() -> None:
    figure = rounds_and_needs(["0", "1"], [100, 10], [90, 8], {"issue": [50, 7]}, y_label="cycles")
    axes = figure.axes[0]
    assert [bar.get_height() for bar in axes.patches] == [100, 10]
    assert axes.lines[0].get_ydata().tolist() == [50, 7]
    assert sorted(segment[0][1] for segment in axes.collections[0].get_segments()) == [8, 90]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_both_modes_render(mode: str) -> None:
    svg = render(lambda: measured_roofline(families(), 4.0, 4.8), mode, "svg")  # type: ignore[arg-type]
    assert b"arithmetic intensity" in svg
