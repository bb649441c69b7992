"""The experiments on PyTorch: their options are known, and one that runs out of memory fails alone."""

from pathlib import Path

import pytest

from labcode.analysis.lm.decoder import SIZES
from labcode.capture import catalogue, torch_profile
from labcode.capture.catalogue import EXPERIMENTS, Experiment, Run, needs_of
from tests.capture.conftest import Lab

TORCH = [one for one in EXPERIMENTS.values() if one.folder.startswith("pytorch/") or one.id.startswith("lm_")]
PROGRAM = '''"""A program that may run out of memory."""
import json, pathlib, sys

if "--large" in sys.argv:
    sys.exit("transformer: 2.7B (train, batch 4) does not fit into the GPU's memory; choose a smaller --size")
place = pathlib.Path(sys.argv[sys.argv.index("--json") + 1])
place.write_text(json.dumps({"program": "program", "results": {}, "checks": {}}))
'''


@pytest.mark.parametrize("experiment", TORCH, ids=[e.id for e in TORCH])
def test_what_is_asked_of_the_recorders_is_known(tmp_path: Path, experiment: Experiment) -> None:
    assert EXPERIMENTS[experiment.id] is experiment and "torch" in needs_of(experiment)
    recorded = experiment.tool in ("torch", "memory")
    assert recorded or not experiment.torch_args
    for run in experiment.runs if recorded else ():
        request = torch_profile.request_of((*experiment.torch_args, *run.tool_args), tmp_path, run.name)
        assert request.name == run.name


def test_every_size_has_an_experiment_of_its_own() -> None:
    sizes = {
        run.args[run.args.index("--size") + 1]
        for e in TORCH
        for run in e.runs
        if e.tool == "nsys" and "--size" in run.args
    }
    assert sizes == set(SIZES) - {"tiny"}
    assert {run.name for run in EXPERIMENTS["lm_2_7b"].runs} == {"forward", "train"}


def test_two_gpus_are_asked_for_where_ranks_are_recorded() -> None:
    assert needs_of(EXPERIMENTS["torch_distributed"]) == ("2 gpus", "torch")
    assert needs_of(EXPERIMENTS["torch_memory"]) == ("gpu", "torch")


def test_one_that_runs_out_of_memory_fails_alone_and_by_name(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.program.write_text(PROGRAM)
    small = Experiment("lm_small", "Small", "bench", "program", (Run("train"),), ("program.py",), 1, 20.0)
    large = Experiment(
        "lm_2_7b", "Large", "bench", "program", (Run("train", ("--large",)),), ("program.py",), 1, 20.0
    )
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {"lm_2_7b": large, "lm_small": small})
    assert lab.capture("lm_2_7b", "lm_small") == 1
    (line,) = [line for line in lab.printed.splitlines() if "failed" in line]
    assert line.startswith("lm_2_7b: failed: lm_2_7b/train: failed with exit code 1")
    assert "2.7B (train, batch 4) does not fit into the GPU's memory" in line
    assert (lab.sets / "mine" / "lm_small" / "train.json").is_file()
    assert not (lab.sets / "mine" / "lm_2_7b").exists()
