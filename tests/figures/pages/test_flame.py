"""The flame graph: its boxes, its figure, its other formats, and the page in a browser."""

import json
import re

import pandas as pd
import pytest

from labcode.errors import LabError
from labcode.figures.pages import flame
from labcode.figures.pages.interactive import bokeh_script
from labcode.figures.style import render
from tests.book.check_browser import complaints
from tests.figures.pages.conftest import Opened

OWN, PACKAGE, STANDARD = "load (labcode/a.py)", "sort (site-packages/numpy/b.py)", "run (lib/python3.12/c.py)"
HOSTILE = '</script><img src=x onerror="window.broken=1"> (a.py)'


def folded(*rows: tuple[str, int]) -> pd.DataFrame:
    """A profile from lines as of folded text."""
    table = pd.DataFrame({"stack": [tuple(text.split(";")) for text, _ in rows]})
    return table.assign(count=[count for _, count in rows], weight=[float(count) for _, count in rows])


SMALL = folded(("main;a;b", 6), ("main;c", 3), ("main", 1), ("other;b", 2))


def test_boxes_stand_below_their_caller_the_heavier_first() -> None:
    boxes = flame.tree(SMALL)
    found = list(
        zip(boxes.label, boxes.depth, boxes.left, boxes.weight, boxes.own, boxes.parent, strict=True)
    )
    assert found == [
        ("main", 0, 0, 10, 1, -1),
        ("other", 0, 10, 2, 0, -1),
        ("a", 1, 0, 6, 0, 0),
        ("c", 1, 6, 3, 3, 0),
        ("b", 1, 10, 2, 2, 1),
        ("b", 2, 0, 6, 6, 2),
    ]
    assert boxes.total == 12


def test_an_empty_profile_is_named() -> None:
    for empty in (SMALL.iloc[:0], SMALL.assign(weight=0.0)):
        with pytest.raises(LabError, match="no samples to draw; choose another thread or window"):
            flame.tree(empty)


def test_a_stack_a_thousand_deep() -> None:
    deep = folded((";".join(f"f{i}" for i in range(1000)), 1))
    assert len(flame.tree(deep).label) == 1000
    assert b"f39" in render(lambda: flame.flame(deep)) and b"f40" not in render(lambda: flame.flame(deep))


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        (OWN, "own"),
        ("load (a.py:12)", "own"),
        (PACKAGE, "library"),
        (STANDARD, "python"),
        ("<module> (<frozen runpy>)", "python"),
        ("at::add(Tensor const&)", "native"),
        ("poll", "native"),
        ("[libc.so.6]", "unnamed"),
    ],
)
def test_whose_code_a_frame_is(label: str, kind: str) -> None:
    assert flame.origin(label) == kind


def test_the_figure_names_wide_boxes_and_explains_its_colors() -> None:
    wide = folded((f"{STANDARD};{OWN};{PACKAGE}", 90), (f"{STANDARD};tiny (labcode/a.py)", 1))
    picture = render(lambda: flame.flame(wide, title="Loading"), "dark").decode()
    for text in (OWN, PACKAGE, "Loading", "91 samples", "a package", "the program's own code"):
        assert f">{text}" in picture.replace("&#x27;", "'"), text
    assert "tiny" not in picture
    longer = wide.assign(weight=wide["weight"] * 1e6)
    assert "91.0 ms" in render(lambda: flame.flame(longer, unit="ns")).decode()


def test_folded_text_and_speedscope() -> None:
    odd = folded(("main;b", 2))
    odd.at[0, "stack"] = ("main", "a;b\nc")
    assert flame.flame_text(odd) == "main;a:b c 2\n"
    document = json.loads(flame.speedscope(SMALL, name="loader", unit="ns"))
    (profile,) = document["profiles"]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert [names[i] for i in profile["samples"][0]] == ["main", "a", "b"]
    assert profile["weights"] == [6, 3, 1, 2] and profile["endValue"] == 12
    assert profile["unit"] == "nanoseconds"


def test_shares_count_a_stack_once() -> None:
    assert flame.shares(folded(("f;g;f", 1), ("h", 3)), "F") == "25%"
    assert flame.shares(SMALL.iloc[:0], "f") == "0%"


def test_too_many_boxes_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flame, "MOST_BOXES", 5)
    with pytest.raises(LabError, match="6 boxes are too many for a page"):
        flame.flame_page(SMALL)


# ---- in a browser

RANGE = "[labFlame.plot.x_range.start, labFlame.plot.x_range.end]"


def test_a_click_zooms_and_the_buttons_zoom_out(opened: Opened) -> None:
    tab = opened(flame.flame_page(SMALL))
    assert tab.settled("labFlame.shown.data.left.length") == 6
    tab.evaluate("labTap(7, 1.5)")
    assert tab.settled(RANGE) == [6, 9]
    assert "c: 3 samples, 25.0%" in tab.evaluate("document.getElementById('view').textContent")
    tab.evaluate("document.getElementById('up').click()")
    assert tab.settled(RANGE) == [0, 10]
    tab.evaluate("document.getElementById('fit').click()")
    assert tab.settled(RANGE) == [0, 12]
    assert complaints(tab.events, "file:") == []


def test_search_tells_the_share_of_samples_that_pass_through(opened: Opened) -> None:
    tab = opened(flame.flame_page(folded(("main;b;b", 6), ("main;c", 3), ("other;b", 1))))
    tab.evaluate(
        "document.getElementById('search').value = 'B';"
        "document.getElementById('search').dispatchEvent(new Event('input'))"
    )
    assert tab.settled("document.getElementById('found').textContent") == "70.0% in 3 boxes"
    tab.evaluate("labTap(0.5, 0.5)")
    assert tab.settled("document.getElementById('found').textContent") == "66.7% in 2 boxes"


def test_keys_walk_zoom_and_tell(opened: Opened) -> None:
    tab = opened(flame.flame_page(SMALL))
    for name in ("ArrowDown", "ArrowDown", "ArrowRight"):
        tab.key(name)
    assert tab.settled("document.getElementById('told').textContent").startswith("c; 3 samples, 25.0% of all")
    tab.key("Enter")
    assert tab.settled(RANGE) == [6, 9]
    tab.key("0")
    assert tab.settled(RANGE) == [0, 12]


def test_a_narrow_screen_and_hostile_names(opened: Opened) -> None:
    tab = opened(flame.flame_page(folded((f"{HOSTILE};b", 1)), title=HOSTILE), 390)
    tab.evaluate("labHover([0])")
    assert HOSTILE in tab.settled("document.getElementById('tip').textContent")
    assert tab.evaluate("window.broken") is None
    assert tab.evaluate("document.documentElement.scrollWidth <= 390") is True
    theme = tab.evaluate("document.documentElement.dataset.theme")
    tab.evaluate("document.getElementById('theme').click()")
    assert tab.settled("document.documentElement.dataset.theme") != theme
    assert complaints(tab.events, "file:") == []


def test_the_page_asks_the_network_for_nothing() -> None:
    page = flame.flame_page(SMALL)
    own = page.replace(bokeh_script(), "")
    assert not re.search(r"https?:|src=", own)


def test_a_title_of_a_file_whose_name_is_no_utf8() -> None:
    title = f"b\udcffd: {'x' * 5_000}"
    picture = render(lambda: flame.flame(folded(("a;b", 3)), title=title)).decode()
    assert "b\\udcffd: xxx" in picture and "x" * 500 not in picture
