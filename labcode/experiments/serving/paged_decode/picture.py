"""Nothing in; drawings of attention over a cache out: where pages lie, how work is shared out."""

from matplotlib.figure import Figure

from labcode.figures.diagrams.sketch import box, canvas, heading, rungs, shade, text, time_axis
from labcode.figures.style import styled


@styled
def paged_ladder() -> Figure:
    """The rungs: what a block does, how the cache lies, and what each step changes."""
    rows = (
        ("heads", "a query head", "in one piece", "the definition, a warp for each token"),
        ("groups", "a KV head", "in one piece", "a row is read once for four query heads"),
        ("pages", "a KV head", "in pages", "a look at the table; 16 bytes a load"),
        ("tensor", "a KV head", "in pages", "tensor cores, the next tile in flight"),
        ("split", "a part of it", "in pages", "several blocks a head; a second launch joins"),
        ("one_launch", "a part of it", "in pages", "the last block of a head joins the parts"),
        ("balanced", "an equal share", "in pages", "shares end anywhere, also within a sequence"),
        ("stealing", "an equal share", "in pages", "its end, in pieces, for whoever is done"),
        ("ring", "an equal share", "in pages", "pages fetched far ahead; long ends in pieces"),
    )
    return rungs(("step", "a block has", "the cache lies", "what is new"), rows)


@styled
def cache_pages() -> Figure:
    """Two sequences, the table, and a pool in which their pages lie in any order."""
    figure, axes = canvas(2.75)
    heading(axes, 0.15, "the table")
    colors = ("h2d", "d2h")
    numbers = ((5, 0, 3, 7), (2, 6))
    for sequence, row in enumerate(numbers):
        y = 0.55 + 0.5 * sequence
        text(axes, 1.25, y, f"sequence {sequence}", align="right")
        for k, number in enumerate(row):
            box(axes, 1.4 + 0.6 * k, 1.95 + 0.6 * k, y, str(number), colors[sequence])
    text(axes, 4.0, 0.55, "a page's number for every 16 tokens", muted=True)
    text(axes, 4.0, 1.05, "the last page is filled in part", muted=True)
    heading(axes, 1.65, "the pool: each page has 16 tokens of all KV heads")
    for number in range(8):
        owner = next((s for s, row in enumerate(numbers) if number in row), None)
        start = 0.3 + 0.88 * number
        if owner is None:
            shade(axes, start, start + 0.8, 2.15, f"{number}: free")
        else:
            words = f"{number}: {owner}.{numbers[owner].index(number)}"
            box(axes, start, start + 0.8, 2.15, words, colors[owner])
    text(axes, 0.3, 2.58, "5 holds the first 16 tokens of sequence 0, 2 those of sequence 1.", muted=True)
    return figure


@styled
def shares() -> Figure:
    """Three sequences of uneven length on four blocks at a time: whole, in parts, in equal shares."""
    figure, axes = canvas(4.4)
    colors = ("h2d", "d2h", "series2")
    left, unit = 1.2, 0.32

    def work(row: int, top: float, start: float, length: float, sequence: int) -> None:
        y = top + 0.27 * row
        words = "ABC"[sequence]
        box(
            axes,
            left + unit * start,
            left + unit * (start + length) - 0.03,
            y,
            words,
            colors[sequence],
            height=0.22,
        )

    for top, words in (
        (0.42, "one block per sequence: the longest one decides"),
        (1.82, "parts of equal length, two rounds: better, with a last round of few"),
        (3.22, "equal shares: every block ends at the same time"),
    ):
        heading(axes, top - 0.27, words)
        for row in range(4):
            text(axes, left - 0.12, top + 0.27 * row, f"block {row}", align="right")
    for row, (sequence, length) in enumerate(((0, 16), (1, 5), (2, 3))):
        work(row, 0.42, 0, length, sequence)
    for number, (sequence, length) in enumerate(((0, 4), (0, 4), (0, 4), (0, 4), (1, 4), (1, 1), (2, 3))):
        work(number % 4, 1.82, 4 if number > 3 else 0, length, sequence)
    for row, pieces in enumerate((((0, 6),), ((0, 6),), ((0, 4), (1, 2)), ((1, 3), (2, 3)))):
        start = 0
        for sequence, length in pieces:
            work(row, 3.22, start, length, sequence)
            start += length
    time_axis(axes, 4.28, left, 7.3)
    return figure
