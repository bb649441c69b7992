"""Predictions of exercises and of pages: one form of file, which the command and the page write and read."""

import json
import shutil
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from labcode.errors import LabError
from labcode.grading import catalogue, predictions
from labcode.grading.predictions import Prediction
from labcode.grading.progress import PartProgress
from labcode.grading.records import Predicted
from tests.exercises.support import ROOT, part

PAGE = Prediction(
    "nsys/a#time",
    "nsys/a",
    "A",
    "How long?",
    3.0,
    70,
    "2026-01-02T10:00:00.000Z",
    2.0,
    "µs",
    "H200",
    True,
    1.5,
    None,
)
CHOICE = replace(PAGE, id="nsys/a#limit", predicted="links", measured="memory", unit="", right=False)
CHOICE = replace(CHOICE, predicted_by_measured=None)


def kept() -> dict[str, PartProgress]:
    exercise, found = part("serving-ex61a")
    first = Predicted("fast_ms", "the time", 1.0, 1.5, 1.25, "ms", True, 0.415, "2026-01-02T09:00:00+00:00")
    second = replace(first, key="batch", low=2.0, high=3.0, measured=1.5, unit="", right=False, score=0.0)
    return {exercise.part_id(found): PartProgress(tries=1, score=0.2075, predictions=(first, second))}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found = predictions.of_exercises(kept(), catalogue.EXERCISES)
    assert [one.id for one in found] == [f"serving-ex61-a-token:a#{key}" for key in ("fast_ms", "batch")]
    assert found[0].page == "serving/decode" and found[0].predicted == [1.0, 1.5]
    predictions.write(tmp_path / "x.json", [*found, PAGE, CHOICE])
    assert predictions.read(tmp_path / "x.json") == [*found, PAGE, CHOICE]


def test_what_is_said_of_both() -> None:
    found = [*predictions.of_exercises(kept(), catalogue.EXERCISES), PAGE, CHOICE]
    first, *each = predictions.lines(found)
    assert first == (
        "4 predictions (2 of exercises, 2 of pages); 2 right; intervals score 0.21 of 1 on average; "
        "where you said how sure you are, 70 % on average, 50 % are right"
    )
    assert (
        each[0]
        == "✔ serving-ex61a How long must a token take?: the time: 1 to 1.5 ms, measured 1.25 ms, score 0.41"
    )
    assert each[2:] == [
        "✔ A: How long?: 3 µs, measured 2 µs (H200), 70 % sure",
        "✘ A: How long?: links, measured memory (H200), 70 % sure",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "x.json: not a JSON file"),
        ("[]", "x.json: no file of predictions; `labcode exercises --export`, or"),
        ('{"kind": "labcode-predictions", "schema": 2, "predictions": []}', "schema 2, and this lab reads 1"),
        (
            '{"kind": "labcode-predictions", "schema": 1, "predictions": [1]}',
            "prediction 1: should be a JSON",
        ),
        ({"right": 1}, "prediction 1: right should be true or false"),
        ({"predicted": [3, 2]}, "prediction 1: predicted should be a number, a text or two numbers in order"),
        ({"score": float("nan")}, "prediction 1: score should be a number or null"),
        ({"page": None}, "prediction 1: page should be a text"),
    ],
)
def test_what_is_no_file_of_predictions(tmp_path: Path, text: Any, says: str) -> None:
    if isinstance(text, dict):
        text = json.dumps({"kind": "labcode-predictions", "schema": 1, "predictions": [asdict(PAGE) | text]})
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(LabError) as refused:
        predictions.read(tmp_path / "x.json")
    assert says in str(refused.value)


def test_a_file_that_is_not_there_or_lacks_a_member(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"x\.json: no such file"):
        predictions.read(tmp_path / "x.json")
    predictions.write(tmp_path / "x.json", [PAGE])
    text = (tmp_path / "x.json").read_text(encoding="utf-8").replace('"unit"', '"unti"')
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match="prediction 1: unit is missing"):
        predictions.read(tmp_path / "x.json")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the script")
def test_the_page_reads_what_the_command_writes_and_the_other_way_round(tmp_path: Path) -> None:
    """In the script of the page of one's own predictions, without a browser."""
    own = predictions.of_exercises(kept(), catalogue.EXERCISES)
    predictions.write(tmp_path / "own.json", [*own, PAGE, replace(PAGE, id="nsys/gone#x")])
    asked: dict[str, Any] = {"text": "How long?", "shown": "2.0 µs", "machine": "H200", "within": 2.0}
    asked |= {"title": "A", "part": "Nsight Systems", "link": "a.html#predict-time"}
    questions = [
        asked | {"id": PAGE.id, "value": 2.0, "unit": "µs"},
        asked | {"id": CHOICE.id, "value": None, "shown": "memory", "unit": ""},
        asked
        | {"id": "serving/decode#x", "value": 1.0, "unit": "", "part": "Serving", "link": "d.html#predict-x"},
    ]
    mine = {CHOICE.id: {"given": "links", "sure": 70, "at": CHOICE.at}}
    files = [
        (tmp_path / "own.json").read_text(encoding="utf-8"),
        "{",
        "[]",
        '{"kind": "labcode-predictions"}',
    ]
    files += [
        files[0].replace('"schema": 1', '"schema": 2'),
        files[0].replace('"right": true', '"right": 1', 1),
    ]
    cases = {"judged": [], "rows": [], "kept": mine, "questions": questions, "files": files}
    (tmp_path / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    words = ["node", ROOT / "tests/book/predict_check.js", ROOT / "book/_static/predict.js"]
    done = subprocess.run([*words, tmp_path / "cases.json"], capture_output=True, text=True, check=True)
    found, *bad = json.loads(done.stdout)["files"]
    assert (found["added"], found["known"], found["unknown"]) == (3, 0, 1)
    assert found["all"][CHOICE.id] == mine[CHOICE.id] and found["all"][PAGE.id]["given"] == 3.0
    assert found["parts"] == ["Nsight Systems", "Nsight Systems", "Serving", "Serving"]
    assert found["links"][2:] == ["d.html", "d.html"]
    (tmp_path / "again.json").write_text(found["again"], encoding="utf-8")
    assert predictions.read(tmp_path / "again.json") == [PAGE, CHOICE, *own]
    assert [one["error"] for one in bad] == [
        "not a JSON file",
        "no file of predictions",
        "no file of predictions",
        "schema 2, and this page reads 1",
        "prediction 1: right should be true or false",
    ]
