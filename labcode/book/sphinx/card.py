"""The picture that links to the book show: its title in; a PNG of the size that such pictures have out.

The bars stand for no measurement: a loop that waits, and the same without the gaps.
"""

import io

SIZE = (1200, 630)  # pixels
TOLD = "Find out why a GPU program is slow, from captures\nof real runs. You need no GPU to read it."
_DPI = 100
_DARK, _LIGHT, _QUIET, _BUSY, _GAP = "#121a1f", "#f2f5f7", "#a5adb5", "#5fd3b4", "#472520"


def card(title: str) -> bytes:
    """The picture, always the same for the same title."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    width, height = SIZE
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=_DARK)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    axes.text(80, 130, title, color=_LIGHT, fontsize=44, fontweight="bold", va="center")
    axes.text(80, 225, TOLD, color=_QUIET, fontsize=22, va="top", linespacing=1.5)
    for top, step, gap in ((450, 260, 150), (530, 130, 12)):
        axes.add_patch(Rectangle((80, top), width - 160, 44, color=_GAP))
        for left in range(80, width - 80, step):
            busy = min(step - gap, width - 80 - left)
            axes.add_patch(Rectangle((left, top), busy, 44, color=_BUSY))
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=_DPI, facecolor=_DARK, metadata={"Software": None})
    return content.getvalue()
