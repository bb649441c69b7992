"""Drawings of terms: each belongs to an entry of the glossary, is small, and its words can be read."""

import re
from pathlib import Path

import pytest

from labcode.figures import render
from labcode.figures.diagrams.terms import DRAWINGS, term_drawing
from labcode.figures.style import NARROW_IN
from tests.figures.reading import assert_readable

GLOSSARY = Path(__file__).parents[3] / "book" / "reference" / "glossary.md"
MOST = 8192  # bytes of one on a page
ONCE = list({drawing.paint: term for term, drawing in DRAWINGS.items()}.values())


def test_every_drawing_has_its_entry():
    entries = set(re.findall(r"(?m)^[^\s`:].*$", GLOSSARY.read_text(encoding="utf-8").split("{glossary}")[1]))
    assert len(ONCE) >= 20
    assert DRAWINGS.keys() - entries == set()


@pytest.mark.parametrize("term", ONCE)
def test_drawings_are_small_and_readable(term):
    drawn = term_drawing(term)
    assert drawn.get_figwidth() == NARROW_IN and drawn.get_figheight() < 1.5
    assert_readable(drawn)
    assert len(render(lambda: term_drawing(term), "dark")) <= MOST
    assert len(DRAWINGS[term].alt) >= 20
