"""Prices of bits and FLOP, and the sensor that is made up."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.analysis.energy import model
from labcode.analysis.energy.sensor import Load, Sensor, updates
from tests.support import power

WATTS, PJ_BIT, PJ_FLOP = 90.0, 7.0, 0.6
TERMS = ("seconds", "bytes", "flop")


def kernels(noise: float = 0.0, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    intensity = np.array([0.0, 0.25, 1, 4, 16, 64, 256, 1000])
    moved = np.array([30, 29, 28, 25, 20, 8, 2, 0.5]) * 1e12
    flop = intensity * moved
    seconds = np.maximum(moved / 3e12, flop / 5e13)
    joules = WATTS * seconds + PJ_BIT * 8 * moved / 1e12 + PJ_FLOP * flop / 1e12
    return pd.DataFrame(
        {
            "kernel": [f"k{place}" for place in range(len(flop))],
            "seconds": seconds,
            "bytes": moved,
            "flop": flop,
            "energy_j": joules * (1 + noise * rng.standard_normal(len(flop))),
        }
    )


def test_prices_are_found_again() -> None:
    table = model.prices(kernels(), TERMS).set_index("term")
    assert table["unit"].to_dict() == {"seconds": "W", "bytes": "pJ/bit", "flop": "pJ/FLOP"}
    for term, price in zip(TERMS, (WATTS, PJ_BIT, PJ_FLOP), strict=True):
        assert table.loc[term, "price"] == pytest.approx(price, rel=1e-6)
    assert model.predict(kernels(), table.reset_index()) == pytest.approx(kernels()["energy_j"].to_numpy())


def test_a_ratio_of_prices_has_the_interval_of_ratios() -> None:
    assert model.price_ratio(kernels(), TERMS, "bytes", "flop")[0] == pytest.approx(8 * PJ_BIT / PJ_FLOP)
    noisy = kernels(0.02)
    ratio, low, high = model.price_ratio(noisy, TERMS, "bytes", "flop")
    found = model.fit(noisy[list(TERMS)].to_numpy(), noisy["energy_j"].to_numpy(), relative=True)
    with np.errstate(divide="ignore"):
        drawn = found.drawn[:, 1] / found.drawn[:, 2]  # infinite where a FLOP costs nothing
    assert low < ratio < high
    assert (drawn < low).mean() == pytest.approx(0.025, abs=0.003)
    assert (drawn <= high).mean() >= 0.97


def test_noise_widens_the_interval_and_a_left_out_kernel_is_predicted() -> None:
    noisy = kernels(0.02)
    table = model.prices(noisy, TERMS).set_index("term")
    assert (table["low"] <= table["price"]).all() and (table["price"] <= table["high"]).all()
    assert (table["high"] - table["low"])["bytes"] > 0.01
    left = model.leave_one_out(noisy, TERMS)
    assert left["error"].abs().max() < 0.1
    assert left["kernel"].to_list() == noisy["kernel"].to_list()


def test_no_price_is_negative_and_a_seed_is_a_seed() -> None:
    rng = np.random.default_rng(5)
    work, joules = rng.random((12, 3)), rng.random(12)
    found, again = model.fit(work, joules), model.fit(work, joules)
    assert (found.values >= 0).all() and (found.low >= 0).all()
    assert (found.low == again.low).all() and (found.high == again.high).all()


def test_what_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="2 energies cannot give 3 prices; measure more kernels"):
        model.fit(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ValueError, match="not positive has no relative error"):
        model.fit(np.ones((3, 1)), np.array([1.0, 0.0, 1.0]), relative=True)


def test_the_roofline_of_energy_rises_to_its_roof() -> None:
    at = np.array([0.1, 1, 10, 100, 1e4, 1e9])
    rates = model.roofline(
        at, watts=WATTS, pj_per_bit=PJ_BIT, pj_per_flop=PJ_FLOP, peak_flops=5e13, peak_bytes=3e12
    )
    assert (np.diff(rates) > 0).all()
    assert rates[-1] == pytest.approx(1 / (WATTS / 5e13 + PJ_FLOP / 1e12), rel=1e-3)


def test_how_often_a_sensor_is_updated() -> None:
    noisy = Load(np.arange(0, 121) * 1e8, np.random.default_rng(1).uniform(200, 600, 120))
    log = power.log(power.device(noisy, sensor=Sensor(update_s=0.1, averaged_s=0.1), period_s=0.01))
    table = updates(log).set_index("reading")
    assert table.loc["energy counter", "update_ms"] == pytest.approx(100, abs=1)
    assert table.loc["instantaneous power", "update_ms"] == pytest.approx(100, abs=1)
    assert table.loc["energy counter", "sampled_ms"] == pytest.approx(10)
    assert table.loc["average power", "changes"] == 0 and np.isnan(table.loc["average power", "update_ms"])


@given(phase_s=st.floats(0, 0.1), duty=st.floats(0.1, 0.9), honest=st.booleans())
def test_a_sensor_that_sees_everything_is_right(phase_s: float, duty: float, honest: bool) -> None:
    load = Load.square(700, 100, 0.05, 10.0, duty)
    sensor = Sensor(update_s=0.1, averaged_s=0.1, phase_s=phase_s, honest=honest)
    samples = sensor.samples(load, np.arange(1.0, 9.0, 0.05) * 1e9)
    assert samples["instant_w"].to_numpy() == pytest.approx(100 + 600 * duty, rel=1e-6)
    spent = samples["energy_j"].iloc[-1] - samples["energy_j"].iloc[0]
    assert spent == pytest.approx((100 + 600 * duty) * 7.95, rel=0.02)


def test_a_dishonest_counter_repeats_the_sensors_mistake() -> None:
    load = Load.square(700, 100, 0.1, 10.0, 0.25)
    sensor = Sensor(update_s=0.1, averaged_s=0.025, phase_s=0.08, honest=False)
    samples = sensor.samples(load, np.arange(1.0, 9.0, 0.05) * 1e9)
    spent = samples["energy_j"].iloc[-1] - samples["energy_j"].iloc[0]
    assert spent == pytest.approx(100 * 7.95, rel=0.02)
