"""Every cheat that was thought of, in a learner's own run and in an instructor's."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.grading import gpu, jail, measured
from tests.exercises.support import ROOT

HERE = Path(__file__).resolve().parent
CHEATS = HERE / "cheats"
NAMES = sorted(path.stem for path in CHEATS.iterdir() if path.suffix in (".py", ".cu"))
MOST_BY_DEFAULT = 5
PASSING = re.compile(r"^- `(\w+)`", re.MULTILINE)


def tried(tmp_path: Path, mode: str) -> dict[str, list[str]]:
    """What each cheat has reached, in a copy of the lab with a history of its own."""
    lab = tmp_path / "lab"
    skip = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in ("labcode", "solutions", "exercises", "cuda"):
        shutil.copytree(ROOT / name, lab / name, ignore=skip)
    (lab / "captures").symlink_to(ROOT / "captures")
    for name in ("fake_measure.py", "fake_measure.cu"):
        shutil.copy(HERE / name, lab)
    git = ["git", "-C", str(lab), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "solutions"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    environment = {**os.environ, "PYTHONPATH": f"{lab}:{ROOT}", "LABCODE_HOME": str(lab)}
    environment["LABCODE_SETS"] = str(ROOT / "captures")
    words = [sys.executable, "-B", "-m", "tests.grading.drive", str(lab), str(CHEATS), mode]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["cheat"] for one in found] == NAMES, done.stderr[-3000:]
    return {one["cheat"]: one["reached"] for one in found if one["reached"]}


def named() -> set[str]:
    """The cheats of which SECURITY.md says that they pass in a learner's own run."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    section = text.partition("## Grading exercises")[2].partition("\n## ")[0]
    return set(PASSING.findall(section))


def test_there_are_81_and_each_says_what_it_tries() -> None:
    assert len(NAMES) == 81
    for path in CHEATS.iterdir():
        if path.suffix in (".py", ".cu"):
            first, part = path.read_text(encoding="utf-8").split("part: ")[:2]
            assert re.match(r'("""|// )Tries to .*\.', first), path.name
            assert part.split()[0].count("-ex") == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_cheats_that_pass_in_ones_own_run_are_those_that_are_named(tmp_path: Path) -> None:
    found = tried(tmp_path, "default")
    assert set(found) == named(), found
    assert len(found) <= MOST_BY_DEFAULT


@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(jail.missing()), reason=f"not run: {jail.missing()}")
def test_no_cheat_passes_in_a_jail(tmp_path: Path) -> None:
    assert tried(tmp_path, "isolated") == {}


def test_without_bubblewrap_nothing_is_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "_found", lambda: (None, "there is no bubblewrap (bwrap) here"))
    with (
        pytest.raises(
            LabError, match=r"--isolated: there is no bubblewrap .*; install Debian's package bubb"
        ),
        jail.isolated(),
    ):
        pass


@pytest.mark.parametrize("lab", ["/usr/src/lab", sys.prefix])
def test_a_lab_whose_solutions_would_be_seen_is_not_graded_in(
    lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jail, "_found", lambda: (jail.Jail("bwrap"), ""))
    monkeypatch.setattr("labcode.store.repository_root", lambda: Path(lab))
    with pytest.raises(LabError, match=r"--isolated: answers see .*; move the lab"), jail.isolated():
        pass


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_a_record_from_before_the_measuring_program_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the text of an answer is not looked at."""
    monkeypatch.setattr(measured, "refused", lambda _: "")

    def built(program: Path, place: gpu.Place) -> Path:
        gpu._compile(program, place, place.folder / program.stem, "-gencode=arch=compute_90,code=sm_90")
        return place.folder / program.stem

    monkeypatch.setattr(gpu, "_built", built)
    file = tmp_path / "b_answer.cu"
    for text, says in (
        (
            (CHEATS / "gpu_static.cu").read_text(encoding="utf-8"),
            "the record was not written by what measures",
        ),
        ("void column_sums(const float*, float*, int, int, cudaStream_t) {}\n", "a wrong answer"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(gpu.StoppedError, match=says):
            gpu.measure_cuda(HERE / "fake_measure.cu", file)
