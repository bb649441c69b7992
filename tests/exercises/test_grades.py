"""Grades: written as JSON and JUnit, of the learner's own files or of those handed in, and read together."""

import io
import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from labcode.errors import InputError, LabError
from labcode.grading import catalogue, generate, grade, grades, progress, run
from labcode.grading.records import Exercise, Part, Verdict
from tests.exercises.support import ROOT, part
from tests.support.command import labcode
from tests.support.growth import time_growth

IDLE = "nsys/ex01_timeline_basics/a_idle.py"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two exercises; a file passes when it says PASS, and fails else."""
    home, two = (
        tmp_path / "lab",
        tuple(map(catalogue.get, ("nsys-ex01-timeline-basics", "nsys-ex02-kernel-overlap"))),
    )
    for exercise in two:
        shutil.copytree(ROOT / "solutions" / exercise.folder, home / "solutions" / exercise.folder)
    monkeypatch.setattr(catalogue, "EXERCISES", two)
    generate.generate(home, check=False, exercises=two)

    def fake(exercise: Exercise, found: Part, file: Path, **_: Any) -> Verdict:
        if found.needs:
            return grade.not_run("needs a GPU")
        if "PASS" in file.read_text(encoding="utf-8"):
            return Verdict("passed", "passed: all")
        return Verdict("failed", "wrong <on> case 1", ("got \x1b[31m1", "expected 2"))

    monkeypatch.setattr(grade, "grade", fake)
    return home


def judge(home: Path, *ids: str, **paths: Path) -> tuple[int, str]:
    out = io.StringIO()
    flags: dict[str, Any] = {"hint": False, "watch": False, "reset": None, "solutions": False}
    console = Console(file=out, width=200)
    return run.main(list(ids), **flags, console=console, root=home, **paths), out.getvalue()


def test_json_has_every_part_and_progress_stays_as_it_is(home: Path, tmp_path: Path) -> None:
    (home / "exercises" / IDLE).write_text("PASS")
    code, said = judge(home, grades=tmp_path / "ada.json")
    assert code == 0 and "1 of 6 parts passed, 0.7 of 5.0 points" in said
    found = grades.read(tmp_path / "ada.json")
    assert [one.status for one in found.parts[:1]] == ["passed"]
    assert {one.status for one in found.parts[1:]} == {"to do"}
    assert found.parts[0].id == "nsys-ex01-timeline-basics:a" and len(found.parts[0].sha256) == 64
    exercise, _ = part("nsys-ex01a")
    assert found.parts[0].worth == pytest.approx(exercise.stars / 3, abs=1e-3)
    assert not (home / progress.FILE_NAME).exists()


def test_what_was_handed_in_is_graded_and_what_was_not_is_to_do(home: Path, tmp_path: Path) -> None:
    handed = tmp_path / "bob"
    (handed / IDLE).parent.mkdir(parents=True)
    (handed / IDLE).write_text("wrong")
    code, said = judge(home, "nsys-ex01", answers=handed, grades=tmp_path / "bob.json")
    assert code == 1
    assert "nsys-ex01a wrong <on> case 1" in said and "nsys-ex01b no such file was handed in" in said
    shutil.copytree(handed, tmp_path / "copy" / "exercises")
    assert judge(home, "nsys-ex01a", answers=tmp_path / "copy")[0] == 1
    with pytest.raises(LabError, match="empty: no folder of an exercise in it, such as nsys/ex01"):
        (tmp_path / "empty").mkdir()
        judge(home, answers=tmp_path / "empty")


def test_junit_has_a_suite_an_exercise_and_no_character_that_xml_forbids(home: Path, tmp_path: Path) -> None:
    for name in ("a_idle.py", "c_training_loop.py"):
        (home / "exercises" / IDLE).with_name(name).write_text("wrong")
    assert judge(home, "nsys-ex01", "nsys-ex02a", grades=tmp_path / "a.xml")[0] == 1
    root = ElementTree.parse(tmp_path / "a.xml").getroot()
    assert [suite.get("name") for suite in root] == ["nsys-ex01-timeline-basics", "nsys-ex02-kernel-overlap"]
    assert [root.get(name) for name in ("tests", "failures", "skipped")] == ["4", "1", "3"]
    failed, to_do, not_run = root[0]
    assert failed[0].get("message") == "wrong <on> case 1"
    assert failed[0].text == "got \ufffd[31m1\nexpected 2"
    assert [case[0].get("message") for case in (to_do, not_run)] == [
        "still the starter",
        "not run: needs a GPU",
    ]


@pytest.mark.parametrize(
    ("name", "says"),
    [("a.txt", "grades are written to a .json, or"), ("no/a.json", "there is no folder .*no; create it")],
)
def test_a_target_that_cannot_be_is_named_before_anything_is_graded(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.setattr(grade, "grade", lambda *_, **__: pytest.fail("graded"))
    (home / "exercises" / IDLE).write_text("PASS")
    with pytest.raises(LabError, match=says):
        judge(home, "nsys-ex01a", grades=tmp_path / name)


def test_grades_go_with_no_other_flag(home: Path, tmp_path: Path) -> None:
    said = "--grades and --answers go with none of them"
    with pytest.raises(LabError, match=said):
        run.main(
            [],
            hint=True,
            watch=False,
            reset=None,
            solutions=False,
            console=Console(file=io.StringIO()),
            root=home,
            grades=tmp_path / "a.json",
        )
    result = labcode("exercises", "--hand-out", tmp_path / "a.tar", "--hint")
    assert result.returncode == 2 and "--hand-out goes with nothing else" in result.stderr


def one(name: str, status: Any, worth: float = 1.0) -> grades.Grade:
    return grades.Grade(name, "a title", worth, status, "said", [], "")


def test_many_learners_make_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    first, second, third = "nsys-ex01-idle:a", "nsys-ex01-idle:b", "lm-ex02-top:a"
    grades.write(folder / "ada.json", [one(first, "passed", 1.5), one(second, "passed"), one(third, "to do")])
    grades.write(folder / "bob.json", [one(first, "failed"), one(second, "not run")])
    result = labcode("grades", folder, "-f", "csv")
    assert result.stdout.splitlines() == [
        "learner,nsys-ex01,parts,not run,points",
        "ada,2/2,2/3,0,2.5",
        "bob,0/2,0/2,1,0.0",
    ]
    assert "| ada | 2/2 |" in " ".join(labcode("grades", folder, "-f", "md").stdout.split())
    assert "choose one of table, csv" in labcode("grades", folder, "-f", "xls").stderr


GOOD = {
    "schema": "labcode.grades",
    "version": 1,
    "labcode": "0",
    "captures": "h200",
    "graded": "",
    "parts": [],
}
PART = {
    "id": "nsys-ex01-idle:a",
    "title": "",
    "worth": 1,
    "status": "passed",
    "headline": "",
    "details": [],
    "sha256": "",
}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "JSON, but no grades: its schema is not 'labcode.grades'"),
        ("[1]", "JSON, but no grades"),
        (json.dumps({**GOOD, "version": 2}), "grades of version 2, and this labcode knows 1; update labcode"),
        (json.dumps(GOOD)[:-3], "not valid JSON, or cut off"),
        ("\xff", "not valid JSON, or cut off"),
        (json.dumps({**GOOD, "parts": [{**PART, "status": "brilliant"}]}), "JSON, but no grades"),
        (json.dumps({**GOOD, "parts": [{**PART, "worth": "much"}]}), "JSON, but no grades"),
        (json.dumps({**GOOD, "parts": [PART, PART]}), "a part is graded twice"),
        ('{"schema": ' + "[" * 1_000_000, "nested too deep to be grades"),
    ],
)
def test_files_that_are_no_grades_are_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "eve.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=f"eve.json: .*(?:{says})"):
        grades.read(file)


def test_a_folder_without_grades_and_a_missing_file_are_named(tmp_path: Path) -> None:
    assert f"{tmp_path}: no .json in this folder" in labcode("grades", tmp_path).stderr
    assert "no.json: no such file" in labcode("grades", tmp_path / "no.json").stderr


def signed(path: Path, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    secret_file = path.parent / "secret"
    secret_file.write_text(secret, encoding="utf-8")
    monkeypatch.setenv(grades.KEY_VARIABLE, str(secret_file))
    grades.write(path, [one("nsys-ex01-idle:a", "failed")], isolated=True)


def test_signed_grades_are_taken_and_changed_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ada.json"
    signed(path, monkeypatch, "0123456789abcdef")
    found = grades.read(path)
    assert found.isolated and len(found.signature) == 64 == len(found.grader)
    path.write_text(path.read_text(encoding="utf-8").replace('"failed"', '"passed"'), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"ada.json: changed after it was signed, or signed with another key"
    ):
        grades.read(path)
    monkeypatch.delenv(grades.KEY_VARIABLE)
    grades.write(path, [one("nsys-ex01-idle:a", "failed")])
    assert grades.read(path).signature == "", "without a key nobody asks for a signature"
    (tmp_path / "secret").write_text("0123456789abcdef", encoding="utf-8")
    monkeypatch.setenv(grades.KEY_VARIABLE, str(tmp_path / "secret"))
    with pytest.raises(InputError, match=r"ada\.json: not signed"):
        grades.read(path)


def test_a_short_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="a key has at least 16 bytes: `openssl rand -hex 32"):
        signed(tmp_path / "ada.json", monkeypatch, "short")


def test_isolated_goes_with_answers(home: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="--isolated goes with --answers FOLDER"):
        run.main(
            [],
            hint=False,
            watch=False,
            reset=None,
            solutions=False,
            isolated=True,
            console=Console(file=io.StringIO()),
            root=home,
        )


def test_links_and_large_files_are_not_read(home: Path, tmp_path: Path) -> None:
    handed = tmp_path / "eve" / IDLE
    handed.parent.mkdir(parents=True)
    handed.symlink_to(home / "solutions" / IDLE)
    assert (
        f"{IDLE} is a link: hand in the file itself" in judge(home, "nsys-ex01a", answers=tmp_path / "eve")[1]
    )
    handed.unlink()
    handed.write_text("#" * (1 << 21), encoding="utf-8")
    assert "larger than 1024 KiB" in judge(home, "nsys-ex01a", answers=tmp_path / "eve")[1]


def test_the_time_for_a_table_grows_with_the_parts(tmp_path: Path) -> None:
    def merged(count: int) -> None:
        parts = [one(f"n{n:05}-ex01-x:a", "passed") for n in range(count)]
        grades.write(tmp_path / "a.json", parts)
        grades.merge([tmp_path / "a.json"], "csv", io.StringIO())

    assert time_growth(merged, 500, 4_000) < 20  # eight times as many
