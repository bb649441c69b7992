"""Functions from tables to matplotlib figures, in one style with fixed colors.

``render(lambda: timeline(report), mode="dark")`` gives the SVG of one.
"""

from labcode.figures.style import Mode, Palette, contrast, current, figure_bytes, render, style
from labcode.figures.timeline import compare_timelines, draw_timeline, timeline

__all__ = [
    "Mode",
    "Palette",
    "compare_timelines",
    "contrast",
    "current",
    "draw_timeline",
    "figure_bytes",
    "render",
    "style",
    "timeline",
]
