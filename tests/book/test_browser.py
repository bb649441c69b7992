"""Pages in a browser, where there is one: what `check_browser` finds, and that it finds it."""

import random
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from labcode.book.figures import figure_content
from labcode.figures import bars
from tests.book.check_browser import browser, check, find_browser, new_tab
from tests.book.check_layout import check_sidebar
from tests.book.check_weight import MOST, MOST_BEFORE

pytestmark = pytest.mark.skipif(find_browser() is None, reason="needs Chromium")
BOOK = Path(__file__).parents[2] / "book"
PAGE = """<!doctype html><html><head><title>A page</title><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width">
<script>
const dark = matchMedia('(prefers-color-scheme: dark)');
dark.onchange = () => { document.documentElement.dataset.theme = dark.matches ? 'dark' : 'light'; };
dark.onchange();
</script>
</head><body><main><h1>A page</h1>BODY</main></body></html>"""


def complaints(folder: Path, body: str) -> str:
    (folder / "page.html").write_text(PAGE.replace("BODY", body), encoding="utf-8")
    return "\n".join(check(folder))


def test_a_sound_page_gives_no_complaint(tmp_path):
    wide = '<div style="overflow-x: auto"><div style="width: 3000px">wide, but in a frame</div></div>'
    assert complaints(tmp_path, f'<p id="a"><a href="#a">here</a></p>{wide}') == ""


CURRENT = '<a class="current" href="#">this page</a>'


@pytest.mark.parametrize(
    ("first", "own", "said"),
    [
        ("<details>", "<details open>" + CURRENT, ""),
        ("<details open>", "<details open>" + CURRENT, "index.html: of 2 parts in the sidebar 1 are open"),
        (
            "<details>",
            "<details>" + CURRENT,
            "page.html: the sidebar does not show the pages of its own part",
        ),
        ("<details>", "<details open>", "page.html: the sidebar does not show the pages of its own part"),
        (
            "<details onclick='return false'>",
            "<details open>" + CURRENT,
            "page.html: a click on another part in the sidebar does not show its pages",
        ),
    ],
    ids=["sound", "open on the front page", "own part folded", "page not marked", "does not unfold"],
)
def test_how_the_sidebar_folds_is_seen(tmp_path, first, own, said):
    def write(name: str, *parts: str) -> None:
        listed = "".join(f'{part}<summary>A part</summary><a href="a.html">a</a></details>' for part in parts)
        body = f'<nav class="bd-links">{listed}</nav>'
        (tmp_path / name).write_text(PAGE.replace("BODY", body), encoding="utf-8")

    write("index.html", first, "<details>")
    write("page.html", "<details>" if " open" in first else first, own)
    with browser(find_browser()) as chromium, new_tab(chromium) as tab:
        found = check_sidebar(tab, tmp_path.as_uri(), "page.html")
    assert "\n".join(found).startswith(said) and bool(found) == bool(said)


def test_what_is_wrong_is_found(tmp_path):
    (tmp_path / "picture.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', encoding="utf-8"
    )
    found = complaints(
        tmp_path,
        """<script>console.error('it broke')</script><script>nosuch()</script>
        <img src="http://other.invalid/a.png" alt="elsewhere">
        <img src="missing.png" alt="gone"><img src="picture.svg">
        <p id="a">one</p><p id="a">two</p><a href="#nowhere">there</a>
        <div style="width: 600px">wide</div>""",
    )
    for text in (
        "console error: it broke (light 1280)",
        "nosuch is not defined",
        "request to another host: http://other.invalid/a.png",
        "404 for http://127.0.0.1",
        "broken image missing.png",
        "image without a description picture.svg",
        "doubled id a",
        "link to a place that is not there: #nowhere",
        "scrolls sideways to 608: div “wide” (light 390, dark 390)",
    ):
        assert text in found


