"""Pages that were changed are executed before Sphinx asks for it, and come out as they would without."""

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("myst_nb")

from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig

from labcode.book.build import _same, build
from labcode.book.sphinx import ahead
from labcode.errors import LabError
from tests.book import test_build
from tests.book.test_build import HEADER, PAGE, html, write_page

REPOSITORY = Path(__file__).parents[2]
house = test_build.house
pytestmark = test_build.pytestmark

ODD = (
    HEADER
    + """# A page

````
```{code-cell}
shown = "no cell"
```
````

```{code-cell} python
---
tags: [hide-input]
---

first = 1


```

:::{admonition} Note
```{code-cell}
inside = "another directive"
```
:::

```{code-cell}
:tags: [hide-input]
:label: two

second = {
    ":tags:": 2,
}
```

``` {code-cell}
fourth = 4
```

```python
shown = "no cell either"
```

~~~{code-cell}
third = '''
```
'''
~~~

```{code-cell}
```
"""
)


def test_the_cells_of_a_page_are_those_that_are_executed() -> None:
    paths = sorted((REPOSITORY / "book").rglob("*.md"))[::9]
    texts = [ODD, *(path.read_text(encoding="utf-8") for path in paths)]
    for text in texts:
        read = read_myst_markdown_notebook(text, MdParserConfig(enable_extensions={"colon_fence"}))
        assert ahead.code_cells(text) == [cell.source for cell in read.cells if cell.cell_type == "code"]
    assert ahead.code_cells(ODD)[1].startswith("second")


def test_changed_are_pages_with_other_cells_than_were_executed(tmp_path: Path) -> None:
    pages, executed = tmp_path / "book", tmp_path / "executed"
    (pages / "part").mkdir(parents=True)
    page, notebook = pages / "part" / "page.md", executed / "part" / "page.ipynb"
    (pages / "text.md").write_text("no cells", encoding="utf-8")
    page.write_text("```{code-cell}\nx = 1\n```\n", encoding="utf-8")
    assert list(ahead.changed(pages, executed)) == []  # nothing was ever built
    notebook.parent.mkdir(parents=True)
    assert list(ahead.changed(pages, executed)) == [(page, ["x = 1"])]  # a new page
    for content, found in (
        (
            '{"cells": [{"cell_type": "markdown"}, {"cell_type": "code", "source": ["x =", " 1"]}]}',
            0,
        ),
        ('{"cells": [{"cell_type": "code", "source": ["x = 2"]}]}', 1),
        ('{"cells": []}', 1),
        ('{"cells', 0),  # who damages it has Sphinx execute the page
        ("[]", 0),
    ):
        notebook.write_text(content, encoding="utf-8")
        os.utime(notebook, (0, 0))
        assert len(list(ahead.changed(pages, executed))) == found, content
    notebook.write_text('{"cells": []}', encoding="utf-8")
    os.utime(page, (0, 0))
    assert list(ahead.changed(pages, executed)) == []  # was read since


@pytest.fixture
def elsewhere(house: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A book that was built, and from now on fails if this process executes a page."""
    assert build(None, "html", update_claims=True) == 0
    monkeypatch.setattr("nbclient.NotebookClient", None)
    return house


def test_a_changed_page_is_executed_ahead_and_kept(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = """
```{code-cell} python
import matplotlib.pyplot as plt

def drawing(mode):
    fig, axes = plt.subplots()
    axes.set_title(f"A {mode} picture")
    return fig

print("said")
book.figure(drawing, alt="A frame without anything in it", caption="Nothing.")
"""
    changed = PAGE.replace("at_most=12", "at_most=11") + figure + "```\n"
    monkeypatch.setattr("os.cpu_count", lambda: 2)  # a core is to spare
    write_page(elsewhere, "page", changed)
    assert build(None, "html") == 0
    page = html(elsewhere, "page")
    assert "at most 11.0\u202fµs" in page and ">said\n" in page
    assert len(list((elsewhere / "_build/html/_images").glob("*.svg"))) == 2
    assert capsys.readouterr().err == ""

    monkeypatch.setattr(ahead, "MOST", 0)
    write_page(elsewhere, "page", changed + "\nMore text.\n")
    assert build(None, "html") == 0  # what came of the cells was kept
    assert "More text." in html(elsewhere, "page")


def test_a_cell_that_fails_ahead_is_shown_and_named(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_page(elsewhere, "page", PAGE.replace("book.value(", "1 / 0\nbook.value("))
    for _ in range(2):
        with pytest.raises(LabError, match=r"book/page\.md: a cell of this page failed"):
            build(None, "html")
        error = capsys.readouterr().err
        assert "ZeroDivisionError: division by zero" in error and "1 / 0" in error


def test_where_executing_ahead_gives_nothing_pages_are_executed_as_ever(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(None, "html") == 0
    monkeypatch.setattr(ahead, "__file__", os.devnull)
    write_page(house, "page", PAGE.replace("at_most=12", "at_most=11"))
    assert build(None, "html") == 0
    assert "at most 11.0\u202fµs" in html(house, "page")


def test_what_still_runs_at_the_end_of_the_block_is_ended(house: Path) -> None:
    executed, noted = house / "executed", house / "noted"
    executed.mkdir()
    (house / "_build").mkdir()
    cell = f"import os, time\nopen({str(noted)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    write_page(house, "page", f"```{{code-cell}}\n{cell}\n```\n")
    limit = time.monotonic() + 60
    with ahead.begun(house, house / "book", executed) as runs:
        (run,) = runs.values()
        while not noted.exists() or not noted.read_text():
            assert time.monotonic() < limit and run.process.poll() is None
            time.sleep(0.01)
    assert run.process.returncode is not None
    while Path(f"/proc/{noted.read_text()}").exists():
        assert time.monotonic() < limit, "the kernel still runs"
        time.sleep(0.01)


def test_many_changed_pages_are_left_to_sphinx(house: Path) -> None:
    (house / "executed").mkdir()
    for number in range(ahead.MOST + 1):
        write_page(house, f"page{number}", "```{code-cell}\nx = 1\n```\n")
    (house / "book/page.md").unlink()
    with ahead.begun(house, house / "book", house / "executed") as runs:
        assert runs == {}


def test_a_copy_is_one_of_the_same_size_and_time_or_content(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("ab")
    other.write_text("ba")
    os.utime(one, (9, 9))
    os.utime(other, (8, 8))
    assert not _same(one, other)
    os.utime(other, (9, 9))
    assert _same(one, other)  # Sphinx copied it, and its time
    os.utime(one, (0, 0))
    os.utime(other, (0, 0))
    assert not _same(one, other)  # both came out of an archive
    one.write_text("ba")
    assert _same(one, other)
