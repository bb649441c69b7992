import base64
import re

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from docutils import nodes
from matplotlib.figure import Figure

from labcode import book
from labcode.book import display, figures
from labcode.book.sphinx import render
from labcode.figures import lines
from labcode.figures.style import NARROW_IN, current, page_width, style

ALT = "One bar that is taller than the other one."


@pytest.fixture
def shown(monkeypatch):
    bundles = []
    monkeypatch.setattr(display, "show", bundles.append)
    return bundles


class Renderer:
    def write_file(self, path, content, **_):
        return path[0]


def draw() -> Figure:
    figure, axes = plt.subplots(figsize=(3, 2))
    axes.bar([0, 1], [1, 2])
    return figure


def test_a_drawing_is_made_for_light_dark_and_print(shown):
    book.figure(draw, alt=ALT, caption="Two bars")
    content = shown[0][display.FIGURE_MIME]
    assert content["light"].startswith("<?xml")
    assert content["light"] != content["dark"]
    assert base64.b64decode(content["png"]).startswith(b"\x89PNG")
    assert (content["alt"], content["caption"]) == (ALT, "Two bars")
    assert plt.get_fignums() == []  # none is left for the notebook to show again


def test_for_the_web_alone_nothing_is_drawn_for_print(shown, monkeypatch):
    monkeypatch.setenv(display.WEB_ALONE, "1")
    book.figure(draw, alt=ALT)
    assert shown[0]["image/png"] is None
    html, *others = render.figure_nodes(shown[0][display.FIGURE_MIME], Renderer())
    assert html["expr"] == "html" and others == []


def without_ids(svg: str) -> str:
    return re.sub(r"\b[a-zA-Z]+[0-9a-f]{10}\b", "ID", svg)


@pytest.mark.parametrize(
    ("own", "draws"), [(None, 2), ("#123456", 6), ("pixels", 6)], ids=["palette", "own", "pixels"]
)
def test_a_drawing_in_colors_of_the_palette_is_made_once_and_colored(own, draws):
    made = []

    def drawing() -> Figure:
        made.append(1)
        palette = current()
        figure = Figure(figsize=(3, 2))
        axes = figure.add_subplot()
        for at, role in enumerate(palette.fills):
            axes.bar([at], [1], color=palette.fill(role), alpha=0.5)
            axes.text(at, 1, role, color=palette.on(role))
            axes.text(at, 0, role, color=palette.readable(palette.fill(role)))
        if own == "pixels":
            axes.imshow([[1, 2]])
        elif own:
            axes.plot([0, 1], color=own)
        return figure

    content = figures.figure_content(drawing, alt=ALT, caption=None)
    assert len(made) == draws + 1  # and one for print
    for mode in ("light", "dark"):
        with style(mode):
            alone = figures._svg(drawing, lambda _: None)
        assert without_ids(content[mode]) == without_ids(alone.wide)
        assert without_ids(content["narrow"][mode == "dark"]) == without_ids(alone.narrow)


def test_the_same_drawing_gives_the_same_bytes(shown):
    book.figure(draw, alt=ALT)
    book.figure(draw, alt=ALT)
    assert shown[0] == shown[1]


def test_a_figure_drawn_already_is_shown_on_white(shown):
    book.figure(draw(), alt=ALT)
    assert shown[0][display.FIGURE_MIME]["dark"] is None


def test_a_picture_is_compared_with_its_table(shown):
    steps = pd.Series([5.0, 6.0], index=pd.Index([1.0, 2.0], name="step"), name="loop_ms")

    def drawn(unit: str) -> Figure:
        return lines(steps.index, {"loop": steps}, x_label="step", y_label=f"time ({unit})")

    book.figure(lambda: drawn("ms"), alt=ALT, data={"loop": steps})
    assert shown[0][display.FIGURE_MIME]["differs"] == []
    book.figure(lambda: drawn("µs"), alt=ALT, data={"loop": steps})
    (said,) = shown[1][display.FIGURE_MIME]["differs"]
    assert said == "“loop”: along “time (µs)”: point 1 is drawn at 5, the table has 5000 (and 1 more)"
    assert shown[1]["text/plain"].endswith(said)


