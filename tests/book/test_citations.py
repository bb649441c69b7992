"""Labels of citations: an entry of the bibliography in, what a reader sees in brackets out."""

from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pybtex.database import BibliographyData, parse_file, parse_string
from sphinxcontrib.bibtex.style.referencing import format_references
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle
from sphinxcontrib.bibtex.style.template import SphinxReferenceInfo

from labcode.book.sphinx.citations import STYLE, ListStyle, ShortTitleReferenceStyle
from tests.book.cells import PAGES

BIBLIOGRAPHY = PAGES / "references.bib"


def label(key: str, entries: BibliographyData, style: AuthorYearReferenceStyle, role: str = "p") -> str:
    nowhere: Any = mock.create_autospec(SphinxReferenceInfo, instance=True, pre_text="", post_text="")
    return str(format_references(style, role, [(entries.entries[key], nowhere, nowhere)]))


def clashes(entries: BibliographyData, style: AuthorYearReferenceStyle) -> list[list[str]]:
    """Keys of entries that read alike."""
    by_label = defaultdict(list)
    for key in entries.entries:
        by_label[label(key, entries, style)].append(key)
    return [keys for keys in by_label.values() if len(keys) > 1]


def test_no_two_sources_of_the_book_read_alike() -> None:
    entries = parse_file(str(BIBLIOGRAPHY))
    assert clashes(entries, ShortTitleReferenceStyle()) == []
    assert len(clashes(entries, AuthorYearReferenceStyle())) > 1  # by author and year they would


@pytest.mark.parametrize(
    ("role", "text"), [("p", "[NVIDIA, NCCL, 2025]"), ("t", "NVIDIA [NCCL, 2025]")], ids=["brackets", "text"]
)
def test_labels(role: str, text: str) -> None:
    entries = parse_string(
        "@misc{nccl, author={{NVIDIA}}, title={NCCL Documentation}, shorttitle={NCCL}, year={2025}}", "bibtex"
    )
    assert label("nccl", entries, ShortTitleReferenceStyle(), role) == text


def test_the_list_has_the_labels_that_pages_cite_by() -> None:
    entries = parse_file(str(BIBLIOGRAPHY))
    labels = {one.key: one.label for one in ListStyle().format_bibliography(entries)}
    cited = {key: label(key, entries, ShortTitleReferenceStyle()) for key in entries.entries}
    as_shown = {key: text.replace("<nbsp>", " ") for key, text in cited.items()}
    assert {key: f"[{text}]" for key, text in labels.items()} == as_shown


def test_the_book_uses_them() -> None:
    text = (Path(__file__).parents[2] / "conf.py").read_text(encoding="utf-8")
    assert f'bibtex_default_style = bibtex_reference_style = "{STYLE}"' in text
