"""Every figure of the book is drawn once, read back, and compared with what it was drawn from.

A strict build compares them too; that all that show a quantity have something to compare is seen at night.
What shows no quantity along an axis has nothing to compare: it is named here, with the reason.
"""

import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

import matplotlib.pyplot as plt
import pytest

from labcode.book.figures import _drawn
from labcode.figures.sources import Checked, check
from labcode.figures.style import style
from labcode.store import SHIPPED_SET
from tests.book import cells

TIMELINES = "operations merged until a pixel has one: tests/figures/timeline compares them with the trace"
MAPS = "cells in the order of lanes, banks, or blocks: which are full is the whole content"
DIAGRAM = "a drawing of how something works: its lengths mean nothing"
TEXT = "lines of code with numbers beside them"
UNCHECKED = {
    **dict.fromkeys(("timeline", "compare_timelines", "thread_strips", "strips", "dealing"), TIMELINES),
    **dict.fromkeys(("sector_map", "bank_map", "scheduler_strip", "block_waves", "way_of_a_load"), MAPS),
    "listing_figure": TEXT,
    "in_step": "a cloud of all samples: no table of the page has them",
    **dict.fromkeys(
        (
            *("asynchronous_launch", "bf16_in_time", "bf16_ladder", "bottleneck_tree", "bucketed_overlap"),
            *("cache_pages", "paged_ladder", "shares"),
            *("clusters_and_bulk_copies", "copy_engines", "double_buffer_in_time", "energy_by_clock"),
            "fp32_ladder",
            *("groups_in_time", "host_timer_and_events", "ladder", "metric_anatomy", "nvtx_projection"),
            *("opening", "operands_of_tensor_cores", "ring_all_reduce", "schema", "streams_in_order"),
            *("swizzled_rows", "tensor_ladder", "the_way", "tiles", "tiles_of_a_product"),
            "units_and_counters",
        ),
        DIAGRAM,
    ),
}


def pages() -> list[str]:
    named = {
        path.relative_to(cells.PAGES).with_suffix("").as_posix(): path for path in cells.PAGES.rglob("*.md")
    }
    return sorted(name for name, path in named.items() if "book.figure(" in path.read_text(encoding="utf-8"))


def drawn_by(drawing: Callable[..., Any]) -> str:
    """The function that draws: of a lambda, the one that it calls first."""
    code: CodeType = inspect.unwrap(drawing).__code__
    return code.co_names[0] if code.co_name == "<lambda>" else code.co_name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", pages())
def test_figures_show_their_tables(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[str, Checked]] = []
    seen = []

    def figure(drawing: Callable[..., Any], *, data: Any = None, **_: str) -> None:
        seen.append(drawing)
        if drawn_by(drawing) in UNCHECKED:
            return
        with style("light"):
            picture = _drawn(drawing)
            found.append((drawn_by(drawing), check(picture, data)))
            plt.close(picture)

    cells.run(page, SHIPPED_SET, monkeypatch, figure)
    assert seen
    assert [(name, one.differences) for name, one in found if one.differences] == []
    assert [name for name, one in found if not one.series] == []
