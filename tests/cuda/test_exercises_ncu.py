"""Kernels of the Nsight Compute exercises: they compile without spills; their references are the formulas."""

import re

import numpy as np
import pytest

from labcode.kernels.topics import exercises_ncu as topic
from tests.cuda.conftest import ARCHITECTURES, Assemble


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_is_spilled(assembled: Assemble, architecture: str) -> None:
    spills = re.findall(r"(\d+) bytes spill stores", assembled("exercises_ncu", architecture).report)
    assert len(spills) == sum(len(kernel.steps) for kernel in topic.KERNELS)
    assert set(spills) == {"0"}


def test_each_exercise_has_a_baseline_and_an_improved_kernel() -> None:
    assert [kernel.name[:4] for kernel in topic.KERNELS] == ["ex01", "ex02", "ex03", "ex04"]
    assert all([step.name for step in kernel.steps] == ["baseline", "improved"] for kernel in topic.KERNELS)


def test_reference_of_rows_takes_columns_by_their_parity() -> None:
    row = np.array([[0.5, -1.0, 2.0]])
    expected = np.exp(-0.25) + np.log(2.0) + np.exp(-4.0)
    assert topic.row_scores(row)[0] == pytest.approx(expected, rel=1e-12)


def test_reference_of_the_polynomial_has_all_powers() -> None:
    coefficients = np.zeros(topic.TERMS)
    coefficients[[0, 16]] = 3.0, 2.0
    np.testing.assert_allclose(topic.polynomial(np.array([2.0]), coefficients), [3 + 2 * 2.0**16])


def test_reference_of_the_blur_is_the_formula() -> None:
    image = np.random.default_rng(1).normal(size=(20, 23))
    row, column = 2, 21  # near two borders, so that pixels are repeated
    total = weights = 0.0
    for dy in range(-7, 8):
        for dx in range(-7, 8):
            weight = np.exp(-(dy * dy + dx * dx) / 18)
            total += weight * image[min(max(row + dy, 0), 19), min(max(column + dx, 0), 22)]
            weights += weight
    assert topic.blur(image)[row, column] == pytest.approx(total / weights, rel=1e-12)
