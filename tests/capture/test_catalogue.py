"""The catalogue: every experiment names all it is made of, and can be listed."""

import contextlib
import io
import runpy
import sys
import warnings
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console

from labcode.capture import catalogue, verify
from labcode.capture.catalogue import EXPERIMENTS, GPUS, Experiment, Run, choose, neutral_argv
from labcode.capture.sources import sources_of
from labcode.errors import LabError
from labcode.freshness import source_digests
from labcode.workloads import located
from tests.capture.conftest import Lab

ROOT = Path(__file__).resolve().parents[2]


@cache
def printed(*words: str) -> str:
    """What a program prints for a flag, as ``python -m`` runs it."""
    said = io.StringIO()
    with (
        mock.patch.object(sys, "argv", list(words)),
        contextlib.redirect_stdout(said),
        warnings.catch_warnings(action="ignore", category=RuntimeWarning),  # it may have been imported before
        pytest.raises(SystemExit) as ended,
    ):
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    return said.getvalue()


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_what_an_experiment_is_made_of_is_there(experiment: Experiment) -> None:
    paths = {source.partition(":")[0] for source in source_digests(sources_of(experiment), ROOT)}
    assert set(experiment.made_of) <= paths and paths
    names = (experiment.module, f"{experiment.module}.__main__")
    runs = any(Path(f"{located(name).replace('.', '/')}.py") in map(Path, paths) for name in names)
    assert runs or experiment.program or not experiment.made_of or experiment.folder == "serving/inference"


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_programs_know_the_variants_and_flags_they_are_run_with(experiment: Experiment) -> None:
    if experiment.tool == "doctor" or experiment.scripts:
        pytest.skip("the doctor and plain scripts have no variants")
    words = experiment.argv(Run(""))[2:]
    command = [word for word in experiment.runs[0].args[:1] if not word.startswith("--")]
    shown = printed(*words, *command, "--help")
    listed = "" if command else printed(*words, "--list")
    for run in experiment.runs:
        for word in run.args:
            if word.startswith("--"):
                assert word in shown
        if "--variant" in run.args:
            assert run.args[run.args.index("--variant") + 1] in listed.split()


def test_the_number_of_gpus_is_that_of_the_machine_and_at_most_four() -> None:
    experiment = EXPERIMENTS["multi_gpu"]
    for gpus, used in ((2, "2"), (3, "3"), (4, "4"), (8, "4")):
        argv = neutral_argv(experiment, experiment.runs[0], gpus)
        assert argv[:3] == ("python", "-m", "labcode.workloads.multi_gpu")
        assert argv[argv.index("--gpus") + 1] == used and GPUS not in argv


def test_choosing_keeps_the_catalogues_order_and_names_what_is_unknown() -> None:
    assert [e.id for e in choose(["timeline_basics", "doctor"])] == ["doctor", "timeline_basics"]
    assert [e.id for e in choose([])] == list(EXPERIMENTS)
    with pytest.raises(LabError, match="nothing, timeline: no such experiment"):
        choose(["timeline", "nothing"])


def test_listing_says_what_is_captured_and_fresh(captured: Lab) -> None:
    lab = captured
    lab.program.write_text(lab.program.read_text() + "\nchanged = True\n")
    lab.capture("beta")
    stream = io.StringIO()
    catalogue.render(Console(file=stream, width=200), "mine")
    listed = stream.getvalue()
    for line in ("alpha  (mine: stale)", "beta  (mine: fresh)", "gamma  (mine: not captured in this set)"):
        assert line in listed.splitlines()
    assert "runs: baseline, improved" in listed and "needs: 3 gpus" in listed
    stream = io.StringIO()
    verify.render(Console(file=stream, width=200))
    assert "m1: 2 × Fake GPU, driver 1.2" in stream.getvalue()
    assert "not captured in this set: gamma" in stream.getvalue()
    assert "alpha: 2 runs" in stream.getvalue() and "stale" in stream.getvalue()


def test_listing_without_sets_says_how_to_make_one(lab: Lab) -> None:
    stream = io.StringIO()
    verify.render(Console(file=stream, width=200))
    assert "no capture sets in" in stream.getvalue() and "labcode capture --set NAME" in stream.getvalue()
