"""Clusters and containers, as far as they can be tried without either.

The job file runs with programs that stand for SLURM's and the lab's; the container file is read word by word.
"""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import typer
import yaml

from labcode.cli import program as whole_command
from tests.support.programs import program

ROOT = Path(__file__).parents[1]
JOB = ROOT / "cluster" / "capture.sbatch"
CONTAINER = ROOT / "cluster" / "Containerfile"
BOOK_CONTAINER = ROOT / "cluster" / "Containerfile.book"
WORKFLOW = ROOT / "cluster" / "pull-request.yml"
PROFILE = ROOT / "cluster" / "profile.sbatch"
SHELL = (JOB, PROFILE, ROOT / "labcode" / "kit" / "env.sh")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of the book with a lab that notes how it was called, and SLURM's two programs."""
    (tmp_path / "labcode").mkdir()
    (tmp_path / "labcode" / "__main__.py").touch()
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "python3", 'echo "$@" >called; touch my-h100.tar; exit "${CODE:-0}"')
    program(tmp_path / "bin" / "squeue", 'echo "${LEFT:-INVALID}"')
    program(tmp_path / "bin" / "scontrol", 'echo "$@" >requeued')
    return tmp_path


def job(site: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    environment = {
        "PATH": f"{site}/bin:/usr/bin:/bin",
        "SLURM_SUBMIT_DIR": str(site),
        "SLURM_JOB_ID": "42",
        **more,
    }
    return subprocess.Popen(
        ["bash", JOB, *words],
        env=environment,
        cwd="/",
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


@pytest.mark.parametrize("script", SHELL, ids=lambda path: path.name)
def test_the_shell_can_read_it(script):
    subprocess.run(["bash", "-n", script], check=True)
    if shellcheck := shutil.which("shellcheck"):
        subprocess.run([shellcheck, script], check=True)


def test_what_the_job_asks_of_slurm_comes_before_its_first_command():
    lines = JOB.read_text().splitlines()
    asked = [line for line in lines if line.startswith("#SBATCH ")]
    commands = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line) for line in asked)
    assert max(lines.index(line) for line in asked) < commands[0]
    for needed in ("--nodes=1", "--gpus-per-node=1", "--requeue", "--open-mode=append"):
        assert f"#SBATCH {needed}" in asked


def options(command):
    """All options that a command of the lab knows."""
    return {
        word
        for option in typer.main.get_command(whole_command()).commands[command].params
        for word in option.opts
    }


def test_the_lab_has_the_options_that_the_job_gives_it():
    given = set(re.findall(r"(--[a-z-]+) \"", JOB.read_text())) | {"--only-missing"}
    assert {"--set", "--archive", "--budget", "--gpus"} <= given
    assert given <= options("capture")


def test_the_workflow_for_pull_requests_is_one_and_its_commands_are_the_labs():
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["compare"]["steps"]
    assert all(("run" in step) != ("uses" in step) for step in steps)
    commands = re.findall(r"labcode (\w+) (.*)", "\n".join(step.get("run", "") for step in steps))
    assert [command for command, _ in commands] == ["record", "report", "report", "compare"]
    for command, rest in commands:
        given = set(re.findall(r"--[a-z-]+", rest.partition(" -- ")[0]))
        assert given and given <= options(command), command
    for step in steps:
        subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, check=True)


@pytest.mark.parametrize(
    ("left", "budget"),
    [
        ("1:00:00", ["--budget", "56m"]),
        ("29:30", ["--budget", "25m"]),
        ("2-01:10:00", ["--budget", "2946m"]),
        ("UNLIMITED", []),
        ("INVALID", []),
    ],
)
def test_the_budget_is_what_slurm_leaves(site, left, budget):
    code, out, err = ended(job(site, "my-h100", "ceilings", LEFT=left))
    assert (code, err) == (0, "")
    assert (site / "called").read_text().split() == [
        *("-m", "labcode", "capture", "--set", "my-h100", "--archive", "my-h100.tar", "--only-missing"),
        *budget,
        "ceilings",
    ]
    assert "my-h100.tar holds what was filed" in out


@pytest.mark.parametrize(("gpus", "given"), [("0", ""), ("2,3,7", "--gpus 0,1,2"), ("", "")])
def test_several_gpus_are_numbered_among_those_of_the_job(site, gpus, given):
    ended(job(site, "my-h100", CUDA_VISIBLE_DEVICES=gpus))
    called = (site / "called").read_text().strip()
    assert called.endswith(f"--only-missing {given}".strip())


def test_a_kit_is_used_where_it_lies(site):
    (site / "kit").mkdir()
    (site / "kit" / "env.sh").write_text("export CODE=7\n")
    code, _, _ = ended(job(site, "my-h100"))
    assert code == 7
    code, _, err = ended(job(site, "my-h100", LABCODE_KIT="elsewhere"))
    assert code == 2
    assert err == "capture.sbatch: LABCODE_KIT is elsewhere, and there is no env.sh in it\n"


def test_bad_use_is_one_line(site, tmp_path_factory):
    code, _, err = ended(job(site))
    assert (code, err) == (2, "capture.sbatch: name the set: sbatch cluster/capture.sbatch my-h100\n")
    code, _, err = ended(job(site, "my-h100", SLURM_SUBMIT_DIR=str(tmp_path_factory.mktemp("else"))))
    assert code == 2
    assert err.startswith("capture.sbatch: submit it in the folder of the book: there is no labcode/ in ")
    code, _, err = ended(job(site, "my-h100", LEFT="3:59"))
    assert (code, err) == (2, "capture.sbatch: only 3:59 is left of this job: give it more with --time\n")


