"""Sweeps: their flags are the programs' own, and a run that goes wrong is not passed over."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from labcode.errors import ToolError
from labcode.experiments.nsys.sweeps import program as sweeps
from labcode.experiments.shared.cuda import CudaProgram, programs


@pytest.mark.parametrize("sweep", sweeps.VARIANTS)
def test_flags_are_the_programs_own_and_no_run_is_twice(sweep: str) -> None:
    runs = list(sweeps.grid(sweep))
    assert len({json.dumps(run) for run in runs}) == len(runs) > 10
    for program, flags in runs:
        assert flags["variant"] in programs()[program].variants
        assert set(flags) - {"variant"} <= set(programs()[program].flags)


def pretend(monkeypatch: pytest.MonkeyPatch, *, passed: bool = True, code: int = 0) -> list[list[str]]:
    """Let every run of a program write a small record."""
    seen = []

    def main(self: CudaProgram, arguments: Sequence[str]) -> int:
        seen.append(list(arguments))
        record: dict[str, Any] = {"parameters": {"seed": 1}, "results": {"t_us": 2.5, "all_us": [2, 3]}}
        record |= {"checks": {"right": {"passed": passed, "detail": ""}}, "gpu": {"name": "g"}}
        if code < 2:
            Path(arguments[arguments.index("--json") + 1]).write_text(json.dumps(record))
        return code

    monkeypatch.setattr(CudaProgram, "main", main)
    return seen


def test_rows_hold_flags_parameters_and_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = pretend(monkeypatch)
    assert sweeps.main(["--variant", "streams", "--json", str(tmp_path / "r.json")]) == 0
    record = json.loads((tmp_path / "r.json").read_text())
    rows = record["results"]["rows"]
    assert len(rows) == len(seen) == record["parameters"]["runs"]
    first = {"program": "kernel_overlap", "variant": "streams", "streams": 1, "seed": 1, "t_us": 2.5}
    assert rows[0] == first
    assert record["gpu"] == {"name": "g"}


def test_a_wrong_result_fails_the_sweep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, passed=False, code=1)
    assert sweeps.main(["--variant", "chunks"]) == 1
    assert "sweeps: check every_run_is_right failed: failed: --variant pipelined" in capsys.readouterr().err


def test_a_run_that_cannot_be_done_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = pretend(monkeypatch, code=2)
    with pytest.raises(
        ToolError, match=r"kernel_overlap --variant stream --iterations 4 .*: ended with exit code 2"
    ):
        sweeps.main(["--variant", "kernel_length"])
    assert len(seen) == 1