def test_a_description_is_required():
    with pytest.raises(TypeError, match="alt"):
        book.figure(draw)
    with pytest.raises(ValueError, match="is no description; say what is drawn and what stands out"):
        book.figure(draw, alt="a figure")


def test_a_function_that_returns_no_figure_is_named():
    with pytest.raises(TypeError, match="returned int, not a matplotlib Figure"):
        book.figure(lambda: 3, alt=ALT)


def in_points(svg):
    return tuple(float(re.search(rf'{side}="([\d.]+)pt"', svg)[1]) for side in ("width", "height"))


def test_a_chart_is_drawn_narrower_for_phones_all_its_words_on_it():
    def chart():
        return lines(
            [1, 2, 4], {"eight streams, all at once": [1, 2, 3]}, x_label="streams " * 12, y_label="µs"
        )

    content = figures.figure_content(chart, alt=ALT, caption=None)
    assert [in_points(one)[0] for one in content["narrow"]] == [NARROW_IN * 72] * 2
    assert "rotate(90)" not in content["narrow"][0] and content["narrow"][0] != content["narrow"][1]
    html, *_ = render.figure_nodes(content, Renderer())
    images = [image["classes"] for image in html.findall(nodes.image)]
    assert [("lab-wide" in classes, "lab-narrow" in classes) for classes in images] == [
        (True, False),
        (True, False),
        (False, True),
        (False, True),
    ]


def test_nothing_is_printed_into_a_page_where_a_narrow_chart_has_no_room(recwarn):
    def wordy():
        figure, axes = plt.subplots(figsize=(page_width(), 2), layout="constrained")
        axes.set_yticks([0.5], ["w" * 40])  # wider than a phone
        return figure

    content = figures.figure_content(wordy, alt=ALT, caption=None)
    assert "rotate(90)" in content["narrow"][0]
    assert [str(one.message) for one in recwarn] == []


def test_what_cannot_be_narrower_is_turned_for_phones():
    def sized():  # whatever it is asked for
        return plt.subplots(figsize=(7, 2))[0]

    def crowded():
        figure, axes = plt.subplots(figsize=(page_width(), 2))
        axes.text(0.5, 0.5, "words that are wider than a phone, " * 3, ha="center")
        return figure

    for drawing in (sized, crowded, sized()):
        content = figures.figure_content(drawing, alt=ALT, caption=None)
        wide, high = in_points(content["light"])
        assert in_points(content["narrow"][0]) == (high, wide) and "rotate(90)" in content["narrow"][0]
        assert len(content["narrow"]) == (2 if callable(drawing) else 1)


def test_a_tall_one_is_turned_in_strips_that_cut_no_words():
    figure = Figure(figsize=(7, 6))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.text(0.5, 1 - 3.7 / 6, "here a strip would end", va="center")
    content = figures.figure_content(figure, alt=ALT, caption=None)
    wide, high = in_points(content["narrow"][0])
    assert high == 2 * 7 * 72 and 3 * 72 < wide < 3.7 * 72
    assert content["narrow"][0].count("here a strip") == content["light"].count("here a strip")


def test_a_phones_strips_are_even_and_cut_no_box() -> None:
    def drawing() -> Figure:
        from labcode.figures.diagrams import sketch

        made, axes = sketch.canvas(4.4)
        for top, bottom in ((0.1, 2.6), (2.7, 3.2), (3.6, 4.3)):
            sketch.box(axes, 0.1, 7.0, (top + bottom) / 2, "words", "kernel", height=bottom - top)
        return made

    with style("light"):
        cuts = figures._places_to_cut(drawing())
    assert cuts[0] == 0 and cuts[-1] == pytest.approx(4.4) and len(cuts) == 3
    assert 2.6 <= cuts[1] <= 2.7  # the gap nearest to the middle
