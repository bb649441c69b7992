"""How long pages take: what counts and what does not, and that no page takes longer than one may."""

from pathlib import Path

import pytest

from labcode.book import reading

BOOK = Path(__file__).parents[2] / "book"
LOOKED_UP = {"reference/glossary", "guides/where-topics-live"}  # nobody reads them from end to end
HEADER = "---\nfile_format: mystnb\n---\n"


@pytest.fixture
def minutes(tmp_path):
    """How long a page of a text takes."""

    def taken(text):
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return reading.minutes(page)

    return taken


def cell(tags: str, *lines: str) -> str:
    return "\n".join(["```{code-cell} ipython3", *([f":tags: [{tags}]"] if tags else []), *lines, "```\n"])


def test_prose_is_read_at_its_pace(minutes):
    assert minutes("word " * 440) == pytest.approx(2.0)
    assert minutes(HEADER + ":::{admonition} Predict\n" + "word " * 220 + "\n:::\n") == pytest.approx(1.0)
    assert minutes(":::{dropdown} More\n" + "word " * 220 + "\n```c\nx\n```\n:::\n") == 0


def test_code_counts_where_it_is_shown(minutes, tmp_path):
    assert minutes(cell("", *["x = 1"] * 15)) == pytest.approx(1.0)
    assert minutes(cell("hide-input", *["x = 1"] * 15)) == 0
    assert minutes("```shell\n" + "ls\n" * 15 + "```\n") == pytest.approx(1.0)
    assert minutes("```{captures-used} a\n```\n```{toctree}\na\nb\n```\n") == 0
    (tmp_path / "program.py").write_text("a = 1\n\n# from here\n" + "b = 2\n" * 30, encoding="utf-8")
    part = '```{literalinclude} program.py\n:start-after: "# from here"\n:dedent: 4\n```\n'
    assert minutes(part) == pytest.approx(2.0)


def test_figures_tables_and_open_checks_count(minutes):
    assert minutes(cell("hide-input", "book.figure(f)", "book.table(t)")) == pytest.approx(50 / 60)
    assert minutes(cell("hide-input", *["book.claim(c)"] * 3)) == pytest.approx(0.5)
    assert minutes(cell("hide-input", *["book.claim(c)"] * 30)) == pytest.approx(80 / 60)


def test_no_page_takes_longer_than_one_may():
    pages = {path.relative_to(BOOK).with_suffix("").as_posix(): path for path in BOOK.rglob("*.md")}
    taken = {name: reading.minutes(path) for name, path in pages.items()}
    assert len(taken) > 60
    most = reading.LONGEST
    long = {name: round(took, 1) for name, took in taken.items() if took > most and name not in LOOKED_UP}
    assert long == {}
