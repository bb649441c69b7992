"""The roofline figure names every launch and roof, and its file is there whole or not at all."""

import json
from pathlib import Path

import pytest

from labcode.analysis.kernel.roofline import datasheet_ceilings
from labcode.errors import LabError
from labcode.figures.charts.roofline import roofline
from labcode.reports.ncu.report import NcuReport
from labcode.verbs.roofline import write_roofline
from tests.figures.reading import assert_readable, words
from tests.support import ncu


def test_every_launch_and_roof_is_named() -> None:
    report = ncu.opened("full")
    figure = roofline(report)
    assert_readable(figure)
    said = words(figure)
    for place, one in enumerate(report.list, 1):
        assert any(text.startswith(f"{place} {one.function}") for text in said), one.function
    for number in (6, 7, 8, 9, 10):  # those that compute have their number in the picture
        assert str(number) in said
    assert any("DRAM 4.8" in text and "at this clock" in text for text in said)
    assert any(text.startswith("1 copy_scalar: no FLOP") and "DRAM at this clock" in text for text in said)
    assert any(text.startswith("FP16 tensor") for text in said)
    assert "arithmetic intensity (FLOP/byte)" in said and "TFLOP/s" in said


def test_one_launch_and_the_datasheet() -> None:
    report = ncu.opened("full").select(kernel="doubles")
    figure = roofline(report, ceilings=datasheet_ceilings("NVIDIA H200"))
    assert_readable(figure)
    said = words(figure)
    assert any(text.startswith("FP64 34") and "datasheet" in text for text in said)
    assert not any(text.startswith("FP32 ") for text in said)  # no launch uses it


def test_too_many_launches() -> None:
    report = ncu.opened("full")
    many = NcuReport(report.path, report.list * 2, report.extract, ())
    with pytest.raises(
        LabError, match=r"28 launches are too many for one picture .* choose some with --kernel"
    ):
        roofline(many)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_written(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(ncu.folder() / "cache"))
    ceilings = tmp_path / "ceilings.json"
    ceilings.write_text(json.dumps({"ceilings": [{"kind": "memory", "of": "DRAM", "value": 4.26e12}]}))
    made = write_roofline(
        ncu.path("full.ncu-rep"), tmp_path / "x.svg", kernel="doubles|tensor", ceilings=ceilings, mode=mode
    )
    text = made.read_text()
    assert "<svg" in text and "measured" in text and "doubles" in text and "copy_scalar" not in text
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("x.bmp", {}, "name the picture X.svg, X.png or X.pdf"),
        ("none/x.svg", {}, "there is no folder"),
        ("x.svg", {"kernel": "gemm"}, "no kernel matches 'gemm'; there are: copy_scalar"),
    ],
)
def test_refused(
    tmp_path: Path, name: str, options: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(ncu.folder() / "cache"))
    with pytest.raises(LabError, match=message):
        write_roofline(ncu.path("full.ncu-rep"), tmp_path / name, kernel=options.get("kernel"))
