"""Drawings of the hardware: readable in every mode, the computed ones right where counted by hand."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from labcode.figures import render
from labcode.figures.diagrams.hardware import (
    ELIGIBLE,
    SELECTED,
    STALLED,
    bank_map,
    block_waves,
    bytes_by_sector,
    clusters_and_bulk_copies,
    conflict_ways,
    metric_anatomy,
    scheduler_strip,
    sector_map,
    units_and_counters,
    way_of_a_load,
)
from tests.figures.reading import assert_readable, words

FLOATS = [4 * t for t in range(32)]
COLUMN = [128 * t for t in range(32)]
PADDED = [132 * t for t in range(32)]
STATES = np.array([[SELECTED, STALLED, STALLED, STALLED], [ELIGIBLE, SELECTED, STALLED, STALLED]])
BLOCKS = np.array([[0, 0, 1], [1, 0, 1], [0, 1, 2]], dtype=np.float64)


def sectors() -> Figure:
    return sector_map({"coalesced": FLOATS, "every 8th float": [32 * t for t in range(32)]})


def banks() -> Figure:
    return bank_map(
        {"a row": FLOATS, "a column": COLUMN, "padded": PADDED, "every 2nd": [8 * t for t in range(32)]}
    )


def strip() -> Figure:
    return scheduler_strip([("Two warps", STATES)])


def waves() -> Figure:
    return block_waves([("Three blocks", BLOCKS)])


DRAWINGS = [
    units_and_counters,
    metric_anatomy,
    way_of_a_load,
    clusters_and_bulk_copies,
    sectors,
    banks,
    strip,
    waves,
]


@pytest.mark.parametrize("draw", DRAWINGS, ids=lambda draw: draw.__name__)
def test_drawings_are_readable(draw: Callable[[], Figure]) -> None:
    assert_readable(draw())


@pytest.mark.parametrize("draw", DRAWINGS, ids=lambda draw: draw.__name__)
def test_drawings_stay_small(draw: Callable[[], Figure]) -> None:
    assert len(render(draw)) < 120_000


@pytest.mark.parametrize(
    ("addresses", "size", "count", "wanted"),
    [
        (FLOATS, 4, 4, 128),
        ([4 + a for a in FLOATS], 4, 5, 128),
        ([2 * a for a in FLOATS], 4, 8, 128),
        (COLUMN, 4, 32, 128),
        ([16 * t for t in range(32)], 16, 16, 512),
        ([0] * 32, 4, 1, 4),
    ],
    ids=["coalesced", "one float off", "every other float", "a line each", "float4", "broadcast"],
)
def test_sectors_counted_by_hand(addresses: list[int], size: int, count: int, wanted: int) -> None:
    found = bytes_by_sector(addresses, size)
    assert (len(found), sum(found.values())) == (count, wanted)


@pytest.mark.parametrize(
    ("addresses", "ways"),
    [(FLOATS, 1), (COLUMN, 32), (PADDED, 1), ([8 * t for t in range(32)], 2), ([0] * 32, 1), ([], 0)],
    ids=["row", "column", "padded column", "every other word", "broadcast", "nothing"],
)
def test_bank_conflicts_counted_by_hand(addresses: list[int], ways: int) -> None:
    assert conflict_ways(addresses) == ways


def test_pictures_say_what_was_counted() -> None:
    assert {"4", "32", "1", "0.125"} <= set(words(sectors()))
    turns = [text for text in words(banks()) if re.fullmatch(r"\d+ wavefronts?", text)]
    assert turns == ["1 wavefront", "32 wavefronts", "1 wavefront", "2 wavefronts"]
    assert any("in 2 of 4 cycles" in text for text in words(strip()))
    assert any("75% of the places" in text for text in words(waves()))
