"""The text of pages as notebooks show it."""

import re
from pathlib import Path

import pytest

from labcode.book import notebook_text
from labcode.book.sphinx import publishing
from labcode.errors import InputError

BOOK = Path(__file__).parents[2] / "book"
REFERENCES = """@misc{one, author = {{NVIDIA}}, shorttitle = {A Guide}, title = {A Guide to {CUDA}},
  year = {2025}, url = {https://example.org}}
"""


def shown(text, tmp_path, **more):
    folder = tmp_path / "book"
    folder.mkdir(exist_ok=True)
    (folder / "references.bib").write_text(REFERENCES)
    (folder / "other.md").write_text("# Another `page`\n\n```{code-cell} python\n```\n")
    (folder / "plain.md").write_text("# No cells\n")
    page = notebook_text.Page(folder / "page.md", folder, "h200", **more)
    return page, notebook_text.plain(page, text)


def test_a_question_is_quoted_with_its_choices_and_its_answer_folded(tmp_path):
    text = (
        ":::{admonition} Predict first\n:class: tip\nGuess {glue:text}`n`.\n\n```{predict} late\n:within: 2\n"
        "(1) Which of them?\n\n- the {seen}`copy`\n- both\n```\n:::\n"
    )
    _, made = shown(text, tmp_path, values={"n": "17"}, answers={"late": ("both", "H200")})
    assert made == (
        "> **Predict first**\n>\n> Guess 17.\n>\n> > **Predict**\n> >\n> > (1) Which of them?\n> >\n"
        "> > - the `copy`\n> > - both\n> >\n> > <details><summary>What was measured</summary>\n> >\n"
        "> > **both** (H200)\n> >\n> > </details>"
    )
    assert "measured" not in shown(text, tmp_path)[1]  # a notebook without answers


def test_names_links_and_citations_in_plain_words(tmp_path):
    text = (
        "(here)=\n{spec}`4 GB`, {term}`warps <warp>`, {seen}`a copy <Memcpy>`, {math}`L`, `{code}`, "
        "{cite}`one` and\n"
        "{cite:t}`one`, [`it`](other.md#x), [](other.md), [all](plain.md#y), [up](#here), "
        "[away](https://a.b)"
    )
    page, made = shown(text, tmp_path)
    assert made == (
        "4 GB, warps, a copy, $L$, `{code}`, (NVIDIA, A Guide, 2025) and\nNVIDIA, A Guide (2025), "
        "[`it`](other.ipynb), [Another `page`](other.ipynb), all, up, [away](https://a.b)"
    )
    assert notebook_text.sources(page) == (
        "## Sources\n\n- NVIDIA, A Guide: *A Guide to CUDA*, 2025, <https://example.org>"
    )
    assert "[all](https://book/plain.html#y)" in shown(text, tmp_path, published="https://book/")[1]


def test_sources_tables_and_folds(tmp_path):
    (tmp_path / "x.cuh").write_text("a\n  b|\n  c\n")
    text = (
        ':::{dropdown} Its *source*\n```{literalinclude} ../x.cuh\n:language: cuda\n:start-at: "b|"\n'
        ":end-before: c\n:dedent:\n```\n:::\n\n:::{list-table}\n:header-rows: 1\n\n* - A\n  - B\n* - 1\n"
        "  - `a|b`\n    more\n:::\n\n```python\n{glue:text}`stays`\n```\n"
    )
    assert shown(text, tmp_path)[1] == (
        "<details><summary>Its *source*</summary>\n\n`x.cuh`:\n\n```cpp\nb|\n```\n\n</details>\n\n"
        "| A | B |\n| --- | --- |\n| 1 | `a\\|b` more |\n\n```python\n{glue:text}`stays`\n```"
    )


def test_a_directive_that_notebooks_cannot_show_is_named(tmp_path):
    with pytest.raises(InputError, match=r"page\.md: notebooks cannot show the directive 'puzzle'"):
        shown("```{puzzle}\n```", tmp_path)


def test_notebooks_can_show_what_pages_with_cells_say():
    unknown = []
    for path in sorted(BOOK.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if "{code-cell}" in text:
            found = set(re.findall(r"^ *[`:]{3,} *\{([\w:-]+)\}", text, re.MULTILINE))
            unknown += [(path.name, name) for name in found - notebook_text.SHOWN - {"code-cell"}]
    assert unknown == []


def test_pages_on_this_copy_are_linked_where_they_are_published(tmp_path):
    pages = [BOOK / f"{name}.md" for name in publishing.OF_THIS_COPY]
    assert all("{code-cell}" in page.read_text(encoding="utf-8") for page in pages)
    page = notebook_text.Page(BOOK / "index.md", BOOK, "h200", published="https://book/")
    made = notebook_text.plain(page, "[it](reference/licenses.md), [that](nsys/patterns.md)")
    assert made == "[it](https://book/reference/licenses.html), [that](nsys/patterns.ipynb)"
