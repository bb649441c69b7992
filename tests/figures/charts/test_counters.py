"""Counters over time: a row for each that the capture has, the ranges named, as high as their mean."""

from pathlib import Path

from labcode.analysis.timeline import counters
from labcode.figures import render
from labcode.figures.charts.counters import counters_over_time
from labcode.reports.nsys.report import open_report
from tests.support.exports import kernel, make_export, memcpy, push_pop
from tests.support.gpu_metrics import add_metrics


def test_rows_and_ranges(tmp_path: Path) -> None:
    path = make_export(
        tmp_path / "a.sqlite",
        kernels=[kernel(100, 600)],
        memcpys=[memcpy(700, 900)],
        nvtx=[push_pop(0, 1000, "lab:measured"), push_pop(50, 950, "work")],
    )
    add_metrics(path, {"SMs Active": [(500, 40), (1000, 0)], "Tensor": [(500, 7), (1000, 7)]})
    with open_report(path) as report:
        figure = counters_over_time(report, (counters.ACTIVE, counters.TENSOR, counters.DRAM_READ))
        svg = render(lambda: counters_over_time(report), mode="dark")
    assert svg.startswith(b"<?xml")
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert found == ["range", "work", "kernels, copies", "SMs Active", "Tensor Active"]
    (stairs,) = (patch for patch in figure.axes[2].patches)
    assert stairs.get_data().values.max() == 0.4
