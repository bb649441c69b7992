import json
from dataclasses import replace
from pathlib import Path

import pytest

from labcode.grading import progress
from labcode.grading.progress import FILE_NAME, PartProgress, graded, hinted, load, save
from labcode.grading.records import Predicted


def test_nothing_yet(tmp_path: Path) -> None:
    assert load(tmp_path) == ({}, "")


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    done = graded({}, "x:a", False, "")
    done = graded(done, "x:a", True, "abc")
    done = hinted(done, "x:b", 2)
    assert save(tmp_path, done) == ""
    assert load(tmp_path) == (
        {"x:a": PartProgress(True, 2, 0, "abc"), "x:b": PartProgress(False, 0, 2, "")},
        "",
    )
    assert [p.name for p in tmp_path.iterdir()] == [FILE_NAME]


def test_of_predictions_the_first_are_kept(tmp_path: Path) -> None:
    one = Predicted("k", "how long", 1.0, 2.0, 1.5, "ms", True, 0.5, "2026-01-02T03:04:05+00:00")
    done = graded({}, "x:a", True, "abc", score=0.5, predictions=(one,))
    done = graded(done, "x:a", True, "abc", score=0.9, predictions=(replace(one, low=1.4),))
    save(tmp_path, done)
    assert load(tmp_path)[0]["x:a"].predictions == (one,)


def test_a_part_that_passed_once_stays_passed() -> None:
    done = graded(graded({}, "x:a", True, "abc"), "x:a", False, "def")
    assert done["x:a"] == PartProgress(True, 2, 0, "abc")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": 2, "parts": {}}',
        '{"schema": 1}',
        '{"schema": 1, "parts": {"x:a": {"passed": "yes", "tries": 1, "hints": 0, "passed_sha256": ""}}}',
        '{"schema": 1, "parts": {"x:a": {"predictions": [{"key": "k"}]}}}',
        '{"schema": 1, "parts": {"x:a": {"predictions": [{"key": "k", "asks": "", "low": "1", "high": 2.0, '
        '"measured": 1.0, "unit": "", "right": true, "score": 0.5}]}}}',
        "\x00\x01",
    ],
)
def test_a_damaged_file_is_moved_aside(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    done, line = load(tmp_path)
    assert done == {}
    assert line == f"{FILE_NAME} was damaged: it is now {FILE_NAME}.bak, and progress starts afresh"
    assert (tmp_path / f"{FILE_NAME}.bak").read_text() == text
    assert load(tmp_path) == ({}, "")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"\xff\xfe\x80")
    assert "was damaged" in load(tmp_path)[1]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    line = save(tmp_path / "missing", {})
    assert line == f"{FILE_NAME} cannot be written (No such file or directory); progress is not kept"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, graded({}, "x:a", True, "abc"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress.json, "dump", full)
    assert "No space left on device" in save(tmp_path, {})
    monkeypatch.undo()
    assert load(tmp_path)[0]["x:a"].passed
    assert [p.name for p in tmp_path.iterdir()] == [FILE_NAME]


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    save(tmp_path, graded({}, "x:a", True, "abc"))
    assert json.loads((tmp_path / FILE_NAME).read_text())["parts"]["x:a"]["tries"] == 1
