"""What the book's pages call: captures of the current set in, checked claims, values, tables and figures out.

A page begins with ``from labcode import book``. The functions of this module show their results on the page;
`labcode.book.sphinx.extension` is the Sphinx side of the same.
"""

from labcode.book.answers import answer
from labcode.book.calculators import calculator
from labcode.book.claims import claim
from labcode.book.figures import figure
from labcode.book.frames import interactive
from labcode.book.pages import (
    capture,
    counted,
    holder,
    launches,
    memory,
    metered,
    power,
    record,
    recorded,
    trace,
    traced,
    unrecorded,
)
from labcode.book.tables import table
from labcode.book.values import value

__all__ = [
    "answer",
    "calculator",
    "capture",
    "claim",
    "counted",
    "figure",
    "holder",
    "interactive",
    "launches",
    "memory",
    "metered",
    "power",
    "record",
    "recorded",
    "table",
    "trace",
    "traced",
    "unrecorded",
    "value",
]
