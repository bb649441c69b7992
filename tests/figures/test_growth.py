"""Many streams, GPUs, processes and domains: drawing them takes no square of their number."""

from pathlib import Path

import numpy as np
import pytest

from labcode.figures.style import fit
from labcode.figures.timeline import rows
from labcode.figures.timeline.rows import assign_lanes
from labcode.figures.timeline.tracks import Track, group_names, track_names
from labcode.reports.kineto.names import short_name
from labcode.reports.nsys.report import open_report
from tests.figures.tables import Tables
from tests.support.exports import domain, make_export, push_pop
from tests.support.growth import memory_growth, time_growth


def test_lanes_of_operations_that_overlap() -> None:
    def work(count: int) -> None:
        start = np.arange(count)
        assert assign_lanes(start, start + count)[-1] == count - 1

    assert time_growth(work, 1_000, 8_000) < 24  # 64 where it grows with the square


def test_lanes_are_the_lowest_free_ones() -> None:
    draw = np.random.default_rng(3)
    for most, tolerance in ((None, 0), (3, 0), (3, 4), (None, 4)):
        start = np.sort(draw.integers(0, 200, 120))
        end = start + draw.integers(1, 30, 120)
        order = np.lexsort((-end, start))
        until: list[int] = []
        expected = np.zeros(120, np.int64)
        for row in order.tolist():
            lane = next((i for i, t in enumerate(until) if t <= start[row] + tolerance), len(until))
            lane = lane if most is None else min(lane, most - 1)
            until += [0] * (lane == len(until))
            until[lane] = max(until[lane], int(end[row]))
            expected[row] = lane
        assert assign_lanes(start, end, tolerance=tolerance, most=most).tolist() == expected.tolist()


def test_names_of_many_streams() -> None:
    threads = Tables().threads()

    def work(count: int) -> None:
        tracks = [Track(100, i % 7, 1, i, 0) for i in range(count)]
        assert len(group_names(tracks, threads)) == 7
        assert track_names(tracks, {})[-1] == f"stream {count - 1}"

    assert time_growth(work, 500, 4_000) < 24


def test_a_picture_says_that_it_does_not_show_all_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_GROUPS", 4)
    report = Tables()
    for i in range(9):
        report.add("kernels", 0, 5, device=i)
    *shown, last = rows.report_groups(report, (0, 10))
    assert len(shown) == 4 and all(group.idle_share == 0.5 for group in shown)
    assert last.rows[0].message == "1 processes, 9 GPUs: the rest is not shown"


def test_domains_of_many_processes(tmp_path: Path) -> None:
    def work(count: int) -> None:
        file = tmp_path / f"{count}.sqlite"
        if not file.exists():
            named = [domain(i + 1, f"d{i}", pid=i + 1000) for i in range(count)]
            ranges = [push_pop(i, i + 5, "r", pid=i + 1000, domain=i + 1) for i in range(count)]
            make_export(file, nvtx=[*named, *ranges])
        with open_report(file) as report:
            assert report.nvtx()["domain"].tolist() == [f"d{i}" for i in range(count)]

    assert memory_growth(work, 500, 4_000) < 24


def test_names_of_many_megabytes() -> None:
    assert memory_growth(lambda count: short_name("k" * count + "<int>(float)"), 100_000, 800_000) < 24
    name = "k" * 3_000_000
    assert short_name(f"void {name}<4>(int)") == name
    assert time_growth(lambda count: fit("a b" * count, 1.0), 100, 1_000_000) < 100
    assert fit("step " + "x" * 9_999 + " 12", 1.0).endswith("… 12")
