"""What the benchmark of the meter prints and writes, without a GPU."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import meter
from labcode.errors import LabError
from labcode.experiments.energy.overhead import program as overhead

ROW = {
    "loop": "launch-bound",
    "period_ms": 100.0,
    "readings": 40,
    "step_ms": 4.25,
    "reading_us": 3000.0,
    "cost_us": 250.0,
    "overhead": 0.0025,
    "overhead_low": -0.001,
    "overhead_high": 0.004,
}


def test_a_row_for_each_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(meter, "open_gpus", lambda: ["a GPU"])
    asked = []

    def measure(*given: object) -> dict[str, object]:
        asked.append(given)
        return {"gpu": "made up", "gpus": 1, "rows": [ROW]}

    monkeypatch.setattr(overhead, "measure", measure)
    meter.main(20, tmp_path / "r.json")
    assert asked == [(torch, ["a GPU"], 20)]
    said = capsys.readouterr().out
    for part in ("launch-bound", "4.2500", "40", "3,000", "250", "+0.25%", "-0.10% … +0.40%", "every 100 ms"):
        assert part in said
    assert json.loads((tmp_path / "r.json").read_text())["rows"] == [ROW]


def test_bad_use() -> None:
    with pytest.raises(LabError, match="--seconds 1: between 2 and 3600"):
        meter.main(1)
