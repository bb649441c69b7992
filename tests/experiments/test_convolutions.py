"""Convolutions: every variant computes the same, says how, and is timed with its warm-up apart."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.experiments.pytorch.convolutions import program as convolutions  # noqa: E402
from labcode.experiments.shared.marks import no_mark  # noqa: E402
from tests.support.records import recorded  # noqa: E402

SMALL = [
    *("--device", "cpu", "--batch", "2", "--size", "16", "--channels", "8"),
    *("--warmup", "2", "--steps", "3"),
]


@pytest.mark.parametrize("variant", convolutions.VARIANTS)
def test_record_says_how_and_how_long(tmp_path: Path, variant: str) -> None:
    record = recorded(convolutions, tmp_path, *SMALL, "--variant", variant)
    way = convolutions.VARIANTS[variant]
    assert record["parameters"]["precision"] == way.precision
    assert record["parameters"]["channels_last"] == way.channels_last
    assert torch.backends.cudnn.benchmark == way.benchmark
    assert len(record["results"]["step_host_ms"]) == 3 and len(record["results"]["warmup_step_host_ms"]) == 2
    assert set(record["checks"]) == {"outputs_match_float64", "gradients_match_float64"}


def test_layers_are_in_ranges_of_their_names() -> None:
    opened: list[str] = []

    def mark(name: str) -> Any:
        opened.append(name)
        return no_mark(name)

    result = convolutions.make_network(torch, 4, mark)(torch.randn(1, 3, 16, 16))
    assert opened == ["first 7x7", "wide 3x3", "depthwise 7x7", "pointwise 1x1", "wide 5x5"]
    assert result.shape == (1, 4, 8, 8)


def test_a_wrong_network_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(convolutions.LARGEST_ERROR, "bf16", (1e-6, 1.0))  # bf16 cannot be that exact
    assert convolutions.main([*SMALL, "--variant", "bf16"]) == 1
    assert "convolutions: check outputs_match_float64 failed" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.parametrize("variant", convolutions.VARIANTS)
def test_on_a_gpu(tmp_path: Path, variant: str) -> None:
    flags = "--steps", "2", "--ranges", "none", "--variant", variant
    print(variant, recorded(convolutions, tmp_path, *flags)["results"]["step_ms"])
