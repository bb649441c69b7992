"""How long pages take: what counts and what does not, and that no page takes longer than one may."""

from pathlib import Path

import pytest

from labcode.book.reading import LONGEST, minutes

BOOK = Path(__file__).parents[2] / "book"
LOOKED_UP = {"reference/glossary", "guides/where-topics-live"}  # nobody reads them from end to end
HEADER = "---\nfile_format: mystnb\n---\n"


def cell(tags: str, *lines: str) -> str:
    return "\n".join(["```{code-cell} ipython3", *([f":tags: [{tags}]"] if tags else []), *lines, "```\n"])


def test_prose_is_read_at_its_pace():
    assert minutes("word " * 440) == pytest.approx(2.0)
    assert minutes(HEADER + ":::{admonition} Predict\n" + "word " * 220 + "\n:::\n") == pytest.approx(1.0)


def test_code_counts_where_it_is_shown():
    assert minutes(cell("", *["x = 1"] * 15)) == pytest.approx(1.0)
    assert minutes(cell("hide-input", *["x = 1"] * 15)) == 0
    assert minutes("```shell\n" + "ls\n" * 15 + "```\n") == pytest.approx(1.0)
    assert minutes("```{captures-used} a\n```\n```{toctree}\na\nb\n```\n") == 0


def test_figures_tables_and_open_checks_count():
    assert minutes(cell("hide-input", "book.figure(f)", "book.table(t)")) == pytest.approx(50 / 60)
    assert minutes(cell("hide-input", *["book.claim(c)"] * 3)) == pytest.approx(0.5)
    assert minutes(cell("hide-input", *["book.claim(c)"] * 30)) == pytest.approx(80 / 60)


def test_no_page_takes_longer_than_one_may():
    pages = {path.relative_to(BOOK).with_suffix("").as_posix(): path for path in BOOK.rglob("*.md")}
    taken = {name: minutes(path.read_text(encoding="utf-8")) for name, path in pages.items()}
    assert len(taken) > 60
    long = {name: round(took, 1) for name, took in taken.items() if took > LONGEST and name not in LOOKED_UP}
    assert long == {}
