"""Answers to a page's questions: what a cell measured in, what ``{predict}`` shows once a reader commits out.

A page asks before it measures: ``{predict} back`` above, and ``book.answer("back", ratio, unit="×")`` in
the cell below that computes the ratio. The question never holds its answer.
"""

import sys
from typing import Any

from labcode.book import display
from labcode.book.pages import borrowed
from labcode.book.values import NARROW_SPACE, format_value, is_number


def answer(key: str, value: Any, fmt: str = ".2f", unit: str = "", *, of: str | None = None) -> None:
    """Answer the question ``key`` of this page with what was measured; nothing is shown here.

    ``value`` is a number above zero, with ``fmt`` and ``unit`` as for `labcode.book.value`, or a text: that
    of the question's choices which the measurement names. ``of`` names the experiments behind it, as for
    `labcode.book.claim`. ``ValueError`` for a number that nobody can be a factor away from.
    """
    content: dict[str, Any] = {"key": key, "borrowed": borrowed(sys._getframe(1), of)}
    if isinstance(value, str):
        content |= {"choice": " ".join(value.split()), "shown": value}
    elif is_number(value) and 0 < float(value) < float("inf"):
        percent = fmt.endswith("%")
        content |= {
            "value": float(f"{float(value) * (100 if percent else 1):.6g}"),
            "shown": format_value(value, fmt, unit).replace("%", NARROW_SPACE + "%"),
            "unit": "%" if percent else unit,
        }
    else:
        raise ValueError(f"book.answer({key!r}): {value!r} is neither a choice nor a number above zero")
    display.show({display.ANSWER_MIME: content, "text/plain": f"measured, {key}: {content['shown']}"})
