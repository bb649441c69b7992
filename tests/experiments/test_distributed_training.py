"""Data-parallel training on the CPU: ranks agree, each is recorded, all ways lead to one model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from labcode.experiments.pytorch.distributed_training import program as distributed_training  # noqa: E402
from labcode.experiments.shared.recording import Request  # noqa: E402
from tests.support.programs import in_ranks  # noqa: E402

SMALL = [
    *("--device", "cpu", "--gpus", "2", "--size", "tiny", "--context", "16", "--batch", "2"),
    *("--layers", "1", "--extra", "16", "--warmup", "1", "--steps", "2"),
]


def start(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labcode.workloads.distributed_training", *SMALL, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | (environment or {})
    )


def test_each_variant_leads_both_ranks_to_the_same_model(tmp_path: Path) -> None:
    losses = {}
    for variant in distributed_training.VARIANTS:
        path = tmp_path / "r.json"
        words = (*SMALL, "--variant", variant, "--json", str(path))
        assert in_ranks(distributed_training, distributed_training._MEETING_PLACE, 2, *words) == [0, 0]
        record = json.loads(path.read_text())
        assert set(record["checks"]) == {"ranks_agree", "loss_falls"}
        assert [len(times) for times in record["results"]["step_per_rank_ms"]] == [2, 2]
        assert record["results"]["gradient_bytes"] > 0
        losses[variant] = record["results"]["losses"]
    assert losses["baseline"] == pytest.approx(losses["improved"], rel=1e-4)


def test_every_rank_writes_a_trace_of_its_own(tmp_path: Path) -> None:
    asked = Request("torch", str(tmp_path), "run").environment()
    done = start("--variant", "improved", environment=asked)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        trace = json.loads((tmp_path / f"run.rank{rank}.trace.json").read_text())
        assert trace["distributedInfo"]["rank"] == rank and trace["distributedInfo"]["world_size"] == 2
        names = {event["name"] for event in trace["traceEvents"]}
        assert "gloo:all_reduce" in names and {"step 0", "step 1", "backward"} <= names


@pytest.mark.slow  # `multi_gpu` starts its processes and waits for them alike
def test_a_rank_that_fails_ends_the_others(tmp_path: Path) -> None:
    done = start("--json", str(tmp_path / "none/r.json"))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"distributed_training: {tmp_path}/none/r.json.part: No such file or directory" in done.stderr
