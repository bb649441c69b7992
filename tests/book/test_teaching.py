"""Syllabi, the exercise bank and links to exercises: what they compute, and what fails the build."""

from pathlib import Path

import pytest

from labcode.book.build import build
from labcode.book.sphinx import roles, teaching
from labcode.grading import catalogue
from labcode.grading.records import KINDS
from tests.book.test_build import house, html, text_of, write_page  # noqa: F401 - a fixture
from tests.exercises.support import WITHOUT_GPU, part

pytestmark = pytest.mark.filterwarnings("ignore:.*HandleFootnoteTransform")
INDEX = "# A book\n\n```{toctree}\npage\nclaims\ncaptures\nreference/captures\n```\n"
ALL = "# All captures\n\n```{all-captures}\n```\n"
SYLLABUS = """# Teach

Solve {exercise}`nsys-ex01a`, look at {capture}`measuring/record`.

```{syllabus}
:minutes: 100
First | claims captures | nsys-ex01a lm-ex02
Second | claims |
```
"""


def test_times_are_those_of_the_page_and_of_the_exercise(tmp_path: Path) -> None:
    page, times = tmp_path / "page.md", []
    for count in (1, 1100, 1101, 5500):
        page.write_text("word " * count, encoding="utf-8")
        times.append(teaching.reading_minutes(page))
    assert times == [5, 5, 10, 25]
    exercise, first = part("nsys-ex01a")
    assert teaching.solving_minutes(exercise, None) == exercise.minutes
    assert teaching.solving_minutes(exercise, first) == exercise.minutes // 3


def test_every_exercise_is_in_the_bank_once_by_difficulty() -> None:
    rows = list(teaching.by_stars(catalogue.EXERCISES))
    named = [row[0][0].astext() for row in rows if len(row) > 1]
    assert sorted(named) == sorted(exercise.short for exercise in catalogue.EXERCISES)
    groups = [row[0][0].astext() for row in rows if len(row) == 1]
    counted = [int(text.split(": ")[1].split(" ")[0]) for text in groups]
    assert groups[0].startswith("★: ") and sum(counted) == len(named)


def test_every_kind_is_counted() -> None:
    rows = [[cell[0].astext() for cell in row] for row in teaching.by_kinds(catalogue.EXERCISES)]
    assert [row[0] for row in rows] == [*KINDS.values(), "All"]
    *each, whole = [[int(row[place]) for place in (1, 2, 4)] for row in rows]
    assert [sum(column) for column in zip(*each, strict=True)] == whole
    assert whole[0] == len(catalogue.EXERCISES)


def test_every_part_is_in_the_bank_once_by_need() -> None:
    rows = list(teaching.by_needs(catalogue.EXERCISES))
    assert rows[0][0][0].astext() == "nothing"
    parts = [[link.astext() for link in row[1] if isinstance(link, roles.place_link)] for row in rows]
    assert parts[0] == WITHOUT_GPU
    assert sum(map(len, parts)) == sum(len(exercise.parts) for exercise in catalogue.EXERCISES)
    assert "2 GPUs and PyTorch" in [row[0][0].astext() for row in rows]


def test_every_exercise_says_what_it_teaches() -> None:
    for exercise in catalogue.EXERCISES:
        assert exercise.outcome and exercise.outcome[0].islower() and exercise.outcome[-1] != ".", exercise.id


def test_a_syllabus_adds_up_and_links(house: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    (house / "book" / "reference").mkdir()
    write_page(house, "index", INDEX)
    write_page(house, "reference/captures", ALL)
    write_page(house, "page", SYLLABUS)
    assert build(None, "html") == 0
    assert capsys.readouterr().err == ""
    page, (exercise, _), (other, _) = html(house, "page"), part("nsys-ex01a"), part("lm-ex02a")
    minutes = 10 + exercise.minutes // 3 + other.minutes
    assert f"First All claims; Captures nsys-ex01a, lm-ex02 {minutes}" in text_of(page)
    assert f"{exercise.outcome}; {other.outcome}" in text_of(page)
    assert f"{minutes + 5} minutes in all; {95 - minutes} are left" in text_of(page)
    assert 'href="reference/captures.html#capture-h200-measuring"' in page
    assert 'id="capture-h200-measuring"' in html(house, "reference/captures")
    write_page(house, "index", INDEX.replace("claims\n", "claims\nnsys/timeline-basics\n"))
    (house / "book" / "nsys").mkdir()
    write_page(house, exercise.chapter, f"# Timeline\n\n```{{exercise-card}} {exercise.id}\n```\n")
    write_page(house, "page", SYLLABUS + "\n")
    assert build(None, "html") == 0
    assert html(house, "page").count(f'href="{exercise.chapter}.html#exercise-{exercise.id}"') == 2


def test_what_is_renamed_or_too_long_fails_the_build(
    house: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    tables = (
        ":minutes: 4\nA | claims |",
        ":each: 4\nB | claims |",
        "C | nsys/gone |",
        "D | | nsys-ex99",
        "E",
    )
    blocks = [f"```{{syllabus}}\n{table}\n```\n" for table in tables]
    write_page(
        house,
        "page",
        "# Teach\n\n{exercise}`nsys-ex98` {capture}`gone` {capture}`measuring/gone`\n\n"
        "```{exercise-bank} size\n```\n\n" + "\n".join(blocks),
    )
    assert build(None, "html") == 0
    said = capsys.readouterr().err
    for line in (
        "no exercise 'nsys-ex98'",
        "no experiment 'gone' in this set",
        "measuring/gone: no such run; measuring has record",
        "exercise-bank: say stars, kinds or needs",
        "all sessions: 5 minutes, and there are 4",
        "B: 5 minutes, and there are 4",
        "C: nsys/gone is no page of the book",
        "D: no exercise 'nsys-ex99'",
        "'E': a session is “title | pages | exercises”",
    ):
        assert line in said
