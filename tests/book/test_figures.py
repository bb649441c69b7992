import base64

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from matplotlib.figure import Figure

from labcode import book
from labcode.book import display
from labcode.book.sphinx import render
from labcode.figures import lines

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
    modes = []
    book.figure(lambda mode: modes.append(mode) or draw(), alt=ALT)
    assert modes == ["light", "dark"] and shown[0]["image/png"] is None
    html, *others = render.figure_nodes(shown[0][display.FIGURE_MIME], Renderer())
    assert html["expr"] == "html" and others == []


def test_the_same_drawing_gives_the_same_bytes(shown):
    book.figure(draw, alt=ALT)
    book.figure(draw, alt=ALT)
    assert shown[0] == shown[1]


def test_a_drawing_may_take_the_mode(shown):
    modes = []

    def with_mode(mode):
        modes.append(mode)
        return draw()

    book.figure(with_mode, alt=ALT)
    assert modes == ["light", "dark", "print"]


def test_default_arguments_are_not_taken_for_the_mode(shown):
    def with_default(size=(3, 2)):
        assert size == (3, 2)
        return draw()

    book.figure(with_default, alt=ALT)
    assert shown[0][display.FIGURE_MIME]["dark"]


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
