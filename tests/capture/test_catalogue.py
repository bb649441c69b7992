"""The catalogue: every experiment names all it is made of, and can be listed."""

import ast
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
from labcode.errors import LabError
from labcode.freshness import source_digests
from tests.capture.conftest import Lab

ROOT = Path(__file__).resolve().parents[2]
SHARED = {"labcode.experiments.shared.common", "labcode.experiments.shared.cuda"}  # command line and records


def imported_workloads(module: str) -> set[str]:
    """The modules of `labcode.workloads` that a module is made of, itself included, without importing any."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = ROOT / f"{name.replace('.', '/')}.py"
        if name in found or not path.is_file():
            continue
        found.add(name)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labcode.workloads"):
                assert node.module is not None
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return {name for name in found if name.startswith("labcode.workloads.")} - SHARED


# what the program uses for another experiment's variant alone, or imports and makes no use of: the type of a
# reduction where nothing is reduced, names of ranges where none are opened
_UNUSED = {"labcode.experiments.nsys.multi_gpu.gradients", "labcode.experiments.shared.marks"}
OTHER_VARIANTS = {
    "report_speed_recorded": {f"labcode.workloads.models.{name}" for name in ("big_export", "export_tables")},
    **{
        f"scaling_{name}": _UNUSED
        for name in (
            "collectives",
            "training",
            "timeline",
            "fsdp2",
            "collectives_four",
            "training_four",
            "symmetric",
        )
    },
    **dict.fromkeys(("llama_two", "llama_two_steps"), _UNUSED),
    # one function of it, which records a call in a CUDA graph
    "stream_k_bench": {"labcode.experiments.serving.paged_decode.program", "labcode.experiments.serving.paged_decode.steps"},
}


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
def test_sources_cover_the_modules_an_experiment_is_made_of(experiment: Experiment) -> None:
    paths = {source.partition(":")[0] for source in source_digests(experiment.sources, ROOT)}
    assert paths
    if experiment.scripts:
        return  # they import nothing of the lab
    for name in imported_workloads(experiment.module) - OTHER_VARIANTS.get(experiment.id, set()):
        assert f"{name.replace('.', '/')}.py" in paths


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
    assert [e.id for e in choose(["doctor", "timeline_basics"])] == ["timeline_basics", "doctor"]
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
