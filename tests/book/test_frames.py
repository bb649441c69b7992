"""Interactive pages in the book: what a cell shows, the file beside the page, that it outlives builds."""

import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

pytest.importorskip("bokeh")

from labcode import book
from labcode.book import display
from labcode.book.build import build
from labcode.book.sphinx import framing
from labcode.figures.pages.interactive import assemble, bokeh_script
from tests.book.check_browser import Browser, complaints, served
from tests.book.test_build import HEADER, INDEX, REPOSITORY, house, html, write_page

__all__ = ["house"]
pytestmark = pytest.mark.filterwarnings("ignore:.*HandleFootnoteTransform")
ALT = "Two bars, the second one twice as high."
TIMELINES = {
    "index",
    "lm/timing",
    "nsys/kernel-overlap",
    "nsys/memory-timeline",
    "nsys/multi-gpu",
    "nsys/patterns",
    "nsys/timeline-basics",
    "serving/bottlenecks",
}
PAGE = (
    HEADER
    + """# A page

```{code-cell} python
import matplotlib.pyplot as plt
import pandas as pd

from labcode import book
from labcode.figures.pages.flame import flame_page

folded = pd.DataFrame({"stack": [("main", "load")], "count": [3], "weight": [3.0]})
book.interactive(
    lambda: flame_page(folded, title="Loading"),
    name="loading",
    title="The \\"loading\\" of files",
    fallback=lambda: plt.figure(),
    alt="An empty figure that stands for a flame graph.",
    caption="Where `load` stands",
)
```

It is {seen}`load` that takes the time, {seen}`all of it <main>`, in {seen}`that picture <main @ loading>`.
"""
)


def draw() -> Figure:
    figure, axes = plt.subplots(figsize=(3, 2))
    axes.bar([0, 1], [1, 2])
    return figure


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    bundles: list[dict[str, Any]] = []
    monkeypatch.setattr(display, "show", bundles.append)
    return bundles


def show(**changes: Any) -> None:
    arguments: dict[str, Any] = {"name": "page", "title": "A page", "fallback": draw, "alt": ALT}
    book.interactive(lambda: assemble("flame", "A page", {"x": 1}), **arguments | changes)


def test_an_output_holds_the_page_without_bokeh_and_gives_it_back(
    shown: list[dict[str, Any]], tmp_path: Path
) -> None:
    show()
    (bundle,) = shown
    content = bundle[display.INTERACTIVE_MIME]
    assert len(content["page"]) < 40_000 < len(bokeh_script())
    assert content["figure"]["alt"] == ALT and bundle["image/png"] == content["figure"]["png"]
    name = framing.write_page(tmp_path / "made", content)
    assert re.fullmatch(r"page-[0-9a-f]{12}\.html", name)
    page = (tmp_path / "made" / name).read_text(encoding="utf-8")
    (script,) = re.findall(r'<script src="(bokeh-[0-9a-f]{12}\.js)"></script>', page)
    assert (tmp_path / "made" / script).read_text(encoding="utf-8") == bokeh_script()
    assert len(list((tmp_path / "made").iterdir())) == 2
    assert framing.write_page(tmp_path / "made", content) == name


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "../x"}, r"name='../x': use lower-case letters, digits and -"),
        ({"height": 10}, "height=10: choose 200 to 1200 pixels"),
        ({"alt": "A page."}, "is no description"),
    ],
)
def test_what_cannot_be_shown_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        show(**changes)