@pytest.mark.parametrize(
    ("number", "more", "requeued", "said"),
    [
        (signal.SIGUSR1, {}, True, "back to the queue for the rest"),
        (signal.SIGUSR1, {"SLURM_RESTART_COUNT": "3"}, False, "submit it again for the rest"),
        (signal.SIGTERM, {}, False, "my-h100.tar holds what was filed"),
    ],
)
def test_near_the_limit_the_capture_ends_and_the_job_goes_on_later(site, number, more, requeued, said):
    program(
        site / "bin" / "python3",
        'trap "sleep 0.3; touch tidy my-h100.tar; exit 143" TERM; touch began; while :; do sleep 0.1; done',
    )
    process = job(site, "my-h100", **more)
    for _ in range(300):
        if (site / "began").exists():
            break
        time.sleep(0.05)
    process.send_signal(number)
    code, out, err = ended(process)
    assert (code, err) == (143, "")
    assert (site / "tidy").exists()
    assert (site / "requeued").exists() == requeued
    assert said in out
    if requeued:
        assert (site / "requeued").read_text() == "requeue 42\n"


def container_lines(path: Path = CONTAINER) -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line]


def test_the_container_file_is_made_of_instructions_on_files_that_are_there():
    lines = container_lines()
    assert {word for word, _ in lines} == {
        "ARG",
        "FROM",
        "RUN",
        "ENV",
        "WORKDIR",
        "COPY",
        "ENTRYPOINT",
        "CMD",
    }
    for word, rest in lines:
        if word == "COPY":
            *sources, _ = rest.split()
            assert [name for name in sources if not (ROOT / name).exists()] == []
        if word == "RUN":
            subprocess.run(["bash", "-n", "-c", rest], check=True)


def test_the_container_is_pinned_as_the_rest_of_the_lab():
    lines = container_lines()
    (base,) = [
        rest.removeprefix("BASE=") for word, rest in lines if word == "ARG" and rest.startswith("BASE=")
    ]
    major = re.fullmatch(r"nvidia/cuda:(\d+)\.\d+\.\d+-devel-ubuntu24\.04", base)
    assert major
    assert f"cupy-cuda{major[1]}x==" in (ROOT / "constraints.txt").read_text()
    (install,) = [rest for word, rest in lines if word == "RUN" and "pip install" in rest]
    assert "--constraint constraints.txt" in install
    (check,) = [rest for word, rest in lines if word == "RUN" and rest.startswith("python -c")]
    for name in re.findall(r"t\.(\w+)", check):
        assert (ROOT / "labcode" / "tools.py").read_text().count(f"def {name}(") == 1


def test_the_container_of_the_book_calls_sessions_that_are_there_with_the_tools_of_ci():
    lines = container_lines(BOOK_CONTAINER)
    for word, rest in lines:
        assert word in {"ARG", "FROM", "RUN", "USER", "WORKDIR", "ENV", "COPY", "CMD"}
        if word == "RUN":
            subprocess.run(["bash", "-n", "-c", rest], check=True)
    command = json.loads(next(rest for word, rest in lines if word == "CMD"))
    assert command == ["nox", "-s", "book", "--", "--strict"]
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["floor"]
    assert ("ARG", f"BASE={ci['container']}") in lines
    wanted = re.search(r"--no-install-recommends (.+)", ci["steps"][0]["run"])
    assert wanted and any(word == "RUN" and f" {wanted[1]} " in rest for word, rest in lines)


def test_the_development_container_is_a_stage_of_that_file():
    path = ROOT / ".devcontainer" / "devcontainer.json"
    content = json.loads(path.read_text())
    built = content["build"]
    assert (path.parent / built["dockerfile"]).resolve() == BOOK_CONTAINER
    assert (path.parent / built["context"]).resolve() == ROOT
    lines = container_lines(BOOK_CONTAINER)
    assert any(word == "FROM" and rest.endswith(f" AS {built['target']}") for word, rest in lines)
    assert any(word == "RUN" and rest.endswith(content["remoteUser"]) for word, rest in lines)


def profile_job(site: Path, *words: str, **more: str) -> tuple[int, str]:
    """Submit cluster/profile.sbatch: its exit code, and what it says or how it calls the lab."""
    environment = {
        "PATH": f"{site}/bin:/usr/bin:/bin",
        "SLURM_SUBMIT_DIR": str(site),
        "SLURM_JOB_ID": "42",
        **more,
    }
    result = subprocess.run(
        ["bash", PROFILE, *words], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    called = site / "called"
    return result.returncode, called.read_text().strip() if called.exists() else result.stderr.strip()


def test_the_profiling_job_gives_the_lab_what_time_is_left(site):
    code, called = profile_job(site, "--tool", "torch", "train.py", "--epochs", "1", LEFT="29:30", CODE="3")
    assert code == 3
    assert called == "-m labcode profile --mode multi-node --limit 1470s --tool torch train.py --epochs 1"
    assert profile_job(site, "train.py")[1] == "-m labcode profile --mode multi-node train.py"


def test_bad_use_of_the_profiling_job_is_one_line(site):
    assert profile_job(site) == (
        2,
        "profile.sbatch: name the script: sbatch cluster/profile.sbatch --tool nsys train.py",
    )
    code, said = profile_job(site, "train.py", LEFT="4:59")
    assert (code, said) == (2, "profile.sbatch: only 4:59 is left of this job: give it more with --time")
