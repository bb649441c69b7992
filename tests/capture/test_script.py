"""Plain scripts in the catalogue: which there are, how they are started, what is filed of them."""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from labcode.capture import catalogue, script
from labcode.capture.catalogue import EXPERIMENTS, neutral_argv
from labcode.capture.experiment import Experiment, Run
from labcode.errors import ToolError
from labcode.record import nsys
from labcode.store import load_set, repository_root
from tests.capture.conftest import Lab

CASES = repository_root() / "benchmarks" / "diagnosis"
PROGRAM = """
import json, os, pathlib
assert pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).name == "torchinductor_cache_dir"
print("step 1: loss 0.3")
print(json.dumps({"seconds_per_iteration": 0.02, "loss": 0.25}))
"""


def told(case: str) -> dict[str, Any]:
    return tomllib.loads((CASES / case / "case.toml").read_text())


def cases() -> list[str]:
    return sorted(path.parent.name for path in CASES.glob("*/case.toml"))


@pytest.mark.parametrize(
    ("experiments", "gpus"),
    [(("diagnosis", "diagnosis_later"), 1), (("diagnosis_two", "diagnosis_two_later"), 2)],
)
def test_the_catalogue_has_every_script_of_every_case(experiments: tuple[str, ...], gpus: int) -> None:
    there = {
        f"{path.parent.name}-{path.stem}"
        for case in cases()
        if told(case)["gpus"] == gpus
        for path in (CASES / case).glob("*.py")
    }
    runs = [run.name for experiment in experiments for run in EXPERIMENTS[experiment].runs]
    assert sorted(runs) == sorted(there)
    sources = [source for experiment in experiments for source in EXPERIMENTS[experiment].sources]
    assert len(sources) == len(there)


@pytest.mark.parametrize("case", cases())
def test_a_case_has_what_it_says(case: str) -> None:
    scripts = {path.stem for path in (CASES / case).glob("*.py")}
    one = told(case)
    assert scripts == ({"good"} if one["cause"] == "none" else {"fault", "mended"})
    known = (CASES / "README.md").read_text()
    assert all(f"| `{cause}` |" in known for cause in (one["cause"], *one["accept"]))
    if "line" in one:
        lines = (CASES / case / one["line"]["file"]).read_text().splitlines()
        assert [line.strip() for line in lines].count(one["line"]["text"]) == 1
        assert one["line"]["function"] == "<module>" or any(
            line.strip().startswith(f"def {one['line']['function']}(") for line in lines
        )


def test_a_third_of_the_cases_is_set_aside_by_their_names_alone() -> None:
    aside = [case for case in cases() if int(hashlib.sha256(case.encode()).hexdigest(), 16) % 3 == 0]
    assert (CASES / "aside.txt").read_text().split() == aside


def test_scripts_are_started_as_people_start_them() -> None:
    one, two = EXPERIMENTS["diagnosis"], EXPERIMENTS["diagnosis_two"]
    assert neutral_argv(one, Run("a-fault"), 1) == ("python", "benchmarks/diagnosis/a/fault.py")
    words = ("torchrun", "--standalone", "--nproc-per-node=2", "benchmarks/diagnosis/a/good.py")
    assert neutral_argv(two, Run("a-good"), 2) == words
    real = script.real_command(words, Path("/here"), Path("/kept"))
    assert real[:3] == [
        "env",
        "TORCHINDUCTOR_CACHE_DIR=/kept/torchinductor_cache_dir",
        "TRITON_CACHE_DIR=/kept/triton_cache_dir",
    ]
    assert real[4:] == ["-m", "torch.distributed.run", *words[1:-1], f"/here/{words[-1]}"]


def test_the_recorder_is_that_of_labcode_record() -> None:
    assert (*nsys.PROGRAM, *nsys.LINES) == script.OPTIONS
    assert EXPERIMENTS["diagnosis"].options(Run("a-fault")) == script.OPTIONS


def scripts(lab: Lab, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    folder = lab.home / "scripts" / "first"
    folder.mkdir(parents=True)
    (folder / "fault.py").write_text(program)
    runs = (Run("first-fault"),)
    plain = Experiment("plain", "Scripts", "nsys", "scripts", runs, ("scripts/first/fault.py",), scripts=True)
    monkeypatch.setitem(catalogue.EXPERIMENTS, "plain", plain)
    monkeypatch.setenv("FAKE_NSYS", "steady")


def test_a_script_is_filed_with_what_it_printed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts(lab, monkeypatch, PROGRAM)
    assert lab.capture("plain") == 0, lab.printed
    run = load_set("mine").experiments["plain"].runs["first-fault"]
    assert run.argv == ("python", "scripts/first/fault.py")
    names = ["first-fault.clean.json", "first-fault.json", "first-fault.nsys.xz"]
    assert sorted(file.name for file in run.files) == names
    record = json.loads((lab.sets / "mine" / "plain" / names[0]).read_text())
    assert record["program"] == "first/fault.py"
    assert record["results"] == {"seconds_per_iteration": 0.02, "loss": 0.25}


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('done')", "printed no line of JSON with seconds_per_iteration"),
        ("raise SystemExit('it went wrong')", "failed with exit code 1 (it went wrong)"),
    ],
)
def test_a_script_that_measures_nothing_or_fails_is_told(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    scripts(lab, monkeypatch, program)
    with pytest.raises(ToolError, match="nothing was captured"):
        lab.capture("plain")
    assert said in lab.printed
