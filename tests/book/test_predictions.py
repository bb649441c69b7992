"""Questions before measurements: every page that measures has one, and it is answered below, never above."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from labcode.book import answers, display
from labcode.book.build import build
from tests.book.check_browser import Browser, complaints, served
from tests.book.check_predictions import check_predictions, given_away, spoilers
from tests.book.test_build import HEADER, REPOSITORY, house, html, write_page  # noqa: F401 - a fixture

pytestmark = pytest.mark.filterwarnings("ignore:.*HandleFootnoteTransform")
BOOK = REPOSITORY / "book"
PARTS = ("foundations", "nsys", "compute", "pytorch", "advanced", "energy", "lm", "scaling", "serving")
MEASURING = [
    page
    for part in PARTS
    for page in sorted((BOOK / part).glob("*.md"))
    if "{captures-used}" in page.read_text(encoding="utf-8")
]
ASKED = re.compile(r"^`{3,}\{predict\} +(\S+)", re.MULTILINE)
ANSWERED = re.compile(r"\bbook\.answer\(\s*\"([^\"]+)\"")
PAGE = (
    HEADER
    + """# A page

```{predict} time
:within: 2
(1) How long does the `copy` take?
```

```{predict} limit
What limits it?

- memory
- arithmetic
```

```{code-cell} python
:tags: [hide-input]
from labcode import book

time = book.record("measuring", "record")["results"]["time_us"]
book.answer("time", time, ".1f", "µs")
book.answer("limit", "memory" if time > 5 else "arithmetic")
```
"""
)


EXERCISES = {
    "kind": "labcode-predictions",
    "schema": 1,
    "predictions": [
        {
            "id": "serving-ex61-a-token:a#fast_ms",
            "page": "serving/decode",
            "title": "serving-ex61a",
            "question": "the time of a token",
            "predicted": [1.0, 1.5],
            "sure_percent": None,
            "at": "2026-01-02T09:00:00+00:00",
            "measured": 1.25,
            "unit": "ms",
            "machine": "",
            "right": True,
            "predicted_by_measured": None,
            "score": 0.41,
        }
    ],
}


@pytest.mark.parametrize(
    "page", MEASURING, ids=lambda page: page.relative_to(BOOK).with_suffix("").as_posix()
)
def test_every_page_that_measures_asks_first_and_answers_below(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    asked = {match[1]: match.start() for match in ASKED.finditer(text)}
    assert asked, "a page that measures asks for a prediction: {predict}"
    answered = {match[1]: match.start() for match in ANSWERED.finditer(text)}
    assert asked.keys() == answered.keys()
    assert all(asked[key] < answered[key] for key in asked)


def _house_with(root: Path, page: str) -> None:
    for name in ("predict.js", "predict.css"):
        shutil.copy(BOOK / "_static" / name, root / "book" / "_static" / name)
    write_page(root, "index", "# A book\n\n```{toctree}\npage\npredictions\n```\n")
    for name in ("claims", "captures"):
        (root / "book" / f"{name}.md").unlink()
    write_page(root, "page", page)
    write_page(root, "predictions", "# Yours\n\n```{all-predictions}\n```\n")


def test_a_question_gets_its_answer_and_both_go_to_the_page_of_all(house, capsys):  # noqa: F811
    _house_with(house, PAGE)
    assert build(None, "html") == 0
    assert capsys.readouterr().err == ""
    page, mine, index = (html(house, name) for name in ("page", "predictions", "index"))
    questions = [
        json.loads(text) for text in re.findall(r'<script type="application/json">(\{"id.*?)</script>', page)
    ]
    assert [(q["id"], q["text"], q["value"], q["shown"], q["within"]) for q in questions] == [
        ("page#time", "How long does the copy take?", 10.0, "10.0\u202fµs", 2.0),
        ("page#limit", "What limits it?", None, "memory", 1.5),
    ]
    assert questions[1]["choices"] == ["memory", "arithmetic"] and questions[0]["machine"] == "H200"
    assert "<details><summary>What was measured</summary><p><b>10.0\u202fµs</b> (H200)</p>" in page
    assert "predict.js" in page and "predict.css" in page and "predict.js" not in index
    listed = json.loads(re.findall(r'<script type="application/json">(\[.*?)</script>', mine)[0])
    assert [(q["id"], q["link"], q["title"]) for q in listed] == [
        ("page#time", "page.html#predict-time", "A page"),
        ("page#limit", "page.html#predict-limit", "A page"),
    ]
    assert spoilers(page) == [] and "measured, time" not in page

    # a question changes: the page of all is written anew, though it is not read again
    write_page(house, "page", PAGE.replace("What limits it?", "What holds it up?"))
    assert build(None, "html") == 0
    assert "What holds it up?" in html(house, "predictions")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"memory" if', '"the disk" if', "'the disk' is none of its choices"),
        ('book.answer("limit", "memory" if time > 5 else "arithmetic")', "", "no cell below answers it"),
        (
            '"limit", "memory" if time > 5 else "arithmetic"',
            '"limit", 3.0',
            "a number, and the question has choices",
        ),
        ("{predict} limit", "{predict} time", "two questions of this page have the key 'time'"),
        ('answer("time"', 'answer("tiem"', "no question above asks it"),
        (":within: 2", ":within: 1", "a factor is above 1"),
    ],
)
def test_what_does_not_fit_is_told(house, capsys, before, after, said):  # noqa: F811
    _house_with(house, PAGE.replace(before, after))
    build(None, "html")
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), None])
def test_an_answer_is_a_choice_or_a_number_above_zero(value: object) -> None:
    with pytest.raises(ValueError, match="neither a choice nor a number above zero"):
        answers.answer("key", value)


def test_a_share_is_answered_in_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict] = []
    monkeypatch.setattr(display, "show", shown.append)
    answers.answer("idle", 0.4321, ".0%")
    content = shown[0][display.ANSWER_MIME]
    assert (content["value"], content["unit"], content["shown"]) == (43.21, "%", "43\u202f%")


@pytest.mark.parametrize(
    ("text", "value", "unit", "told"),
    [
        ("it is 2.03 times as long", 2.03, "×", True),
        ("a tile of 2 × 3 elements", 2.0, "×", False),
        ("it takes 1,234\u202fµs", 1230.0, "µs", True),
        ("it takes 1,234\u202fms", 1230.0, "µs", False),
        ("43 % of it", 43.2, "%", True),
        ("33 % of it", 43.2, "%", False),
        ("step 43", 43.0, "", True),
    ],
)
def test_a_number_above_its_question_is_found(text: str, value: float, unit: str, told: bool) -> None:
    question = {"value": value, "unit": unit, "shown": "", "choices": []}
    assert bool(given_away(text, question)) is told


def test_the_one_choice_that_is_named_above_is_found() -> None:
    question = {"value": None, "shown": "the copies", "choices": ["the copies", "the kernels"]}
    assert given_away("In the end it was the copies.", question)
    assert not given_away("Is it the copies or the kernels?", question)
    box = '<div class="lab-predict"><script type="application/json">%s</script>Which?</div>'
    asked = box % json.dumps({"id": "a#b", **question})
    assert spoilers(f'<article><img alt="Bars: the copies are long">{asked}</article>')
    assert not spoilers(f"<article>{asked}<p>It was the copies.</p></article>")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the script")
def test_the_script_judges_and_sums_up(tmp_path: Path) -> None:
    number = {"value": 2.0, "within": 1.5, "shown": "2.0×"}
    choice = {"value": None, "shown": "memory"}
    rows = [
        {"part": "nsys", "right": False, "off": 4.0, "sure": 90, "score": None},
        {"part": "nsys", "right": False, "off": 0.5, "sure": 90, "score": None},
        {"part": "lm", "right": True, "off": None, "sure": 90, "score": None},
        {"part": "lm", "right": True, "off": 1.0, "sure": 50, "score": None},
        {"part": "lm", "right": True, "off": None, "sure": None, "score": 0.5},
    ]
    cases = {"judged": [[number, 3], [number, 1.3], [choice, "memory"], [choice, "links"]], "rows": rows}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    words = ["node", Path(__file__).with_name("predict_check.js"), BOOK / "_static" / "predict.js"]
    done = subprocess.run([*words, tmp_path / "cases.json"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert [one["right"] for one in found["judged"]] == [True, False, True, False]
    assert [one["off"] for one in found["judged"]] == [1.5, 0.65, None, None]
    told = found["summary"]
    assert (told["all"]["count"], told["all"]["right"], told["factor"]) == (5, 3, 2.0)
    assert (told["all"]["asked"], told["all"]["sure"], told["score"]) == (4, 0.8, 0.5)
    assert (told["high"], told["low"]) == (1, 1)
    assert found["verdicts"] == ["too few to say", "overconfident by 57 points"]
    assert [(one["key"], one["count"], one["right"]) for one in told["byPart"]] == [
        ("nsys", 2, 0),
        ("lm", 3, 3),
    ]


def test_in_a_browser_a_prediction_is_kept_and_can_be_forgotten(house, tab: Browser):  # noqa: F811
    _house_with(house, PAGE)
    assert build(None, "html") == 0
    with served(house / "_build" / "html") as address:
        tab.size(390)
        assert check_predictions(tab, address, "page.html", "predictions.html") == []
        assert complaints(tab.events, address) == []
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth") is True
        tab.open(f"{address}/page.html")  # a choice, by the keyboard's own way: a radio button and Enter
        tab.evaluate(
            "(() => { const box = document.querySelector('#predict-limit');"
            "box.querySelector('input[value=arithmetic]').click();"
            "box.querySelector('form').requestSubmit(); })()"
        )
        assert "✗ not right" in tab.evaluate("document.querySelector('#predict-limit output').innerText")
        assert tab.evaluate("document.activeElement.tagName") == "OUTPUT"

        tab.open(f"{address}/predictions.html")  # an exercise's predictions, from a file
        for text in (json.dumps(EXERCISES), "[]"):
            tab.evaluate(
                "(() => { const input = document.querySelector('input[type=file]');"
                "const given = new DataTransfer();"
                f"given.items.add(new File([{json.dumps(text)}], 'mine.json')); input.files = given.files;"
                "input.dispatchEvent(new Event('change')); })()"
            )
            told = "document.querySelector('.lab-predictions output').textContent"
            says = "mine.json: no file of predictions." if text == "[]" else "1 predictions added."
            until = time.monotonic() + 60
            while tab.evaluate(told) != says and time.monotonic() < until:
                time.sleep(0.02)
            assert tab.evaluate(told) == says
        shown = tab.evaluate("document.querySelector('.lab-predictions').innerText")
        assert "1 of 2 right" in shown and "1 to 1.5\u202fms" in shown and "within, score 0.41" in shown
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth") is True
