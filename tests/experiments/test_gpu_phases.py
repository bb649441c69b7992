"""Phases of a GPU: every phase runs as often as its record says, and wrong results fail."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from labcode.experiments.nsys.gpu_phases import program as gpu_phases
from tests.support.records import recorded

SMALL = ["--device", "cpu", "--numbers", "16384", "--side", "64", "--phase-ms", "0.01"]
PHASES = {"copies in", "small kernels", "few rows", "many rows", "sum", "fp32 product", "bf16 product"}


def test_record_has_every_phase(tmp_path: Path) -> None:
    record = recorded(gpu_phases, tmp_path, *SMALL)
    counts, times = record["results"]["repetitions"], record["results"]["host_ms"]
    assert set(counts) == set(times) == PHASES
    assert min(counts.values()) >= 1 and min(times.values()) > 0
    assert len(record["checks"]) == 3


def test_a_wrong_product_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(gpu_phases.LARGEST_ERROR, "bf16 product", 1e-6)  # bf16 cannot be that exact
    assert gpu_phases.main(SMALL) == 1
    assert "gpu_phases: check bf16_product_matches_float64 failed: off by" in capsys.readouterr().err


def test_numbers_that_make_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gpu_phases.main(["--numbers", "16385"])
    assert "16385 is no multiple of 16384" in capsys.readouterr().err
