"""A course: its folder, its plans, the script that grades, and the page of a cohort's results."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from labcode.errors import InputError, LabError
from labcode.grading import catalogue, grades
from labcode.kit import course, hand_out
from tests.exercises.support import ROOT
from tests.support.command import labcode, one_line


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of two hours, whose copy to hand out is a stand-in."""
    monkeypatch.setattr(hand_out, "write", lambda path: path.write_bytes(b"the lab") and "")
    lines = course.new("two-hours", tmp_path, "hours")
    assert [Path(line).name for line in lines] == ["README.md", "grade.sh", "hand-out.tar", "syllabus.md"]
    return tmp_path / "two-hours"


@pytest.mark.parametrize("plan", course.PLANS)
def test_plans_are_those_of_the_guide_and_name_what_there_is(plan: str) -> None:
    sessions = course.sessions_of(plan)
    assert len(sessions) == {"hours": 2, "day": 6, "week": 5, "term": 14}[plan]
    for session in sessions:
        for page in session.pages:
            assert (ROOT / "book" / f"{page}.md").is_file()
        for name in session.exercises:
            catalogue.find(name)


def test_a_syllabus_has_titles_and_minutes(made: Path) -> None:
    text = (made / "syllabus.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[4:]]
    assert [row[0] for row in rows] == ["A loop that waits", "Name the bottleneck", "In all"]
    assert "`nsys-ex01a`" in rows[0][2] and "_" not in rows[0][1]
    *each, total = (int(row[3]) for row in rows)
    assert sum(each) == total and all(minutes > 5 for minutes in each)


STUB = """#!/usr/bin/env bash
echo "$*" >>"$LOG"
case "$*" in *ada*) exit 1 ;; *eve*) exit 2 ;; esac
"""


def graded(made: Path, tmp_path: Path, *learners: str) -> tuple[int, list[str], str]:
    """How the script ends on what these have handed in, what it called, what it said."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "labcode").write_text(STUB)
    (tools / "labcode").chmod(0o755)
    for learner in learners:
        (made / "handed-in" / learner).mkdir(parents=True, exist_ok=True)
    log = tmp_path / "log"
    log.write_text("")
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "LOG": str(log)}
    done = subprocess.run(["bash", made / "grade.sh"], env=env, text=True, capture_output=True, check=False)
    if done.returncode == 0:
        folders = sorted(path.name for path in (made / "handed-in").iterdir())
        assert done.stdout.splitlines() == folders, "whose the lines below are"
    return done.returncode, log.read_text().splitlines(), done.stderr


def test_the_script_grades_everybody_in_a_jail_with_a_key_of_its_own(made: Path, tmp_path: Path) -> None:
    code, called, _ = graded(made, tmp_path, "ada", "b o b")
    assert code == 0
    assert called == [
        "exercises nsys-ex01a serving-ex33 "
        f"--answers handed-in/{name}/ --isolated --grades grades/{name}.json"
        for name in ("ada", "b o b")
    ] + ["course results grades -o results.html"]
    key = made / "grades.key"
    assert len(key.read_text().strip()) == 64 and key.stat().st_mode & 0o077 == 0
    first = key.read_text()
    assert graded(made, tmp_path, "ada")[0] == 0 and key.read_text() == first
    code, called, _ = graded(made, tmp_path, "eve")
    assert code == 1 or code == 2
    assert "course results" not in called[-1]


def test_without_anything_handed_in_the_script_says_so(made: Path, tmp_path: Path) -> None:
    code, called, said = graded(made, tmp_path)
    assert (code, called) == (2, []) and "put one for each learner" in said


def test_the_options_that_the_script_gives_exist(made: Path) -> None:
    text = (made / "grade.sh").read_text()
    subprocess.run(["bash", "-n", made / "grade.sh"], check=True)
    for command in ("exercises", "course results"):
        shown = labcode(*command.split(), "--help").stdout
        (line,) = re.findall(rf"labcode {command} (.*)", text)
        assert set(re.findall(r"--[a-z]+", line)) <= set(re.findall(r"--[a-z]+", shown)), command


def write_grades(path: Path, *statuses: str) -> Path:
    parts = [
        grades.Grade(f"nsys-ex01-x:{letter}", f"<part {letter}>", 1.0, status, "", [], "")  # type: ignore[arg-type]
        for letter, status in zip("abc", statuses, strict=False)
    ]
    grades.write(path, parts)
    return path


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "key"
    path.write_text("k" * 64)
    monkeypatch.setenv(grades.KEY_VARIABLE, str(path))
    return path


def test_the_page_shows_every_learner_and_the_hardest_part_first(tmp_path: Path, key: Path) -> None:
    folder = tmp_path / "grades"
    folder.mkdir()
    write_grades(folder / "ada.json", "passed", "failed", "passed")
    write_grades(folder / "b<b.json", "passed", "to do", "not run")
    out = tmp_path / "results.html"
    assert course.results([folder], out, "A & B") == f"{out}: 2 learners"
    page = out.read_text()
    assert "<h1>A &amp; B</h1>" in page and "b&lt;b" in page and "<part" not in page
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert cells[:8] == ["ada", "2/3", "2.0", "0", "b&lt;b", "1/3", "1.0", "1"]
    assert cells[8::6] == ["nsys-ex01-x:b", "nsys-ex01-x:c", "nsys-ex01-x:a"]
    assert "http" not in page and "<script" not in page
    assert "same version" not in page


def test_grades_of_several_graders_are_told_apart(tmp_path: Path, key: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    one = write_grades(tmp_path / "ada.json", "passed")
    monkeypatch.setattr(grades, "_digest_of_grader", lambda: "another")
    two = write_grades(tmp_path / "bob.json", "passed")
    course.results([one, two], tmp_path / "results.html")
    assert "not all graded by the same version" in (tmp_path / "results.html").read_text()


def test_what_the_key_did_not_sign_is_refused(tmp_path: Path, key: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    file = write_grades(tmp_path / "ada.json", "failed")
    content = json.loads(file.read_text())
    content["parts"][0]["status"] = "passed"
    file.write_text(json.dumps(content))
    out = tmp_path / "results.html"
    with pytest.raises(InputError, match=r"ada\.json: changed after it was signed"):
        course.results([file], out)
    monkeypatch.delenv(grades.KEY_VARIABLE)
    with pytest.raises(LabError, match=f"set {grades.KEY_VARIABLE} to the file of the key"):
        course.results([file], out)
    assert not out.exists()


def test_what_cannot_be_made_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    assert "'../x': not a name for a course" in one_line(labcode("course", "new", "../x"))
    assert "--plan year: " in one_line(labcode("course", "new", "x", "--plan", "year", "--in", tmp_path))
    (tmp_path / "x").mkdir()
    assert "x: is there already" in one_line(labcode("course", "new", "x", "--in", tmp_path))
    assert "none: no such folder" in one_line(labcode("course", "new", "y", "--in", tmp_path / "none"))


def test_a_copy_that_cannot_be_made_leaves_no_folder(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    def fails(path: Path) -> str:
        raise LabError("no exercises here")

    monkeypatch.setattr(hand_out, "write", fails)
    with pytest.raises(LabError, match="no exercises here"):
        course.new("x", tmp_path, "hours")
    assert list(tmp_path.iterdir()) == []
