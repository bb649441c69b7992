"""Slides of a page: what is on them and in which order, in a browser, and what they cannot be made of."""

import re
import shutil
from pathlib import Path

import pytest

from labcode.book import slides
from labcode.book.build import build
from labcode.errors import InputError, LabError
from tests.book.check_browser import browser, complaints, find_browser, new_tab
from tests.book.test_build import HEADER, REPOSITORY, house, write_page  # noqa: F401 - a fixture
from tests.support.command import labcode

pytestmark = pytest.mark.filterwarnings("ignore:.*HandleFootnoteTransform")
PAGE = (
    HEADER
    + """# Is the `copy` fast?

A question. {spec}`1` thing.

```{captures-used} measuring
```

## Measure

It is measured. See [the claims](claims.md) and [a host](https://host.example).

A second paragraph is for the notes.

:::{admonition} Predict first
:class: tip
How fast?
:::

```{code-cell} python
:tags: [hide-input]
import matplotlib.pyplot as plt
from labcode import book

time = book.record("measuring", "record")["results"]["time_us"]
book.claim("the `copy` is fast", time, at_most=12, unit="µs", fmt=".1f")
book.figure(plt.figure, alt="An empty figure that stands for a measurement.", caption="What it took")
```

```python
print("as it stands")
```

What comes of it?

:::{dropdown} Answer
That it is fast.
:::

## Read more

Elsewhere.
"""
)


@pytest.fixture
def deck(house: Path) -> Path:  # noqa: F811
    write_page(house, "page", PAGE)
    assert build(None, "html") == 0
    result = labcode("slides", "book/page.md", "-o", house / "deck.html")
    assert (result.returncode, result.stdout) == (0, f"{house / 'deck.html'}: 7 slides\n"), result.stderr
    return house / "deck.html"


def test_a_page_becomes_slides_that_need_nothing_else(deck: Path) -> None:
    _shows_what_it_should(deck)
    if find_browser() is not None:
        _turns_in_a_browser(deck)


def _shows_what_it_should(deck: Path) -> None:
    text = deck.read_text(encoding="utf-8")
    shown = re.findall(r'<section class="slide ?(\w*)"[^>]*>(.*?)<footer>', text, re.DOTALL)
    title, lead, predict, claim, figure, code, answer = (body for _, body in shown)
    assert [kind for kind, _ in shown] == ["title", "", "predict", "", "", "", ""]
    assert "A question." in title and "4 × NVIDIA H200" in title
    assert "It is measured. See <span" in lead and 'href="https://host.example"' in lead
    assert '<aside class="notes"><p>A second paragraph' in lead
    assert "How fast?" in predict and "10.0" not in title + lead + predict
    assert "10.0\u202fµs" in claim and "at most 12.0" in claim
    assert figure.count("<img") == 1 and "data:image/svg+xml;base64," in figure and "What it took" in figure
    assert "as it stands" in code and "import matplotlib" not in text
    assert "What comes of it?" in answer and "That it is fast." in answer
    assert "Elsewhere" not in text and "Read more" not in text
    own = re.findall(r'(?:src|href)="(?!data:|https://host\.example)([^"]*)"', text)
    assert own == [] and "url(" not in text and "@import" not in text


def _turns_in_a_browser(deck: Path) -> None:
    """Keys turn the slides, on wide and narrow screens; paper has them all."""
    visible = "(s) => getComputedStyle(s).display !== 'none'"
    now = f"[...document.querySelectorAll('.slide')].filter({visible}).map((s) => s.id).join()"

    def press(key: str) -> str:
        for kind in ("keyDown", "keyUp"):
            tab.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else "")
        return str(tab.evaluate(now))

    with browser(find_browser() or "") as chromium, new_tab(chromium) as tab:
        for width, height in ((1280, 720), (390, 700)):
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            tab.call("Emulation.setDeviceMetricsOverride", **size)
            tab.call("Emulation.setEmulatedMedia", media="screen")
            tab.open(f"file://{deck}#s1")
            assert [press(key) for key in ("ArrowRight", " ", "ArrowLeft", "ArrowUp", "ArrowUp")] == [
                *("s2", "s3", "s2", "s1", "s1")
            ]
            assert [press(key) for key in ("End", "PageDown", "Home", "PageDown")] == ["s7", "s7", "s1", "s2"]
            notes = "getComputedStyle(document.querySelector('.now .notes')).display"
            assert [press("n") and tab.evaluate(notes) for _ in range(2)] == ["block", "none"]
            assert tab.evaluate("location.hash") == "#s2"
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth") is True
            tab.call("Emulation.setEmulatedMedia", media="print")
            assert tab.evaluate(now) == "s1,s2,s3,s4,s5,s6,s7"
        assert complaints(tab.events, "file:") == []
        pages = tab.call("Page.printToPDF", preferCSSPageSize=True)["data"]
        assert pages


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built book with one page, written by hand."""
    monkeypatch.setenv("LABCODE_HOME", str(tmp_path))
    folder = tmp_path / "_build" / "html"
    (folder / "nsys").mkdir(parents=True)
    (folder / "index.html").touch()
    (folder / "nsys" / "loop.html").write_text(
        '<article class="bd-article"><section><h1>A loop</h1><p>Why?</p><img src="x.svg"></section></article>'
    )
    return folder


def test_what_slides_cannot_be_made_of_is_named(built: Path, tmp_path: Path) -> None:
    output = tmp_path / "deck.html"
    with pytest.raises(LabError, match=r"nsys/lop: no page of the built book; did you mean nsys/loop\?"):
        slides.write("nsys/lop", output)
    with pytest.raises(LabError, match=r"deck\.pdf: slides are an \.html file"):
        slides.write("nsys/loop", tmp_path / "deck.pdf")
    with pytest.raises(InputError, match=r"loop\.html: its picture x\.svg is missing; build the book again"):
        slides.write("nsys/loop", output)
    (built / "nsys" / "loop.html").write_text("<p>nothing</p>")
    with pytest.raises(InputError, match=r"loop\.html: no page of the book; build it again"):
        slides.write("nsys/loop", output)
    with pytest.raises(LabError, match="is the input itself"):
        (built / "nsys" / "loop.html").write_text(
            '<article class="bd-article"><section><h1>A</h1><p>B.</p></section></article>'
        )
        slides.write("nsys/loop", built / "nsys" / "loop.html")
    shutil.rmtree(built)
    with pytest.raises(LabError, match="no book here; clone the book's repository and run this there"):
        slides.write("nsys/loop", output)
    (tmp_path / "book").mkdir()
    with pytest.raises(LabError, match="the book is not built; `nox -s book` builds it"):
        slides.write("nsys/loop", output)
    assert not output.exists()
    assert (REPOSITORY / "labcode" / "book" / "slides.css").is_file()
