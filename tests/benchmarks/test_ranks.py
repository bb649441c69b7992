"""What many ranks cost: the record, and ranks that are none."""

import json
from pathlib import Path

import pytest

from benchmarks import ranks
from labcode.errors import LabError

CAPTURE = Path(__file__).parents[2] / "captures/h200/torch_distributed/improved.rank0.trace.json.gz"


def test_the_record_tells_the_cost_and_whether_the_slow_rank_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ranks.main(CAPTURE, [5], "here", tmp_path / "x.json") == 0
    (row,) = json.loads((tmp_path / "x.json").read_text())["runs"]
    assert row["ranks"] == 5 and row["slow_rank_named"] and 0 < row["cpu_ms_a_rank"] < 5_000
    said = capsys.readouterr().out
    assert "5 ranks:" in said and "slow rank named" in said
    with pytest.raises(LabError, match="--ranks takes numbers from 2 up"):
        ranks.main(CAPTURE, [1])
