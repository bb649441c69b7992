"""Counters beside the timeline: weights of samples, ranges where their work ran, equal parts of a window."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.timeline import counters
from labcode.reports.nsys.counters import Counter
from labcode.reports.nsys.report import NsysReport, open_report
from tests.support import exports as x
from tests.support.gpu_metrics import add_metrics


@pytest.fixture
def report(tmp_path: Path) -> NsysReport:
    """Two ranges, asked for in [0, 100) and [100, 200), that run in [1000, 1400) and [1450, 1900)."""
    path = x.make_export(
        tmp_path / "a.sqlite",
        nvtx=[x.push_pop(0, 100, "sparse"), x.push_pop(100, 200, "dense")],
        api=[x.call(10, 20, correlation=1), x.call(110, 120, correlation=2)],
        kernels=[x.kernel(1000, 1400, correlation=1), x.kernel(1450, 1900, correlation=2)],
    )
    active = [(800, 0), (1000, 10), (1200, 10), (1400, 80), (1600, 100), (1800, 50), (2000, 0)]
    idle = [(time, 0) for time, _ in active]
    return open_report(add_metrics(path, {"SMs Active": active, "PCIe RX": idle, "GPC": [(1000, 1980)]}))


def test_busy_means_weigh_samples_by_their_share(report: NsysReport) -> None:
    row = counters.summary(report, (0, 2200)).iloc[0]
    assert (row["samples"], row["min"], row["max"], row["median"]) == (7, 0, 100, 10)
    assert row["mean"] == pytest.approx(250 / 7)
    assert row["busy_samples"] == pytest.approx(1 + 1 + 0.75 + 1 + 0.5)
    assert row["busy_mean"] == pytest.approx((10 + 10 + 0.75 * 80 + 100 + 0.5 * 50) / 4.25)


def test_only_the_window_counts(report: NsysReport) -> None:
    assert counters.summary(report)["samples"].tolist() == [6, 6, 1]  # until 1900, where the last kernel ends
    assert counters.summary(report, (1500, 1700))["mean"].tolist() == [90, 0]


def test_ranges_where_their_work_ran(report: NsysReport) -> None:
    found = counters.over_ranges(report)
    assert found["label"].tolist() == ["sparse", "dense"]  # a counter that is always 0 is left out
    assert found["mean"].tolist() == pytest.approx([10, (0.75 * 80 + 100 + 0.5 * 50) / 2.25])
    assert found["max"].tolist() == [10, 100] and found["span_ns"].tolist() == [400, 450]


def test_equal_parts_keep_the_mean() -> None:
    counter = Counter(0, "c", *(np.array(v) for v in ([0, 100, 200], [100, 200, 400], [10, 30, 60])))
    assert counters.binned(counter, (0, 400), 2).tolist() == [20, 60]
    assert counters.binned(counter, (0, 400), 8).tolist() == [10, 10, 30, 30, 60, 60, 60, 60]
    late = counters.binned(counter, (300, 500), 2)
    assert late[0] == 60 and math.isnan(late[1])


def test_without_kernels_there_is_no_busy_mean(tmp_path: Path) -> None:
    path = x.make_export(tmp_path / "a.sqlite", nvtx=[x.push_pop(0, 100)])
    with open_report(add_metrics(path, {"SMs Active": [(50, 4)]})) as one:
        row = counters.summary(one).iloc[0]
    assert math.isnan(row["busy_mean"]) and row["busy_samples"] == 0 and row["std"] == 0
