"""The recipes of CONTRIBUTING, performed: what comes out is registered and green, in few files and lines."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode import reports
from labcode.analysis.rules import registry
from labcode.errors import LabError
from labcode.grading import catalogue, generate
from labcode.new import KINDS, new
from labcode.tools import find_nvcc
from tests.support import prose

ROOT = Path(__file__).resolve().parent.parent
PARTS = (  # of a checkout, what recipes read
    "pyproject.toml",
    "cuda/CMakeLists.txt",
    "cuda/README.md",
    "cuda/common",
    "book/index.md",
    "book/nsys/timeline-basics.md",
    "labcode/analysis/rules",
    "labcode/analysis/stats",
    "labcode/analysis/energy/reports.py",
    "labcode/analysis/memory/history.py",
    "labcode/experiments/compute/sum/experiment.toml",
    "labcode/experiments/lab/doctor/experiment.toml",
    "labcode/experiments/nsys/timeline_basics/experiment.toml",
    "labcode/reports/common.py",
)
MADE = {  # with how many files each takes besides its test, and how many lines of the house's own
    "page nsys/made-up-page": 2,
    "exercise nsys/made-up-sums": 5,  # the fifth is its chapter's page, which shows its card
    "experiment nsys/made_up_sums": 3,
    "cuda nsys/made_up_kernel": 8,  # its folder, that of its program, and the two lists of programs
    "format reports/made_up": 3,  # a package, and the kind's lines in the table above it
    **{f"report {of}/made_up_counts": 2 for of in ("nsys", "kineto", "memory", "power")},
    **{f"report {of}/made_up_counts": 1 for of in ("ncu", "ranks")},
    **{f"rule {module}/made-up-rule": 1 for module in ("copies", "kineto", "ncu", "power", "many_ranks")},
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As much of a checkout as recipes need, for names that are refused."""
    return checkout(tmp_path_factory.mktemp("bare"))


def checkout(root: Path) -> Path:
    for part in PARTS:
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, root / part)
    (root / "solutions/nsys/ex01_timeline_basics").mkdir(parents=True)
    return root


@cache
def before() -> dict[str, str]:
    paths = [
        one
        for part in PARTS
        for one in ((ROOT / part).rglob("*") if (ROOT / part).is_dir() else [ROOT / part])
    ]
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in paths
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[str]]]:
    """Each recipe performed in a checkout of its own: where, and the files that it wrote or changed."""
    found = {}
    for recipe in MADE:
        root = checkout(tmp_path_factory.mktemp("made"))
        kind, _, name = recipe.partition(" ")
        said = new(kind, name, root)
        assert said[-1].startswith("next: "), recipe
        found[recipe] = (root, [line.split()[1] for line in said if not line.startswith("next: ")])
    return found


@pytest.mark.parametrize("recipe", MADE)
def test_a_recipe_takes_few_files_and_lines(made: dict[str, tuple[Path, list[str]]], recipe: str) -> None:
    root, files = made[recipe]
    own = [
        path for path in files if not path.startswith(("tests/", "exercises/"))
    ]  # the latter are generated
    assert len(own) == MADE[recipe]
    assert not recipe.startswith("exercise") or {Path(path).parent.name for path in own} == {
        "ex02_made_up_sums",
        "nsys",
    }
    assert not recipe.startswith("experiment") or {str(Path(path).parent) for path in own} == {
        "labcode/experiments/nsys/made_up_sums"
    }
    changed = 0
    for path in files:
        text, old = (root / path).read_text(encoding="utf-8"), before().get(path, "")
        assert set(old.splitlines()) <= set(text.splitlines()), f"{path}: lines are gone"
        if old or path.startswith("tests/"):
            changed += len(text.splitlines()) - len(old.splitlines())
    assert changed <= 40
    assert not recipe.startswith("cuda") or {str(Path(path).parent) for path in own} == {
        "labcode/experiments/nsys/made_up_kernel",
        "cuda/made_up_kernel",
        "cuda",
    }
    assert not recipe.startswith("format") or {str(Path(path).parent) for path in own} == {
        "labcode/reports/made_up",
        "labcode/reports",
    }


