"""The decision tree of bottlenecks: nothing in, a drawing of its questions and seven leaves out."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labcode.figures.diagrams.sketch import arrow, box, canvas, text
from labcode.figures.style import NARROW_IN, is_narrow, styled

HEIGHT = 0.5


@styled
def bottleneck_tree() -> Figure:
    """Three questions lead to input, launch, transfer, communication, and by Nsight Compute to the others."""
    if is_narrow():
        return _one_below_the_other()
    figure, axes = canvas(3.9)
    _asked(axes, 2.0, 5.4, 0.35, "Nsight Systems: is the GPU idle\nfor a fifth of the time or more?")
    _asked(axes, 0.1, 2.9, 1.35, "yes: are most idle gaps\nlonger than 100 µs?")
    _asked(axes, 3.3, 7.1, 1.35, "no: do copies, or collectives, run alone\nfor a fifth of the time or more?")
    arrow(axes, (3.0, 0.6), (1.5, 1.08))
    arrow(axes, (4.4, 0.6), (5.2, 1.08))
    for start, end, words in (
        (0.1, 1.4, "yes\ninput-bound"),
        (1.6, 2.9, "no\nlaunch-bound"),
        (3.3, 4.5, "copies\ntransfer-bound"),
        (4.6, 5.95, "collectives\ncommunication"),
    ):
        box(axes, start, end, 2.3, words, "kernel", height=HEIGHT)
    for tail, head in (((1.0, 1.6), (0.75, 2.04)), ((2.0, 1.6), (2.25, 2.04))):
        arrow(axes, tail, head)
    for tail, head in (((4.2, 1.6), (3.9, 2.04)), ((5.2, 1.6), (5.25, 2.04)), ((6.5, 1.6), (6.5, 2.69))):
        arrow(axes, tail, head)
    text(axes, 6.57, 2.3, "neither")
    _asked(
        axes,
        3.3,
        7.1,
        2.97,
        "Nsight Compute, the longest kernels:\nwhich unit is at 60 % of its peak or more?",
    )
    for start, end, words in (
        (2.5, 3.9, "the SMs\ncompute-bound"),
        (4.05, 5.45, "the memory\nmemory-bound"),
        (5.6, 7.1, "neither\nlatency-bound"),
    ):
        box(axes, start, end, 3.6, words, "kernel", height=0.44)
    for tail, head in (((4.0, 3.22), (3.4, 3.37)), ((5.0, 3.22), (4.8, 3.37)), ((6.2, 3.22), (6.3, 3.37))):
        arrow(axes, tail, head)
    return figure


def _one_below_the_other() -> Figure:
    """The same for a phone: each question with its answers below it, and the next one below those."""
    figure, axes = canvas(5.35, NARROW_IN)
    pair, triple = (0.05, 1.8, 3.55), (0.05, 1.22, 2.38, 3.55)
    steps = (
        (0.3, "Nsight Systems: is the GPU idle\nfor a fifth of the time or more?", (), ()),
        (
            1.25,
            "are most idle gaps\nlonger than 100 µs?",
            ("yes\ninput-bound", "no\nlaunch-bound"),
            pair,
        ),
        (
            2.85,
            "do copies, or collectives, run alone\nfor a fifth of the time or more?",
            ("copies\ntransfer-bound", "collectives\ncommunication"),
            pair,
        ),
        (
            4.35,
            "Nsight Compute, the longest kernels: which\nunit is at 60 % of its peak or more?",
            ("the SMs\ncompute-bound", "the memory\nmemory-bound", "neither\nlatency-bound"),
            triple,
        ),
    )
    for y, question, answers, edges in steps:
        _asked(axes, 0.05, 3.55, y, question)
        for start, end, words in zip(edges, edges[1:], answers, strict=False):
            box(axes, start, end, y + 0.65, words, "kernel", height=HEIGHT)
            arrow(axes, ((start + end) / 2, y + 0.25), ((start + end) / 2, y + 0.39))
    text(axes, 1.9, 0.775, "yes")
    text(axes, 0.05, 2.43, "no, it is busy:")
    text(axes, 0.05, 3.94, "neither of them:")
    arrow(axes, (1.8, 0.56), (1.8, 0.99))
    return figure


def _asked(axes: Axes, start: float, end: float, y: float, words: str) -> None:
    box(axes, start, end, y, words, "launch", height=HEIGHT)
