"""Openings of pages: each is shown by its page, before the page's first question, and its words fit."""

import re
from pathlib import Path

import pytest

from labcode.book.figures import words_have_room
from labcode.figures.diagrams.openings import (
    LEFT,
    NARROW_ROOM_IN,
    NARROW_UNIT_IN,
    OPENINGS,
    RIGHT,
    _wrapped,
    opening,
)
from labcode.figures.style import NARROW_IN, TEXT_PT, figure_bytes, narrow, style, width_in
from tests.figures.reading import assert_readable

BOOK = Path(__file__).parents[3] / "book"
SHOWN = re.compile(r'opening\("([\w/-]+)"\)')


def test_every_page_shows_its_own_and_every_one_is_shown():
    shown = {
        path.relative_to(BOOK).with_suffix("").as_posix(): found
        for path in BOOK.rglob("*.md")
        if (found := SHOWN.findall(path.read_text(encoding="utf-8")))
    }
    assert shown == {page: [page] for page in OPENINGS}


@pytest.mark.parametrize("page", OPENINGS)
def test_words_fit_and_boxes_stay_inside(page):
    unit = (RIGHT - LEFT - 0.1) / 10
    for label, boxes in OPENINGS[page]:
        assert width_in(label, TEXT_PT) < LEFT - 0.12, label
        for start, end, words, *_ in boxes:
            assert 0 <= start < end <= 10
            assert not words or width_in(words) < (end - start) * unit - 0.06, words
    with style("light"):
        drawn = opening(page)
        assert drawn.get_size_inches()[1] < 2
        assert_readable(drawn)


@pytest.mark.parametrize("page", OPENINGS)
def test_on_phones_words_keep_their_size_and_fit(page):
    for _, boxes in OPENINGS[page]:
        for start, end, words, *_ in map(_wrapped, boxes):
            lines = words.split("\n")
            assert len(lines) <= 2 and max(map(width_in, lines)) <= NARROW_UNIT_IN * (end - start) - (
                NARROW_ROOM_IN if words else 0
            ), words
    with style("light"), narrow():
        drawn = opening(page)
        assert drawn.get_size_inches()[0] == NARROW_IN
        figure_bytes(drawn)  # which lays it out
        assert words_have_room(drawn)
        assert_readable(drawn)


@pytest.mark.parametrize("page", OPENINGS)
def test_no_question_stands_above_it(page):
    text = (BOOK / f"{page}.md").read_text(encoding="utf-8")
    before = text[: text.index(f'opening("{page}")')]
    assert "Predict first" not in before and not re.search(r"(?m)^## ", before)
