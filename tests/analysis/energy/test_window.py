"""The energy of a window against loads and sensors whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.analysis.energy.sensor import Load, Sensor
from labcode.analysis.energy.window import COLUMNS, FEW_UPDATES, curve_of, windows
from tests.support import power

S = 1_000_000_000


def read(load: Load, sensor: Sensor, period_s: float = 0.02, seconds: float = 12.0) -> pd.DataFrame:
    return sensor.samples(load, np.arange(0, seconds, period_s) * S)


@given(
    watts=st.lists(st.floats(50, 700), min_size=2, max_size=20),
    update_s=st.sampled_from([0.02, 0.1, 0.25]),
    period_s=st.sampled_from([0.005, 0.02, 0.1, 0.33]),
    phase_s=st.floats(0, 0.25),
    window=st.tuples(st.floats(1.0, 4.0), st.floats(5.0, 9.0)),
)
def test_truth_lies_within_the_error_bar(
    watts: list[float], update_s: float, period_s: float, phase_s: float, window: tuple[float, float]
) -> None:
    load = Load(np.linspace(0, 12 * S, len(watts) + 1), np.array(watts))
    sensor = Sensor(update_s=update_s, phase_s=phase_s)
    begin, end = (int(t * S) for t in window)
    found = curve_of(read(load, sensor, period_s)).energy(begin, end)
    truth = float(load.energy(float(end)) - load.energy(float(begin)))
    assert abs(found.counter_j - truth) <= found.error_j + 1e-6 * truth
    assert found.error_j <= 3 * 700 * (update_s + 2 * period_s)


def test_a_steady_load_is_measured_far_better_than_the_bound() -> None:
    load = Load(np.array([0.0, 12 * S]), np.array([400.0]))
    found = curve_of(read(load, Sensor())).energy(1 * S, 11 * S)
    assert found.counter_j == pytest.approx(4000, rel=0.002)
    assert found.error_j / found.counter_j < 0.025
    assert found.integral_j == pytest.approx(4000, rel=1e-3)
    assert found.mean_w == pytest.approx(400, rel=0.002)
    assert not found.flags


def test_short_windows_are_flagged_and_shorter_ones_declined() -> None:
    load = Load(np.array([0.0, 12 * S]), np.array([400.0]))
    curve = curve_of(read(load, Sensor()))
    short = curve.energy(2 * S, int(2.55 * S))
    assert short.verdict == f"short: {short.updates} updates of the counter"
    assert 3 <= short.updates < FEW_UPDATES
    none = curve.energy(2 * S, int(2.15 * S))
    assert none.declined and np.isnan(none.counter_j) and np.isnan(none.error_j)
    assert "too short for this instrument" in none.verdict


def test_a_sensor_that_sees_part_of_the_time_is_told_by_the_disagreement() -> None:
    load = Load.square(700, 100, 0.1, 12.0, duty=0.25)  # in step with the sensor, which sees the low part
    found = curve_of(read(load, Sensor(averaged_s=0.025, phase_s=0.08), 0.01)).energy(1 * S, 11 * S)
    assert found.counter_j == pytest.approx(2500, rel=0.03)
    assert found.integral_j == pytest.approx(1000, rel=0.05)
    assert found.verdict == "counter and power disagree by -60%"


def test_a_counter_that_falls_is_bridged_by_power() -> None:
    load = Load(np.array([0.0, 12 * S]), np.array([300.0]))
    samples = read(load, Sensor(averaged_s=0.1), 0.1)
    after = samples["t_ns"] >= 5 * S
    samples.loc[after, "energy_j"] -= samples.loc[after, "energy_j"].iloc[0]
    found = curve_of(samples).energy(1 * S, 11 * S)
    assert found.counter_j == pytest.approx(3000, rel=0.02)
    assert found.verdict == "the counter was reset or wrapped, which power bridges"


def test_windows_beyond_the_samples_are_told() -> None:
    load = Load(np.array([0.0, 12 * S]), np.array([300.0]))
    curve = curve_of(read(load, Sensor()))
    assert curve.energy(6 * S, 24 * S).verdict == "samples cover 33% of it"
    assert curve.energy(20 * S, 24 * S).verdict == "no samples in this window"
    assert curve.energy(20 * S, 24 * S).declined


def test_no_counter_is_no_energy_and_not_zero() -> None:
    load = Load(np.array([0.0, 12 * S]), np.array([300.0]))
    found = curve_of(read(load, Sensor()).assign(energy_j=np.nan)).energy(1 * S, 11 * S)
    assert np.isnan(found.counter_j) and found.declined
    assert found.integral_j == pytest.approx(3000, rel=0.01)
    assert found.verdict == "the counter was not read"


def test_a_counter_that_stands_still_is_told() -> None:
    load = Load(np.array([0.0, 12 * S]), np.array([300.0]))
    found = curve_of(read(load, Sensor()).assign(energy_j=5.0)).energy(1 * S, 11 * S)
    assert found.declined and found.verdict == "the counter stood still: 0 updates in 10 s"


def test_above_idle_and_throttling() -> None:
    load = Load(np.array([0.0, 12 * S]), np.array([300.0]))
    samples = read(load, Sensor())
    samples.loc[(samples["t_ns"] >= 2 * S) & (samples["t_ns"] < 5 * S), "reasons"] = 0x4 | 0x1
    found = curve_of(samples).energy(1 * S, 11 * S, idle_w=80, idle_error_w=2)
    assert found.above_idle_j == pytest.approx(2200, rel=0.01)
    assert found.above_idle_error_j == pytest.approx(found.error_j + 20)
    assert found.throttled == {"power cap": pytest.approx(3.0, abs=0.03)}
    assert found.throttled_s == pytest.approx(3.0, abs=0.03)


def test_windows_of_a_log() -> None:
    spans = [("idle", 0.5, 1.0), ("command", 1.0, 11.0), ("part", 2.0, 4.0), ("part", 5.0, 9.0)]
    log = power.log(power.device(power.steady(300)), windows=spans)
    table = windows(log)
    assert list(table.columns) == list(COLUMNS)
    assert table["instance"].to_list() == [0, 0, 0, 1]
    assert table["counter_j"].to_list() == pytest.approx([150, 3000, 600, 1200], rel=0.02)
    assert table["idle_w"].to_list() == pytest.approx([300] * 4)
    assert table["above_idle_j"].abs().max() < 10
    whole = power.log(power.device(power.steady(300)))
    assert windows(whole)["name"].to_list() == ["log"]
