"""Strings in; their width on the page, and the part of them that fits into a given width, out."""

from __future__ import annotations

import functools
import math
import warnings

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from labcode.figures.style import SMALL_PT

ELLIPSIS = "…"
FEWEST = 5  # characters worth showing before an ellipsis


def tidy(text: str) -> str:
    """The text on one line, without characters that cannot be drawn."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


@functools.lru_cache(maxsize=20_000)
def width_in(text: str, size_pt: float = SMALL_PT, bold: bool = False) -> float:
    """Width of a line of text in inches, set in the font that layouts are computed with."""
    font = FontProperties(family="DejaVu Sans", size=size_pt, weight="bold" if bold else "normal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that this font lacks
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


@functools.lru_cache(maxsize=20_000)
def fit(text: str, room_in: float, size_pt: float = SMALL_PT) -> str:
    """The text if it fits into `room_in` inches, else its beginning and an ellipsis, else nothing."""
    text = tidy(text)
    if len(text) * size_pt / 72 * 0.2 > room_in and room_in < width_in("m" * FEWEST, size_pt) * 0.7:
        return ""
    if len(text) < 400 and width_in(text, size_pt) <= room_in:
        return text
    low, high = 0, min(len(text), 400)
    while low < high:
        middle = (low + high + 1) // 2
        if width_in(text[:middle].rstrip() + ELLIPSIS, size_pt) <= room_in:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + ELLIPSIS if low >= FEWEST else ""


def number(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits, in scientific notation only below 0.0001."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, decimals)}f}" if abs(value) >= 1e-4 else f"{value:.{digits - 1}e}"


def percent(share: float) -> str:
    """A share of 1 in whole percent; never 0% for something or 100% for less than all."""
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 < share < 1:
        return ">99%"
    return f"{share:.0%}"
