"""GPU metrics: series by name, whatever number nsys gave them; gaps in what is recorded; bad tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from labcode import store
from labcode.errors import InputError
from labcode.reports.nsys.report import open_report
from tests.support import exports as x
from tests.support.gpu_metrics import add_metrics


def make(tmp_path: Path, *sql: str) -> Path:
    path = x.make_export(tmp_path / "a.sqlite", kernels=[x.kernel(0, 100, correlation=1)])
    add_metrics(path, {"SMs Active": [(200, 50), (100, 10), (300, 90)], "GPC Clock": [(100, 1980)]}, first=7)
    add_metrics(path, {"SMs Active": [(100, 1)]}, device=1)
    with closing(sqlite3.connect(path)) as db:
        for statement in sql:
            db.execute(statement)
        db.commit()
    return path


def test_series_by_gpu_and_name(tmp_path: Path) -> None:
    with open_report(make(tmp_path)) as report:
        found = report.counters()
        table = report.gpu_metrics()
    assert [(c.device, c.name, c.unit) for c in found] == [
        (0, "SMs Active", "%"),
        (0, "GPC Clock Frequency", "MHz"),
        (1, "SMs Active", "%"),
    ]
    assert found[0].time_ns.tolist() == [100, 200, 300] and found[0].values.tolist() == [10, 50, 90]
    assert found[0].until_ns.tolist() == [200, 300, 400] and found[1].until_ns.tolist() == [100]
    assert found[0].within((150, 300)).values.tolist() == [10, 50]
    assert table["value"].tolist() == [10, 50, 90, 1980, 1]
    assert table["metric"].tolist()[3:] == ["GPC Clock Frequency [MHz]", "SMs Active [Throughput %]"]


def test_a_sample_tells_of_the_time_after_its_stamp() -> None:
    """As recorded: copies and the counter of their link begin and end together, to a tenth of a sample."""
    with open_report(store.load_set(store.SHIPPED_SET).path_of("gpu_metrics", "phases")) as report:
        (link,) = (one for one in report.counters() if one.name == "PCIe RX Throughput" and one.unit == "%")
        copies = report.memcpys()
    near = link.values[(link.time_ns > copies["start_ns"].min()) & (link.until_ns < copies["end_ns"].max())]
    moved = ((link.until_ns - link.time_ns) * link.values / np.median(near))[link.values > 2]
    first, last = np.flatnonzero(link.values > 2)[[0, -1]]
    assert link.until_ns[first] - moved[0] == pytest.approx(copies["start_ns"].min(), abs=15_000)
    assert link.time_ns[last] + moved[-1] == pytest.approx(copies["end_ns"].max(), abs=15_000)


def test_samples_without_a_time_or_a_name(tmp_path: Path) -> None:
    sql = "INSERT INTO GPU_METRICS SELECT NULL, typeId, metricId, 3 FROM GPU_METRICS LIMIT 1"
    with open_report(make(tmp_path, sql, "DELETE FROM TARGET_INFO_GPU_METRICS WHERE metricId = 7")) as report:
        first = report.counters()[0]
    assert (first.metric, first.unit, len(first.values)) == ("metric 7", "", 3)


def test_captures_without_them(tmp_path: Path) -> None:
    with open_report(x.make_export(tmp_path / "a.sqlite", kernels=[x.kernel(0, 1)])) as report:
        assert report.counters() == [] and len(report.gpu_metrics()) == 0
        assert list(report.gpu_metrics().columns) == ["time_ns", "device", "metric", "value"]


def test_values_that_no_nsys_writes(tmp_path: Path) -> None:
    path = make(tmp_path, "UPDATE GPU_METRICS SET value = 'high' WHERE value = 90")
    with (
        open_report(path) as report,
        pytest.raises(InputError, match="GPU_METRICS, column value: holds some"),
    ):
        report.counters()
    with pytest.raises(InputError, match="table GPU_METRICS has no column value, so it cannot be read"):
        open_report(make(tmp_path, "ALTER TABLE GPU_METRICS RENAME COLUMN value TO rate"))
