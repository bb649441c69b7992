"""Strings in; their width on the page, and the part of them that fits into a given width, out."""

from __future__ import annotations

import functools
import math
import re
import warnings

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from labcode.figures.style import SMALL_PT

ELLIPSIS = "…"
FEWEST = 5  # characters before an ellipsis, if that is a good part of the text …
ENOUGH = 10  # … or so many
LONGEST = 400  # characters worth measuring


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
    """What of a text says enough and fits into `room_in` inches; "" if nothing does.

    The whole text; else its beginning and an ellipsis; of a numbered one ("step 12") also the number.
    """
    if len(text) > 2 * LONGEST:  # its beginning is shown, and what it ends with
        text = f"{text[:LONGEST]} {text[-LONGEST:]}"
    text = tidy(text)
    if len(text) < LONGEST and width_in(text, size_pt) <= room_in:
        return text
    numbered = re.fullmatch(r"(.*\D)\s(\d+)", text)
    head, tail = (numbered[1], " " + numbered[2]) if numbered else (text, "")
    low, high = 0, min(len(head), LONGEST)
    while low < high:
        middle = (low + high + 1) // 2
        if width_in(head[:middle].rstrip() + ELLIPSIS + tail, size_pt) <= room_in:
            low = middle
        else:
            high = middle - 1
    if low >= FEWEST and (low >= ENOUGH or low >= len(head) * 0.4):
        return head[:low].rstrip() + ELLIPSIS + tail
    return tail[1:] if tail and width_in(tail[1:], size_pt) <= room_in else ""


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
