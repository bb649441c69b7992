"""Texts are shortened to what fits, and numbers keep their significant digits."""

import pytest

from labcode.figures.style import fit, tidy, width_in
from labcode.show import number, whole_percent


def test_fit() -> None:
    assert fit("forward", 5) == "forward"
    assert fit("forward", 0.05) == ""
    cut = fit("vectorized_elementwise_kernel", 0.9)
    assert cut.startswith("vect")
    assert cut.endswith("…")
    assert width_in(cut) <= 0.9


def test_fit_keeps_the_number_of_a_numbered_text() -> None:
    assert fit("repetition 12", 0.6) == "repet… 12"
    assert fit("step 12", 0.3) == "12"
    assert fit("step 12", 0.1) == ""


def test_fit_gives_no_beginning_that_says_too_little() -> None:
    assert fit("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x64", 0.6) == ""
    assert fit("backward", 0.5).endswith("…")


def test_tidy() -> None:
    assert tidy(" a\n b\tc\x00 ") == "a b c␀"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1.00"),
        (12.345, "12.3"),
        (99.96, "100"),
        (123.4, "123"),
        (1234.5, "1,230"),
        (0.01234, "0.0123"),
        (-2.5, "−2.50"),
        (0.00001234, "1.23e-05"),
        (float("nan"), "nan"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.001, "<1%"), (0.5, "50%"), (0.999, ">99%"), (1, "100%")]
)
def test_percent(share: float, text: str) -> None:
    assert whole_percent(share) == text
