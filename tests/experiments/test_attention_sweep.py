"""Attention alone: every case is recorded, one that does not fit as such, and what is computed is checked."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.experiments.lm.attention_sweep import program as attention_sweep  # noqa: E402
from labcode.experiments.lm.transformer import model as transformer_model  # noqa: E402
from tests.support.records import recorded  # noqa: E402

SMALL = [
    *("--device", "cpu", "--widths", "8,16", "--lengths", "32,64", "--batch", "2"),
    *("--repetitions", "2", "--warmup", "1"),
]


@pytest.mark.parametrize("variant", ["naive", "naive_bf16", "flash"])
def test_each_width_and_length_is_timed(tmp_path: Path, variant: str) -> None:
    record = recorded(attention_sweep, tmp_path, *SMALL, "--variant", variant)
    cases = record["results"]["cases"]
    assert [(case["d_head"], case["length"]) for case in cases] == [(8, 32), (8, 64), (16, 32), (16, 64)]
    assert all(len(case["forward_ms"]) == len(case["backward_ms"]) == 2 for case in cases)
    assert cases[3]["matmul_flops"] == 2 * (2 * 2 * 64 * 64 * 16)
    assert record["checks"]["matches_float64"]["passed"]


def test_a_case_that_does_not_fit_is_recorded_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    naive = transformer_model.attend_naive

    def limited(query: Any, key: Any, value: Any, hidden: Any, *rest: Any) -> Any:
        if query.shape[2] == 64:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return naive(query, key, value, hidden, *rest)

    monkeypatch.setattr(transformer_model, "attend_naive", limited)
    cases = recorded(attention_sweep, tmp_path, *SMALL)["results"]["cases"]
    assert [case["fits"] for case in cases] == [True, False, True, False]
    assert set(cases[1]) == {"d_head", "length", "fits"}


def test_wrong_attention_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_mask(query: Any, key: Any, value: Any, attention: str) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    monkeypatch.setattr(transformer_model, "attend_fused", without_mask)
    assert attention_sweep.main([*SMALL, "--variant", "flash"]) == 1
    assert "check matches_float64 failed" in capsys.readouterr().err


def test_widths_that_are_no_numbers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        attention_sweep.main(["--widths", "8,x"])
    assert "'x' is not a whole number" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.parametrize("variant", attention_sweep.VARIANTS)
def test_on_a_gpu(tmp_path: Path, variant: str) -> None:
    sizes = "--widths", "64", "--lengths", "256,1024"
    for case in recorded(attention_sweep, tmp_path, *sizes, "--variant", variant)["results"]["cases"]:
        assert case["fits"] and case["peak_bytes"] >= case["before_backward_bytes"] > 0
