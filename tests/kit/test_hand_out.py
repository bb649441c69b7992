"""Copies for learners: what is in them, that no solution can be read there, and that grading works."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.grading import catalogue, sealed
from labcode.kit import hand_out
from labcode.store import unpack_tar
from tests.support.command import labcode

ROOT = Path(__file__).resolve().parents[2]
REGION = re.compile(r"\[solution\]\n(.*?)\n[^\n]*\[(?:starter|end)\]", re.DOTALL)
IDLE = "nsys/ex01_timeline_basics/a_idle.py"
CHEAT = """
import glob, pathlib, tempfile
root = pathlib.Path(tempfile.gettempdir()).parent.parent
names = [{seal!r}, *glob.glob(str(root / ".labcode-*/solutions/nsys/ex01_timeline_basics/b_cause.py"))]
opened = []
for name in names:
    try:
        opened.append(open(name).read())
    except PermissionError:
        pass
print("opened", len(opened), "of", len(names))
raise ValueError
"""


@pytest.fixture(scope="module")
def members() -> dict[str, Path | bytes]:
    return hand_out.members()


def test_nothing_of_the_marked_regions_can_be_read(members: dict[str, Path | bytes]) -> None:
    everything = b"\0".join(
        one if isinstance(one, bytes) else one.read_bytes()
        for name, one in members.items()
        if not name.startswith("captures/")
    )
    regions = [
        found.strip().encode()
        for exercise in catalogue.EXERCISES
        for part in exercise.parts
        for found in REGION.findall((ROOT / "solutions" / exercise.source(part)).read_text(encoding="utf-8"))
    ]
    regions += [
        (ROOT / "solutions" / exercise.source(part)).read_bytes().partition(b"def answers()")[2]
        for exercise in catalogue.EXERCISES
        for part in exercise.parts
        if part.is_sheet
    ]
    long = [region for region in regions if len(region) > 80]  # shorter ones may stand anywhere
    assert len(long) > 60
    assert not [region for region in long if region in everything]


def test_what_is_in_a_copy(members: dict[str, Path | bytes]) -> None:
    solutions = {name for name in members if name.startswith("solutions/")}
    told = {f"solutions/{exercise.folder}/exercise.toml" for exercise in catalogue.EXERCISES}
    assert solutions == told | {f"solutions/{sealed.SEALED}"}
    starters = {f"exercises/{e.path(p)}" for e in catalogue.EXERCISES for p in e.parts}
    assert {name for name in members if name.startswith("exercises/")} == starters | {"exercises/README.md"}
    assert {"labcode/grading/sealed.py", "book/index.md", "noxfile.py", "captures/h200/manifest.json"} <= set(
        members
    )
    assert not [name for name in members if name.startswith(("tests/", ".git/"))]


def test_a_copy_grades_and_its_seal_stays_shut_to_answers(
    members: dict[str, Path | bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: one for name, one in members.items() if not name.startswith(("captures/", "book/", "cuda/"))}
    monkeypatch.setattr(hand_out, "members", lambda: few)
    assert "their solutions sealed" in hand_out.write(tmp_path / "lab.tar")
    with tarfile.open(tmp_path / "lab.tar") as tar:
        unpack_tar(tar, tmp_path)
    home = tmp_path / hand_out.TOP
    file = home / "exercises" / IDLE

    file.write_bytes((ROOT / "solutions" / IDLE).read_bytes())
    file.with_name("b_cause.py").write_text(CHEAT.format(seal=str(home / "solutions" / sealed.SEALED)))
    env = {**os.environ, "LABCODE_HOME": str(home), "LABCODE_SETS": str(ROOT / "captures")}
    command = [sys.executable, "-m", "labcode", "exercises", "nsys-ex01a", "nsys-ex01b", "nsys-ex02a"]
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, check=False)
    solution, cheat, starter = done.stdout.split("\nnsys-ex0")
    assert "passed: " in solution and "not written yet" in starter
    assert re.search("opened 0 of [2-9]", cheat)


def test_a_copy_made_twice_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    made = list[bytes]()
    for date in (1, 2):
        file = tmp_path / "a.py"
        file.write_text("pass\n")
        os.utime(file, (date, date))
        held: dict[str, Path | bytes] = {"a.py": file, "b.py": b"pass\n"}
        monkeypatch.setattr(hand_out, "members", lambda held=held: held)
        hand_out.write(tmp_path / f"{date}.tar")
        made.append((tmp_path / f"{date}.tar").read_bytes())
    assert made[0] == made[1]
    with tarfile.open(tmp_path / "1.tar") as tar:
        assert {one.mtime for one in tar.getmembers()} == {1700000000}


def test_a_damaged_seal_is_named(tmp_path: Path) -> None:
    (tmp_path / "solutions").mkdir()
    for content in (b"no seal", sealed.seal({"a.py": ROOT / "conf.py"})[:-40]):
        (tmp_path / "solutions" / sealed.SEALED).write_bytes(content)
        with pytest.raises(LabError, match=r"sealed\.txt: damaged; take it from the copy"):
            sealed.root(tmp_path)


def test_what_cannot_be_handed_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "the copy's name must end in .tar" in labcode("exercises", "--hand-out", tmp_path / "a.zip").stderr
    monkeypatch.setattr(sealed, "is_sealed", lambda home: True)
    with pytest.raises(LabError, match="this copy was handed out itself"):
        hand_out.write(tmp_path / "a.tar")
    assert "solutions of this copy are sealed" in labcode("exercises", "--solutions").stderr
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(catalogue, "EXERCISES", ())
    with pytest.raises(LabError, match="no exercises here"):
        hand_out.members()
