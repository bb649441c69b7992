"""The experiments on kernels fit what they run: kernels that exist, files that are included, flags known."""

import re
from pathlib import Path

import pytest

from labcode.capture.catalogue import EXPERIMENTS, neutral_argv
from labcode.capture.experiment import Experiment
from labcode.capture.sources import sources_of
from labcode.capture.verify import _same_runs
from labcode.experiments.shared import cuda
from labcode.freshness import source_digests
from labcode.record import ncu
from labcode.store import ExperimentRecord, RunRecord

ROOT = Path(__file__).resolve().parents[2]
CUDA = ROOT / "cuda"
KERNEL = [one for one in EXPERIMENTS.values() if one.folder.startswith("compute/")]
COUNTED = [one for one in KERNEL if one.tool == "ncu" and one.program]  # the others are marked in Python
PROGRAMS = sorted({e.program for e in KERNEL if e.program})


def included(source: Path) -> set[Path]:
    """A CUDA source and what it includes by relative path, all the way down."""
    found, waiting = set(), [source]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            names = re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8"))
            waiting += [(path.parent / name).resolve() for name in names]
    return found


def kernels_of(program: str) -> set[str]:
    text = "".join(path.read_text(encoding="utf-8") for path in (CUDA / program).glob("*.cuh"))
    text = re.sub(r"__launch_bounds__\((?:[^()]|\([^()]*\))*\)|LAB_CLUSTER\([^()]*\)", "", text)
    return set(re.findall(r"__global__\s+void\s+(\w+)\s*\(", text))


@pytest.mark.parametrize("experiment", KERNEL, ids=lambda e: e.id)
def test_sources_are_what_the_program_includes(experiment: Experiment) -> None:
    program = experiment.program
    if not program and not experiment.module.endswith("kernel_bench"):
        pytest.skip("a workload: what it is made of is for the catalogue's tests")
    if not program:
        files = {
            path for topic in experiment.runs for path in included(CUDA / topic.name / f"{topic.name}.cuh")
        }
    else:
        files = included(CUDA / program / f"{program}.cu")
    named = {ROOT / source for source in sources_of(experiment) if source.startswith("cuda/")}
    assert named == files


@pytest.mark.parametrize("experiment", COUNTED, ids=lambda e: e.id)
def test_named_kernels_are_the_programs(experiment: Experiment) -> None:
    for run in experiment.runs:
        assert ncu.kernels(run.tool_args).startswith("-k regex:^(")
        names = run.tool_args[run.tool_args.index("-k") + 1].removeprefix("regex:^(").removesuffix(")$")
        own = {name for name in names.split("|") if "*" not in name}  # the others are a library's
        assert own and own <= kernels_of(experiment.program), run.name


@pytest.mark.parametrize("experiment", COUNTED, ids=lambda e: e.id)
def test_programs_mark_what_is_profiled(experiment: Experiment) -> None:
    assert experiment.ncu_args == ("--profile-from-start", "off")
    files = included(CUDA / experiment.program / f"{experiment.program}.cu")
    own = {path for path in files if path.parent.name == experiment.program}

    def marks(paths: set[Path]) -> int:
        texts = (path.read_text(encoding="utf-8") for path in paths)
        return sum(len(re.findall(r"const (?:lab::)?Profiled once;", text)) for text in texts)

    assert (marks(own) or marks(files)) == 1


@pytest.mark.parametrize("experiment", COUNTED, ids=lambda e: e.id)
def test_exams_run_what_no_page_shows_and_there_is_one(experiment: Experiment) -> None:
    exams = [run for run in experiment.runs if run.name.startswith("exam_")]
    of_program = [run.name for one in COUNTED if one.program == experiment.program for run in one.runs]
    assert any(name.startswith("exam_") for name in of_program)
    for run in experiment.runs:
        assert ("--seed" in run.args) == (run in exams)
        assert run.args[run.args.index("--repetitions") + 1] == "1"


@pytest.mark.parametrize("experiment", COUNTED[:1], ids=lambda e: e.id)
def test_other_options_of_ncu_make_a_capture_stale(experiment: Experiment) -> None:
    def record(*more: str) -> ExperimentRecord:
        runs = {
            run.name: RunRecord(
                run.name,
                neutral_argv(experiment, run, 1),
                (*experiment.options(run), *more),
                (),
                (),
            )
            for run in experiment.runs
        }
        about = (experiment.id, experiment.title, "ncu", "m1", "2026-01-01")
        return ExperimentRecord(*about, source_digests(sources_of(experiment), ROOT), 1.0, runs)

    assert _same_runs(experiment, record())
    assert not _same_runs(experiment, record("--cache-control", "none"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_wrapper_knows_the_flags_of_the_programs(program: str) -> None:
    wrapped = cuda.programs()[program]
    files = {CUDA / program / f"{program}.cu", CUDA / "common/rows_program.cuh"}
    texts = [path.read_text(encoding="utf-8") for path in files & included(CUDA / program / f"{program}.cu")]
    flags = {flag for text in texts for flag in re.findall(r'args\.\w+\("--([\w-]+)"', text)}
    assert flags == set(wrapped.flags) | {"variant", "json"}
    text = "".join(texts)
    spelled = [variant for variant in wrapped.variants if not re.fullmatch(r"round\d", variant)]
    assert all(f'"{variant}"' in text for variant in spelled)