def test_a_page_of_the_book_shows_it_also_when_nothing_is_executed_again(house: Path) -> None:
    (house / "book" / "part").mkdir()
    write_page(house, "index", INDEX.replace("page\n", "part/page\n"))
    (house / "book" / "page.md").unlink()
    write_page(house, "part/page", PAGE)
    assert build(None, "html") == 0
    text = html(house, "part/page")
    (address,) = set(re.findall(r'(?:src|href)="(\.\./_interactive/loading-[0-9a-f]{12}\.html)"', text))
    out = house / "_build" / "html"
    file = (out / "part" / address).resolve()
    assert file.is_file() and len(list(file.parent.glob("bokeh-*.js"))) == 1
    assert 'data-title="The &quot;loading&quot; of files"' in text and "<iframe" not in text
    assert '<span class="lab-seen" data-find="load"><code' in text and 'data-find="main">all of it<' in text
    assert 'data-name="loading"' in text and 'data-find="main" data-frame="loading">that picture<' in text
    assert "lab-interactive-still" in text and "An empty figure that stands" in text

    # incremental: another page changes, this one is neither executed nor written
    write_page(house, "claims", "# All claims, again\n")
    assert build(None, "html") == 0
    assert file.is_file()

    # the built pages are thrown away: written anew from what Sphinx knows
    shutil.rmtree(out)
    assert build(None, "html") == 0
    assert file.is_file()

    # what Sphinx knows is thrown away too: the page comes out of the cache of executed pages
    shutil.rmtree(out)
    shutil.rmtree(house / "_build" / "doctrees")
    shutil.rmtree(house / "_build" / "jupyter_execute", ignore_errors=True)
    assert build(None, "html") == 0
    assert file.is_file() and address in html(house, "part/page")


def test_timelines_open_at_what_the_text_is_about_and_words_light_up_in_them() -> None:
    pages = [page for page in (REPOSITORY / "book").rglob("*.md") if "interactive_page(" in page.read_text()]
    names = [page.relative_to(REPOSITORY / "book").with_suffix("").as_posix() for page in pages]
    texts = {name: page.read_text() for name, page in zip(names, pages, strict=True)}
    assert set(names) >= TIMELINES
    silent = [name for name, text in texts.items() if "{seen}`" not in text]
    assert silent == [], "nothing in the text lights up in the timeline: {seen}`words <name>`"
    asked = {name: re.findall(r"interactive_page\((.*)\)", text) for name, text in texts.items()}
    whole = [name for name in TIMELINES for call in asked[name] if not re.search("view=|window=", call)]
    assert whole == [], "say at what the timeline opens"
    for name, text in texts.items():
        frames = re.findall(r"{seen}`[^`]* @ ([^>`]+)>`", text)
        drawn = re.findall(r'name=f?"([a-z0-9-]+)', text)
        assert all(any(frame.startswith(one) for one in drawn) for frame in frames), (name, frames)


def test_in_a_browser_the_frame_opens_when_asked_for_and_follows_the_page(house: Path, tab: Browser) -> None:
    write_page(house, "page", PAGE)
    shutil.copytree(REPOSITORY / "book" / "_static", house / "book" / "_static", dirs_exist_ok=True)
    assert build(None, "html") == 0
    inside = "document.querySelector('iframe').contentDocument?.documentElement"
    still = "getComputedStyle(document.querySelector('.lab-interactive-still .lab-figure-frame')).display"
    with served(house / "_build" / "html") as address:
        for width in (390, 1280):
            tab.size(width)
            tab.call("Emulation.setEmulatedMedia", media="screen")
            tab.open(f"{address}/page.html")
            assert tab.evaluate("document.querySelector('iframe')") is None and tab.evaluate(still) == "block"
            opener = ".lab-interactive button" if width == 390 else "[data-find=load]"
            tab.evaluate(f"document.querySelector('{opener}').click()")
            tab.wait(f"{inside}?.dataset.ready === 'true'")
            for theme in ("dark", "light"):
                tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
                tab.wait(f"{inside}.dataset.theme === '{theme}'")
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth") is True
            assert tab.evaluate(f"{inside}.scrollWidth <= {inside}.clientWidth") is True
            assert tab.evaluate(still) == "none"
            tab.call("Emulation.setEmulatedMedia", media="print")
            assert tab.evaluate(still) == "block"
        assert complaints(tab.events, address) == []