def test_what_is_written_is_tidy(made: dict[str, tuple[Path, list[str]]]) -> None:
    files = [str(root / path) for root, names in made.values() for path in names if path.endswith(".py")]
    for check in (["check"], ["format", "--check"]):
        ours = ["--config", 'lint.isort.known-first-party=["labcode", "tests"]']
        ruff = [sys.executable, "-m", "ruff", *check, "--no-cache", *ours, *files]
        run = subprocess.run(ruff, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("recipe", [one for one in MADE if one.startswith("rule")])
def test_a_rule_is_known_to_the_registry(made: dict[str, tuple[Path, list[str]]], recipe: str) -> None:
    root, _ = made[recipe]
    module = recipe.split()[1].partition("/")[0]
    found = registry.rules_of(loaded(root, f"labcode.analysis.rules.{module}"))
    assert found[-1].id == "made-up-rule" and found[-1].title == "Made up rule"
    assert "not written yet" in found[-1](None).message
    assert any(module in group.modules for group in registry.GROUPS.values())


@pytest.mark.parametrize("recipe", [one for one in MADE if one.startswith("report")])
def test_a_report_stands_on_its_shelf(
    made: dict[str, tuple[Path, list[str]]], recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, files = made[recipe]
    modules = [path.removesuffix(".py").replace("/", ".") for path in files if path.startswith("labcode/")]
    for name in modules:
        module = loaded(root, name)
        package, _, last = name.rpartition(".")
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(importlib.import_module(package), last, module, raising=False)
    shelf = loaded(root, modules[-1]).SHELF if "ranks" not in modules[-1] else module.shelf(None, None)
    tells = shelf.about("made_up_counts") if shelf.about else shelf.reports["made_up_counts"].__doc__
    assert tells.startswith("Say what")


def loaded(root: Path, name: str) -> types.ModuleType:
    """A module of a checkout, under its own name, without its becoming everybody's."""
    path = root / f"{name.replace('.', '/')}.py"
    module = types.ModuleType(name)
    module.__file__, module.__package__ = str(path), name.rpartition(".")[0]
    there = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        exec(compile(path.read_text(encoding="utf-8"), path, "exec"), module.__dict__)
    finally:
        if there is None:
            del sys.modules[name]
        else:
            sys.modules[name] = there
    return module


def test_an_exercise_has_a_starter_and_is_solved(made: dict[str, tuple[Path, list[str]]]) -> None:
    root, _ = made["exercise nsys/made-up-sums"]
    exercise = next(one for one in catalogue.load(root / "solutions") if one.id.endswith("-made-up-sums"))
    assert (exercise.id, exercise.chapter) == ("nsys-ex02-made-up-sums", "nsys/timeline-basics")
    assert generate.generate(root, check=True, exercises=(exercise,)) == []
    page = (root / "book/nsys/timeline-basics.md").read_text(encoding="utf-8")
    last = page.rindex("```{exercise-card} ")
    assert page[last:].startswith(f"```{{exercise-card}} {exercise.id}\n```\n\n##")
    folder = root / "solutions" / exercise.folder
    text = (folder / "a_answer.py").read_text(encoding="utf-8")
    right: dict[str, Any] = {}
    mistaken: dict[str, Any] = {}
    exec(text, right)
    exec(text.replace("sum(durations)", "sum(durations[1:])"), mistaken)
    cases = loaded(root / "solutions", f"{exercise.folder}/a_cases".replace("/", ".")).cases(
        np.random.default_rng(0)
    )
    given = [case.arguments[0] for case in cases]
    assert [right["answer"](one) for one in given] == [sum(one) for one in given]
    assert any(right["answer"](one) != mistaken["answer"](one) for one in given)


def test_an_experiment_in_cuda_is_found_with_its_program(
    made: dict[str, tuple[Path, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from labcode.capture import experiment, sources

    root, _ = made["cuda nsys/made_up_kernel"]
    found = experiment.read("nsys/made_up_kernel", root)["made_up_kernel"]
    words = ("python", "-m", "labcode.workloads.cuda", "made_up_kernel", "--variant")
    assert [found.argv(run) for run in found.runs] == [(*words, "baseline"), (*words, "improved")]
    assert {path for path in sources.sources_of(found, root) if path.startswith("cuda/")} == {
        "cuda/made_up_kernel/made_up_kernel.cu",
        *(f"cuda/common/{name}" for name in ("args.hpp", "check.cuh", "device.cuh", "json.hpp", "nvtx.hpp")),
    }
    described = "labcode.experiments.nsys.made_up_kernel.cuda"
    monkeypatch.setitem(sys.modules, described, loaded(root, described))
    test = loaded(root, "tests.cuda.test_made_up_kernel")
    test.test_its_flags_and_variants_are_those_described()


@pytest.mark.slow
def test_a_program_in_cuda_builds_and_lists_its_variants(
    made: dict[str, tuple[Path, list[str]]], tmp_path: Path
) -> None:
    root, _ = made["cuda nsys/made_up_kernel"]
    try:
        compiler = find_nvcc()
    except LabError as error:
        pytest.skip(str(error))
    folder = root / "cuda/made_up_kernel"
    make = ["make", "-C", folder, f"BUILD={tmp_path}", f"NVCC={compiler}"]
    built = subprocess.run(make, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    words = [tmp_path / "made_up_kernel", "--list"]
    listed = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (listed.returncode, listed.stdout.split()) == (0, ["baseline", "improved"])


VERBS = """
import contextlib, io, json, sys
from pathlib import Path

import pytest
from labcode.cli.main import program
from labcode.errors import LabError
from typer.testing import CliRunner

more = {"compare": ["a.made-up"], "export": ["-o", "out"], "report": ["-o", "a.html"]}
more |= dict.fromkeys(("timeline", "flame", "roofline"), ["-o", "a.svg"])
said = {}
for verb in sys.argv[1].split(","):
    words = [verb, "a.made-up", *more.get(verb, [])]
    try:
        CliRunner().invoke(program(verb), words, catch_exceptions=False, standalone_mode=False)
    except LabError as error:
        said[verb] = str(error)
with contextlib.redirect_stdout(io.StringIO()):
    code = pytest.main(["-q", "-p", "no:cacheprovider", "tests/reports/test_made_up.py"])
print(json.dumps([said, int(code)]))
"""


def test_a_format_is_opened_and_each_command_tells_of_it_in_one_line(
    made: dict[str, tuple[Path, list[str]]], tmp_path: Path
) -> None:
    root, files = made["format reports/made_up"]
    home = tmp_path / "labcode"
    home.mkdir()
    for one in (ROOT / "labcode").iterdir():
        if one.name != "reports":
            (home / one.name).symlink_to(one)
    shutil.copytree(ROOT / "labcode/reports", home / "reports", ignore=shutil.ignore_patterns("__pycache__"))
    for path in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, tmp_path / path)
    (tmp_path / "a.made-up").write_text("")
    verbs = (*reports.VERBS, "report")
    script = [sys.executable, "-c", VERBS, ",".join(verbs)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    said, code = json.loads(run.stdout)
    assert code == 0 and list(said) == list(verbs)
    for verb, line in said.items():
        assert line.startswith(f"a.made-up: a file of made up; `labcode {verb}` reads ."), line
        assert line.endswith(" and not this, which is for no command") and "\n" not in line
    # what a format does not say is named by the type checker
    text = (root / "labcode/reports/made_up/__init__.py").read_text(encoding="utf-8")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'flame'"):
        exec(text.replace("    flame=None,\n", ""), {})


def test_a_page_passes_the_checks_of_text(made: dict[str, tuple[Path, list[str]]]) -> None:
    root, _ = made["page nsys/made-up-page"]
    text = (root / "book/nsys/made-up-page.md").read_text(encoding="utf-8")
    for rule in (prose.measurements, prose.british_spellings, prose.shell_escapes, prose.figures_without_alt):
        assert rule(text) == []
    assert text.startswith("---\nfile_format: mystnb\n") and "\n# Made up page\n" in text
    assert "\nnsys/quick-commands\nnsys/made-up-page\n" in (root / "book/index.md").read_text(
        encoding="utf-8"
    )


def test_an_experiment_is_found_runs_and_its_sources_follow(
    made: dict[str, tuple[Path, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from labcode import workloads
    from labcode.capture import experiment, sources

    root, files = made["experiment nsys/made_up_sums"]
    monkeypatch.setattr(workloads, "_FOLDER", root / "labcode/experiments")
    assert "nsys/made_up_sums" in experiment.folders(root)
    found = experiment.read("nsys/made_up_sums", root)["made_up_sums"]
    words = ("python", "-m", "labcode.workloads.made_up_sums", "--variant")
    assert [found.argv(run) for run in found.runs] == [(*words, "baseline"), (*words, "improved")]
    module = workloads.located(found.module)
    assert f"{module.replace('.', '/')}.py" in files
    common = "labcode/experiments/shared/common.py"
    assert sources.sources_of(found, root) == (
        "labcode/experiments/nsys/made_up_sums/program.py",
        f"{common}:nvtx_range",
        f"{common}:synchronize",
    )
    with pytest.raises(SystemExit) as ended:
        loaded(root, module).main(["--list"])
    assert (ended.value.code, capsys.readouterr().out.split()) == (0, ["baseline", "improved"])


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("thing", "a/b", "new: 'thing' is not a kind; "),
        ("rule", "copies", "new rule: '' is no name for it; one is written copies/two-words"),
        ("rule", "copies/Small", "new rule: 'Small' is no name for it; one is written copies/two-words"),
        (
            "rule",
            "tables/a-rule",
            "new rule PLACE/NAME: 'tables' is no place for it; one is copies, counters, ",
        ),
        (
            "rule",
            "idle/small-copies",
            "new rule: small-copies is there already (labcode/analysis/rules/copies.py)",
        ),
        ("rule", "copies/top", "new rule: labcode/analysis/rules/copies.py has another top; "),
        (
            "report",
            "power/gaps-again",
            "new report: 'gaps-again' is no name for it; one is written power/two_words",
        ),
        (
            "report",
            "power/power_sum",
            "new report: power_sum is there already (labcode/analysis/stats/power.py)",
        ),
        ("report", "power/import", "new report: 'import' is no name for it; "),
        ("exercise", "nsys/timeline-basics", "new exercise: nsys has an exercise timeline-basics already; "),
        ("exercise", "../x", "new exercise PLACE/NAME: '..' is no place for it; one is nsys"),
        ("page", "nsys/../x", "new page: '../x' is no name for it; one is written nsys/two-words"),
        (
            "experiment",
            "lab/doctor",
            "new experiment: doctor is there already (labcode/experiments/lab/doctor)",
        ),
        (
            "experiment",
            "nsys/ncu_sum",
            "new experiment: ncu_sum is there already (labcode/experiments/compute/sum)",
        ),
        ("experiment", "shared/two_words", "new experiment PLACE/NAME: 'shared' is no place for it; one is "),
    ],
)
def test_what_is_taken_or_no_name_is_refused(bare: Path, kind: str, name: str, says: str) -> None:
    with pytest.raises(LabError) as refused:
        new(kind, name, bare)
    assert str(refused.value).startswith(says) and "\n" not in str(refused.value)
    assert not (bare / "tests").exists()


def test_a_page_that_is_there_stays(bare: Path) -> None:
    (bare / "book/nsys").mkdir(exist_ok=True)
    page = bare / "book/nsys/as-it-is.md"
    page.write_text("mine", encoding="utf-8")
    with pytest.raises(LabError, match=r"new: book/nsys/as-it-is\.md is there already; choose another name"):
        new("page", "nsys/as-it-is", bare)
    assert page.read_text(encoding="utf-8") == "mine"


def test_away_from_a_checkout_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is no checkout of the lab; run this in one"):
        new("page", "nsys/a-page", tmp_path)


def test_contributing_names_each_recipe() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"labcode new {kind} " not in guide] == []
