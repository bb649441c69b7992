"""The ladder of the bottleneck hunt: which problems are in each run, and what the record holds."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from labcode.experiments.pytorch.bottleneck_hunt import program as hunt
from labcode.experiments.pytorch.bottleneck_hunt.program import PROBLEMS
from labcode.experiments.pytorch.bottleneck_ladder import program as ladder

SMALL = [
    *("--device", "cpu", "--batch", "16", "--width", "16", "--blocks", "1", "--classes", "4"),
    *("--warmup", "1", "--steps", "1"),
]


def test_rungs() -> None:
    found = ladder.rungs(("a", "b", "c"))
    assert found[0] == ("all", "", ("a", "b", "c"))
    assert [rung[2] for rung in found if rung[0] == "without"] == [("b", "c"), ("a", "c"), ("a", "b")]
    assert [rung[2] for rung in found if rung[0] == "only"] == [("a",), ("b",), ("c",)]
    assert [rung[2] for rung in found if rung[0] == "mended"] == [("b", "c"), ("c",), ()]


def test_the_record_has_all_rungs_in_the_order_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    order = ",".join(reversed(PROBLEMS))
    assert ladder.main([*SMALL, "--order", order, "--json", str(path)]) == 0
    record = json.loads(path.read_text())
    rows = record["results"]["rungs"]
    assert len(rows) == 1 + 3 * len(PROBLEMS) and all(row["step_ms"] > 0 for row in rows)
    assert [row["problem"] for row in rows if row["kind"] == "mended"] == list(reversed(PROBLEMS))
    assert record["checks"]["losses_match"]["passed"]


def test_a_run_with_other_losses_fails_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = hunt.train

    def train(torch: Any, given: Any, problems: Any, device: Any, *, measured: bool) -> Any:
        outcome = real(torch, given, problems, device, measured=measured)
        if set(problems) == {"item"}:
            outcome.losses[-1] += 3 * hunt.TOLERANCE * outcome.losses[0]
        return outcome

    monkeypatch.setattr(hunt, "train", train)
    path = tmp_path / "r.json"
    assert ladder.main([*SMALL, "--json", str(path)]) == 1
    assert not json.loads(path.read_text())["checks"]["losses_match"]["passed"]


def test_an_order_that_lacks_a_problem_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ladder.main([*SMALL, "--order", "item,item"])
    assert "name each problem once: item,cpu_tensors" in capsys.readouterr().err
