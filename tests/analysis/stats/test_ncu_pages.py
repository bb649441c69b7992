"""Every cell of ncu's pages, as ncu itself printed them."""

import pytest

from labcode import store
from labcode.analysis.stats.ncu_pages import details_page, raw_page, scaled
from labcode.reports.ncu.launch import Launch
from labcode.reports.ncu.report import open_report
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


def test_compression_in_l2_by_the_names_of_newer_reports() -> None:
    """The section lists a second name of each metric; ncu prints the same rows where that one is there."""
    path = store.load_set(store.SHIPPED_SET).path_of("ncu_compute", "all", ".ncu-rep")
    captured = open_report(path).list[0]
    assert "lts__average_gcomp_input_sector_success_rate.pct" not in captured.readings
    golden = ncu.opened("full").list[0]
    assert "lts__average_gcomp_input_sector_success_rate.pct" in golden.readings

    def header(launch: Launch) -> list[tuple[str, str]]:
        (section,) = (one for one in launch.sections if one.id == "MemoryWorkloadAnalysis")
        return [(label, unit) for _, label, unit in section.header]

    assert header(captured) == header(golden)
    assert [label for label, _ in header(golden)][7:10] == [
        *("L2 Compression Success Rate", "L2 Compression Ratio", "L2 Compression Input Sectors"),
    ]
