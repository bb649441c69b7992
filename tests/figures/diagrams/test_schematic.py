"""Explanatory drawings: every text readable in every mode, and no measured number in any of them."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from labcode.experiments.compute.attention import picture as attentions
from labcode.experiments.serving.paged_decode import picture as caches
from labcode.figures import render
from labcode.figures.diagrams import products, schematic
from tests.figures.reading import assert_readable, words

DRAWINGS = [
    schematic.asynchronous_launch,
    schematic.streams_in_order,
    schematic.copy_engines,
    schematic.ring_all_reduce,
    schematic.bucketed_overlap,
    schematic.host_timer_and_events,
    schematic.nvtx_projection,
    schematic.energy_by_clock,
    products.fp32_ladder,
    products.tiles_of_a_product,
    products.double_buffer_in_time,
    products.bf16_ladder,
    products.bf16_in_time,
    products.swizzled_rows,
    products.operands_of_tensor_cores,
    attentions.ladder,
    attentions.tensor_ladder,
    attentions.tiles,
    attentions.groups_in_time,
    caches.paged_ladder,
    caches.cache_pages,
    caches.shares,
]
MEASURED = re.compile(r"\d\s*(?:[nµm]?s|[KMGT]i?B(?:/s)?|%|[GM]Hz|W)\b")


@pytest.mark.parametrize("draw", DRAWINGS, ids=lambda draw: draw.__name__)
def test_drawings_are_readable(draw: Callable[[], Figure]) -> None:
    assert_readable(draw())


@pytest.mark.parametrize("draw", DRAWINGS, ids=lambda draw: draw.__name__)
def test_drawings_hold_no_measurement(draw: Callable[[], Figure]) -> None:
    assert not [text for text in words(draw()) if MEASURED.search(text)]
    assert len(render(draw)) < 60_000


def test_the_ring_adds_up() -> None:
    """In each column of the middle state exactly one GPU holds the sum of all four."""
    numbers = [text for text in words(schematic.ring_all_reduce()) if re.fullmatch(r"\d", text)]
    cells = [int(text) for text in numbers]
    assert cells.count(4) == 4 + 16


def test_a_swizzled_column_lies_in_eight_places() -> None:
    """Rows of the second grid are permutations of the chunks, and so are its columns."""
    numbers = [int(text) for text in words(products.swizzled_rows()) if re.fullmatch(r"\d", text)]
    cells = np.array(numbers[72:136]).reshape(8, 8)
    assert all(sorted(line) == list(range(8)) for line in (*cells, *cells.T))
