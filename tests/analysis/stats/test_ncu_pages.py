"""Every cell of ncu's pages, as ncu itself printed them."""

from __future__ import annotations

import pytest

from labcode.analysis.stats.ncu_pages import details_page, raw_page, scaled
from tests.support import ncu


@pytest.mark.parametrize("name", ncu.REPORTS)
def test_raw_page(name: str) -> None:
    ours, theirs = raw_page(ncu.opened(name)), ncu.page(name, "raw")
    assert list(ours.columns) == theirs[0]
    assert len(ours) == len(theirs) - 1 > 1
    for place, column in enumerate(theirs[0]):
        assert list(ours[column]) == [row[place] for row in theirs[1:]], column


@pytest.mark.parametrize("name", ncu.REPORTS)
def test_details_page(name: str) -> None:
    ours, theirs = details_page(ncu.opened(name)), ncu.page(name, "details")
    header = [title for title in theirs[0] if title in set(ours.columns)]
    assert list(ours.columns)[: len(header)] == header
    mine = [[*row] for row in ours[header].to_numpy()]
    places = [theirs[0].index(title) for title in header]
    assert mine == [[row[place] if place < len(row) else "" for place in places] for row in theirs[1:]]


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (999.0, "byte", ("byte", 1.0)),
        (1000.0, "byte", ("Kbyte", 1e3)),
        (3e12, "byte/s", ("Tbyte/s", 1e12)),
        (169_056.0, "ns", ("us", 1e3)),
        (1.9e9, "hz", ("Ghz", 1e9)),
        (2614.0, "%/byte", ("%/Kbyte", 1e3)),
        (5e10, "sector/s", ("sector/ns", 1e9)),
        (5e10, "inst", ("inst", 1.0)),
        (0.0, "byte", ("byte", 1.0)),
    ],
)
def test_units(value: float, unit: str, shown: tuple[str, float]) -> None:
    assert scaled(value, unit) == shown
