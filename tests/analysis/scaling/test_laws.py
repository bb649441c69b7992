"""Laws of scaling: made-up times with known parameters are understood; bad input is one line."""

import numpy as np
import pytest

from labcode.analysis.scaling import laws
from labcode.analysis.scaling.laws import Law
from labcode.errors import InputError

COUNTS = (1, 2, 4, 8)


def times(speedups: dict[int, float], noise: float = 0.0) -> dict[int, list[float]]:
    rng = np.random.default_rng(7)
    return {n: list(100 / s * (1 + noise * rng.standard_normal(15))) for n, s in speedups.items()}


def amdahl(serial: float) -> dict[int, float]:
    return {n: 1 / (serial + (1 - serial) / n) for n in COUNTS}


def universal(contention: float, crosstalk: float) -> dict[int, float]:
    return {n: n / (1 + contention * (n - 1) + crosstalk * n * (n - 1)) for n in COUNTS}


def weak(serial: float) -> dict[int, float]:
    """T(1) / T(n), that is, the scaled speed-up by n."""
    return {n: (n - serial * (n - 1)) / n for n in COUNTS}


@pytest.mark.parametrize(
    ("law", "speedups", "expected"),
    [
        ("amdahl", amdahl(0.1), [0.1]),
        ("amdahl", amdahl(0.0), [0.0]),
        ("amdahl", {1: 1.0, 2: 1.6}, [0.25]),
        ("gustafson", weak(0.2), [0.2]),
        ("universal", universal(0.05, 0.01), [0.05, 0.01]),
        ("universal", universal(0.05, 0.0), [0.05, 0.0]),
    ],
)
def test_known_parameters_are_found_again(
    law: Law, speedups: dict[int, float], expected: list[float]
) -> None:
    found = laws.fit(law, times(speedups))
    assert found.values == pytest.approx(expected, abs=1e-6)
    assert found.table()["parameter"].to_list() == list(found.names)
    assert (found.low <= found.values + 1e-9).all() and (found.values <= found.high + 1e-9).all()


def test_noise_widens_the_interval_around_what_is_true() -> None:
    found = laws.fit("amdahl", times(amdahl(0.1), noise=0.02))
    assert found.low[0] < 0.1 < found.high[0]
    assert 0.001 < found.high[0] - found.low[0] < 0.05
    again = laws.fit("amdahl", times(amdahl(0.1), noise=0.02))
    assert (found.low, found.high) == (again.low, again.high)


def test_a_law_foretells_counts_it_has_not_seen() -> None:
    speedups = universal(0.05, 0.01)
    seen = {n: s for n, s in speedups.items() if n < 8}
    table = laws.predict(laws.fit("universal", times(seen, noise=0.001)), [8]).iloc[0]
    assert table["low"] < speedups[8] < table["high"]
    assert table["speedup"] == pytest.approx(speedups[8], rel=0.02)


def test_efficiency_of_strong_and_of_weak_scaling() -> None:
    own = {1: [80.0, 80, 80], 2: [50.0, 50, 50], 4: [40.0, 40, 40]}
    strong = laws.efficiency(own, "strong")
    assert strong["count"].to_list() == [1, 2, 4]
    assert strong["speedup"].to_list() == [1, 1.6, 2]
    assert strong["efficiency"].to_list() == [1, 0.8, 0.5]
    weak_ones = laws.efficiency({1: [40.0], 2: [50.0]}, "weak")
    assert weak_ones["efficiency"].to_list() == [1, 0.8] and weak_ones["speedup"].to_list() == [1, 1.6]
    noisy = laws.efficiency({1: [9.0, 10, 11], 2: [4.0, 5, 6]}, "strong").iloc[1]
    assert noisy["efficiency_low"] < noisy["efficiency"] < noisy["efficiency_high"]


def test_without_one_gpu_the_smallest_count_is_taken_as_perfect() -> None:
    table = laws.efficiency({2: [50.0], 4: [25.0]}, "strong")
    assert table["speedup"].to_list() == [2, 4]
    with pytest.raises(InputError, match="amdahl's law starts from one GPU, the times from 2"):
        laws.fit("amdahl", {2: [50.0], 4: [25.0]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "times on no GPUs only; times on 2 numbers of GPUs are needed"),
        ({1: [1.0]}, "times on 1 GPUs only; times on 2 numbers of GPUs are needed"),
        ({1: [1.0], 4: [1.0], 2: [1.0]}, "numbers of GPUs must ascend, not 1, 4, 2"),
        ({0: [1.0], 2: [1.0]}, "numbers of GPUs are whole and from 1 on, not 0, 2"),
        ({1: [1.0], 2.5: [1.0]}, "numbers of GPUs are whole and from 1 on, not 1, 2.5"),
        ({1: [1.0], 2: [0.0]}, "a time on 2 GPUs is missing, zero or negative"),
        ({1: [-1.0], 2: [1.0]}, "a time on 1 GPUs is missing, zero or negative"),
        ({1: [], 2: [1.0]}, "a time on 1 GPUs is missing, zero or negative"),
        ({1: [1.0], 2: [float("nan")]}, "a time on 2 GPUs is missing, zero or negative"),
    ],
)
def test_bad_times_are_one_line(given: dict[int, list[float]], message: str) -> None:
    for ask in (lambda: laws.efficiency(given, "strong"), lambda: laws.fit("amdahl", given)):
        with pytest.raises(InputError) as caught:
            ask()
        assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_law_needs_more_counts_than_it_has_parameters() -> None:
    with pytest.raises(InputError, match="times on 1, 2 GPUs only; times on 3 numbers"):
        laws.fit("universal", {1: [1.0], 2: [0.6]})
    with pytest.raises(InputError, match="whole and from 1 on, not 0"):
        laws.predict(laws.fit("amdahl", times(amdahl(0.1))), [0])