def test_a_theme_that_stays_a_heavy_page_and_a_bad_print_are_found(tmp_path):
    (tmp_path / "heavy.png").write_bytes(bytes(MOST))
    noise = random.Random(0).randbytes(MOST_BEFORE).hex()  # compresses to half
    found = complaints(
        tmp_path,
        f"""<script>dark.onchange = null</script><h3>far below</h3><!-- {noise} -->
        <img src="heavy.png" alt="nothing that could be drawn">""",
    )
    for text in (
        "theme ignored (dark 1280, dark 390)",
        "loads 3.56 MB before it is used (light 1280)",
        "kB before anything is seen (light 1280)",
        "on paper a level of headings is left out (paper 1280)",
    ):
        assert text in found


def picture(folder: Path, width: int) -> None:
    words = '<text style="font: 8px sans-serif" y="9">small</text>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 80">{words}</svg>'
    (folder / "drawn.svg").write_text(svg, encoding="utf-8")


@pytest.mark.parametrize(
    ("above", "claims", "drawn", "said"),
    [
        (0, 8, 400, []),
        (900, 8, 400, ["its first picture begins at "]),
        (0, 9, 400, ["shows 9 claims"]),
        (0, 8, 700, ["type of 6.9 pixels in drawn.svg"]),
    ],
)
def test_late_pictures_many_claims_and_small_type_are_found(tmp_path, above, claims, drawn, said):
    picture(tmp_path, drawn)
    image = '<img src="drawn.svg" alt="A drawing with small type" style="width: 600px">'
    boxes = '<div class="lab-claim">It holds.</div>' * claims
    more = '<details><summary>1 check</summary><div class="lab-claim">It holds.</div></details>'
    body = f'<div style="height: {above}px"></div><div style="overflow-x: auto">{image}</div>{boxes}{more}'
    found = complaints(tmp_path, body)
    assert [text for text in said if text not in found] == [] and (said != []) == (found != "")


def test_a_figure_that_a_phone_shows_in_part_small_or_twice_is_found(tmp_path):
    picture(tmp_path, 340)
    image = '<img src="drawn.svg" alt="A drawing" style="width: WIDTHpx">'
    frame = f'<div class="lab-figure-frame" style="overflow-x: auto">{image}</div>'
    found = complaints(tmp_path, frame.replace("WIDTH", "700") + frame.replace("WIDTH", "300"))
    assert "shows drawn.svg of 700 pixels in" in found and "type of 7.1 pixels in drawn.svg" in found
    twice = frame.replace(image, image + image).replace("WIDTH", "340")
    assert "shows 2 copies of drawn.svg" in complaints(tmp_path, twice)


def test_figures_are_seen_whole_on_phones_and_their_type_is_legible(tmp_path):
    def table():  # of a fixed width, and taller than a phone is wide
        figure = Figure(figsize=(7.5, 5))
        figure.text(0.1, 0.9, "a row", fontsize=8)
        figure.text(0.1, 0.1, "another row", fontsize=8)
        return figure

    frames = ""
    for number, drawing in enumerate([lambda: bars(["one", "two"], [1, 2], unit="µs"), table, table()]):
        content = figure_content(drawing, alt="Something that is drawn here.", caption=None)
        every = (content["light"], content["dark"], *content["narrow"])
        themes = ["only-light", "only-dark"] if content["dark"] else ["lab-figure-on-white"]
        classes = [f"{theme} {form}" for form in ("lab-wide", "lab-narrow") for theme in themes]
        images = ""
        for place, (svg, said) in enumerate(zip(filter(None, every), classes, strict=True)):
            (tmp_path / f"{number}-{place}.svg").write_text(svg, encoding="utf-8")
            images += f'<img class="{said}" src="{number}-{place}.svg" alt="Something">'
        frames += f'<figure class="lab-figure"><div class="lab-figure-frame">{images}</div></figure>'
    dark, light = "html[data-theme=light] .only-dark", "html[data-theme=dark] .only-light"
    style = (BOOK / "_static" / "custom.css").read_text(encoding="utf-8")
    style += f"{dark}, {light} {{ display: none !important }}"
    assert complaints(tmp_path, f"<style>{style}</style>{frames}") == ""
